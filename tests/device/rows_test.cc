// The row operators on every device: norm, quantize, swiglu, add, concat, select_rows, trace, rope_table.
#include <cmath>

#include "dialects/layouts/layouts.h"
#include "tests/device/conformance.h"
#include "tests/device/reference.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr int64_t kRows = 40;
constexpr float kEps = 1e-6f;
const int64_t kNormCols[] = {32, 96, 1056, 2048};
const int64_t kPlainCols[] = {8, 24};  // no int8 rows
const int64_t kQuantCols[] = {32, 64, 96, 1056};
const int64_t kCols[] = {16, 40, 100, 1536};
const int64_t kTraceCols[] = {7, 40, 1536};
const std::pair<int64_t, int64_t> kConcats[] = {{16, 48}, {40, 7}, {1024, 1024}};

struct Rope {
  std::string name, sections;
  int64_t pairs;
  float magnitude;
  int Stream(int64_t pair) const {  // of the four positions; kernel_families.md
    if (sections == "11, 11, 10, 0") return pair % 3 == 1 ? 1 : pair % 3 == 2 ? 2 : 0;
    if (sections == "4, 3, 2, 1") {
      return pair % 3 == 0 && pair < 12  ? 0
             : pair % 3 == 1 && pair < 9 ? 1
             : pair % 3 == 2 && pair < 6 ? 2
                                         : 3;
    }
    return 0;
  }
};
const Rope kRopes[] = {{"rope_text", "", 32, 1.1386294f},
                       {"rope_sections", "11, 11, 10, 0", 32, 1.f},
                       {"rope_four", "4, 3, 2, 1", 32, 1.f},
                       {"rope_short", "", 8, 1.f}};

std::vector<double> Frequencies(int64_t pairs) {
  std::vector<double> f;
  for (int64_t i = 0; i < pairs; ++i)
    f.push_back(std::pow(1e7, -static_cast<double>(i) / static_cast<double>(pairs)));
  return f;
}

std::vector<float> NormWeight(int64_t cols) {
  return Random(static_cast<uint32_t>(cols)).normals(static_cast<size_t>(cols));
}

Case Norm(const std::string& name, int64_t cols, const std::string& source, std::set<std::string> without) {
  Case c;
  c.name = name + "_" + std::to_string(cols);
  c.family = "norm";
  c.spec =
      "{cols = " + std::to_string(cols) + " : i64, eps = 9.99999997E-7 : f32, source = \"" + source + "\"}";
  c.rows = source == "out_rows" ? 4 : kRows;
  c.any_rows = 7;
  c.without = std::move(without);
  c.weights["weight"] = AsBytes(NormWeight(cols));
  return c;
}

Case RopeTable(const Rope& rope) {
  Case c;
  c.name = rope.name;
  c.family = "rope_table";
  c.spec = "{pairs = " + std::to_string(rope.pairs) + " : i64, sections = array<i64" +
           (rope.sections.empty() ? "" : ": ") + rope.sections +
           ">, magnitude = " + std::to_string(static_cast<double>(rope.magnitude)) + " : f64}";
  c.rows = 9;
  c.weights["inv_freq"] = AsBytes(Frequencies(rope.pairs));
  return c;
}

std::vector<Case> RowCases() {
  std::vector<Case> cases;
  for (int64_t cols : kNormCols) cases.push_back(Norm("norm_both", cols, "rows", {}));
  for (int64_t cols : kPlainCols) cases.push_back(Norm("norm_f32", cols, "rows", {"out_q", "out_q2"}));
  cases.push_back(Norm("norm_int8", 96, "rows", {"out"}));
  cases.push_back(Norm("norm_outs", 96, "out_rows", {"out_q", "out_q2"}));
  cases.push_back(Norm("norm_outs_int8", 96, "out_rows", {"out"}));
  for (int64_t cols : kQuantCols) {
    cases.push_back({"quantize_" + std::to_string(cols), "quantize",
                     "{cols = " + std::to_string(cols) + " : i64}", kRows});
  }
  for (int64_t cols : kCols) {
    const std::string spec = "{cols = " + std::to_string(cols) + " : i64}";
    cases.push_back({"swiglu_" + std::to_string(cols), "swiglu", spec, kRows});
    cases.push_back({"add_" + std::to_string(cols), "add", spec, kRows});
  }
  for (const auto& [a_cols, b_cols] : kConcats) {
    cases.push_back(
        {"concat_" + std::to_string(a_cols), "concat",
         "{a_cols = " + std::to_string(a_cols) + " : i64, b_cols = " + std::to_string(b_cols) + " : i64}",
         kRows});
  }
  for (int64_t cols : kTraceCols) {
    cases.push_back(
        {"trace_" + std::to_string(cols), "trace", "{cols = " + std::to_string(cols) + " : i64}", 9});
  }
  for (int64_t cols : kCols) {
    cases.push_back({"select_rows_" + std::to_string(cols), "select_rows",
                     "{cols = " + std::to_string(cols) + " : i64}", /*rows=*/4});
    cases.back().any_rows = 7;
  }
  for (const Rope& rope : kRopes) cases.push_back(RopeTable(rope));
  return cases;
}

