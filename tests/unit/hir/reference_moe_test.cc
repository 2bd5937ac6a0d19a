// Reference meaning of routing, experts and pieces of a tensor, against values written out by hand or loops
// that share nothing with it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/hir/evaluation.h"

namespace qcc::hir {
namespace {

// Runs in both precisions.
class MoeTest : public EvaluationTest, public testing::WithParamInterface<Precision> {
 protected:
  double tolerance() const { return GetParam() == Precision::F64 ? 1e-14 : 1e-6; }

  // @f(logits) -> the weights of the used experts, and for each of `experts` what stands at its id: the ids
  // as values, since only experts read them. Expert e of width 1 over x = 1 gives e + 1.
  void loadRoute(int64_t experts, int64_t used, const std::string& how) {
    const std::string e = std::to_string(experts), k = std::to_string(used);
    // silu(64) is 64 in both precisions: all experts pass what their up matrix gives.
    std::vector<float> open(experts, 64), value(experts), unscale(experts, 1.0f / 64);
    for (int64_t i = 0; i < experts; ++i) value[i] = static_cast<float>(i + 1);
    weights_.add("gate", Format::F32, 1, open);
    weights_.add("up", Format::F32, 1, value);
    weights_.add("down", Format::F32, 1, unscale);
    const std::string matrix = "!hir.weight<" + e + "x1x1, f32>";
    const std::string ids = "tensor<?x" + k + "xi32>", weights = "tensor<?x" + k + "xf32>";
    load("func.func @f(%l: tensor<?x" + e + "xf32>, %x: tensor<?x1xf32>) -> (" + weights +
             ", tensor<?x1xf32>) {\n%ids, %w = hir.moe_route %l " + how + " : tensor<?x" + e +
             "xf32>\n%g = hir.param \"gate\" : " + matrix + "\n%u = hir.param \"up\" : " + matrix +
             "\n%d = hir.param \"down\" : " + matrix +
             "\n%y = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x1xf32>, " + ids + ", " +
             weights + ", " + matrix + ", " + matrix + ", " + matrix +
             ") -> tensor<?x1xf32>\nreturn %w, %y : " + weights + ", tensor<?x1xf32>\n}",
         GetParam());
    experts_ = experts;
  }
  struct Routed {
    std::vector<double> weights;
    std::vector<double> sums;  // of weight * (id + 1), one for each row
  };
  Routed route(const std::vector<double>& logits) {
    const auto rows = static_cast<int64_t>(logits.size()) / experts_;
    auto results = run({tensor({rows, experts_}, logits), tensor({rows, 1}, std::vector<double>(rows, 1))});
    if (results.size() != 2) return {};
    return {toDoubles(results[0]), toDoubles(results[1])};
  }
  // The ids of a row that uses one or two experts, told from weights and sum.
  void expectUses(const std::vector<double>& logits, const std::vector<int>& ids,
                  const std::vector<double>& weights) {
    const Routed found = route(logits);
    expectNear(found.weights, weights, tolerance(), "weights");
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) sum += weights[i] * (ids[i] + 1);
    expectNear(found.sums, {sum}, 16 * tolerance(), "sum of weight * (id + 1)");
  }

