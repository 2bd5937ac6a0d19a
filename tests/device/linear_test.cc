// embed and linear on every device: all formats, both numerics, every epilogue and bucket.
#include <algorithm>
#include <cmath>

#include "dialects/formats/descriptions.h"
#include "dialects/layouts/layouts.h"
#include "tests/device/conformance.h"
#include "tests/device/reference.h"
#include "tests/device/tried_in_full.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;
using layouts::AlignUp;

struct FormatRow {
  Format format;
  std::string name;
  bool int8;
};
std::vector<FormatRow> Formats() {
  std::vector<FormatRow> formats;
  for (const FormatDescription& d : kDescriptions) {
    formats.push_back({d.id, std::string(format_info(d.id).name), d.plain.block != 0});
  }
  return formats;
}

struct Linear {
  FormatRow format;
  bool int8;
  int64_t k, n;
  std::string epilogue;
  int64_t rows;
  bool logits = false;
  int scales = 0;  // a bit for each: 1 scale, 2 up_scale

  // The same matrix and inputs for every bucket.
  std::string Key() const {
    return format.name + (int8 ? "_int8" : "_f32") + "_k" + std::to_string(k) + "_n" + std::to_string(n) +
           "_" + epilogue + (scales ? "_s" + std::to_string(scales) : "");
  }
  std::string Name() const { return (logits ? "head_" : "") + Key() + "_r" + std::to_string(rows); }
  uint32_t Seed() const { return static_cast<uint32_t>(std::hash<std::string>()(Key())); }
  Bytes Matrix(int which) const { return cpu::random_gguf(format.format, n, k, Seed() + which); }
  bool Pair() const { return epilogue == "swiglu"; }
  int64_t Ld() const { return AlignUp(n, 16); }
  // What multiplies the sums of a matrix.
  float Scale(int which) const { return !(scales & 1 << which) ? 1.f : which ? -1.9f : 0.37f; }
};

Case MakeCase(const Linear& l) {
  const Bytes a = l.Matrix(0), b = l.Matrix(1);
  Case c;
  c.name = l.Name();
  c.family = "linear";
  c.spec = "{format = \"" + l.format.name + "\", numerics = \"" + (l.int8 ? "int8" : "f32") +
           "\", k = " + std::to_string(l.k) + " : i64, n = " + std::to_string(l.n) + " : i64, epilogue = \"" +
           l.epilogue + "\", rows = \"" + (l.logits ? "out_rows" : "rows") + "\"}";
  c.rows = l.rows;
  c.logits = l.logits ? "y" : "";
  c.weights["w"] = Pack(l.format.format, a, l.n, l.k, l.Pair() ? &b : nullptr);
  for (int which : {0, 1}) {
    const std::string role = which ? "up_scale" : "scale";
    if (l.scales & 1 << which) {
      c.weights[role] = AsBytes(std::vector<float>{l.Scale(which)});
    } else {
      c.without.insert(role);
    }
  }
  return c;
}

std::vector<Linear> Linears() {
  std::vector<Linear> all;
  for (const FormatRow& f : Formats()) {
    for (bool int8 : {false, true}) {
      if (int8 && !f.int8) continue;
      const bool thorough = f.name == "q4_k" || f.name == "q8_0" || f.name == "f16";
      const int64_t block = format_info(f.format).block_elems;
      // k: not a power of two where the format allows it.
      const int64_t k = block <= 32 ? 96 : 768;
      if (!TriedInFull(f.format)) {
        all.push_back({f, int8, k, 40, "store", int8 ? 40 : 4});
        continue;
      }
      for (int64_t rows : thorough ? std::vector<int64_t>{1, 2, 4, 8, 40} : std::vector<int64_t>{1, 4, 40}) {
        all.push_back({f, int8, k, 40, "store", rows});
      }
      if (thorough) {
        for (int64_t rows : {1, 4, 40}) {
          all.push_back({f, int8, 512, 17, "add", rows});
          all.push_back({f, int8, 256, 33, "swiglu", rows});
        }
      }
    }
    if (f.name == "q8_0") all.push_back({f, true, 8192, 16, "store", 40});
    if (f.name == "q6_k") all.push_back({f, true, 1024, 77, "store", 4, true});
    // So many columns that few rows take most parts and most threads of a workgroup.
    for (int64_t rows : {1, 4, 8}) {
      if (f.name == "q8_0") all.push_back({f, true, 2048, 33, "add", rows});
      if (f.name == "q4_k") all.push_back({f, true, 6144, 33, "swiglu", rows});
    }
    // Enough tiles for the kernels of many rows, with and without a second scale or a shift.
    if (f.name == "q8_0") all.push_back({f, true, 96, 1020, "add", 40});
    if (f.name == "q4_k") all.push_back({f, true, 256, 510, "swiglu", 40});
    if (f.name == "q6_k") all.push_back({f, true, 256, 1020, "store", 40});
    // The same for those of CUDA that have tiles of 64 rows, with and without a minimum.
    if (f.name == "q8_0") all.push_back({f, true, 64, 8190, "add", 72});
    if (f.name == "q4_1") all.push_back({f, true, 64, 4094, "swiglu", 72});
    if (f.name == "f32") all.push_back({f, false, 32, 1, "store", 3});
    // With scales: kernels of few rows, and of many.
    if (f.name == "nvfp4") all.push_back({f, true, 192, 40, "store", 4, false, 1});
    if (f.name == "bf16") all.push_back({f, false, 96, 48, "add", 40, false, 1});
    if (f.name == "q8_0") all.push_back({f, true, 96, 1020, "add", 40, false, 1});
    if (f.name == "q4_k") {
      for (int scales : {1, 2, 3}) all.push_back({f, true, 256, 33, "swiglu", 4, false, scales});
      all.push_back({f, true, 256, 510, "swiglu", 40, false, 3});
      all.push_back({f, false, 256, 33, "swiglu", 40, false, 3});
    }
  }
  return all;
}