const Suite& RowSuite() {
  static const auto* suite = new Suite("rows", RowCases());
  return *suite;
}

Step Plain(int64_t rows) {
  Step step;
  step.sequences = {{nullptr, 0, rows}};
  return step;
}

Bytes Head(const Bytes& bytes, int64_t size) {
  return {bytes.begin(), bytes.begin() + size};
}

class RowConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(RowConformance);

std::vector<double> NormWant(const std::vector<float>& x, int64_t cols) {
  const std::vector<float> w = NormWeight(cols);
  std::vector<double> want;
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(cols)) {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += static_cast<double>(x[begin + c]) * x[begin + c];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(cols) + kEps);
    for (int64_t c = 0; c < cols; ++c) want.push_back(x[begin + c] * scale * w[c]);
  }
  return want;
}

// `got`: the int8 rows of `x`. On Vulkan a code next to a half may be the other one: an H100's division is
// off there, and to make up for it takes 9 instructions of each code, for which Mesa 22.3 has one (AMD
// NAVI21).
testing::AssertionResult AreInt8Rows(const Bytes& got, const std::vector<float>& x, int64_t cols,
                                     const Target& target) {
  return SameInt8Rows(got, DividesExactly(target) ? Quantized(x, cols) : QuantizedLike(got, x, cols), cols);
}

// int8 rows are those of the f32 rows that the same kernel gives.
TEST_P(RowConformance, Norm) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (int64_t cols : kNormCols) {
    SCOPED_TRACE("cols " + std::to_string(cols));
    const std::vector<float> x = Random(2).normals(static_cast<size_t>(kRows * cols), 3.f);
    auto got = RunCase(lab, "norm_both_" + std::to_string(cols), Plain(kRows), {{"x", AsBytes(x)}});
    ASSERT_TRUE(Near(As<float>(got["out"]), NormWant(x, cols), 1e-12, cols));
    ASSERT_TRUE(AreInt8Rows(got["out_q"], As<float>(got["out"]), cols, GetParam()));
    for (int64_t rows : {1, 5, 39}) {
      auto part = RunCase(lab, "norm_both_" + std::to_string(cols), Plain(rows), {{"x", AsBytes(x)}});
      EXPECT_TRUE(SameBits(part["out"], Head(got["out"], rows * cols * 4))) << rows << " rows";
      EXPECT_TRUE(SameInt8Rows(part["out_q"], Head(got["out_q"], rows * layouts::Int8RowBytes(cols)), cols))
          << rows << " rows";
    }
  }
  for (int64_t cols : kPlainCols) {
    const std::vector<float> x = Random(3).normals(static_cast<size_t>(kRows * cols));
    auto got = RunCase(lab, "norm_f32_" + std::to_string(cols), Plain(kRows), {{"x", AsBytes(x)}});
    EXPECT_TRUE(Near(As<float>(got["out"]), NormWant(x, cols), 1e-12, cols)) << cols;
  }
}

TEST_P(RowConformance, NormOfChosenRows) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  const int64_t cols = 96;
  const std::vector<float> x = Random(2).normals(static_cast<size_t>(7 * cols));
  Step step = Plain(7);
  step.out_rows = {6, 0, 6, 3};
  std::vector<float> chosen;
  for (int32_t r : step.out_rows)
    chosen.insert(chosen.end(), x.begin() + r * cols, x.begin() + (r + 1) * cols);
  const Bytes out = RunCase(lab, "norm_outs_96", step, {{"x", AsBytes(x)}})["out"];
  EXPECT_TRUE(Near(As<float>(out), NormWant(chosen, cols), 1e-12, cols));
  EXPECT_TRUE(SameBits(Head(out, cols * 4), Bytes(out.begin() + 2 * cols * 4, out.begin() + 3 * cols * 4)));
  const Bytes q = RunCase(lab, "norm_outs_int8_96", step, {{"x", AsBytes(x)}})["out_q"];
  EXPECT_TRUE(AreInt8Rows(q, As<float>(out), cols, GetParam()));
  const Bytes all = RunCase(lab, "norm_int8_96", Plain(7), {{"x", AsBytes(x)}})["out_q"];
  EXPECT_TRUE(SameInt8Rows(Head(q, layouts::Int8RowBytes(cols)),
                           Bytes(all.begin() + 6 * layouts::Int8RowBytes(cols), all.end()), cols));
}

