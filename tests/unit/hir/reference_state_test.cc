// Reference meaning of the ops around state: against other formulas for the same result, over every split of
// the rows, and with several sequences in one step.
#include <algorithm>
#include <cmath>

#include "tests/unit/hir/evaluation.h"

namespace qcc::hir {
namespace {

class StateTest : public EvaluationTest, public testing::WithParamInterface<Precision> {
 protected:
  bool isF64() const { return GetParam() == Precision::F64; }

  // An input of the function: its values for all rows, one row after the other.
  struct Input {
    std::vector<int64_t> rowShape;
    std::vector<double> data;
    int64_t rowSize() const {
      int64_t size = 1;
      for (int64_t dim : rowShape) size *= dim;
      return size;
    }
  };
  EvalValue part(const Input& input, int64_t first, int64_t count) const {
    std::vector<int64_t> shape = {count};
    shape.insert(shape.end(), input.rowShape.begin(), input.rowShape.end());
    return tensor(shape, rowsOf(input.data, input.rowSize(), first, count));
  }
  // Feeds sequence `id` in pieces; the last input of the function is its rows.
  std::vector<double> feed(const std::vector<Input>& inputs, const std::vector<int64_t>& pieces,
                           int64_t id = 0) {
    std::vector<double> all;
    int64_t past = 0;
    for (int64_t count : pieces) {
      std::vector<EvalValue> arguments;
      for (const Input& input : inputs) arguments.push_back(part(input, past, count));
      arguments.push_back(rowsValue(StepRows::text(past, count, id)));
      std::vector<double> y = values(arguments);
      all.insert(all.end(), y.begin(), y.end());
      past += count;
    }
    return all;
  }
  // Every 2-way split, one by one, and the state afterwards, against one call.
  void expectSplitsAreEqual(const std::vector<Input>& inputs, int64_t rows, const std::string& state) {
    std::vector<double> whole = feed(inputs, {rows}), wholeState = evaluator_->stateValues(state, 0);
    ASSERT_FALSE(whole.empty());
    ASSERT_FALSE(wholeState.empty());
    std::vector<std::vector<int64_t>> splits;
    for (int64_t first = 1; first < rows; ++first) splits.push_back({first, rows - first});
    splits.push_back(std::vector<int64_t>(rows, 1));
    for (const auto& split : splits) {
      EXPECT_EQ(feed(inputs, split), whole) << "first piece " << split[0] << " of " << split.size();
      EXPECT_EQ(evaluator_->stateValues(state, 0), wholeState) << "state, first piece " << split[0];
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, StateTest, testing::Values(Precision::F32, Precision::F64),
                         [](auto& info) { return precisionName(info.param); });

constexpr char kConv[] = R"(
  func.func @f(%x: tensor<?x6xf32>, %rows: !hir.rows) -> tensor<?x6xf32> {
    %w = hir.param "conv" : !hir.weight<6x4, f32>
    %s = hir.state "blk.0.conv" : !hir.state<conv, 3x6, f32>
    %y = hir.causal_conv1d %x, %w, %s, %rows : tensor<?x6xf32>, !hir.weight<6x4, f32>, !hir.state<conv, 3x6, f32>
    return %y : tensor<?x6xf32>
  })";

TEST_P(StateTest, ConvTapZeroIsTheOldest) {
  std::vector<float> weight(24);
  for (int c = 0; c < 6; ++c)
    for (int i = 0; i < 4; ++i) weight[c * 4 + i] = std::pow(10.f, i) * (c + 1);
  weights_.add("conv", Format::F32, 4, weight);
  load(kConv, GetParam());
  // Rows 1, 2, 3, 4, 5 in every channel: row t sees itself times 1000, the one before times 100, ...
  std::vector<double> x, expected;
  for (int t = 1; t <= 5; ++t)
    for (int c = 0; c < 6; ++c) {
      x.push_back(t);
      double sum = 0;
      for (int back = 0; back < 4 && t - back > 0; ++back) sum += (t - back) * std::pow(10.0, 3 - back);
      expected.push_back(sum * (c + 1));
    }
  EXPECT_EQ(feed({{{6}, x}}, {5}), expected);
  EXPECT_EQ(evaluator_->stateValues("blk.0.conv", 0), rowsOf(x, 6, 2, 3))
      << "the state is the last 3 rows, oldest first";
}

TEST_P(StateTest, TraceIsTheLastRow) {
  load(R"(
  func.func @f(%x: tensor<?x6xf32>, %rows: !hir.rows) -> tensor<?x6xf32> {
    %s = hir.state "blk.0.trace" : !hir.state<trace, 6, f32>
    hir.trace %x, %s, %rows : tensor<?x6xf32>, !hir.state<trace, 6, f32>
    return %x : tensor<?x6xf32>
  })",
       GetParam());
  std::vector<double> x(30);
  for (int i = 0; i < 30; ++i) x[i] = i;
  feed({{{6}, x}}, {5});
  EXPECT_EQ(evaluator_->stateValues("blk.0.trace", 0), rowsOf(x, 6, 4, 1));
  expectSplitsAreEqual({{{6}, x}}, 5, "blk.0.trace");
}

TEST_P(StateTest, ConvSplitsAreEqual) {
  Random random(2);
  weights_.add("conv", Format::F32, 4, random.floats(24));
  load(kConv, GetParam());
  expectSplitsAreEqual({{{6}, random.vector(9 * 6)}}, 9, "blk.0.conv");
}

std::string deltaModule(int64_t keyHeads, int64_t valueHeads, int64_t keyDim, int64_t valueDim,
                        double scale) {
  auto text = [](auto... dims) {
    std::string type = "tensor<?";
    ((type += "x" + std::to_string(dims)), ...);
    return type + "xf32>";
  };
  std::string q = text(keyHeads, keyDim), v = text(valueHeads, valueDim), g = text(valueHeads);
  std::string state = "!hir.state<delta, " + std::to_string(valueHeads) + "x" + std::to_string(keyDim) + "x" +
                      std::to_string(valueDim) + ", f32>";
  return "func.func @f(%q: " + q + ", %k: " + q + ", %v: " + v + ", %g: " + g + ", %b: " + g +
         ", %rows: !hir.rows) -> " + v + " {\n%s = hir.state \"delta\" : " + state +
         "\n%y = hir.gated_delta %q, %k, %v, %g, %b, %s, %rows scale " + std::to_string(scale) + " : " + q +
         ", " + v + ", " + g + ", " + state + "\nreturn %y : " + v + "\n}";
}

// The expectation never forms the state: with G the running sum of g,
//   u_t = beta_t (v_t - sum_{s<t} exp(G_t - G_s) (k_s . k_t) u_s),  o_t = scale sum_{s<=t} exp(G_t - G_s)
//   (k_s . q_t) u_s,
// and key head j mod key_heads for value head j.
std::vector<double> deltaWithoutState(const std::vector<double>& q, const std::vector<double>& k,
                                      const std::vector<double>& v, const std::vector<double>& g,
                                      const std::vector<double>& beta, int64_t rows, int64_t keyHeads,
                                      int64_t valueHeads, int64_t keyDim, int64_t valueDim, double scale) {
  std::vector<double> out(rows * valueHeads * valueDim);
  for (int64_t j = 0; j < valueHeads; ++j) {
    auto key = [&](const std::vector<double>& from, int64_t t) {
      return from.data() + (t * keyHeads + j % keyHeads) * keyDim;
    };
    std::vector<std::vector<long double>> u(rows, std::vector<long double>(valueDim));
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t d = 0; d < valueDim; ++d) {
        long double read = 0, result = 0;
        for (int pass = 0; pass < 2; ++pass) {
          const double* with = pass == 0 ? key(k, t) : key(q, t);
          for (int64_t s = 0; s < t + pass; ++s) {
            long double decay = 0, product = 0;
            for (int64_t m = s + 1; m <= t; ++m) decay += g[m * valueHeads + j];
            for (int64_t i = 0; i < keyDim; ++i) product += static_cast<long double>(key(k, s)[i]) * with[i];
            (pass == 0 ? read : result) += std::exp(decay) * product * u[s][d];
          }
          if (pass == 0) u[t][d] = beta[t * valueHeads + j] * (v[(t * valueHeads + j) * valueDim + d] - read);
        }
        out[(t * valueHeads + j) * valueDim + d] = scale * result;
      }
  }
  return out;
}

TEST_P(StateTest, DeltaRuleEqualsTheFormWithoutState) {
  Random random(3);
  int cases = 0;
  for (auto [keyHeads, valueHeads, keyDim, valueDim] :
       {std::array<int64_t, 4>{1, 1, 1, 1}, {1, 1, 4, 3}, {2, 2, 3, 4}, {2, 6, 5, 2}, {3, 3, 8, 8}}) {
    load(deltaModule(keyHeads, valueHeads, keyDim, valueDim, 0.375), GetParam());
    for (int repeat = 0; repeat < 2000; ++repeat, ++cases) {
      int64_t rows = random.integer(1, 4);
      std::vector<double> q = random.vector(rows * keyHeads * keyDim), k = random.vector(q.size());
      std::vector<double> v = random.vector(rows * valueHeads * valueDim),
                          beta = random.vector(rows * valueHeads, 0, 1);
      std::vector<double> g(beta.size());
      for (double& value : g) {
        const float kinds[] = {0.f, -1e-7f, -50.f, random.uniform(-50, 0), random.uniform(-1, 0)};
        value = kinds[random.integer(0, 4)];
      }
      std::vector<double> expected =
          deltaWithoutState(q, k, v, g, beta, rows, keyHeads, valueHeads, keyDim, valueDim, 0.375);
      std::vector<double> found = feed({{{keyHeads, keyDim}, q},
                                        {{keyHeads, keyDim}, k},
                                        {{valueHeads, valueDim}, v},
                                        {{valueHeads}, g},
                                        {{valueHeads}, beta}},
                                       {rows});
      ASSERT_EQ(found.size(), expected.size());
      double largest = 1;
      for (double value : expected) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], largest * (isF64() ? 1e-12 : 1e-4))
            << "case " << cases << ", element " << i << ", " << valueHeads << " value and " << keyHeads
            << " key heads";
    }
  }
  EXPECT_EQ(cases, 10000);
}

