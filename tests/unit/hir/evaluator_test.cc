// The evaluator around the ops: functions, calls, groups, inputs, and what it says when something does not
// fit.
#include <cmath>
#include <fstream>
#include <iterator>

#include "tests/unit/hir/evaluation.h"

namespace qcc::hir {
namespace {

using EvaluatorTest = EvaluationTest;

constexpr char kBlocks[] = R"(
  func.func private @block(%x: tensor<?x2xf32>, %w: !hir.weight<2x2, f32>) -> tensor<?x2xf32> {
    %l = hir.linear %x, %w : tensor<?x2xf32>, !hir.weight<2x2, f32>
    %y = hir.add %x, %l : tensor<?x2xf32>
    return %y : tensor<?x2xf32>
  }
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x2xf32> {
    %t = hir.param "t" : !hir.weight<3x2, f32>
    %x = hir.embed %t, %ids : !hir.weight<3x2, f32>, tensor<?xi32>
    %w0 = hir.param "w0" : !hir.weight<2x2, f32>
    %a = func.call @block(%x, %w0) {layer = "blk.0"} : (tensor<?x2xf32>, !hir.weight<2x2, f32>) -> tensor<?x2xf32>
    %w1 = hir.param "w1" : !hir.weight<2x2, f32>
    %b = func.call @block(%a, %w1) {layer = "blk.1"} : (tensor<?x2xf32>, !hir.weight<2x2, f32>) -> tensor<?x2xf32>
    return %b : tensor<?x2xf32>
  })";

TEST_F(EvaluatorTest, CallsTheSameBlockWithEachLayersWeights) {
  weights_.add("t", Format::F32, 2, {1, 0, 0, 1, 2, 3});
  weights_.add("w0", Format::F32, 2, {0, 1, 1, 0});
  weights_.add("w1", Format::F32, 2, {1, 0, 0, 2});
  load(kBlocks, Precision::F64);
  // (2, 3) + (3, 2) = (5, 5); + (5, 10) = (10, 15).
  EXPECT_EQ(values({idsValue({2}), rowsValue(StepRows::text(0, 1))}, "trunk"), (std::vector<double>{10, 15}));
}

TEST_F(EvaluatorTest, F64KeepsWhatF32Loses) {
  std::string text = R"(func.func @f(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %z = hir.add %x, %y : tensor<?x2xf32>
    return %z : tensor<?x2xf32>
  })";
  load(text, Precision::F64);
  EXPECT_EQ(values({tensor({1, 2}, {1, 1}), tensor({1, 2}, {1e-12, 0})})[0], 1 + 1e-12);
  load(text, Precision::F32);
  EXPECT_EQ(values({tensor({1, 2}, {1, 1}), tensor({1, 2}, {1e-12, 0})})[0], 1);
}

TEST_F(EvaluatorTest, AGroupMeansWhatItsOpsMean) {
  weights_.add("n", Format::F32, 32, Random(1).floats(32));
  weights_.add("w", Format::F32, 32, Random(2).floats(4 * 32));
  std::string head = R"(func.func @f(%x: tensor<?x32xf32>) -> tensor<?x4xf32> {
    %n = hir.param "n" : !hir.weight<32, f32>
    %w = hir.param "w" : !hir.weight<4x32, f32>
  )";
  std::string tail = R"(
    %y = hir.linear %q, %w : tensor<?x32xf32, #hir.int8<32>>, !hir.weight<4x32, f32>
    return %y : tensor<?x4xf32>
  })";
  std::vector<double> x = Random(3).vector(5 * 32);
  load(head + R"(
    %a = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x32xf32>, !hir.weight<32, f32>
    %q = hir.quantize %a block 32 : tensor<?x32xf32>
  )" + tail,
       Precision::F32);
  std::vector<double> outside = values({tensor({5, 32}, x)});
  load(head + R"(
    %q = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x32xf32>, !hir.weight<32, f32>) -> tensor<?x32xf32, #hir.int8<32>> {
    ^bb0(%bx: tensor<?x32xf32>, %bn: !hir.weight<32, f32>):
      %a = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x32xf32>, !hir.weight<32, f32>
      %q0 = hir.quantize %a block 32 : tensor<?x32xf32>
      hir.yield %q0 : tensor<?x32xf32, #hir.int8<32>>
    }
  )" + tail,
       Precision::F32);
  EXPECT_EQ(values({tensor({5, 32}, x)}), outside);
  EXPECT_EQ(outside.size(), 20u);
}

