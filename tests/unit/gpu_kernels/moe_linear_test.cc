// moe_linear on the interpreter: an expert's products are those of `linear` with its matrix, bit for bit, in
// every form and bucket.
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "codegen/gpu/kernels/moe.h"
#include "dialects/layouts/layouts.h"
#include "tests/device/moe_lists.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

struct Shape {
  Format format = Format::Q8_0;
  bool int8 = true;
  Epilogue epilogue = Epilogue::Store;
  int64_t k = 96, n = 48, experts = 6, top_k = 3;
  int scales = 0;  // bits: 1 scale, 2 up_scale, 4 the same ones for all experts

  bool adds() const { return epilogue == Epilogue::Add; }
  bool pair() const { return epilogue == Epilogue::Swiglu; }
  int64_t x_cols() const { return adds() ? top_k * k : k; }
  int64_t y_cols() const { return adds() ? n : top_k * n; }
  std::string Name() const {
    return std::string(format_info(format).name) + (int8 ? " int8 " : " f32 ") +
           std::string(plan::textOf(epilogue)) + " k" + std::to_string(k) + " n" + std::to_string(n) + " e" +
           std::to_string(experts) + "x" + std::to_string(top_k) + " scales " + std::to_string(scales);
  }
};

template <typename T>
std::vector<T> Part(const std::vector<T>& all, int64_t first, int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

// Inputs; weights of experts that no row has are poison.
struct Problem {
  Problem(const Shape& s, int64_t rows) : s(s), rows(rows) {
    Random random(static_cast<uint64_t>(s.k + s.n * 3 + s.experts * 7));
    ids = RandomIds(rows, s.experts, s.top_k, [&] {
      const uint32_t id = random.Bits() % static_cast<uint32_t>(s.experts);
      return s.experts > s.top_k + 1 ? id - id % 4 / 3 : id;  // one of four has no rows
    });
    x = random.Normals(rows * s.x_cols());
    y0 = random.Normals(rows * s.n);
    weights = random.Normals(rows * s.top_k);
    for (int which : {0, 1}) scale[which] = random.Normals(s.scales & 4 ? 1 : s.experts);
    for (int64_t e = 0; e < s.experts; ++e) {
      const Matrix a = RandomMatrix(s.format, s.n, s.k, static_cast<uint64_t>(2 * e + 1));
      std::vector<uint8_t> packed =
          s.pair() ? PackedPair(a, RandomMatrix(s.format, s.n, s.k, static_cast<uint64_t>(2 * e + 2)))
                   : a.Packed();
      if (std::find(ids.begin(), ids.end(), e) == ids.end()) std::fill(packed.begin(), packed.end(), 0xff);
      w.insert(w.end(), packed.begin(), packed.end());
      experts.push_back(std::move(packed));
    }
  }
  std::optional<float> Scale(int which, int64_t expert) const {
    if (!(s.scales & 1 << which)) return {};
    return scale[which][s.scales & 4 ? 0 : static_cast<size_t>(expert)];
  }

  Shape s;
  int64_t rows;
  std::vector<int32_t> ids;
  std::vector<float> x, y0, weights, scale[2];
  std::vector<uint8_t> w;
  std::vector<std::vector<uint8_t>> experts;
};

// What `linear` gives for x [count][k] with the expert's matrix.
std::vector<float> Linear(const Problem& p, const Profile& profile, int64_t expert,
                          const std::vector<float>& x) {
  const int64_t count = static_cast<int64_t>(x.size()) / p.s.k;
  Sandbox box(profile, count);
  Dispatch<plan::LinearSpec> d;
  d.spec = {.format = p.s.format,
            .numerics = p.s.int8 ? plan::Numerics::Int8 : plan::Numerics::F32,
            .k = p.s.k,
            .n = p.s.n,
            .epilogue = p.s.adds() ? Epilogue::Store : p.s.epilogue};
  d.rows = count;
  if (p.s.int8) {
    d.bindings.xq = box.Arena(QuantizedRows(x, count, p.s.k));
  } else {
    d.bindings.x = box.Arena(x);
  }
  d.bindings.w = box.Weights(p.experts[static_cast<size_t>(expert)]);
  if (const auto scale = p.Scale(0, expert)) d.bindings.scale = box.Weights(std::vector<float>{*scale});
  if (const auto scale = p.Scale(1, expert)) d.bindings.up_scale = box.Weights(std::vector<float>{*scale});
  d.bindings.y = box.Arena(static_cast<uint64_t>(4 * count * p.s.n));
  SetRows(box, static_cast<uint32_t>(count));
  EXPECT_EQ(box.Run(Expand_linear, d), "");
  return box.Read<float>(*d.bindings.y);
}

std::vector<float> Expected(const Problem& p, const Profile& profile) {
  const Shape& s = p.s;
  std::vector<float> products(static_cast<size_t>(p.rows * s.top_k * s.n));
  for (int64_t e = 0; e < s.experts; ++e) {
    std::vector<float> x;
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < p.rows * s.top_k; ++slot) {
      if (p.ids[static_cast<size_t>(slot)] != e) continue;
      slots.push_back(slot);
      const std::vector<float> row = Part(p.x, (s.adds() ? slot : slot / s.top_k) * s.k, s.k);
      x.insert(x.end(), row.begin(), row.end());
    }
    if (slots.empty()) continue;
    const std::vector<float> y = Linear(p, profile, e, x);
    for (size_t i = 0; i < slots.size(); ++i) {
      std::copy_n(y.begin() + static_cast<int64_t>(i) * s.n, s.n, products.begin() + slots[i] * s.n);
    }
  }
  if (!s.adds()) return products;
  std::vector<float> y = p.y0;
  for (int64_t slot = 0; slot < p.rows * s.top_k; ++slot) {
    for (int64_t c = 0; c < s.n; ++c) {
      volatile float product =
          p.weights[static_cast<size_t>(slot)] * products[static_cast<size_t>(slot * s.n + c)];
      y[static_cast<size_t>(slot / s.top_k * s.n + c)] += product;
    }
  }
  return y;
}