TEST_P(StateTest, DeltaRuleWrittenOutForTwoTokens) {
  load(deltaModule(1, 1, 2, 1, 0.5), GetParam());
  // S = (1, 0) after token 0: u = 0.5 * (2 - 0) = 1. Token 1 halves it, reads 0.5 with k = (1, 1), u = 1 * (4
  // - 0.5).
  double half = std::log(0.5);
  std::vector<double> y = feed(
      {{{1, 2}, {1, 0, 1, 2}}, {{1, 2}, {1, 0, 1, 1}}, {{1, 1}, {2, 4}}, {{1}, {-3, half}}, {{1}, {0.5, 1}}},
      {2});
  expectNear(y, {0.5, 0.5 * ((0.5 + 3.5) * 1 + 3.5 * 2)}, 1e-6, "outputs");
  expectNear(evaluator_->stateValues("delta", 0), {4, 3.5}, 1e-6, "state");
}

// Grouped heads are those of a model in which every value head has its key head to itself.
TEST_P(StateTest, DeltaHeadsMayBeGrouped) {
  Random random(11);
  constexpr int64_t kRows = 5, kKey = 3, kValue = 2;
  const std::vector<double> q = random.vector(kRows * 2 * kKey), k = random.vector(kRows * 2 * kKey);
  const Input v{{4, kValue}, random.vector(kRows * 4 * kValue)}, g{{4}, random.vector(kRows * 4, -1, 0)};
  const Input b{{4}, random.vector(kRows * 4, 0, 1)};
  const auto repeated = [&](const std::vector<double>& heads, auto head) {
    Input all{{4, kKey}, {}};
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t i = 0; i < kKey; ++i) all.data.push_back(heads[(r * 2 + head(j)) * kKey + i]);
    return all;
  };
  std::string grouped = deltaModule(2, 4, kKey, kValue, 0.5);
  const std::string scale = "scale " + std::to_string(0.5);
  ASSERT_NE(grouped.find(scale), std::string::npos);
  grouped.insert(grouped.find(scale) + scale.size(), " heads grouped");
  for (bool tiled : {false, true}) {
    load(tiled ? deltaModule(2, 4, kKey, kValue, 0.5) : grouped, GetParam());
    const auto found = feed({{{2, kKey}, q}, {{2, kKey}, k}, v, g, b}, {kRows});
    load(deltaModule(4, 4, kKey, kValue, 0.5), GetParam());
    const auto head = [&](int64_t j) { return tiled ? j % 2 : j / 2; };
    EXPECT_EQ(found, feed({repeated(q, head), repeated(k, head), v, g, b}, {kRows})) << "tiled " << tiled;
  }
}