TEST_F(EvaluatorTest, ReturnsArgumentsAndValuesThatAreUsedTwice) {
  load(R"(func.func @f(%x: tensor<?x1xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
    %a = hir.add %x, %x : tensor<?x1xf32>
    %b = hir.mul %a, %x : tensor<?x1xf32>
    return %a, %b, %x : tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>
  })",
       Precision::F64);
  auto results = run({tensor({1, 1}, {3})});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(toDoubles(results[0]), std::vector<double>{6});
  EXPECT_EQ(toDoubles(results[1]), std::vector<double>{18});
  EXPECT_EQ(toDoubles(results[2]), std::vector<double>{3});
}

TEST_F(EvaluatorTest, ErrorsNameTheTensor) {
  std::string text = R"(func.func @f() -> !hir.weight<2x32, q8_0> {
    %w = hir.param "blk.0.attn_q.weight" : !hir.weight<2x32, q8_0>
    return %w : !hir.weight<2x32, q8_0>
  })";
  load(text, Precision::F64);
  EXPECT_EQ(failure({}),
            "'hir.param' op names tensor 'blk.0.attn_q.weight', which the model does not have\n");
  weights_.addBytes("blk.0.attn_q.weight", Format::Q4_0, std::vector<uint8_t>(36));
  EXPECT_EQ(failure({}), "'hir.param' op tensor 'blk.0.attn_q.weight' is q4_0, expected q8_0\n");
  weights_.addBytes("blk.0.attn_q.weight", Format::Q8_0, std::vector<uint8_t>(34));
  EXPECT_EQ(failure({}), "'hir.param' op tensor 'blk.0.attn_q.weight' has 34 bytes, expected 68\n");
  weights_.addBytes("blk.0.attn_q.weight", Format::Q8_0, std::vector<uint8_t>(68));
  EXPECT_EQ(run({}).size(), 1u);
}

TEST_F(EvaluatorTest, InputsMustFitTheArguments) {
  load(R"(func.func @f(%x: tensor<?x2xf32>, %ids: tensor<2xi32>, %rows: !hir.rows) {
    return
  }
  func.func @handles(%w: !hir.weight<2, f32>, %s: !hir.state<kv, 1x2, f16>) { return }
  func.func @other(%x: index) { return }
  func.func private @external(%x: index)
  )",
       Precision::F64);
  EvalValue x = tensor({1, 2}, {1, 2}), ids = idsValue({1, 2}), rows = rowsValue(StepRows::text(0, 1));
  EXPECT_EQ(run({x, ids, rows}).size(), 0u);
  auto says = [&](llvm::ArrayRef<EvalValue> inputs, const std::string& message,
                  llvm::StringRef function = "f") {
    std::string found = failure(inputs, function);
    EXPECT_NE(found.find(message), std::string::npos)
        << "expected \"" << message << "\", found \"" << found << "\"";
  };
  says({x, ids}, "@f takes 3 arguments, found 2");
  says({}, "no function @g to evaluate", "g");
  says({x}, "@external has no body to evaluate", "external");
  says({x}, "argument 0 of @other has the type 'index', which the evaluator does not know", "other");
  says({ids, ids, rows}, "argument 0 of @f needs a tensor of the evaluator's precision");
  says({tensorValue(Precision::F32, {1, 2}, std::vector<double>{1, 2}), ids, rows},
       "of the evaluator's precision");
  says({tensor({1, 3}, {1, 2, 3}), ids, rows},
       "argument 0 of @f is a 'tensor<?x2xf32>', found the shape [1, 3]");
  says({tensor({2}, {1, 2}), ids, rows}, "found the shape [2]");
  says({tensor({2, 2}, {1, 2}), ids, rows}, "argument 0 of @f has the shape [2, 2] but 2 values");
  says({x, x, rows}, "argument 1 of @f needs a list of ids");
  says({x, idsValue({1}), rows}, "argument 1 of @f is a 'tensor<2xi32>', found 1 ids");
  says({x, ids, ids}, "argument 2 of @f needs the rows of the step");
  says({x, x}, "argument 0 of @handles needs a weight of type '!hir.weight<2, f32>'", "handles");
  says({WeightHandle{"w", WeightType::get(&context_, {2}, Format::F32), {Format::F32, {}}}, x},
       "argument 1 of @handles needs a state of type '!hir.state<kv, 1x2, f16>'", "handles");

  StepRows gap = StepRows::text(0, 2);
  gap.sequences = {{0, 0, 0, 1}, {1, 0, 2, 1}};
  says({x, ids, rowsValue(gap)}, "sequence 1 must have at least one row from row 1 on, found 1 from 2");
  StepRows empty = StepRows::text(0, 0);
  says({x, ids, rowsValue(empty)}, "sequence 0 must have at least one row from row 0 on, found 0 from 0");
  StepRows negative = StepRows::text(-1, 1);
  says({x, ids, rowsValue(negative)}, "sequence 0 has a negative past, -1");
  StepRows more = StepRows::text(0, 2);
  more.positions.pop_back();
  says({x, ids, rowsValue(more)}, "sequences cover 2 rows, positions are given for 1");
}

