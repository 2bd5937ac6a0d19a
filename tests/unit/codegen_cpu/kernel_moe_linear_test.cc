// moe_linear against linear with each expert's matrix, bit for bit, and equal bits for any split.
#include <limits>

#include "codegen/cpu/kernels/scratch.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/codegen_cpu/moe_lists.h"

namespace qcc::cpu {
namespace {

using layouts::Int8RowBytes;
using layouts::Int8ScalesAt;
using layouts::Int8SumsAt;
using layouts::Int8WeightedAt;
using layouts::X16Bytes;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Weights {
  Format format;
  int64_t k, n;
  Guarded<uint8_t> one, pair;  // x16, x16_pair
  int64_t bytes(bool swiglu) const { return (swiglu ? 2 : 1) * X16Bytes(format, n, k); }
  const uint8_t* of(bool swiglu, int64_t expert) const {
    return (swiglu ? pair : one).data() + expert * bytes(swiglu);
  }
};
// A case may have fewer experts than there are weights of.
Weights make_weights(Format format, int64_t k, int64_t n, int64_t experts, uint32_t seed) {
  const auto a = random_gguf(format, experts * n, k, seed), b = random_gguf(format, experts * n, k, seed + 1);
  return {format, k, n, packed(format, a, experts * n, k), packed(format, a, experts * n, k, &b)};
}

struct Case {
  int64_t rows, experts, top_k, epilogue;
  int64_t step = 1;  // only experts that are multiples of it are used
  int scales = 0;    // of each matrix: 0, 1 or one for each expert
  std::string name() const {
    return std::to_string(rows) + " rows, " + std::to_string(top_k) + " of " + std::to_string(experts) +
           ", every " + std::to_string(step) + ", epilogue " + std::to_string(epilogue) + ", scales " +
           std::to_string(scales);
  }
};

struct Problem {
  Case c;
  const Weights& w;
  bool int8;
  Lists lists;
  Guarded<float> x, weights, scale, up_scale, before;
  Guarded<uint8_t> xq;
  mutable Guarded<uint8_t> scratch;
  bool add() const { return c.epilogue == QK_Epilogue_Add; }
  bool swiglu() const { return c.epilogue == QK_Epilogue_Swiglu; }
  int64_t columns() const { return add() ? c.top_k * w.k : w.k; }
  int64_t items() const { return add() ? w.n / 16 : c.rows * c.top_k * (w.n / 16); }
  const float* scale_of(const Guarded<float>& s, int64_t expert) const {
    return c.scales == 0 ? nullptr : s.data() + (c.scales == 1 ? 0 : expert);
  }
};

Problem make_problem(const Kernels& k, const Weights& w, bool int8, const Case& c, uint32_t seed) {
  Random random(seed);
  const bool add = c.epilogue == QK_Epilogue_Add;
  const int64_t columns = add ? c.top_k * w.k : w.k, out = (add ? 1 : c.top_k) * w.n;
  const auto count = [](int64_t v) { return static_cast<size_t>(v); };
  Problem p{c,
            w,
            int8,
            lists_of(random_ids(c.rows, c.experts, c.top_k, c.step, random), c.experts),
            random.guarded(count(c.rows * columns)),
            random.guarded(count(c.rows * c.top_k)),
            random.guarded(count(c.scales == 2 ? c.experts : 1)),
            random.guarded(count(c.scales == 2 ? c.experts : 1)),
            random.guarded(count(c.rows * out)),
            Guarded<uint8_t>(count(c.rows * Int8RowBytes(columns))),
            used_scratch(int8 ? ExpertScratch::Bytes(description(w.format).plain, w.k) : 64)};
  const quantize_args quantize = {
      .cols = columns, .x = p.x.data(), .out_q = p.xq.data(), .n_rows = c.rows, .begin = 0, .end = c.rows};
  if (int8) k.qk_quantize(&quantize);
  return p;
}

void run(const Problem& p, const FormatKernels& f, const uint8_t* w, int64_t begin, int64_t end, float* y) {
  const bool one = p.c.experts == 1;
  const moe_linear_args args = {.format = static_cast<int64_t>(f.format),
                                .numerics = p.int8 ? QK_Numerics_Int8 : QK_Numerics_F32,
                                .k = p.w.k,
                                .n = p.w.n,
                                .experts = p.c.experts,
                                .top_k = p.c.top_k,
                                .epilogue = p.c.epilogue,
                                .scale_count = p.c.scales == 2 ? p.c.experts : 1,
                                .up_scale_count = p.c.scales == 2 ? p.c.experts : 1,
                                .x = p.int8 ? nullptr : p.x.data(),
                                .xq = p.int8 ? p.xq.data() : nullptr,
                                .w = w,
                                .scale = p.scale_of(p.scale, 0),
                                .up_scale = p.swiglu() ? p.scale_of(p.up_scale, 0) : nullptr,
                                .ids = one ? nullptr : p.lists.ids.data(),
                                .groups = one ? nullptr : p.lists.groups.data(),
                                .order = one ? nullptr : p.lists.order.data(),
                                .weights = p.add() ? p.weights.data() : nullptr,
                                .y = y,
                                .read_ahead = 4096,
                                .scratch = p.scratch.data(),
                                .n_rows = p.c.rows,
                                .begin = begin,
                                .end = end};
  (p.int8 ? f.moe_int8 : f.moe_f32)(&args);
}

// What slot `slot` multiplies, as a row of its own: its bytes follow those of `rows`.
void append_row(const Problem& p, int64_t slot, std::vector<uint8_t>& rows) {
  const int64_t k = p.w.k, row = slot / p.c.top_k, first = p.add() ? slot % p.c.top_k * k : 0;
  if (!p.int8) {
    const auto* from = reinterpret_cast<const uint8_t*>(p.x.data() + row * p.columns() + first);
    rows.insert(rows.end(), from, from + 4 * k);
    return;
  }
  const uint8_t* from = p.xq.data() + row * Int8RowBytes(p.columns());
  rows.resize(rows.size() + Int8RowBytes(k));
  uint8_t* to = rows.data() + rows.size() - Int8RowBytes(k);
  std::copy_n(from + first, k, to);
  std::copy_n(from + Int8ScalesAt(p.columns()) + first / 8, k / 8, to + Int8ScalesAt(k));
  std::copy_n(from + Int8SumsAt(p.columns()) + first / 4, k / 4, to + Int8SumsAt(k));
  std::copy_n(from + Int8WeightedAt(p.columns()) + first / 8, k / 8, to + Int8WeightedAt(k));
}

// By linear, one expert after the other.
std::vector<float> expected(const Problem& p, const FormatKernels& f) {
  std::vector<float> y(p.before.begin(), p.before.end());
  const int64_t n = p.w.n;
  Guarded<uint8_t> scratch =
      used_scratch(p.int8 ? LinearScratch::Bytes(description(f.format).plain, p.w.k, 1) : 64);
  for (int32_t i = 0; i < p.lists.groups[0]; ++i) {
    const int32_t expert = p.lists.groups[1 + i];
    const int32_t* begin = p.lists.groups.data() + 1 + p.c.experts + i;
    std::vector<uint8_t> rows;
    for (int32_t at = begin[0]; at < begin[1]; ++at) append_row(p, p.lists.order[at], rows);
    std::vector<float> out(static_cast<size_t>((begin[1] - begin[0]) * n));
    const linear_args args = {.format = static_cast<int64_t>(f.format),
                              .numerics = p.int8 ? QK_Numerics_Int8 : QK_Numerics_F32,
                              .k = p.w.k,
                              .n = n,
                              .epilogue = p.swiglu() ? QK_Epilogue_Swiglu : QK_Epilogue_Store,
                              .rows = QK_RowsFrom_Rows,
                              .x = p.int8 ? nullptr : reinterpret_cast<const float*>(rows.data()),
                              .xq = p.int8 ? rows.data() : nullptr,
                              .w = p.w.of(p.swiglu(), expert),
                              .scale = p.scale_of(p.scale, expert),
                              .up_scale = p.swiglu() ? p.scale_of(p.up_scale, expert) : nullptr,
                              .y = out.data(),
                              .scratch = scratch.data(),
                              .read_ahead = 4096,
                              .n_rows = begin[1] - begin[0],
                              .begin = 0,
                              .end = n / 16};
    (p.int8 ? f.int8 : f.f32)(&args);
    for (int32_t at = begin[0]; at < begin[1]; ++at) {
      const int32_t slot = p.lists.order[at];
      float* to = y.data() + (p.add() ? slot / p.c.top_k : slot) * n;
      for (int64_t c = 0; c < n; ++c) {
        const float v = out[static_cast<size_t>((at - begin[0]) * n + c)];
        to[c] = p.add() ? to[c] + v * p.weights[slot] : v;
      }
    }
  }
  return y;
}

void check(const Kernels& k, const Weights& w, const FormatKernels& f, bool int8, const Case& c,
           uint32_t seed) {
  SCOPED_TRACE(f.name + (int8 ? " int8, " : " f32, ") + c.name());
  const Problem p = make_problem(k, w, int8, c, seed);
  // Of experts that no row uses, all numbers are NaN.
  Guarded<uint8_t> weights(static_cast<size_t>(c.experts * w.bytes(p.swiglu())));
  std::copy_n(w.of(p.swiglu(), 0), weights.size(), weights.begin());
  for (int64_t e = 0; e < c.experts; ++e) {
    if (std::ranges::count(p.lists.ids, static_cast<int32_t>(e)) == 0)
      std::fill_n(weights.begin() + e * w.bytes(p.swiglu()), w.bytes(p.swiglu()), uint8_t{0xff});
  }
  const std::vector<float> want = expected(p, f);
  for (int64_t calls : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, c.rows > 17 ? 5 : p.items()}) {
    Guarded<float> y = Guarded<float>::copy_of(p.before);
    if (!p.add()) std::fill(y.begin(), y.end(), kNan);
    for (int64_t i = 0; i < calls; ++i)
      run(p, f, weights.data(), p.items() * i / calls, p.items() * (i + 1) / calls, y.data());
    ASSERT_TRUE(same_bits(y.data(), want.data(), want.size())) << calls << " calls";
  }
}

class KernelMoeLinear : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelMoeLinear);

