// What the imported ops compute, against an oracle that shares nothing with them, and against mutants of it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "compiler/driver/eval.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/hir/eval/Evaluator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "tests/unit/models/imported.h"
#include "tests/unit/models/oracle.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {
namespace {

// Both sides are double arithmetic over the same f32 values; the order of sums differs, and hir keeps the
// scale of dot products (1 / sqrt(size)) in f32.
constexpr double kSame = 1e-16;
// What any mutation must move the logits by, at least.
constexpr double kMoved = 1e-6;

void ExpectOracle(const TinyModel& model, int64_t tokens = 12) {
  const OpenModel open = Open(model);
  ASSERT_NE(open.file, nullptr);
  const int64_t vocab = open.file->FindTensor("token_embd.weight")->ne[1];
  const std::vector<int32_t> ids = SomeIds(tokens, vocab);
  EXPECT_LT(Nmse(Logits(*open.file, ids), OracleLogits(*open.file, ids)), kSame);
}

void ExpectMutantDiffers(const TinyModel& model, const OracleMutation& mutation, int64_t tokens = 12) {
  const OpenModel open = Open(model);
  ASSERT_NE(open.file, nullptr);
  const std::vector<int32_t> ids = SomeIds(tokens, open.file->FindTensor("token_embd.weight")->ne[1]);
  EXPECT_GT(Nmse(Logits(*open.file, ids), OracleLogits(*open.file, ids, mutation)), kMoved)
      << "the imported model computes what the mutant computes";
}

TEST(Oracle, AgreesOnBothArchitectures) {
  ExpectOracle(MakeTiny({}));
  TinyConfig config;
  config.arch = "qwen3";
  ExpectOracle(MakeTiny(config));
  config.tied = false;
  config.seed = 5;
  ExpectOracle(MakeTiny(config));
}

// The values of one tensor replaced before the evaluator decodes them.
class Weights final : public hir::WeightSource {
 public:
  explicit Weights(const gguf::File& file) : file_(file) {}
  void replace(const std::string& name, const std::vector<float>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    replaced_[name].assign(bytes, bytes + values.size() * sizeof(float));
  }
  std::optional<hir::WeightBytes> find(llvm::StringRef name) const override {
    if (auto at = replaced_.find(name.str()); at != replaced_.end())
      return hir::WeightBytes{Format::F32, at->second};
    const gguf::Tensor* tensor = file_.FindTensor(name.str());
    if (tensor == nullptr) return std::nullopt;
    return hir::WeightBytes{tensor->format, {tensor->data, tensor->bytes}};
  }

 private:
  const gguf::File& file_;
  std::map<std::string, std::vector<uint8_t>> replaced_;
};

// `@probe(x, rows)`: the first call of `callee`, laid open; gives the result of every op of the block.
mlir::func::FuncOp AddProbe(mlir::ModuleOp module, llvm::StringRef callee) {
  auto block = module.lookupSymbol<mlir::func::FuncOp>(callee);
  mlir::func::CallOp call;
  module.lookupSymbol<mlir::func::FuncOp>("trunk").walk([&](mlir::func::CallOp op) {
    if (!call && op.getCallee() == callee) call = op;
  });
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module.getBody());
  const mlir::Type x = block.getArgument(0).getType(), rows = block.getArgument(1).getType();
  auto probe =
      mlir::func::FuncOp::create(builder, block.getLoc(), "probe", builder.getFunctionType({x, rows}, {}));
  mlir::Block* entry = probe.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  mlir::IRMapping map;
  map.map(block.getArgument(0), entry->getArgument(0));
  map.map(block.getArgument(1), entry->getArgument(1));
  for (unsigned i = 2; i < block.getNumArguments(); ++i)
    map.map(block.getArgument(i), builder.clone(*call.getOperand(i).getDefiningOp())->getResult(0));
  llvm::SmallVector<mlir::Value> results;
  for (mlir::Operation& op : block.getBody().front().without_terminator())
    llvm::append_range(results, builder.clone(op, map)->getResults());
  mlir::func::ReturnOp::create(builder, block.getLoc(), results);
  probe.setFunctionType(builder.getFunctionType({x, rows}, mlir::ValueRange(results).getTypes()));
  return probe;
}