TEST_F(EvaluatorTest, RowsOfTheStepMustMatchTheTensors) {
  weights_.add("w", Format::F32, 2, {1, 1, 1, 1});
  load(R"(func.func @f(%x: tensor<?x2xf32>, %rows: !hir.rows) -> tensor<?x2xf32> {
    %w = hir.param "w" : !hir.weight<2x2, f32>
    %s = hir.state "s" : !hir.state<conv, 1x2, f32>
    %y = hir.causal_conv1d %x, %w, %s, %rows : tensor<?x2xf32>, !hir.weight<2x2, f32>, !hir.state<conv, 1x2, f32>
    return %y : tensor<?x2xf32>
  })",
       Precision::F64);
  EXPECT_EQ(failure({tensor({2, 2}, {1, 2, 3, 4}), rowsValue(StepRows::text(0, 3))}),
            "'hir.causal_conv1d' op x has 2 rows in this evaluation, expected 3\n");
}

TEST_F(EvaluatorTest, OpsWithoutAReferenceAndEndlessCallsAreErrors) {
  load(R"(func.func @cast(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %y = builtin.unrealized_conversion_cast %x : tensor<?x2xf32> to tensor<?x2xf32>
    return %y : tensor<?x2xf32>
  }
  func.func @forever(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %y = func.call @forever(%x) : (tensor<?x2xf32>) -> tensor<?x2xf32>
    return %y : tensor<?x2xf32>
  }
  func.func @again(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %y = hir.add %x, %x : tensor<?x2xf32>
    return %y : tensor<?x2xf32>
  })",
       Precision::F64);
  EvalValue x = tensor({1, 2}, {1, 2});
  EXPECT_EQ(failure({x}, "cast"), "'builtin.unrealized_conversion_cast' op has no reference evaluation\n");
  EXPECT_EQ(failure({x}, "forever"), "@forever is called more than 64 deep\n");
  EXPECT_EQ(values({x}, "again"), (std::vector<double>{2, 4})) << "the evaluator must work on after an error";
}

// A new op without a reference, or that is not in the files of the round trips, fails here.
TEST_F(EvaluatorTest, EveryOpHasAReferenceAndARoundTrip) {
  std::string text;
  for (const char* file : {"ops.mlir", "fused.mlir"}) {
    std::ifstream in(std::string(QCC_SOURCE_DIR "/tests/lit/hir/") + file);
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  int ops = 0;
  for (mlir::RegisteredOperationName op : context_.getRegisteredOperations()) {
    const std::string name = op.getStringRef().str();
    if (op.getDialectNamespace() != HirDialect::getDialectNamespace()) continue;
    ++ops;
    EXPECT_TRUE(op.hasInterface<EvaluableOpInterface>() || name == "hir.yield") << name;
    EXPECT_TRUE(text.find(" " + name + " ") != text.npos || text.find(" " + name + "(") != text.npos)
        << name << " is not printed and parsed";
  }
  EXPECT_GT(ops, 30);
}

TEST_F(EvaluatorTest, TypesKnowTheirSizes) {
  WeightType weight = WeightType::get(&context_, {3, 4, 512}, Format::Q6_K);
  EXPECT_EQ(weight.getNumElements(), 3 * 4 * 512);
  EXPECT_EQ(weight.getByteSize(), 3 * 4 * 2 * 210);
  EXPECT_EQ(weight.getRank(), 3);
}

TEST_F(EvaluatorTest, ScaleMultipliesTheSumsOfALinear) {
  Random random(5);
  weights_.add("w", Format::F32, 32, random.floats(8 * 32));
  weights_.add("s", Format::F32, 1, {0.75f});
  std::vector<double> x = random.vector(3 * 32);
  const std::string head = R"(func.func @f(%x: tensor<?x32xf32>) -> tensor<?x8xf32> {
    %w = hir.param "w" : !hir.weight<8x32, f32>
    %s = hir.param "s" : !hir.weight<1, f32>
  )";
  const std::string tail = "\n return %y : tensor<?x8xf32>\n }";
  for (Precision precision : {Precision::F32, Precision::F64}) {
    load(head + "%y = hir.linear %x, %w : tensor<?x32xf32>, !hir.weight<8x32, f32>" + tail, precision);
    std::vector<double> expected = values({tensor({3, 32}, x)});
    for (double& value : expected)
      value = precision == Precision::F64 ? value * 0.75 : static_cast<float>(value) * 0.75f;
    load(head +
             "%y = hir.linear %x, %w scale %s : tensor<?x32xf32>, !hir.weight<8x32, f32>, !hir.weight<1, "
             "f32>" +
             tail,
         precision);
    EXPECT_EQ(values({tensor({3, 32}, x)}), expected) << precisionName(precision);
  }
}

}  // namespace
}  // namespace qcc::hir