using MoeDispatch = Dispatch<plan::MoeLinearSpec>;

template <typename T>
Arg Padded(Sandbox& box, std::vector<T> values, int64_t size, T poison) {
  values.resize(static_cast<size_t>(size), poison);
  return box.Arena(values);
}

MoeDispatch MakeDispatch(const Problem& p, Sandbox& box, int64_t first, int64_t count, int64_t bucket) {
  const Shape& s = p.s;
  MoeDispatch d;
  d.spec = {.format = s.format,
            .numerics = s.int8 ? plan::Numerics::Int8 : plan::Numerics::F32,
            .k = s.k,
            .n = s.n,
            .experts = s.experts,
            .top_k = s.top_k,
            .epilogue = s.epilogue,
            .scale_count = s.scales & 4 ? 1 : s.experts,
            .up_scale_count = s.scales & 4 ? 1 : s.experts};
  d.rows = bucket;
  const std::vector<float> x = Part(p.x, first * s.x_cols(), count * s.x_cols());
  if (s.int8) {
    d.bindings.xq = Padded<uint8_t>(box, QuantizedRows(x, count, s.x_cols()),
                                    bucket * layouts::Int8RowBytes(s.x_cols()), 0xff);
  } else {
    d.bindings.x = Padded<float>(box, x, bucket * s.x_cols(), NAN);
  }
  d.bindings.w = box.Weights(p.w);
  if (s.scales & 1) d.bindings.scale = box.Weights(p.scale[0]);
  if (s.scales & 2) d.bindings.up_scale = box.Weights(p.scale[1]);
  const std::vector<int32_t> ids = Part(p.ids, first * s.top_k, count * s.top_k);
  if (s.experts > 1) {
    const MoeLists lists = GroupedSlots(ids, s.experts);
    d.bindings.ids = Padded<int32_t>(box, ids, bucket * s.top_k, -1);
    d.bindings.groups = box.Arena(lists.groups);
    d.bindings.order = Padded<int32_t>(box, lists.order, bucket * s.top_k, -1);
  }
  if (s.adds()) {
    d.bindings.weights =
        Padded<float>(box, Part(p.weights, first * s.top_k, count * s.top_k), bucket * s.top_k, NAN);
  }
  const std::vector<float> y = s.adds() ? Part(p.y0, first * s.n, count * s.n) : std::vector<float>();
  d.bindings.y = Padded<float>(box, y, bucket * s.y_cols(), -7.f);
  SetRows(box, static_cast<uint32_t>(count));
  return d;
}