TEST_P(StateTest, DeltaSplitsAreEqual) {
  Random random(4);
  load(deltaModule(2, 4, 8, 4, 0.25), GetParam());
  int64_t rows = 7;
  expectSplitsAreEqual({{{2, 8}, random.vector(rows * 16)},
                        {{2, 8}, random.vector(rows * 16)},
                        {{4, 4}, random.vector(rows * 16)},
                        {{4}, random.vector(rows * 4, -2, 0)},
                        {{4}, random.vector(rows * 4, 0, 1)}},
                       rows, "delta");
}

std::string attentionModule(int64_t heads, int64_t kvHeads, int64_t headDim, const std::string& element,
                            double scale) {
  auto type = [&](int64_t n) {
    return "tensor<?x" + std::to_string(n) + "x" + std::to_string(headDim) + "xf32>";
  };
  std::string state =
      "!hir.state<kv, " + std::to_string(kvHeads) + "x" + std::to_string(headDim) + ", " + element + ">";
  return "func.func @f(%q: " + type(heads) + ", %k: " + type(kvHeads) + ", %v: " + type(kvHeads) +
         ", %rows: !hir.rows) -> " + type(heads) + " {\n%s = hir.state \"kv\" : " + state +
         "\nhir.kv_store %k, %v, %s, %rows : " + type(kvHeads) + ", " + state +
         "\n%y = hir.attention %q, %s, %rows scale " + std::to_string(scale) + " : " + type(heads) + ", " +
         state + "\nreturn %y : " + type(heads) + "\n}";
}