// A changed tensor moves the result of the op it belongs to and what depends on that, and nothing else.
TEST(DeltaNetTensors, EachReachesItsOwnOperand) {
  struct Expected {
    const char* tensor;
    const char* op;
    unsigned operand;
    const char* consumer;  // op that reads the result
  };
  const Expected expected[] = {
      {"attn_qkv.weight", "hir.linear", 1, "hir.causal_conv1d"},
      {"attn_gate.weight", "hir.linear", 1, "hir.reshape"},
      {"ssm_beta.weight", "hir.linear", 1, "hir.activation"},
      {"ssm_alpha.weight", "hir.linear", 1, "hir.gdn_decay"},
      {"ssm_conv1d.weight", "hir.causal_conv1d", 1, "hir.activation"},
      {"ssm_a", "hir.gdn_decay", 1, "hir.gated_delta"},
      {"ssm_dt.bias", "hir.gdn_decay", 2, "hir.gated_delta"},
      {"ssm_norm.weight", "hir.rms_norm", 1, "hir.mul"},
      {"ssm_out.weight", "hir.linear", 1, "hir.add"},
  };
  TinyModel model = MakeTiny({});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  mlir::func::FuncOp probe = AddProbe(*imported.module, "block_gdn");
  const std::vector<float> embedding = model.find("token_embd.weight")->values;
  const std::vector<double> x(embedding.begin(), embedding.begin() + 5 * 32);
  const auto run = [&](const Weights& weights) {
    hir::Evaluator evaluator(*imported.module, weights, hir::Precision::F64);
    auto results = evaluator.evaluate("probe", {hir::tensorValue(hir::Precision::F64, {5, 32}, x),
                                                hir::rowsValue(hir::StepRows::text(0, 5))});
    std::vector<std::vector<double>> values;
    if (mlir::succeeded(results))
      for (const hir::EvalValue& value : *results) values.push_back(hir::toDoubles(value));
    return values;
  };
  mlir::Operation* exit = probe.getBody().front().getTerminator();
  const std::vector<std::vector<double>> before = run(Weights(*imported.model.file));
  ASSERT_EQ(before.size(), exit->getNumOperands());

  for (const Expected& e : expected) {
    SCOPED_TRACE(e.tensor);
    const std::string name = std::string("blk.0.") + e.tensor;
    mlir::Value weight;
    probe.walk([&](hir::ParamOp param) {
      if (param.getName() == name) weight = param;
    });
    ASSERT_TRUE(weight) << "no hir.param";
    ASSERT_TRUE(weight.hasOneUse());
    mlir::OpOperand& use = *weight.getUses().begin();
    EXPECT_EQ(use.getOwner()->getName().getStringRef().str(), e.op);
    EXPECT_EQ(use.getOperandNumber(), e.operand);
    bool read = false;
    for (mlir::Operation* user : use.getOwner()->getUsers())
      read = read || user->getName().getStringRef() == e.consumer;
    EXPECT_TRUE(read) << "no " << e.consumer << " reads it";

    llvm::SmallPtrSet<mlir::Operation*, 32> downstream;
    const std::function<void(mlir::Operation*)> follow = [&](mlir::Operation* op) {
      if (op == exit || !downstream.insert(op).second) return;
      for (mlir::Operation* user : op->getUsers()) follow(user);
    };
    follow(use.getOwner());
    Weights poisoned(*imported.model.file);
    std::vector<float> values = model.find(name)->values;
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.25f + 0.01f * static_cast<float>(i % 7);
    poisoned.replace(name, values);
    const std::vector<std::vector<double>> after = run(poisoned);
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      mlir::Operation* op = exit->getOperand(i).getDefiningOp();
      EXPECT_EQ(after[i] != before[i], downstream.contains(op))
          << op->getName().getStringRef().str() << " (result " << i << ")";
    }
  }
}

TEST(Gates, SsmAIsTheRateItself) {
  TinyModel model = MakeTiny({});
  ExpectOracle(model);
  ExpectMutantDiffers(model, {.exp_ssm_a = true});
}