void ExpectRows(const Problem& p, const Sandbox& box, const Arg& y, const std::vector<float>& want,
                int64_t first, int64_t count) {
  const std::vector<float> got = box.Read<float>(y);
  const size_t used = static_cast<size_t>(count * p.s.y_cols());
  for (size_t i = 0; i < got.size(); ++i) {
    const float value = i < used ? want[static_cast<size_t>(first * p.s.y_cols()) + i] : -7.f;
    ASSERT_EQ(std::memcmp(&got[i], &value, 4), 0)
        << "row " << i / static_cast<size_t>(p.s.y_cols()) << ", column "
        << i % static_cast<size_t>(p.s.y_cols()) << ": " << got[i] << ", expected " << value;
  }
}

void Check(const Shape& shape, const Profile& profile, const std::vector<int64_t>& buckets = {1, 2, 8, 17}) {
  SCOPED_TRACE(profile.name + " " + shape.Name());
  const Problem p(shape, *std::max_element(buckets.begin(), buckets.end()));
  const std::vector<float> want = Expected(p, profile);
  for (int64_t bucket : buckets) {
    for (int64_t count : {bucket, bucket / 2, int64_t{0}}) {
      SCOPED_TRACE("bucket " + std::to_string(bucket) + ", rows " + std::to_string(count));
      const int64_t first = count == bucket ? 0 : p.rows - count;
      Sandbox box(profile, bucket);
      const MoeDispatch d = MakeDispatch(p, box, first, count, bucket);
      ASSERT_EQ(box.Run(Expand_moe_linear, d), "");
      ExpectRows(p, box, *d.bindings.y, want, first, count);
    }
  }
}

Profile Named(const char* name) {
  return FindProfile(name)->profile;
}

class MoeLinear : public testing::TestWithParam<Epilogue> {};
INSTANTIATE_TEST_SUITE_P(Epilogues, MoeLinear,
                         testing::Values(Epilogue::Store, Epilogue::Add, Epilogue::Swiglu),
                         [](const auto& info) { return std::string(plan::textOf(info.param)); });

TEST_P(MoeLinear, FormatsAndNumerics) {
  for (Format format : {Format::F32, Format::F16, Format::Q8_0, Format::Q4_0, Format::Q4_K, Format::Q6_K}) {
    const bool block = format_info(format).cls == FormatClass::kBlock;
    for (bool int8 : {false, true}) {
      if (int8 && !block) continue;
      const int64_t k = format_info(format).block_elems == 256 ? 256 : 96;
      Check({.format = format, .int8 = int8, .epilogue = GetParam(), .k = k}, Named("sg32-dot"));
    }
  }
}

TEST_P(MoeLinear, Profiles) {
  for (const char* name : {"none", "none-dot", "sg8-dot", "sg16-dot", "sg64-dot", "sm61", "sm80",
                           "sg32-matrix32", "sg8-matrix8"}) {
    Check({.format = Format::Q4_1, .epilogue = GetParam(), .k = 64}, Named(name), {1, 8, 17});
  }
}

// Experts and slots: one for all rows, one of a row, as many as there are, more than a workgroup's threads.
TEST_P(MoeLinear, Experts) {
  for (const auto& [experts, top_k] :
       {std::pair<int64_t, int64_t>{1, 1}, {5, 1}, {2, 2}, {5, 5}, {140, 4}, {9, 6}}) {
    for (const char* name : {"sg32-dot", "sm80"}) {
      Check({.epilogue = GetParam(), .k = 64, .n = 32, .experts = experts, .top_k = top_k}, Named(name),
            {1, 4, 20});
    }
  }
}