const Suite& LinearSuite() {
  static const auto* suite = [] {
    std::vector<Case> cases;
    for (const Linear& l : Linears()) cases.push_back(MakeCase(l));
    return new Suite("linear", std::move(cases), 77);
  }();
  return *suite;
}

// Activations: normal ones, extreme codes, one value for all, one huge value.
std::vector<float> Activations(const Linear& l, int64_t rows) {
  Random random(l.Seed() + 2);
  std::vector<float> x = random.normals(static_cast<size_t>(rows * l.k));
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x.data() + r * l.k;
    for (int64_t c = 0; c < l.k; ++c) {
      if (r % 5 == 1) row[c] = row[c] < 0 ? -3.f : 3.f;
      if (r % 5 == 2) row[c] = 3.f;
    }
    if (r % 5 == 3) row[l.k / 2] = 1e4f;
  }
  return x;
}

std::vector<double> Want(const Linear& l, const std::vector<double>& x, const std::vector<float>& before) {
  std::vector<double> y = Matmul(x, Decode(l.format.format, l.Matrix(0), l.n, l.k), l.k, l.n);
  for (double& v : y) v *= double{l.Scale(0)};
  if (l.Pair()) {
    const std::vector<double> up = Matmul(x, Decode(l.format.format, l.Matrix(1), l.n, l.k), l.k, l.n);
    for (size_t i = 0; i < y.size(); ++i) y[i] = Silu(y[i]) * (up[i] * double{l.Scale(1)});
  } else if (l.epilogue == "add") {
    for (size_t i = 0; i < y.size(); ++i) y[i] += before[i / l.n * l.Ld() + i % l.n];
  }
  return y;
}

template <typename T>
std::vector<T> Rows(const std::vector<T>& all, int64_t row_size, int64_t begin, int64_t count) {
  return {all.begin() + begin * row_size, all.begin() + (begin + count) * row_size};
}

class LinearConformance : public ConformanceTest {
 protected:
  // y of `count` rows of the inputs from row `begin`.
  Bytes Y(Lab& lab, const Linear& l, const std::vector<float>& x, const std::vector<float>& before,
          int64_t begin, int64_t count) {
    std::map<std::string, Bytes> inputs;
    const std::vector<float> part = Rows(x, l.k, begin, count);
    if (l.int8) {
      inputs["xq"] = Quantized(part, l.k);
    } else {
      inputs["x"] = AsBytes(part);
    }
    if (l.epilogue == "add") inputs["y"] = AsBytes(Rows(before, l.Ld(), begin, count));
    Step step;
    step.sequences = {{nullptr, 0, count}};
    if (l.logits) {
      for (int64_t i = 0; i < count; ++i) step.out_rows.push_back(static_cast<int32_t>(i));
    }
    return RunCase(lab, l.Name(), step, inputs)["y"];
  }
};
QCC_INSTANTIATE_CONFORMANCE(LinearConformance);