TEST_P(RowConformance, Quantize) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (int64_t cols : kQuantCols) {
    SCOPED_TRACE("cols " + std::to_string(cols));
    std::vector<float> x = Random(1).normals(static_cast<size_t>(kRows * cols));
    for (int64_t c = 0; c < cols; ++c) {
      x[cols + c] = 0.f;
      x[2 * cols + c] = static_cast<float>(c % 7) - 3.5f;  // ties
      x[3 * cols + c] *= 1e30f;
      x[4 * cols + c] *= 1e-30f;
    }
    const Bytes got =
        RunCase(lab, "quantize_" + std::to_string(cols), Plain(kRows), {{"x", AsBytes(x)}})["out_q"];
    ASSERT_TRUE(AreInt8Rows(got, x, cols, GetParam()));
    const Bytes few =
        RunCase(lab, "quantize_" + std::to_string(cols), Plain(3), {{"x", AsBytes(x)}})["out_q"];
    ASSERT_TRUE(SameInt8Rows(few, Head(got, 3 * layouts::Int8RowBytes(cols)), cols));
  }
}

// No code says that a value is none: the scale of its block does.
TEST_P(RowConformance, QuantizeTellsWhatIsNoNumber) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  constexpr int64_t kCols = 96;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = Random(1).normals(static_cast<size_t>(kRows * kCols));
    for (int64_t r = 0; r < kRows; ++r) x[r * kCols + 32 + r % 32] = bad;
    const Bytes got = RunCase(lab, "quantize_96", Plain(kRows), {{"x", AsBytes(x)}})["out_q"];
    for (int64_t r = 0; r < kRows; ++r) {
      const auto begin = got.begin() + r * layouts::Int8RowBytes(kCols) + layouts::Int8ScalesAt(kCols);
      const std::vector<float> scales = As<float>(Bytes(begin, begin + 12));
      for (int b = 0; b < 3; ++b) {
        ASSERT_EQ(std::isfinite(scales[b]), b != 1)
            << bad << " at place " << r % 32 << ", scale " << b << " is " << scales[b];
      }
    }
  }
}

TEST_P(RowConformance, SwigluAndAdd) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (int64_t cols : kCols) {
    SCOPED_TRACE("cols " + std::to_string(cols));
    const auto n = static_cast<size_t>(kRows * cols);
    std::vector<float> gate = Random(3).normals(n, 5.f);
    const std::vector<float> up = Random(4).normals(n);
    const float extremes[] = {-1000.f, 1000.f, -80.f, 88.f, 0.f, -0.f, 1e-30f, -20.f};
    std::copy(std::begin(extremes), std::end(extremes), gate.begin());
    std::copy(std::begin(extremes), std::end(extremes), gate.end() - 8);
    std::vector<double> product;
    std::vector<float> sum;
    for (size_t i = 0; i < n; ++i) {
      product.push_back(Silu(gate[i]) * up[i]);
      sum.push_back(gate[i] + up[i]);
    }
    for (int64_t rows : {kRows, int64_t{1}, int64_t{7}}) {
      const auto values = static_cast<size_t>(rows * cols);
      const std::vector<float> got =
          As<float>(RunCase(lab, "swiglu_" + std::to_string(cols), Plain(rows),
                            {{"gate", AsBytes(gate)}, {"up", AsBytes(up)}})["out"]);
      ASSERT_EQ(got.size(), values);
      for (size_t i = 0; i < values; ++i) {
        ASSERT_NEAR(got[i], product[i], 2e-6 * std::abs(product[i]) + 1e-30)
            << "gate " << gate[i] << ", up " << up[i];
      }
      const Bytes added = RunCase(lab, "add_" + std::to_string(cols), Plain(rows),
                                  {{"x", AsBytes(gate)}, {"y", Head(AsBytes(up), rows * cols * 4)}})["y"];
      ASSERT_TRUE(SameBits(added, Head(AsBytes(sum), rows * cols * 4)));
    }
  }
}

TEST_P(RowConformance, SwigluOfNoNumberIsNone) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  const size_t n = static_cast<size_t>(kRows) * 16;
  std::vector<float> gate = Random(3).normals(n);
  const std::vector<float> up(n, 1.f);
  for (size_t i = 0; i < n; i += 3) gate[i] = i % 2 == 0 ? NAN : -NAN;
  gate[1] = INFINITY;
  const std::vector<float> got = As<float>(
      RunCase(lab, "swiglu_16", Plain(kRows), {{"gate", AsBytes(gate)}, {"up", AsBytes(up)}})["out"]);
  for (size_t i = 0; i < n; ++i) {
    ASSERT_EQ(std::isnan(got[i]), i % 3 == 0) << "gate " << gate[i] << " at " << i << " gives " << got[i];
  }
  EXPECT_EQ(got[1], INFINITY);
}