TEST_P(MoeLinear, Scales) {
  for (int scales : {1, 2, 3, 5, 7}) {
    if (GetParam() != Epilogue::Swiglu && scales & 2) continue;
    Check({.format = Format::NVFP4, .epilogue = GetParam(), .k = 64, .scales = scales}, Named("sm80"),
          {2, 17});
    Check({.epilogue = GetParam(), .experts = 1, .top_k = 1, .scales = scales}, Named("sg32-dot"), {2, 17});
  }
}

// Tiles of every form, of experts whose rows fill some of them, by one expert's matrix after the other.
void CheckVariant(const Shape& shape, const Profile& profile,
                  const std::function<Launch(const LinearSpec&, int64_t, int64_t)>& variant,
                  int64_t rows = 29) {
  SCOPED_TRACE(profile.name + " " + shape.Name());
  const Problem p(shape, rows);
  const std::vector<float> want = Expected(p, profile);
  for (int64_t count : {p.rows, int64_t{0}}) {
    Sandbox box(profile, p.rows);
    const MoeDispatch d = MakeDispatch(p, box, 0, count, p.rows);
    LinearSpec spec;
    spec.format = shape.format;
    spec.int8 = shape.int8;
    spec.k = shape.k;
    spec.epilogue = shape.epilogue;
    spec.weighted = shape.adds();
    spec.rows_of = RowsOf::kExpert;
    spec.experts = shape.experts;
    spec.top_k = shape.top_k;
    Launch launch = variant(spec, shape.n / 16, p.rows * shape.top_k);
    LinearMoreArgs more{
        .expert_bytes = Number(p.experts[0].size()), .groups = d.bindings.groups, .order = d.bindings.order};
    if (shape.adds()) more.weights = d.bindings.weights;
    launch.args = LinearArgs::List({.x = shape.int8 ? *d.bindings.xq : *d.bindings.x,
                                    .w = *d.bindings.w,
                                    .y = *d.bindings.y,
                                    .count = {Space::kStep, 0, 4},
                                    .units = Number(static_cast<uint64_t>(shape.n / 16)),
                                    .y_row_bytes = Number(static_cast<uint64_t>(4 * shape.n))},
                                   more);
    ASSERT_EQ(box.Run(std::vector<Launch>{launch}), "") << launch.name;
    ExpectRows(p, box, *d.bindings.y, want, 0, count);
  }
}

TEST_P(MoeLinear, VariantsGiveEqualBits) {
  const int64_t top_k = GetParam() == Epilogue::Add ? 1 : 2;
  const Shape shape{
      .format = Format::Q4_K, .epilogue = GetParam(), .k = 512, .n = 80, .experts = 4, .top_k = top_k};
  for (int rows : {1, 4, 8}) {
    CheckVariant(shape, Named("sg32-dot"), [&](const LinearSpec& s, int64_t u, int64_t r) {
      return LinearSplit(s, Named("sg32-dot"), rows, u, r);
    });
    CheckVariant(shape, Named("sg32-dot"),
                 [&](const LinearSpec& s, int64_t u, int64_t r) { return LinearTiled(s, rows, u, r); });
  }
  for (int rows : {4, 8}) {
    CheckVariant(shape, Named("sm80"), [&](const LinearSpec& s, int64_t u, int64_t r) {
      return LinearMatrixFew(s, Named("sm80"), rows, u, r);
    });
  }
  for (int rows : {8, 16, 32}) {
    CheckVariant(shape, Named("sm80"),
                 [&](const LinearSpec& s, int64_t u, int64_t r) { return LinearMatrixTiled(s, rows, u, r); });
    CheckVariant(shape, Named("sm80"),
                 [&](const LinearSpec& s, int64_t u, int64_t r) { return LinearMatrixSplit(s, rows, u, r); });
  }
  for (int rows : {64, 128}) {
    CheckVariant(
        shape, Named("sm80"),
        [&](const LinearSpec& s, int64_t u, int64_t r) { return LinearMatrixShared(s, rows, u, r); }, 90);
  }
  for (const char* name : {"sg32-matrix32", "sg32-matrix16", "sg8-matrix8"}) {
    CheckVariant(shape, Named(name),
                 [&](const LinearSpec& s, int64_t u, int64_t r) { return LinearCooperative(s, u, r); });
  }
}