  int64_t experts_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Precisions, MoeTest, testing::Values(Precision::F32, Precision::F64),
                         [](auto& info) { return precisionName(info.param); });

constexpr char kFloor[] = " floor 6.103515625e-05 scale 1.0";

TEST_P(MoeTest, SoftmaxTakesTheLargestByAscendingId) {
  loadRoute(4, 2, std::string("softmax top_k 2 normalise true") + kFloor);
  const double a = std::exp(3.0), b = std::exp(1.0);
  expectUses({3, 0, 1, -2}, {0, 2}, {a / (a + b), b / (a + b)});
  // The larger one has the higher id: still by ascending id.
  expectUses({-2, 1, 0, 3}, {1, 3}, {b / (a + b), a / (a + b)});
}

TEST_P(MoeTest, TiesGoToTheLowerId) {
  loadRoute(5, 2, std::string("softmax top_k 2 normalise true") + kFloor);
  expectUses({0, 0, 0, 0, 0}, {0, 1}, {0.5, 0.5});
  expectUses({-1, 2, 2, 2, 1}, {1, 2}, {0.5, 0.5});
  expectUses({-1, 2, 1, 0, 2}, {1, 4}, {0.5, 0.5});
}

// All three sigmoids are 1 as numbers go: the logits decide, not the rounded gates.
TEST_P(MoeTest, GatesThatRoundToOneNumberAreNoTie) {
  loadRoute(3, 1, std::string("sigmoid top_k 1 normalise false") + kFloor);
  expectUses({40, 50, 45}, {1}, {1});
  loadRoute(3, 2, std::string("sigmoid top_k 2 normalise false") + kFloor);
  expectUses({40, 50, 45}, {1, 2}, {1, 1});
}

TEST_P(MoeTest, SigmoidGatesStandAlone) {
  loadRoute(3, 2, std::string("sigmoid top_k 2 normalise false") + kFloor);
  const auto s = [](double x) { return 1 / (1 + std::exp(-x)); };
  expectUses({0.5, -1, 2}, {0, 2}, {s(0.5), s(2)});
  loadRoute(3, 2, std::string("sigmoid top_k 2 normalise true") + kFloor);
  expectUses({0.5, -1, 2}, {0, 2}, {s(0.5) / (s(0.5) + s(2)), s(2) / (s(0.5) + s(2))});
}

TEST_P(MoeTest, WithoutNormalisationTheGatesAreOfAllExperts) {
  loadRoute(3, 1, std::string("softmax top_k 1 normalise false") + kFloor);
  const double e = std::exp(1.0);
  expectUses({1, 0, 0}, {0}, {e / (e + 2)});
}

TEST_P(MoeTest, TheFloorBoundsTheDivisorAndTheScaleComesLast) {
  loadRoute(2, 1, "sigmoid top_k 1 normalise true floor 0.25 scale 2.5");
  const double small = 1 / (1 + std::exp(3.0));  // below the floor
  expectUses({-3, -4}, {0}, {small / 0.25 * 2.5});
  expectUses({3, -4}, {0}, {2.5});
  loadRoute(2, 1, std::string("sigmoid top_k 1 normalise true") + kFloor);
  const Routed underflow = route({-2000, -3000});
  EXPECT_EQ(underflow.weights, std::vector<double>{0}) << "a router that underflows gives finite weights";
}

TEST_P(MoeTest, OneExpertAndAllExperts) {
  loadRoute(1, 1, std::string("softmax top_k 1 normalise true") + kFloor);
  expectUses({-7}, {0}, {1});
  loadRoute(3, 3, std::string("softmax top_k 3 normalise true") + kFloor);
  const double e = std::exp(1.0);
  expectUses({0, 1, 0}, {0, 1, 2}, {1 / (e + 2), e / (e + 2), 1 / (e + 2)});
}

// The experts op alone: rows of `in` values, `used` of `experts` experts of `width` each.
struct Experts {
  int64_t in = 5, experts = 4, width = 3, out = 6, used = 2;
  Format gate = Format::F32, up = Format::F32, down = Format::F32;
  std::string scales;       // " gate_scale %gs"
  std::string scale_types;  // ", !hir.weight<1, f32>"
  int64_t hidden_block = 0;