// softmax(scale q k) v over the tokens up to the row's own, query head h with kv head h / (heads /
// kv_heads).
std::vector<double> causalAttention(const std::vector<double>& q, const std::vector<double>& k,
                                    const std::vector<double>& v, int64_t rows, int64_t heads,
                                    int64_t kvHeads, int64_t headDim, double scale) {
  std::vector<double> out(q.size());
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t h = 0; h < heads; ++h) {
      int64_t kvHead = h * kvHeads / heads;
      long double sum = 0;
      std::vector<long double> o(headDim);
      for (int64_t s = 0; s <= t; ++s) {
        long double score = 0;
        for (int64_t d = 0; d < headDim; ++d)
          score += static_cast<long double>(q[(t * heads + h) * headDim + d]) *
                   k[(s * kvHeads + kvHead) * headDim + d];
        long double weight = std::exp(scale * score);
        sum += weight;
        for (int64_t d = 0; d < headDim; ++d) o[d] += weight * v[(s * kvHeads + kvHead) * headDim + d];
      }
      for (int64_t d = 0; d < headDim; ++d) out[(t * heads + h) * headDim + d] = o[d] / sum;
    }
  return out;
}

TEST_P(StateTest, AttentionIsCausalAndGrouped) {
  Random random(6);
  for (auto [heads, kvHeads] : {std::pair<int64_t, int64_t>(8, 2), {4, 4}, {3, 1}}) {
    int64_t rows = 9, headDim = 20;
    std::vector<double> q = random.vector(rows * heads * headDim, -2, 2);
    std::vector<double> k = random.vector(rows * kvHeads * headDim, -2, 2), v = random.vector(k.size());
    load(attentionModule(heads, kvHeads, headDim, "f32", 0.25), GetParam());
    expectNear(feed({{{heads, headDim}, q}, {{kvHeads, headDim}, k}, {{kvHeads, headDim}, v}}, {rows}),
               causalAttention(q, k, v, rows, heads, kvHeads, headDim, 0.25), isF64() ? 1e-13 : 1e-5,
               std::to_string(heads) + " heads over " + std::to_string(kvHeads));
  }
}