TEST_P(LinearConformance, ValuesAndBatches) {
  QCC_OPEN_OR_SKIP(lab, LinearSuite());
  std::map<std::string, std::pair<std::string, Bytes>> decoded;  // by key: what the first decode bucket gave
  for (const Linear& l : Linears()) {
    SCOPED_TRACE(l.Name());
    const int64_t most = std::max<int64_t>(40, l.rows);
    const std::vector<float> x = Activations(l, most);
    const std::vector<float> before = Random(l.Seed() + 3).normals(static_cast<size_t>(most * l.Ld()));
    const std::vector<float> mine = Rows(x, l.k, 0, l.rows);
    const std::vector<double> seen =
        l.int8 ? Dequantized(Quantized(mine, l.k), l.k) : std::vector<double>(mine.begin(), mine.end());
    const Bytes whole = Y(lab, l, x, before, 0, l.rows);

    const std::vector<float> got = As<float>(whole);
    ASSERT_EQ(static_cast<int64_t>(got.size()), l.rows * l.Ld());
    EXPECT_TRUE(Near(Columns(got, l.Ld(), l.n), Want(l, seen, before), 1e-11, l.n));
    // Any smaller step of the program, and the same rows through other decode buckets.
    for (int64_t count : {int64_t{1}, int64_t{2}, int64_t{7}, l.rows - 1}) {
      if (count <= 0 || count >= l.rows) continue;
      for (int64_t begin : {int64_t{0}, l.rows - count}) {
        const Bytes want(whole.begin() + begin * l.Ld() * 4, whole.begin() + (begin + count) * l.Ld() * 4);
        EXPECT_TRUE(SameBits(Y(lab, l, x, before, begin, count), want)) << count << " rows from " << begin;
      }
    }
    if (l.rows <= 8 && !l.logits) {
      auto [it, first] = decoded.try_emplace(l.Key(), l.Name(), whole);
      const size_t shared = std::min(whole.size(), it->second.second.size());
      EXPECT_TRUE(SameBits(
          Bytes(whole.begin(), whole.begin() + static_cast<int64_t>(shared)),
          Bytes(it->second.second.begin(), it->second.second.begin() + static_cast<int64_t>(shared))))
          << "against " << it->second.first;
    }

    if (HasFailure()) return;
  }
}

constexpr int64_t kVocab = 37;

std::vector<int64_t> EmbedColumns(Format format) {
  return TriedInFull(format) ? std::vector<int64_t>{256, 768} : std::vector<int64_t>{768};
}

std::vector<Case> EmbedCases() {
  std::vector<Case> cases;
  for (const FormatRow& f : Formats()) {
    for (int64_t cols : EmbedColumns(f.format)) {
      Case c;
      c.name = "embed_" + f.name + "_" + std::to_string(cols);
      c.family = "embed";
      c.spec = "{format = \"" + f.name + "\", cols = " + std::to_string(cols) + " : i64}";
      c.rows = 7;
      c.any_rows = (kVocab + 15) / 16;
      c.weights["table"] =
          Pack(f.format, cpu::random_gguf(f.format, kVocab, cols, static_cast<uint32_t>(cols)), kVocab, cols);
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

const Suite& EmbedSuite() {
  static const auto* suite = new Suite("embed", EmbedCases());
  return *suite;
}

// The same bits. But Vulkan may take a subnormal number for a zero of its sign unless a module asks to keep
// them, which ours do not, since drivers need not be able to. NVIDIA's 580 and Mesa 26 do so, and mxfp4's
// scales reach down to 2^-127.
testing::AssertionResult SameValues(const std::vector<float>& got, const std::vector<float>& want,
                                    const Target& target) {
  if (got.size() != want.size()) return SameBits(AsBytes(got), AsBytes(want));
  std::vector<float> taken = want;
  for (size_t i = 0; i < want.size() && target.device == "vulkan"; ++i) {
    if (std::fpclassify(want[i]) == FP_SUBNORMAL && got[i] == 0.f) taken[i] = std::copysign(0.f, want[i]);
  }
  return SameBits(AsBytes(got), AsBytes(taken));
}

// f32 values of rows: as the formats' decoder gives them, bit for bit.
TEST_P(LinearConformance, Embed) {
  QCC_OPEN_OR_SKIP(lab, EmbedSuite());
  const std::vector<int32_t> ids = {36, 0, 15, 16, 31, 17, 17};
  for (const FormatRow& f : Formats()) {
    for (int64_t cols : EmbedColumns(f.format)) {
      const std::string name = "embed_" + f.name + "_" + std::to_string(cols);
      SCOPED_TRACE(name);
      const Bytes gguf = cpu::random_gguf(f.format, kVocab, cols, static_cast<uint32_t>(cols));
      std::vector<float> want(ids.size() * static_cast<size_t>(cols));
      for (size_t i = 0; i < ids.size(); ++i) {
        decode_row(f.format, gguf.data() + ids[i] * row_bytes(f.format, cols), cols,
                   want.data() + static_cast<int64_t>(i) * cols);
      }
      for (size_t count : {ids.size(), size_t{1}, size_t{3}}) {
        Step step;
        step.sequences = {{nullptr, 0, static_cast<int64_t>(count)}};
        step.tokens.assign(ids.begin(), ids.begin() + static_cast<int64_t>(count));
        const std::vector<float> part(want.begin(), want.begin() + static_cast<int64_t>(count) * cols);
        ASSERT_TRUE(SameValues(As<float>(RunCase(lab, name, step, {})["out"]), part, GetParam()))
            << count << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace qcc::conformance