TEST(Gates, DecayAndBetaMatchDoubleArithmetic) {
  const char* source = R"(
    func.func @f(%a: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {
      %rate = hir.param "rate" : !hir.weight<2, f32>
      %bias = hir.param "bias" : !hir.weight<2, f32>
      %g = hir.gdn_decay %a, %rate, %bias : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
      %s = hir.activation softplus %a : tensor<?x2xf32>
      %b = hir.activation sigmoid %a : tensor<?x2xf32>
      return %g, %s, %b : tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>
    })";
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::func::FuncDialect, hir::HirDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  ASSERT_TRUE(module);
  const OpenModel empty = Open(MakeTiny({}));
  Weights weights(*empty.file);
  weights.replace("rate", {-0.75f, -2.0f});
  weights.replace("bias", {0.5f, -1.25f});
  std::vector<double> a;
  for (int i = -400; i <= 400; ++i) a.push_back(i / 8.0);
  a.push_back(50);
  for (hir::Precision precision : {hir::Precision::F32, hir::Precision::F64}) {
    hir::Evaluator evaluator(*module, weights, precision);
    auto results =
        evaluator.evaluate("f", {hir::tensorValue(precision, {static_cast<int64_t>(a.size() / 2), 2}, a)});
    ASSERT_TRUE(mlir::succeeded(results));
    const std::vector<double> g = hir::toDoubles((*results)[0]), s = hir::toDoubles((*results)[1]);
    const std::vector<double> b = hir::toDoubles((*results)[2]);
    for (size_t i = 0; i < a.size(); ++i) {
      SCOPED_TRACE(a[i]);
      const double rate = i % 2 ? -2.0 : -0.75, bias = i % 2 ? -1.25 : 0.5;
      const auto softplus = [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); };
      const double tolerance = precision == hir::Precision::F32 ? 1e-6 : 1e-13;
      EXPECT_NEAR(s[i], softplus(a[i]), tolerance * std::max(1.0, std::abs(a[i])));
      EXPECT_NEAR(g[i], rate * softplus(a[i] + bias), 2 * tolerance * std::max(1.0, std::abs(a[i])));
      EXPECT_NEAR(b[i], 1 / (1 + std::exp(-a[i])), tolerance);
    }
  }
}

TEST(AttentionGate, IsInterleavedPerHead) {
  TinyConfig config;
  config.layers = 2;
  config.interval = 1;
  ExpectOracle(MakeTiny(config));
  ExpectMutantDiffers(MakeTiny(config), {.gate_is_second_half = true});
}

TEST(Schedule, AnyIntervalMatches) {
  for (int interval : {1, 2, 4, 3, 9}) {
    SCOPED_TRACE(interval);
    TinyConfig config;
    config.layers = 8;
    config.interval = interval;
    ExpectOracle(MakeTiny(config), 8);
    const Imported imported = Import(MakeTiny(config));
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    mlir::ModuleOp(*imported.module).walk([&](mlir::func::CallOp call) {
      const int layer = std::stoi(call->getAttrOfType<mlir::StringAttr>("layer").str().substr(4));
      EXPECT_EQ(call.getCallee() == "block_attn", (layer + 1) % interval == 0) << "layer " << layer;
    });
  }
}

TEST(ValueHeads, ReadKeyHeadsInTiledOrder) {
  TinyConfig config;
  config.key_heads = 2;
  config.value_heads = 6;
  ExpectOracle(MakeTiny(config));
  ExpectMutantDiffers(MakeTiny(config), {.other_key_head = true});
  // Value heads of another size than key heads.
  config.value_dim = 12;
  ExpectOracle(MakeTiny(config));
}

// The norm of queries and keys is x / sqrt(sum + eps), or on request x / max(sqrt(sum), eps). It shows
// where a head is nearly zero.
TEST(L2Norm, AddsEpsilonToTheSumUnlessAskedForTheMaximum) {
  TinyModel model = MakeTiny({});
  for (int layer = 0; layer < 3; ++layer)
    for (float& value : model.find("blk." + std::to_string(layer) + ".ssm_conv1d.weight")->values)
      value *= 1e-3f;
  ExpectOracle(model);
  ExpectMutantDiffers(model, {.l2_max_eps = true});
  const OpenModel open = Open(model);
  const std::vector<int32_t> ids = SomeIds(12, open.file->FindTensor("token_embd.weight")->ne[1]);
  auto session = compiler::EvalSession::Create(*open.file, true, false, /*l2_max=*/true);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_LT(Nmse(*(*session)->Step(ids), OracleLogits(*open.file, ids, {.l2_max_eps = true})), kSame);
}