  static std::string type(int64_t a, int64_t b, int64_t c, Format format) {
    return "!hir.weight<" + std::to_string(a) + "x" + std::to_string(b) + "x" + std::to_string(c) + ", " +
           std::string(format_info(format).name) + ">";
  }
  std::string text() const {
    const std::string x = "tensor<?x" + std::to_string(in) + "xf32>";
    const std::string y = "tensor<?x" + std::to_string(out) + "xf32>";
    const std::string ids = "tensor<?x" + std::to_string(used) + "xi32>";
    const std::string w = "tensor<?x" + std::to_string(used) + "xf32>";
    const std::string g = type(experts, width, in, gate), u = type(experts, width, in, up);
    const std::string d = type(experts, out, width, down), e = std::to_string(experts);
    return "func.func @f(%x: " + x + ", %i: " + ids + ", %w: " + w + ") -> " + y +
           " {\n%g = hir.param \"gate\" : " + g + "\n%u = hir.param \"up\" : " + u +
           "\n%d = hir.param \"down\" : " + d +
           "\n%one = hir.param \"one\" : !hir.weight<1, f32>\n%each = hir.param \"each\" : !hir.weight<" + e +
           ", f32>\n%y = hir.moe_experts %x, %i, %w gate %g up %u down %d" + scales +
           (hidden_block ? " hidden_block " + std::to_string(hidden_block) : "") + " : (" + x + ", " + ids +
           ", " + w + ", " + g + ", " + u + ", " + d + scale_types + ") -> " + y + "\nreturn %y : " + y +
           "\n}";
  }
};

class ExpertsTest : public MoeTest {
 protected:
  void SetUp() override {
    weights_.add("one", Format::F32, 1, {0.5f});
    weights_.add("each", Format::F32, 4, {1, 2, -0.25f, 4});
  }
  // Random matrices of these sizes and formats.
  void fill(const Experts& e, Random& random) {
    weights_.add("gate", e.gate, e.in, random.floats(e.experts * e.width * e.in));
    weights_.add("up", e.up, e.in, random.floats(e.experts * e.width * e.in));
    weights_.add("down", e.down, e.width, random.floats(e.experts * e.out * e.width));
    load(e.text(), GetParam());
  }
  // y of one row, in double, in no particular order.
  std::vector<double> oneRow(const Experts& e, const std::vector<double>& x, const std::vector<int>& ids,
                             const std::vector<double>& weights) const {
    const std::vector<float> gate = weights_.decoded("gate", e.in), up = weights_.decoded("up", e.in);
    const std::vector<float> down = weights_.decoded("down", e.width);
    std::vector<double> y(e.out);
    for (size_t k = 0; k < ids.size(); ++k)
      for (int64_t f = 0; f < e.width; ++f) {
        double g = 0, u = 0;
        const int64_t row = ids[k] * e.width + f;
        for (int64_t i = 0; i < e.in; ++i) g += gate[row * e.in + i] * x[i];
        for (int64_t i = 0; i < e.in; ++i) u += up[row * e.in + i] * x[i];
        const double h = g / (1 + std::exp(-g)) * u;
        for (int64_t o = 0; o < e.out; ++o) y[o] += weights[k] * h * down[(ids[k] * e.out + o) * e.width + f];
      }
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, ExpertsTest, testing::Values(Precision::F32, Precision::F64),
                         [](auto& info) { return precisionName(info.param); });

TEST_P(ExpertsTest, EachRowGetsTheSumOfItsExperts) {
  Random random(3);
  for (const Experts& e :
       {Experts{},
        Experts{
            .in = 64, .width = 32, .out = 5, .gate = Format::Q8_0, .up = Format::Q4_0, .down = Format::F16},
        Experts{.in = 32,
        .width = 256,
        .out = 3,
        .gate = Format::BF16,
        .up = Format::Q8_0,
        .down = Format::Q4_K}}) {
    fill(e, random);
    const std::vector<std::vector<int>> ids = {{0, 3}, {1, 2}, {0, 1}, {2, 3}};
    const std::vector<double> x = random.vector(4 * e.in), w = random.vector(8, 0, 1);
    std::vector<int32_t> flat;
    std::vector<double> expected;
    for (int64_t r = 0; r < 4; ++r) {
      flat.insert(flat.end(), ids[r].begin(), ids[r].end());
      const auto row = oneRow(e, rowsOf(x, e.in, r, 1), ids[r], rowsOf(w, 2, r, 1));
      expected.insert(expected.end(), row.begin(), row.end());
    }
    const auto y = values({tensor({4, e.in}, x), idsValue(flat), tensor({4, 2}, w)});
    expectNear(y, expected, (GetParam() == Precision::F64 ? 1e-12 : 1e-4) * e.width, "experts");
    // A row's bits do not depend on who is beside it.
    for (int64_t r = 0; r < 4; ++r)
      EXPECT_EQ(values({tensor({1, e.in}, rowsOf(x, e.in, r, 1)), idsValue({flat[2 * r], flat[2 * r + 1]}),
                        tensor({1, 2}, rowsOf(w, 2, r, 1))}),
                rowsOf(y, e.out, r, 1))
          << "row " << r;
  }
}

// Experts 0, 1 and 2 give 30 * 2^70, 30 and -30 * 2^70: by ascending id the 30 is lost.
TEST_P(ExpertsTest, TermsAreAddedByAscendingId) {
  Experts e{.in = 1, .experts = 4, .width = 1, .out = 1, .used = 3};
  weights_.add("gate", Format::F32, 1, {30, 30, 30, 30});
  weights_.add("up", Format::F32, 1, {1, 1, 1, 1});
  weights_.add("down", Format::F32, 1, {1, 1, 1, 1});
  load(e.text(), GetParam());
  const double big = std::ldexp(1.0, 70);
  EXPECT_EQ(values({tensor({1, 1}, {1}), idsValue({0, 1, 2}), tensor({1, 3}, {big, 1, -big})}),
            std::vector<double>{0});
  const auto last = values({tensor({1, 1}, {1}), idsValue({0, 1, 2}), tensor({1, 3}, {big, -big, 1})});
  ASSERT_EQ(last.size(), 1u);
  EXPECT_NEAR(last[0], 30, 1e-4);
}

TEST_P(ExpertsTest, AnExpertThatNobodyUsesIsNotRead) {
  Random random(4);
  const Experts e;
  fill(e, random);
  const std::vector<double> x = random.vector(e.in);
  const std::vector<EvalValue> inputs = {tensor({1, e.in}, x), idsValue({1, 3}),
                                         tensor({1, 2}, {0.25, 0.75})};
  const auto before = values(inputs);
  std::vector<float> gate = weights_.decoded("gate", e.in);
  for (int64_t i = 0; i < e.width * e.in; ++i)
    gate[i] = gate[2 * e.width * e.in + i] = std::numeric_limits<float>::quiet_NaN();
  weights_.add("gate", Format::F32, e.in, gate);
  EXPECT_EQ(values(inputs), before);
}

TEST_P(ExpertsTest, ScalesMultiplyTheSumsOfTheirMatrix) {
  Random random(5);
  Experts plain, scaled;
  scaled.scales = " gate_scale %one up_scale %each down_scale %each";
  scaled.scale_types = ", !hir.weight<1, f32>, !hir.weight<4, f32>, !hir.weight<4, f32>";
  fill(plain, random);
  const std::vector<double> x = random.vector(2 * plain.in);
  const std::vector<EvalValue> inputs = {tensor({2, plain.in}, x), idsValue({0, 2, 1, 3}),
                                         tensor({2, 2}, {0.5, 0.25, 1, 2})};
  load(scaled.text(), GetParam());
  const auto found = values(inputs);
  // All scales are powers of two: scaled weights are exact.
  const auto times = [&](const char* name, int64_t columns, int64_t rows, auto scale) {
    std::vector<float> matrix = weights_.decoded(name, columns);
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] *= scale(static_cast<int64_t>(i) / (rows * columns));
    weights_.add(name, Format::F32, columns, matrix);
  };
  const float each[] = {1, 2, -0.25f, 4};
  times("gate", plain.in, plain.width, [](int64_t) { return 0.5f; });
  times("up", plain.in, plain.width, [&](int64_t expert) { return each[expert]; });
  times("down", plain.width, plain.out, [&](int64_t expert) { return each[expert]; });
  load(plain.text(), GetParam());
  expectNear(found, values(inputs), 20 * tolerance(), "scaled experts");
}

TEST_P(ExpertsTest, HiddenRowsAreRoundedAsByQuantize) {
  Random random(6);
  Experts e{.in = 8, .experts = 2, .width = 64, .out = 64, .used = 1, .hidden_block = 32};
  std::vector<float> identity(2 * 64 * 64);
  for (int64_t i = 0; i < 2 * 64; ++i) identity[i * 64 + i % 64] = 1;
  weights_.add("each", Format::F32, 2, {1, 1});
  fill(e, random);
  weights_.add("down", Format::F32, 64, identity);
  const std::vector<double> x = random.vector(3 * 8, -4, 4);
  const std::vector<EvalValue> inputs = {tensor({3, 8}, x), idsValue({0, 1, 0}), tensor({3, 1}, {1, 1, 1})};
  const auto rounded = values(inputs);
  e.hidden_block = 0;
  load(e.text(), GetParam());
  const auto hidden = values(inputs);
  load(R"(func.func @f(%h: tensor<?x64xf32>) -> tensor<?x64xf32> {
    %q = hir.quantize %h block 32 : tensor<?x64xf32>
    %w = hir.param "down" : !hir.weight<64x64, f32>
    %y = hir.linear %q, %w : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, f32>
    return %y : tensor<?x64xf32>
  })",
       GetParam());
  weights_.add("down", Format::F32, 64, {identity.begin(), identity.begin() + 64 * 64});
  EXPECT_EQ(rounded, values({tensor({3, 64}, hidden)}));
  EXPECT_NE(rounded, hidden);
}

