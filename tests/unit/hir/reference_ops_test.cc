// Reference meaning of the ops without state, against values written out by hand or other formulas.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/hir/evaluation.h"

namespace qcc::hir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Runs in both precisions.
class OpsTest : public EvaluationTest, public testing::WithParamInterface<Precision> {
 protected:
  void loadBody(const std::string& arguments, const std::string& body, const std::string& resultType) {
    load("func.func @f(" + arguments + ") -> " + resultType + " {\n" + body + "\n return %y : " + resultType +
             "\n}",
         GetParam());
  }
  double tolerance() const { return GetParam() == Precision::F64 ? 1e-14 : 1e-6; }
};
INSTANTIATE_TEST_SUITE_P(Precisions, OpsTest, testing::Values(Precision::F32, Precision::F64),
                         [](auto& info) { return precisionName(info.param); });

TEST_P(OpsTest, EmbedDecodesTheRowsOfTheIds) {
  // Two rows of one Q8_0 block: scale 0.5 resp. -2, codes i - 16 resp. 3.
  std::vector<uint8_t> bytes;
  for (uint16_t scale : {0x3800, 0xC000}) {
    bytes.push_back(scale & 0xFF);
    bytes.push_back(scale >> 8);
    for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<uint8_t>(scale == 0x3800 ? i - 16 : 3));
  }
  weights_.addBytes("t", Format::Q8_0, bytes);
  loadBody("%ids: tensor<?xi32>",
           "%t = hir.param \"t\" : !hir.weight<2x32, q8_0>\n"
           "%y = hir.embed %t, %ids : !hir.weight<2x32, q8_0>, tensor<?xi32>",
           "tensor<?x32xf32>");
  std::vector<double> y = values({idsValue({1, 0, 1})});
  ASSERT_EQ(y.size(), 96u);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], -6) << "row 0 is table row 1, element " << i;
    EXPECT_EQ(y[32 + i], 0.5 * (i - 16)) << "row 1 is table row 0, element " << i;
    EXPECT_EQ(y[64 + i], -6) << "row 2 is table row 1, element " << i;
  }
  EXPECT_NE(failure({idsValue({0, 2})}).find("id 2 of row 1 is not in a table of 2 rows"), std::string::npos)
      << errors_;
  EXPECT_NE(failure({idsValue({-1})}).find("id -1 of row 0"), std::string::npos) << errors_;
}

TEST_P(OpsTest, RmsNorm) {
  weights_.add("w", Format::F32, 2, {2, -1});
  loadBody("%x: tensor<?x2xf32>",
           "%w = hir.param \"w\" : !hir.weight<2, f32>\n"
           "%y = hir.rms_norm %x, %w eps 0.5 : tensor<?x2xf32>, !hir.weight<2, f32>",
           "tensor<?x2xf32>");
  // mean(3^2, 4^2) + 0.5 = 13; mean(0, 0) + 0.5 = 0.5.
  expectNear(values({tensor({2, 2}, {3, 4, 0, 0})}), {6 / std::sqrt(13.0), -4 / std::sqrt(13.0), 0, 0},
             tolerance(), "rms_norm");
}

TEST_P(OpsTest, RmsNormOfEachHead) {
  weights_.add("w", Format::F32, 2, {1, 1});
  loadBody("%x: tensor<?x2x2xf32>",
           "%w = hir.param \"w\" : !hir.weight<2, f32>\n"
           "%y = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x2x2xf32>, !hir.weight<2, f32>",
           "tensor<?x2x2xf32>");
  double eps = 1e-6f, a = 1 / std::sqrt(12.5 + eps), b = 1 / std::sqrt(1 + eps);
  expectNear(values({tensor({1, 2, 2}, {3, 4, 1, -1})}), {3 * a, 4 * a, b, -b}, tolerance(), "rms_norm");
}