MoeDispatch Large(int64_t rows, Epilogue epilogue) {
  MoeDispatch d;
  d.spec = {.format = Format::Q4_K,
            .numerics = plan::Numerics::Int8,
            .k = epilogue == Epilogue::Add ? 768 : 2048,
            .n = epilogue == Epilogue::Add ? 2048 : 768,
            .experts = 128,
            .top_k = 8,
            .epilogue = epilogue,
            .scale_count = 1,
            .up_scale_count = 1};
  d.rows = rows;
  d.bindings.xq = d.bindings.ids = d.bindings.groups = d.bindings.order = d.bindings.weights = d.bindings.y =
      Arg{Space::kArena, 0, 1 << 20};
  d.bindings.w = Arg{Space::kWeights, 0, uint64_t{1} << 33};
  return d;
}

TEST(MoeLinearExpansion, FormsOfABucket) {
  Sandbox box(Named("sm80"), 512);
  const auto names = [&](int64_t rows, Epilogue epilogue) {
    std::string all;
    for (const Launch& l : Expand_moe_linear(Large(rows, epilogue), box)) {
      all += (all.empty() ? "" : ", ") + l.name + " " + std::to_string(l.grid[0]) + "x" +
             std::to_string(l.grid[1]);
    }
    return all;
  };
  EXPECT_EQ(names(1, Epilogue::Swiglu), "moe_linear.q4_k.int8.k2048.swiglu.x8.r1 48x8");
  EXPECT_EQ(names(1, Epilogue::Add), "moe_linear.q4_k.int8.k768.add.weighted.x8.own.s4 128x1");
  EXPECT_EQ(names(512, Epilogue::Swiglu), "moe_linear.q4_k.int8.k2048.swiglu.e128x8.m32x1 12x256");
  EXPECT_EQ(names(512, Epilogue::Add),
            "moe_linear.q4_k.int8.k768.store.e128x8.own.m32x1 16x256, moe_linear.sum.n2048.x8 4x512");
  EXPECT_EQ(names(64, Epilogue::Swiglu), "moe_linear.q4_k.int8.k2048.swiglu.e128x8.mr8 48x192");
}

// All experts' weights are bound at once, reached by 64 bits; costs are of those that a bucket can use.
TEST(MoeLinearExpansion, ManyExpertsAreOneBinding) {
  Sandbox box(Named("none"), 512);
  const uint64_t expert = static_cast<uint64_t>(2 * layouts::X16Bytes(Format::Q4_K, 768, 2048));
  for (int64_t rows : {1, 512}) {
    const std::vector<Launch> launches = Expand_moe_linear(Large(rows, Epilogue::Swiglu), box);
    ASSERT_EQ(launches.size(), 1u);
    const Arg& w = launches[0].args[1];
    EXPECT_EQ(w.bytes, uint64_t{1} << 33);
    EXPECT_TRUE(w.wide);
    const uint64_t used = rows == 1 ? 8 : 128;
    EXPECT_GE(launches[0].read_bytes, used * expert);
    EXPECT_LT(launches[0].read_bytes, (used + 1) * expert);
    EXPECT_EQ(launches[0].ops, uint64_t{2} * 2 * 2048 * 768 * 8 * static_cast<uint64_t>(rows));
  }
}

TEST(MoeLinearExpansion, RefusesWhatItCannotRun) {
  Sandbox box(Named("none"), 8);
  MoeDispatch d = Large(8, Epilogue::Swiglu);
  d.spec.n = 760;
  EXPECT_TRUE(Expand_moe_linear(d, box).empty());
  d = Large(8, Epilogue::Swiglu);
  d.spec.scale_count = 3;
  EXPECT_TRUE(Expand_moe_linear(d, box).empty());
  d = Large(8, Epilogue::Swiglu);
  d.spec.k = 2048 * 256;
  d.spec.n = 16 * 1024;
  EXPECT_TRUE(Expand_moe_linear(d, box).empty()) << "an expert of more than 2^31 bytes";
}

}  // namespace
}  // namespace qcc::gpu