TEST_P(ExpertsTest, IdsMustBeExpertsAndAscend) {
  Random random(7);
  const Experts e;
  fill(e, random);
  const EvalValue x = tensor({1, e.in}, random.vector(e.in)), w = tensor({1, 2}, {1, 1});
  const auto says = [&](std::vector<int32_t> ids, const char* message) {
    const std::string found = failure({x, idsValue(std::move(ids)), w});
    EXPECT_NE(found.find(message), std::string::npos) << found;
  };
  says({0, 4}, "row 0 uses expert 4 of 4");
  says({-1, 2}, "row 0 uses expert -1 of 4");
  says({2, 1}, "ids of row 0 do not ascend: 1 follows 2");
  says({2, 2}, "ids of row 0 do not ascend: 2 follows 2");
  says({0, 1, 2, 3}, "ids are 4 in this evaluation, expected 1 x 2");
  says({0, 1, 2}, "argument 1 of @f is a 'tensor<?x2xi32>', found 3 ids");
}

TEST_P(MoeTest, ScaleRows) {
  load(R"(func.func @f(%x: tensor<?x3xf32>, %s: tensor<?x1xf32>) -> tensor<?x3xf32> {
    %y = hir.scale_rows %x by %s : tensor<?x3xf32>, tensor<?x1xf32>
    return %y : tensor<?x3xf32>
  })",
       GetParam());
  EXPECT_EQ(values({tensor({2, 3}, {1, 2, 3, 4, 5, 6}), tensor({2, 1}, {0.5, -2})}),
            (std::vector<double>{0.5, 1, 1.5, -8, -10, -12}));
}