TEST(DeltaRule, MatchesPlainLoopsOnRandomCases) {
  const char* source = R"(
    func.func @f(%q: tensor<?x1x4xf32>, %k: tensor<?x1x4xf32>, %v: tensor<?x2x3xf32>, %g: tensor<?x2xf32>,
                 %b: tensor<?x2xf32>, %rows: !hir.rows) -> tensor<?x2x3xf32> {
      %s = hir.state "s" : !hir.state<delta, 2x4x3, f32>
      %o = hir.gated_delta %q, %k, %v, %g, %b, %s, %rows scale 5.000000e-01
        : tensor<?x1x4xf32>, tensor<?x2x3xf32>, tensor<?x2xf32>, !hir.state<delta, 2x4x3, f32>
      return %o : tensor<?x2x3xf32>
    })";
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::func::FuncDialect, hir::HirDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  ASSERT_TRUE(module);
  const OpenModel empty = Open(MakeTiny({}));
  const Weights weights(*empty.file);
  hir::Evaluator evaluator(*module, weights, hir::Precision::F64);
  const std::vector<int32_t> noise = SomeIds(64000, 20001);
  size_t at = 0;
  const auto random = [&](size_t count, double scale, double centre = 0) {
    std::vector<double> values(count);
    for (double& value : values) value = centre + scale * (noise[at++ % noise.size()] - 10000) / 10000.0;
    return values;
  };
  const auto tensor = [](std::vector<int64_t> shape, const std::vector<double>& data) {
    return hir::tensorValue(hir::Precision::F64, std::move(shape), data);
  };
  constexpr int kTokens = 4;
  for (int test = 0; test < 2500; ++test) {  // 10 000 token steps
    const double centre = test % 5 == 0 ? -1e-9 : test % 5 == 1 ? -50 : -1;
    const auto q = random(kTokens * 4, 1), k = random(kTokens * 4, 1), v = random(kTokens * 6, 2);
    const auto g = random(kTokens * 2, std::abs(centre), centre), b = random(kTokens * 2, 0.5, 0.5);
    auto results =
        evaluator.evaluate("f", {tensor({kTokens, 1, 4}, q), tensor({kTokens, 1, 4}, k),
                                 tensor({kTokens, 2, 3}, v), tensor({kTokens, 2}, g), tensor({kTokens, 2}, b),
                                 hir::rowsValue(hir::StepRows::text(0, kTokens))});
    ASSERT_TRUE(mlir::succeeded(results));
    std::vector<double> expected;
    double s[2][4][3] = {};
    for (int t = 0; t < kTokens; ++t)
      for (int h = 0; h < 2; ++h)
        for (int m = 0; m < 3; ++m) {
          double read = 0, out = 0;
          for (int i = 0; i < 4; ++i) read += (s[h][i][m] *= std::exp(g[t * 2 + h])) * k[t * 4 + i];
          const double u = b[t * 2 + h] * (v[t * 6 + h * 3 + m] - read);
          for (int i = 0; i < 4; ++i) out += (s[h][i][m] += k[t * 4 + i] * u) * q[t * 4 + i];
          expected.push_back(out * 0.5);
        }
    ASSERT_LT(Nmse(hir::toDoubles((*results)[0]), expected), 1e-24) << "case " << test;
  }
}

TEST(GatedNorm, IsGatedWithSilu) {
  ExpectMutantDiffers(MakeTiny({}), {.sigmoid_for_silu_gate = true});
}

TEST(Rope, IsPartialNeoxWithOneTableForAllLayers) {
  TinyConfig config;
  config.layers = 8;
  ExpectMutantDiffers(MakeTiny(config), {.interleaved_rope = true});
  const TinyModel model = MakeTiny(config);
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  std::vector<hir::RopeTableOp> tables;
  mlir::ModuleOp(*imported.module).walk([&](hir::RopeTableOp op) { tables.push_back(op); });
  ASSERT_EQ(tables.size(), 1u);
  int readers = 0;
  for (mlir::Operation* user : tables[0]->getUsers()) readers += llvm::isa<mlir::func::CallOp>(user);
  EXPECT_EQ(readers, 2) << "both attention layers read the one table";

  // Text: M-RoPE and one position per token are the same bits.
  const std::vector<int32_t> ids = SomeIds(9, config.vocab);
  const Weights weights(*imported.model.file);
  const auto run = [&] {
    hir::Evaluator evaluator(*imported.module, weights, hir::Precision::F32);
    auto out = evaluator.evaluate("trunk", {hir::idsValue(ids), hir::rowsValue(hir::StepRows::text(0, 9))});
    return mlir::succeeded(out) ? hir::toDoubles((*out)[0]) : std::vector<double>();
  };
  const std::vector<double> sections = run();
  ASSERT_FALSE(tables[0].getSections().empty());
  tables[0].setSections({});
  EXPECT_EQ(run(), sections);
  ASSERT_FALSE(sections.empty());
}

TEST(GroupedQueries, MatchForSeveralGroupSizes) {
  for (int kv : {1, 2, 4, 8}) {
    SCOPED_TRACE(kv);
    TinyConfig config;
    config.layers = 2;
    config.interval = 2;
    config.heads = 8;
    config.kv_heads = kv;
    ExpectOracle(MakeTiny(config));
    config.arch = "qwen3";
    ExpectOracle(MakeTiny(config));
  }
}