TEST_P(OpsTest, L2NormAddsEpsToTheSum) {
  loadBody("%x: tensor<?x2xf32>", "%y = hir.l2_norm %x eps 0.5 : tensor<?x2xf32>", "tensor<?x2xf32>");
  expectNear(values({tensor({2, 2}, {3, 4, 0, 0})}), {3 / std::sqrt(25.5), 4 / std::sqrt(25.5), 0, 0},
             tolerance(), "l2_norm");
}

TEST_P(OpsTest, L2NormFormsDifferNearZero) {
  for (bool max : {false, true}) {
    loadBody("%x: tensor<?x2xf32>",
             std::string("%y = hir.l2_norm %x eps 0.25") + (max ? " form max" : "") + " : tensor<?x2xf32>",
             "tensor<?x2xf32>");
    // Norms 5, 0.5, 0.25, 0.025, 2.5e-30 (in single precision its square is 0) and 0.
    const std::vector<double> x = {3, 4, 0.3, 0.4, 0.15, -0.2, 0.015, 0.02, 1.5e-30, -2e-30, 0, 0};
    std::vector<double> want = x;
    for (size_t i = 0; i < x.size(); i += 2) {
      const double norm = std::hypot(x[i], x[i + 1]);
      for (size_t j = i; j < i + 2; ++j)
        want[j] /= max ? std::max(norm, 0.25) : std::sqrt(norm * norm + 0.25);
    }
    const std::vector<double> y = values({tensor({6, 2}, x)});
    expectNear(y, want, tolerance(), max ? "form max" : "form sum");
    EXPECT_NEAR(y[8] / (max ? 6e-30 : 3e-30), 1, 1e-6) << "tiny values are scaled, not dropped";
  }
}

TEST_P(OpsTest, QuantizeRoundsHalfToEven) {
  loadBody("%x: tensor<?x8xf32>",
           "%q = hir.quantize %x block 4 : tensor<?x8xf32>\n"
           "%w = hir.param \"identity\" : !hir.weight<8x8, f32>\n"
           "%y = hir.linear %q, %w : tensor<?x8xf32, #hir.int8<4>>, !hir.weight<8x8, f32>",
           "tensor<?x8xf32>");
  std::vector<float> identity(64);
  for (int i = 0; i < 8; ++i) identity[i * 9] = 1;
  weights_.add("identity", Format::F32, 8, identity);
  // Block maxima 127 and 254: d = 1 and 2.
  expectNear(
      values({tensor({2, 8}, {127, 0.5, 1.5, 2.5, -254, -1, 3, 5, 0, 0, 0, 0, -0.5, -3.5, -127, 126.5})}),
      {127, 0, 2, 2, -254, 0, 4, 4, 0, 0, 0, 0, 0, -4, -127, 126}, 0, "quantize");
}

TEST_P(OpsTest, QuantizeErrorIsAtMostHalfAStep) {
  loadBody("%x: tensor<?x64xf32>",
           "%q = hir.quantize %x block 32 : tensor<?x64xf32>\n"
           "%w = hir.param \"identity\" : !hir.weight<64x64, f32>\n"
           "%y = hir.linear %q, %w : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, f32>",
           "tensor<?x64xf32>");
  std::vector<float> identity(64 * 64);
  for (int i = 0; i < 64; ++i) identity[i * 65] = 1;
  weights_.add("identity", Format::F32, 64, identity);
  Random random(5);
  std::vector<double> x = random.vector(10 * 64, -3, 3), y = values({tensor({10, 64}, x)});
  ASSERT_EQ(y.size(), x.size());
  int changed = 0;
  for (size_t block = 0; block < x.size(); block += 32) {
    double largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[block + i]));
    for (int i = 0; i < 32; ++i) {
      EXPECT_NEAR(y[block + i], x[block + i], largest / 254 + 1e-6) << "element " << block + i;
      changed += y[block + i] != x[block + i];
      double code = y[block + i] / (largest / 127);
      EXPECT_NEAR(code, std::round(code), 1e-4) << "element " << block + i << " is no whole step";
    }
  }
  EXPECT_GT(changed, 500) << "quantize rounds nothing";
}