TEST_P(StateTest, AttentionSurvivesLargeScores) {
  load(attentionModule(1, 1, 1, "f32", 1), GetParam());
  // Scores 0, 3000 and -3000: e^3000 overflows every type, the largest score must be subtracted first.
  expectNear(feed({{{1, 1}, {0, 3000, 3000}}, {{1, 1}, {0, 1, -1}}, {{1, 1}, {5, 7, 9}}}, {3}), {5, 7, 7}, 0,
             "attention");
}

TEST_P(StateTest, AttentionSplitsAreEqual) {
  Random random(7);
  load(attentionModule(4, 2, 16, "f16", 0.25), GetParam());
  expectSplitsAreEqual(
      {{{4, 16}, random.vector(6 * 64)}, {{2, 16}, random.vector(6 * 32)}, {{2, 16}, random.vector(6 * 32)}},
      6, "kv");
}

TEST_P(StateTest, KvIsRoundedToTheElementType) {
  Random random(8);
  int64_t rows = 5;
  std::vector<double> q = random.vector(rows * 16), k = random.vector(rows * 16, -3, 3),
                      v = random.vector(rows * 16);
  std::vector<StateTest::Input> inputs = {{{2, 8}, q}, {{2, 8}, k}, {{2, 8}, v}};
  std::vector<double> exact = k, rounded;
  exact.insert(exact.end(), v.begin(), v.end());
  for (double value : exact) rounded.push_back(half_to_float(float_to_half(value)));
  ASSERT_NE(exact, rounded);

  load(attentionModule(2, 2, 8, "f32", 0.5), GetParam());
  feed(inputs, {rows});
  EXPECT_EQ(evaluator_->stateValues("kv", 0), exact) << "an f32 cache keeps the values";
  load(attentionModule(2, 2, 8, "f16", 0.5), GetParam());
  std::vector<double> y = feed(inputs, {rows});
  EXPECT_EQ(evaluator_->stateValues("kv", 0), rounded) << "an f16 cache rounds to nearest even";
  std::vector<double> k16(rounded.begin(), rounded.begin() + k.size()),
      v16(rounded.begin() + k.size(), rounded.end());
  expectNear(y, causalAttention(q, k16, v16, rows, 2, 2, 8, 0.5), isF64() ? 1e-13 : 1e-5,
             "attention over an f16 cache");
}