constexpr int64_t kEpilogues[] = {QK_Epilogue_Store, QK_Epilogue_Add, QK_Epilogue_Swiglu};

TEST_P(KernelMoeLinear, IsEachExpertsLinear) {
  QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
  const std::vector<Format> all_cases = {Format::Q8_0, Format::Q4_K},
                            formats = {Format::Q8_0, Format::Q4_K,   Format::Q6_K, Format::F16,
                                       Format::F32,  Format::IQ4_XS, Format::Q1_0, Format::Q4_0,
                                       Format::Q5_K, Format::Q2_K,   Format::BF16, Format::MXFP4};
  uint32_t seed = 1;
  for (const FormatKernels& f : format_kernels(*k)) {
    if (std::ranges::count(formats, f.format) == 0) continue;
    const bool all = std::ranges::count(all_cases, f.format) > 0;
    const Weights w = make_weights(f.format, 256, 48, 64, seed++);
    for (bool int8 : {false, true}) {
      if (int8 && !f.moe_int8) continue;
      for (int64_t epilogue : kEpilogues) {
        std::vector<Case> cases = {{5, 4, 2, epilogue, 1, 2}, {17, 64, 3, epilogue, 5, 1}};
        if (all) {
          for (int64_t rows : {1, 3, 17, 64})
            cases.insert(cases.end(), {{rows, 1, 1, epilogue, 1, static_cast<int>(rows % 3)},
                                       {rows, 4, 4, epilogue, 1, static_cast<int>(rows % 3)},
                                       {rows, 4, 1, epilogue, 4, 0},
                                       {rows, 64, 8, epilogue, 2, 2}});
          // More rows of one expert than stay in the cache together.
          cases.push_back({1400, 2, 1, epilogue, 2, 0});
        }
        for (const Case& c : cases) {
          check(*k, w, f, int8, c, seed++);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Rows of k columns that are no multiple of 64 within one int8 row.
TEST_P(KernelMoeLinear, OfShortRows) {
  uint32_t seed = 900;
  for (const FormatKernels& f : format_kernels(*k)) {
    if (format_info(f.format).block_elems > 32) continue;
    for (int64_t columns : {32, 96}) {
      const Weights w = make_weights(f.format, columns, 16, 8, seed++);
      for (bool int8 : {false, true}) {
        if (int8 && !f.moe_int8) continue;
        for (int64_t epilogue : kEpilogues) {
          check(*k, w, f, int8, {7, 8, 3, epilogue, 1, 0}, seed++);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Each item alone, into an empty result: no place is written by two.
TEST_P(KernelMoeLinear, WritesEachPlaceOnce) {
  const Weights w = make_weights(Format::Q8_0, 64, 48, 16, 3);
  const FormatKernels f = format_kernels(*k)[static_cast<size_t>(Format::Q8_0)];
  ASSERT_EQ(f.format, Format::Q8_0);
  for (int64_t epilogue : {QK_Epilogue_Store, QK_Epilogue_Swiglu}) {
    for (const Case& c : {Case{7, 4, 2, epilogue}, {3, 1, 1, epilogue}, {9, 16, 5, epilogue}}) {
      const Problem p = make_problem(*k, w, true, c, 4);
      std::vector<int> written(p.before.size());
      for (int64_t item = 0; item < p.items(); ++item) {
        Guarded<float> y(p.before.size());
        std::fill(y.begin(), y.end(), kNan);
        run(p, f, w.of(p.swiglu(), 0), item, item, y.data());
        EXPECT_TRUE(std::ranges::all_of(y, [](float v) { return std::isnan(v); })) << "an empty range";
        run(p, f, w.of(p.swiglu(), 0), item, item + 1, y.data());
        for (size_t i = 0; i < y.size(); ++i) written[i] += !std::isnan(y[i]);
      }
      EXPECT_EQ(std::ranges::count(written, 1), static_cast<int64_t>(written.size())) << c.name();
    }
  }
}

// Weights of experts that no row uses are not touched: their pages cannot be read.
TEST_P(KernelMoeLinear, ReadsTheExpertsInUseOnly) {
  const Weights w = make_weights(Format::Q8_0, 128, 32 * 16, 16, 8);
  const FormatKernels f = format_kernels(*k)[static_cast<size_t>(Format::Q8_0)];
  for (int64_t epilogue : kEpilogues) {
    const Problem p = make_problem(*k, w, true, {6, 16, 2, epilogue, 3}, 5);
    const int64_t bytes = w.bytes(p.swiglu());
    ASSERT_EQ(bytes % 4096, 0);
    Guarded<uint8_t> weights(static_cast<size_t>(16 * bytes));
    std::copy_n(w.of(p.swiglu(), 0), weights.size(), weights.begin());
    for (int64_t e = 0; e < 16; ++e) {
      if (std::ranges::count(p.lists.ids, static_cast<int32_t>(e)) == 0) {
        ASSERT_EQ(mprotect(weights.data() + e * bytes, static_cast<size_t>(bytes), PROT_NONE), 0);
      }
    }
    const std::vector<float> want = expected(p, f);
    Guarded<float> y = Guarded<float>::copy_of(p.before);
    run(p, f, weights.data(), 0, p.items(), y.data());
    EXPECT_TRUE(same_bits(y.data(), want.data(), want.size())) << p.c.name();
  }
}

TEST(KernelMoeLinearLevels, AgreesWhereMultiplyAddIsFused) {
  QCC_TWO_FUSED_LEVELS_OR_SKIP(levels);
  for (size_t i = 0; i < static_cast<size_t>(kFormatCount); ++i) {
    const FormatKernels base = format_kernels(kernels_of(levels[0]))[i];
    const Weights w = make_weights(base.format, 256, 16, 4, static_cast<uint32_t>(40 + i));
    for (int64_t epilogue : kEpilogues) {
      for (bool int8 : {false, true}) {
        if (int8 && !base.moe_int8) continue;
        const Problem p = make_problem(kernels_of(levels[0]), w, int8, {11, 4, 2, epilogue, 1, 2}, 6);
        const std::vector<float> want = expected(p, base);
        for (Isa isa : levels) {
          Guarded<float> y = Guarded<float>::copy_of(p.before);
          run(p, format_kernels(kernels_of(isa))[i], w.of(p.swiglu(), 0), 0, p.items(), y.data());
          ASSERT_TRUE(same_bits(y.data(), want.data(), want.size()))
              << base.name << (int8 ? " int8, " : " f32, ") << isa_info(isa).name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace qcc::cpu