TEST_P(OpsTest, LinearOfEveryFormat) {
  Random random(1);
  for (int f = 0; f < kFormatCount; ++f) {
    const FormatInfo& info = format_info(static_cast<Format>(f));
    std::string name(info.name);
    int64_t k = info.block_elems == 1 ? 37 : 2 * info.block_elems, n = 5, rows = 3;
    weights_.add(name, info.id, k, random.floats(n * k));
    std::string weight = "!hir.weight<5x" + std::to_string(k) + ", " + name + ">";
    std::string x = "tensor<?x" + std::to_string(k) + "xf32>";
    loadBody(
        "%x: " + x,
        "%w = hir.param \"" + name + "\" : " + weight + "\n%y = hir.linear %x, %w : " + x + ", " + weight,
        "tensor<?x5xf32>");
    std::vector<double> input = random.vector(rows * k), expected(rows * n);
    std::vector<float> matrix = weights_.decoded(name, k);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < n; ++o)
        for (int64_t i = 0; i < k; ++i) expected[r * n + o] += matrix[o * k + i] * input[r * k + i];
    double bound = (GetParam() == Precision::F64 ? 1e-13 : 1e-6) * k;
    std::vector<double> y = values({tensor({rows, k}, input)});
    expectNear(y, expected, bound, name);
    // A row's values do not depend on the rows beside it.
    EXPECT_EQ(values({tensor({1, k}, rowsOf(input, k, 1, 1))}), rowsOf(y, n, 1, 1)) << name;
  }
}

TEST_P(OpsTest, AddMulSwiglu) {
  std::string arguments = "%a: tensor<?x2xf32>, %b: tensor<?x2xf32>";
  auto inputs = [&] { return std::vector<EvalValue>{tensor({1, 2}, {1, -2}), tensor({1, 2}, {0.5, 4})}; };
  loadBody(arguments, "%y = hir.add %a, %b : tensor<?x2xf32>", "tensor<?x2xf32>");
  expectNear(values(inputs()), {1.5, 2}, 0, "add");
  loadBody(arguments, "%y = hir.mul %a, %b : tensor<?x2xf32>", "tensor<?x2xf32>");
  expectNear(values(inputs()), {0.5, -8}, 0, "mul");
  loadBody(arguments, "%y = hir.swiglu %a, %b : tensor<?x2xf32>", "tensor<?x2xf32>");
  expectNear(values(inputs()), {0.5 / (1 + std::exp(-1.0)), -8 / (1 + std::exp(2.0))}, tolerance(), "swiglu");
  EXPECT_NE(failure({tensor({1, 2}, {1, 2}), tensor({2, 2}, {1, 2, 3, 4})})
                .find("has 2 rows in this evaluation, expected 1"),
            std::string::npos)
      << errors_;
}

TEST_P(OpsTest, SoftplusAndSigmoidAreAccurateFromMinusFiftyToFifty) {
  std::vector<double> x;
  for (int i = -5000; i <= 5000; ++i) x.push_back(static_cast<float>(i / 100.0));
  int64_t n = x.size();
  auto check = [&](const std::string& kind, auto expected) {
    loadBody("%x: tensor<?x1xf32>", "%y = hir.activation " + kind + " %x : tensor<?x1xf32>",
             "tensor<?x1xf32>");
    std::vector<double> y = values({tensor({n, 1}, x)});
    ASSERT_EQ(y.size(), x.size());
    double bound = GetParam() == Precision::F64 ? 1e-14 : 1e-6;
    for (int64_t i = 0; i < n; ++i) {
      double want = expected(static_cast<long double>(x[i]));
      ASSERT_NEAR(y[i], want, bound * std::abs(want)) << kind << "(" << x[i] << ")";
    }
  };
  check("softplus", [](long double v) { return std::log1p(std::exp(v)); });
  check("sigmoid", [](long double v) { return 1 / (1 + std::exp(-v)); });
  check("silu", [](long double v) { return v / (1 + std::exp(-v)); });
}