TEST_P(StateTest, SequencesOfOneStepAreAsIfAlone) {
  Random random(9);
  weights_.add("conv", Format::F32, 4, random.floats(24));
  load(kConv, GetParam());
  Input a{{6}, random.vector(7 * 6)}, b{{6}, random.vector(4 * 6)};
  std::vector<double> aAlone = feed({a}, {3, 4}), bAlone = feed({b}, {4});

  // Sequence 5 has 3 tokens behind it and brings 4; sequence 9 starts.
  feed({a}, {3}, 5);
  StepRows rows;
  rows.sequences = {{5, 3, 0, 4}, {9, 0, 4, 4}};
  for (int64_t i = 0; i < 8; ++i) rows.positions.push_back({i, i, i, i});
  std::vector<double> x = rowsOf(a.data, 6, 3, 4);
  x.insert(x.end(), b.data.begin(), b.data.end());
  std::vector<double> y = values({tensor({8, 6}, x), rowsValue(rows)});
  ASSERT_EQ(y.size(), 48u);
  EXPECT_EQ(rowsOf(y, 6, 0, 4), rowsOf(aAlone, 6, 3, 4)) << "the continued sequence";
  EXPECT_EQ(rowsOf(y, 6, 4, 4), bAlone) << "the new sequence";
}

TEST_P(StateTest, RecurrentStateMustReflectExactlyThePast) {
  weights_.add("conv", Format::F32, 4, std::vector<float>(24, 1));
  load(kConv, GetParam());
  auto step = [&](int64_t past, int64_t count) {
    return std::vector<EvalValue>{tensor({count, 6}, std::vector<double>(count * 6, 1)),
                                  rowsValue(StepRows::text(past, count))};
  };
  EXPECT_NE(
      failure(step(2, 1)).find("continues sequence 0 after 2 tokens, its state 'blk.0.conv' reflects 0"),
      std::string::npos)
      << errors_;
  run(step(0, 3));
  EXPECT_NE(failure(step(2, 1)).find("reflects 3"), std::string::npos) << errors_;
  run(step(3, 1));
  // Past 0 starts anew.
  EXPECT_EQ(run(step(0, 1)).size(), 1u);
  EXPECT_EQ(evaluator_->stateValues("blk.0.conv", 0),
            (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  evaluator_->dropSequence(0);
  EXPECT_TRUE(evaluator_->stateValues("blk.0.conv", 0).empty());
}

TEST_P(StateTest, KvCanGoBack) {
  Random random(10);
  load(attentionModule(2, 1, 4, "f32", 0.5), GetParam());
  Input q{{2, 4}, random.vector(5 * 8)}, k{{1, 4}, random.vector(5 * 4)}, v{{1, 4}, random.vector(5 * 4)};
  std::vector<double> whole = feed({q, k, v}, {5});
  // Tokens 3 and 4 again, after they have been in the cache once.
  std::vector<double> again =
      values({part(q, 3, 2), part(k, 3, 2), part(v, 3, 2), rowsValue(StepRows::text(3, 2))});
  EXPECT_EQ(again, rowsOf(whole, 8, 3, 2));
  EXPECT_NE(failure({part(q, 0, 1), part(k, 0, 1), part(v, 0, 1), rowsValue(StepRows::text(6, 1))})
                .find("continues sequence 0 after 6 tokens, its state 'kv' reflects 5"),
            std::string::npos)
      << errors_;
}

TEST_P(StateTest, AttentionBeforeItsStoreIsAnError) {
  load(R"(func.func @f(%q: tensor<?x1x4xf32>, %rows: !hir.rows) -> tensor<?x1x4xf32> {
    %s = hir.state "kv" : !hir.state<kv, 1x4, f32>
    %y = hir.attention %q, %s, %rows scale 0.5 : tensor<?x1x4xf32>, !hir.state<kv, 1x4, f32>
    return %y : tensor<?x1x4xf32>
  })",
       GetParam());
  EXPECT_NE(failure({tensor({2, 1, 4}, std::vector<double>(8)), rowsValue(StepRows::text(0, 2))})
                .find("needs 2 tokens of sequence 0 in state 'kv', found 0"),
            std::string::npos)
      << errors_;
}

}  // namespace
}  // namespace qcc::hir