TEST_P(RowConformance, SelectRows) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (int64_t cols : kCols) {
    const std::vector<float> x = Random(5).normals(static_cast<size_t>(7 * cols));
    for (const std::vector<int32_t>& chosen : {std::vector<int32_t>{6, 0, 6, 3}, {5}}) {
      // Its rows are those that are chosen.
      Step step = Plain(static_cast<int64_t>(chosen.size()));
      step.out_rows = chosen;
      std::vector<float> want;
      for (int32_t r : chosen) want.insert(want.end(), x.begin() + r * cols, x.begin() + (r + 1) * cols);
      const Bytes got = RunCase(lab, "select_rows_" + std::to_string(cols), step, {{"x", AsBytes(x)}})["out"];
      EXPECT_TRUE(SameBits(got, AsBytes(want))) << cols << " columns, " << chosen.size() << " rows";
    }
  }
}

TEST_P(RowConformance, Concat) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (const auto& [a_cols, b_cols] : kConcats) {
    const std::vector<float> a = Random(5).normals(static_cast<size_t>(kRows * a_cols));
    const std::vector<float> b = Random(6).normals(static_cast<size_t>(kRows * b_cols));
    std::vector<float> want;
    for (int64_t r = 0; r < kRows; ++r) {
      want.insert(want.end(), a.begin() + r * a_cols, a.begin() + (r + 1) * a_cols);
      want.insert(want.end(), b.begin() + r * b_cols, b.begin() + (r + 1) * b_cols);
    }
    for (int64_t rows : {kRows, int64_t{1}, int64_t{7}}) {
      const Bytes got = RunCase(lab, "concat_" + std::to_string(a_cols), Plain(rows),
                                {{"a", AsBytes(a)}, {"b", AsBytes(b)}})["out"];
      ASSERT_TRUE(SameBits(got, Head(AsBytes(want), rows * (a_cols + b_cols) * 4)));
    }
  }
}

TEST_P(RowConformance, TraceKeepsTheLastRowOfEachSequence) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  for (int64_t cols : kTraceCols) {
    SCOPED_TRACE("cols " + std::to_string(cols));
    const std::string name = "trace_" + std::to_string(cols);
    const std::vector<float> x = Random(7).normals(static_cast<size_t>(9 * cols));
    Memory a(lab, 1), b(lab, 2), untouched(lab, 3);
    const auto kept = [&](const Memory& memory) {
      return As<float>(memory.Read(lab.suite->program(name).places.at("last")));
    };
    const auto row = [&](int64_t r) {
      return std::vector<float>(x.begin() + r * cols, x.begin() + (r + 1) * cols);
    };
    const std::vector<float> before = kept(untouched);
    Step step;
    step.sequences = {{&a, 0, 5}, {&b, 3, 4}};
    RunCase(lab, name, step, {{"x", AsBytes(x)}});
    EXPECT_EQ(kept(a), row(4));
    EXPECT_EQ(kept(b), row(8));
    step.sequences = {{&b, 7, 1}, {&a, 5, 1}};
    RunCase(lab, name, step, {{"x", AsBytes(x)}});
    EXPECT_EQ(kept(b), row(0));
    EXPECT_EQ(kept(a), row(1));
    EXPECT_EQ(kept(untouched), before);
  }
}

TEST_P(RowConformance, RopeTable) {
  QCC_OPEN_OR_SKIP(lab, RowSuite());
  const int32_t at[] = {0, 1, 7, 1000, 40959, 262143, 999999, 1048575, 12345};
  Step step = Plain(9);
  for (int r = 0; r < 9; ++r) {
    for (int s = 0; s < 4; ++s) step.positions.push_back(r == 8 ? at[r] + 100 * s : at[r]);
  }
  for (const Rope& rope : kRopes) {
    SCOPED_TRACE(rope.name);
    const std::vector<double> freq = Frequencies(rope.pairs);
    const std::vector<float> out = As<float>(RunCase(lab, rope.name, step, {})["out"]);
    ASSERT_EQ(static_cast<int64_t>(out.size()), 9 * 2 * rope.pairs);
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t i = 0; i < rope.pairs; ++i) {
        const double angle = step.positions[r * 4 + rope.Stream(i)] * freq[i];
        const double magnitude = std::stod(std::to_string(static_cast<double>(rope.magnitude)));
        ASSERT_NEAR(out[r * 2 * rope.pairs + i], magnitude * std::cos(angle), 2e-7)
            << "cos, row " << r << ", pair " << i;
        ASSERT_NEAR(out[(r * 2 + 1) * rope.pairs + i], magnitude * std::sin(angle), 2e-7)
            << "sin, row " << r << ", pair " << i;
      }
    }
  }
}

}  // namespace
}  // namespace qcc::conformance