TEST_P(OpsTest, ActivationsOfHugeInputsAreFiniteLimits) {
  std::vector<double> x = {-1e30, -1000, 1000, 1e30};
  loadBody("%x: tensor<?x4xf32>", "%y = hir.activation softplus %x : tensor<?x4xf32>", "tensor<?x4xf32>");
  expectNear(values({tensor({1, 4}, x)}), {0, 0, 1000, static_cast<double>(1e30f)}, 2e22, "softplus");
  EXPECT_EQ(values({tensor({1, 4}, x)})[0], 0);
  loadBody("%x: tensor<?x4xf32>", "%y = hir.activation sigmoid %x : tensor<?x4xf32>", "tensor<?x4xf32>");
  EXPECT_EQ(values({tensor({1, 4}, x)}), (std::vector<double>{0, 0, 1, 1}));
}

// The attention's output times sigmoid(gate).
TEST_P(OpsTest, OutputGateAtItsLimits) {
  loadBody("%o: tensor<?x4xf32>, %gate: tensor<?x4xf32>",
           "%s = hir.activation sigmoid %gate : tensor<?x4xf32>\n%y = hir.mul %o, %s : tensor<?x4xf32>",
           "tensor<?x4xf32>");
  std::vector<double> o = {1.5, -2, 0.25, 7};
  EXPECT_EQ(values({tensor({1, 4}, o), tensor({1, 4}, std::vector<double>(4, kInfinity))}), o)
      << "a gate of +inf must leave the attention as it is";
  EXPECT_EQ(values({tensor({1, 4}, o), tensor({1, 4}, std::vector<double>(4, -kInfinity))}),
            std::vector<double>(4, 0.0))
      << "a gate of -inf must give a zero contribution";
}

// Norm over the value head, its weight, then times silu (not sigmoid) of z.
TEST_P(OpsTest, GatedNormNormsBeforeItGates) {
  weights_.add("n", Format::F32, 2, {0.5, 3});
  loadBody("%o: tensor<?x2x2xf32>, %z: tensor<?x4xf32>",
           "%n = hir.param \"n\" : !hir.weight<2, f32>\n"
           "%r = hir.rms_norm %o, %n eps 1.0e-6 : tensor<?x2x2xf32>, !hir.weight<2, f32>\n"
           "%m = hir.reshape %r : tensor<?x2x2xf32> -> tensor<?x4xf32>\n"
           "%s = hir.activation silu %z : tensor<?x4xf32>\n"
           "%y = hir.mul %m, %s : tensor<?x4xf32>",
           "tensor<?x4xf32>");
  std::vector<double> o = {1, 2, -3, 4}, z = {0.5, -1, 2, 0}, w = {0.5, 3}, expected(4);
  for (int i = 0; i < 4; ++i) {
    double a = o[i / 2 * 2], b = o[i / 2 * 2 + 1];
    double norm = o[i] / std::sqrt((a * a + b * b) / 2 + 1e-6f) * w[i % 2];
    expected[i] = norm * z[i] / (1 + std::exp(-z[i]));
  }
  expectNear(values({tensor({1, 2, 2}, o), tensor({1, 4}, z)}), expected, 2 * tolerance(), "gated norm");
}

// ssm_a is used as it is in the file, -exp(A_log) already.
TEST_P(OpsTest, GdnDecayMultipliesBySsmA) {
  weights_.add("a", Format::F32, 2, {-0.5, -2});
  weights_.add("dt", Format::F32, 2, {1, -3});
  loadBody("%x: tensor<?x2xf32>",
           "%a = hir.param \"a\" : !hir.weight<2, f32>\n%dt = hir.param \"dt\" : !hir.weight<2, f32>\n"
           "%y = hir.gdn_decay %x, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>",
           "tensor<?x2xf32>");
  expectNear(values({tensor({2, 2}, {0, 1, -40, 40})}),
             {-0.5 * std::log1p(std::exp(1.0)), -2 * std::log1p(std::exp(-2.0)),
              -0.5 * std::log1p(std::exp(-39.0)), -2 * std::log1p(std::exp(37.0))},
             GetParam() == Precision::F64 ? 1e-13 : 1e-5, "gdn_decay");
}