// All embeddings have a large positive first value and W_q's gate rows look only at it, so that every
// gate of the one layer is far out on one side.
TEST(OutputGate, SaturatesToOpenAndToNothing) {
  TinyConfig config;
  config.layers = 1;
  config.interval = 1;
  TinyModel model = MakeTiny(config);
  for (int64_t id = 0; id < config.vocab; ++id)
    model.find("token_embd.weight")->values[id * config.hidden] = 3;
  const auto force = [&](float value) {
    TinyTensor* q = model.find("blk.0.attn_q.weight");
    for (int64_t row = 0; row < q->ne[1]; ++row)
      for (int64_t i = 0; i < config.hidden && row / config.head_dim % 2 == 1; ++i)
        q->values[row * config.hidden + i] = i == 0 ? value : 0;
  };
  const std::vector<int32_t> ids = SomeIds(10, config.vocab);
  force(1e4f);
  const OpenModel open = Open(model);
  const std::vector<double> ungated = OracleLogits(*open.file, ids, {.gate_always_open = true});
  EXPECT_LT(Nmse(Logits(model, ids), ungated), kSame);
  force(-1e4f);
  const std::vector<double> closed = Logits(model, ids);
  EXPECT_GT(Nmse(closed, ungated), kMoved);
  for (float& value : model.find("blk.0.attn_output.weight")->values) value = 0;
  EXPECT_LT(Nmse(closed, Logits(model, ids)), kSame);
}

TEST(Dense, HasNoOpForExperts) {
  std::set<std::string> ops = Import(MakeTiny({})).ops();
  const std::set<std::string> known = {
      "builtin.module",  "func.call",     "func.func",         "func.return",     "hir.activation",
      "hir.add",         "hir.attention", "hir.embed",         "hir.gated_delta", "hir.gdn_decay",
      "hir.kv_store",    "hir.l2_norm",   "hir.causal_conv1d", "hir.linear",      "hir.mul",
      "hir.param",       "hir.reshape",   "hir.rms_norm",      "hir.rope",        "hir.rope_table",
      "hir.select_rows", "hir.slice",     "hir.state",         "hir.swiglu"};
  EXPECT_EQ(ops, known);
}

TEST(Nextn, LeavesTheTrunkAlone) {
  TinyConfig config;
  config.nextn = 1;
  const TinyModel with = MakeTiny(config);
  TinyModel without = with;
  std::erase_if(without.tensors, [](const TinyTensor& tensor) { return tensor.name.starts_with("blk.4."); });
  without.erase("nextn_predict_layers");
  without.set("block_count", 4u);
  const std::vector<int32_t> ids = SomeIds(8, config.vocab);
  EXPECT_EQ(Logits(with, ids), Logits(without, ids));
  ExpectOracle(with);
}

// The evaluator: feeding a prompt in pieces is feeding it at once.
TEST(Pieces, AnySplitGivesEqualBits) {
  const OpenModel open = Open(MakeTiny({}));
  const std::vector<int32_t> ids = SomeIds(11, 64);
  const std::vector<double> whole = Logits(*open.file, ids);
  for (size_t first = 1; first < ids.size(); ++first)
    for (size_t length : {size_t{1}, size_t{3}, ids.size()}) {
      SCOPED_TRACE(std::to_string(first) + " then " + std::to_string(length));
      auto session = compiler::EvalSession::Create(*open.file, true, false);
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<double> all;
      for (size_t at = 0; at < ids.size();) {
        const size_t count = std::min(at == 0 ? first : length, ids.size() - at);
        auto logits = (*session)->Step(std::span(ids).subspan(at, count));
        ASSERT_TRUE(logits.ok()) << logits.status();
        all.insert(all.end(), logits->begin(), logits->end());
        at += count;
      }
      EXPECT_EQ(all, whole);
    }
}

TEST(Rounding, HalfPrecisionCacheAndSinglePrecisionStayClose) {
  TinyConfig config;
  config.interval = 2;
  const OpenModel open = Open(MakeTiny(config));
  const std::vector<int32_t> ids = SomeIds(12, config.vocab);
  const std::vector<double> exact = Logits(*open.file, ids);
  const auto error = [&](bool f64, bool kv_f16) {
    auto session = compiler::EvalSession::Create(*open.file, f64, kv_f16);
    return Nmse(*(*session)->Step(ids), exact);
  };
  EXPECT_LT(error(false, false), 1e-10);
  EXPECT_GT(error(false, false), 0) << "single precision rounds nothing";
  EXPECT_LT(error(true, true), 1e-5);
  EXPECT_GT(error(true, true), 1e-12) << "the half precision cache rounds nothing";
}

}  // namespace
}  // namespace qcc::models::testing