// A tensor of 3 groups of 5 rows; pieces 3, 1 and 0: rows [3, 5), [1, 2) and [0, 1) of every group.
TEST_P(MoeTest, PiecesAreRowsOfTheTensor) {
  Random random(8);
  const int64_t columns = 64;
  for (Format format : {Format::F32, Format::Q8_0, Format::Q4_0}) {
    const std::string name(format_info(format).name);
    weights_.add("w", format, columns, random.floats(15 * columns));
    std::vector<int32_t> order;
    for (auto [begin, count] : {std::pair(3, 2), std::pair(1, 1), std::pair(0, 1)})
      for (int group = 0; group < 3; ++group)
        for (int i = 0; i < count; ++i) order.push_back(group * 5 + begin + i);
    ASSERT_EQ(order.size(), 12u);
    load(
        "func.func @f(%ids: tensor<?xi32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x12xf32>) {\n"
        "%w = hir.param \"w\" pieces <3 groups of 5 rows, [3, 1, 0], [2, 1, 1]> : !hir.weight<12x64, " +
            name + ">\n%y = hir.embed %w, %ids : !hir.weight<12x64, " + name +
            ">, tensor<?xi32>\n%z = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<12x64, " + name +
            ">\nreturn %y, %z : tensor<?x64xf32>, tensor<?x12xf32>\n}\n"
            "func.func @whole(%ids: tensor<?xi32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, "
            "tensor<?x15xf32>) {\n"
            "%w = hir.param \"w\" : !hir.weight<15x64, " +
            name + ">\n%y = hir.embed %w, %ids : !hir.weight<15x64, " + name +
            ">, tensor<?xi32>\n%z = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<15x64, " + name +
            ">\nreturn %y, %z : tensor<?x64xf32>, tensor<?x15xf32>\n}",
        GetParam());
    std::vector<int32_t> all(12);
    std::iota(all.begin(), all.end(), 0);
    const EvalValue x = tensor({2, columns}, random.vector(2 * columns));
    const auto pieces = run({idsValue(all), x}), whole = run({idsValue(order), x}, "whole");
    ASSERT_EQ(pieces.size(), 2u);
    ASSERT_EQ(whole.size(), 2u);
    EXPECT_EQ(toDoubles(pieces[0]), toDoubles(whole[0])) << name;
    const auto found = toDoubles(pieces[1]), sums = toDoubles(whole[1]);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], sums[i / 12 * 15 + order[i % 12]]) << name << ", " << i;
  }
  weights_.add("w", Format::F32, columns, random.floats(12 * columns));
  load(
      "func.func @f() {\n%w = hir.param \"w\" pieces <3 groups of 5 rows, [3, 1, 0], [2, 1, 1]> : "
      "!hir.weight<12x64, f32>\nreturn\n}",
      GetParam());
  EXPECT_NE(failure({}).find("has 3072 bytes, expected 3840"), std::string::npos) << errors_;
}

}  // namespace
}  // namespace qcc::hir