TEST_P(OpsTest, ReshapeSliceConcatSelect) {
  // The slice: per head the first half, not the first half of the row.
  loadBody("%x: tensor<?x8xf32>",
           "%h = hir.reshape %x : tensor<?x8xf32> -> tensor<?x2x4xf32>\n"
           "%s = hir.slice %h[1, 2] : tensor<?x2x4xf32>\n"
           "%y = hir.reshape %s : tensor<?x2x2xf32> -> tensor<?x4xf32>",
           "tensor<?x4xf32>");
  EXPECT_EQ(values({tensor({2, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17})}),
            (std::vector<double>{1, 2, 5, 6, 11, 12, 15, 16}));

  loadBody("%a: tensor<?x2xf32>, %b: tensor<?x1xf32>",
           "%y = hir.concat %a, %b : tensor<?x2xf32>, tensor<?x1xf32>", "tensor<?x3xf32>");
  EXPECT_EQ(values({tensor({2, 2}, {1, 2, 3, 4}), tensor({2, 1}, {5, 6})}),
            (std::vector<double>{1, 2, 5, 3, 4, 6}));
  EXPECT_NE(failure({tensor({2, 2}, {1, 2, 3, 4}), tensor({1, 1}, {5})}).find("rhs has 1 rows"),
            std::string::npos)
      << errors_;

  loadBody("%a: tensor<?x2xf32>, %i: tensor<?xi32>",
           "%y = hir.select_rows %a, %i : tensor<?x2xf32>, tensor<?xi32>", "tensor<?x2xf32>");
  EvalValue a = tensor({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values({a, idsValue({2, 0, 2})}), (std::vector<double>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(shapeOf(run({a, idsValue({})})[0]), (std::vector<int64_t>{0, 2})) << "no row asked for";
  EXPECT_NE(failure({a, idsValue({3})}).find("selects row 3 of 3"), std::string::npos) << errors_;
}

std::string frequencyList(int64_t pairs, double base) {
  std::string text = "array<f64: ";
  for (int64_t s = 0; s < pairs; ++s) {
    char number[40];
    snprintf(number, sizeof number, "%.17e", std::pow(base, -2.0 * s / (2 * pairs)));
    text += (s ? ", " : "") + std::string(number);
  }
  return text + ">";
}

std::string tableModule(int64_t pairs, const std::string& sections, double magnitude = 1) {
  std::string type = "tensor<?x" + std::to_string(2 * pairs) + "xf32>";
  return "func.func @f(%rows: !hir.rows) -> " + type +
         " {\n%y = hir.rope_table %rows {inv_freq = " + frequencyList(pairs, 1e7) + ", sections = array<i64" +
         (sections.empty() ? "" : ": " + sections) + ">, magnitude = " + std::to_string(magnitude) +
         " : f64} : " + type + "\n return %y : " + type + "\n}";
}

// For text, sections and plain partial rope are the same, bit for bit.
TEST_P(OpsTest, RopeTableOfTextIsPlain) {
  for (auto [pairs, sections] :
       {std::pair<int64_t, std::string>(32, "11, 11, 10, 0"), {4, "2, 1, 1, 0"}, {8, "3, 3, 1, 1"}}) {
    load(tableModule(pairs, sections), GetParam());
    std::vector<double> sectioned = values({rowsValue(StepRows::text(100000, 50))});
    load(tableModule(pairs, ""), GetParam());
    std::vector<double> plain = values({rowsValue(StepRows::text(100000, 50))});
    EXPECT_EQ(sectioned, plain) << "sections " << sections;
    ASSERT_EQ(plain.size(), static_cast<size_t>(50 * 2 * pairs));
    for (int64_t s = 0; s < pairs; ++s) {
      double angle = 100049 * std::pow(1e7, -2.0 * s / (2 * pairs));
      EXPECT_NEAR(plain[49 * 2 * pairs + s], std::cos(angle), 1e-7) << "cos of pair " << s;
      EXPECT_NEAR(plain[49 * 2 * pairs + pairs + s], std::sin(angle), 1e-7) << "sin of pair " << s;
    }
  }
}

TEST_P(OpsTest, RopeTableTakesTheStreamOfEachPair) {
  load(tableModule(32, "11, 11, 10, 0", 1.5), GetParam());
  StepRows rows = StepRows::text(0, 1);
  rows.positions[0] = {7, 20, 300, 4000};
  std::vector<double> table = values({rowsValue(rows)});
  ASSERT_EQ(table.size(), 64u);
  // Written out from the layout of the model: t turns 0, 3, .., 30; h turns 1, 4, .., 31; w turns 2, 5,
  // .., 29.
  std::string streams = "thwthwthwthwthwthwthwthwthwthwth";
  for (int s = 0; s < 32; ++s) {
    double position = streams[s] == 't' ? 7 : streams[s] == 'h' ? 20 : 300;
    double angle = position * std::pow(1e7, -2.0 * s / 64);
    EXPECT_NEAR(table[s], 1.5 * std::cos(angle), 2e-7) << "cos of pair " << s;
    EXPECT_NEAR(table[32 + s], 1.5 * std::sin(angle), 2e-7) << "sin of pair " << s;
  }
}

TEST_P(OpsTest, RopeTableGivesThePairsBeyondTheSectionsToE) {
  load(tableModule(9, "3, 2, 1, 3"), GetParam());
  StepRows rows = StepRows::text(0, 1);
  rows.positions[0] = {1000000, 2000000, 3000000, 4000000};  // far enough apart for the slowest pair to tell
  std::vector<double> table = values({rowsValue(rows)});
  ASSERT_EQ(table.size(), 18u);
  // t has pairs 0, 3, 6; h 1, 4; w 2.
  std::vector<int> millions = {1, 2, 3, 1, 2, 4, 1, 4, 4};
  for (int s = 0; s < 9; ++s) {
    double angle = millions[s] * 1e6 * std::pow(1e7, -2.0 * s / 18);
    EXPECT_NEAR(table[s], std::cos(angle), 2e-7) << "cos of pair " << s;
    EXPECT_NEAR(table[9 + s], std::sin(angle), 2e-7) << "sin of pair " << s;
  }
}

TEST_P(OpsTest, RopePairsAreHalfTheRotatedDimensionsApart) {
  loadBody("%x: tensor<?x2x6xf32>, %t: tensor<?x4xf32>",
           "%y = hir.rope %x, %t : tensor<?x2x6xf32>, tensor<?x4xf32>", "tensor<?x2x6xf32>");
  // cos, cos, sin, sin: pair 0 turns by 90 degrees, pair 1 by exact fractions. Pairs (0, 2), (1, 3); 4 and 5
  // stay.
  std::vector<double> table = {0, 0.75, 1, 0.5};
  EXPECT_EQ(values({tensor({1, 2, 6}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}), tensor({1, 4}, table)}),
            (std::vector<double>{-3, 2 * 0.75 - 4 * 0.5, 1, 2 * 0.5 + 4 * 0.75, 5, 6,  //
                                 -30, 20 * 0.75 - 40 * 0.5, 10, 20 * 0.5 + 40 * 0.75, 50, 60}));
  EXPECT_NE(failure({tensor({1, 2, 6}, std::vector<double>(12)), tensor({2, 4}, std::vector<double>(8))})
                .find("table has 2 rows in this evaluation, expected 1"),
            std::string::npos)
      << errors_;
}

}  // namespace
}  // namespace qcc::hir
