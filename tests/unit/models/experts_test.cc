// Architectures with experts: what the imported ops compute against an oracle that shares nothing with them,
// the forms in which files hold the same weights, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/driver/eval.h"
#include "dialects/hir/IR/Hir.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tests/unit/models/against_oracle.h"

namespace qcc::models::testing {
namespace {

const char* const kArchitectures[] = {"qwen35moe", "qwen3moe", "qwen3next"};

TEST(Oracle, AgreesOnAllArchitecturesWithExperts) {
  for (const char* arch : kArchitectures) {
    SCOPED_TRACE(arch);
    TinyConfig config = Config(arch);
    ExpectOracle(MakeTiny(config));
    config.tied = false;
    config.seed = 3;
    config.shared_ffn = 0;
    ExpectOracle(MakeTiny(config));
    ExpectMutantDiffers(MakeTiny(config), {.first_experts = true});
    ExpectMutantDiffers(MakeTiny(config), {.gates_of_all = true});
  }
  ExpectMutantDiffers(MakeTiny(Config("qwen35moe")), {.shared_open = true});
  ExpectMutantDiffers(MakeTiny(Config("qwen3next")), {.shared_open = true});
}

TEST(Oracle, AgreesOnHowManyExpertsThereAre) {
  for (auto [count, used] : {std::pair(1, 1), std::pair(4, 4), std::pair(5, 1), std::pair(9, 4)}) {
    SCOPED_TRACE(std::to_string(used) + " of " + std::to_string(count));
    TinyConfig config = Config("qwen35moe");
    config.experts = count;
    config.experts_used = used;
    ExpectOracle(MakeTiny(config));
  }
}

TEST(Routing, KeysSayHowExpertsAreWeighted) {
  TinyModel model = MakeTiny(Config("qwen3moe"));
  const std::vector<int32_t> ids = SomeIds(6, 64);
  const std::vector<double> plain = Logits(model, ids);
  model.set("expert_gating_func", 1u);
  model.set("expert_weights_norm", true);
  model.set("expert_weights_scale", 0.0f);
  EXPECT_EQ(Logits(model, ids), plain) << "these are the defaults, and a scale of 0 is none";
  model.set("expert_gating_func", 0u);
  EXPECT_EQ(Logits(model, ids), plain) << "no function of its own is that of the architecture";
  model.set("expert_gating_func", 1u);
  model.set("expert_weights_scale", 1.0f);
  EXPECT_EQ(Logits(model, ids), plain);
  model.set("expert_weights_scale", 2.5f);
  ExpectOracle(model);
  model.set("expert_weights_norm", false);
  ExpectOracle(model);
  model.set("expert_gating_func", 2u);
  ExpectOracle(model);
  model.set("expert_weights_norm", true);
  ExpectOracle(model);
}

TEST(Routing, ImpossibleKeysAreRefused) {
  const auto refuse = [](const char* suffix, KeyValue value, const char* code,
                         std::vector<std::string> parts) {
    SCOPED_TRACE(suffix);
    TinyModel model = MakeTiny(Config("qwen35moe"));
    model.set(suffix, std::move(value));
    parts.push_back(std::string("qwen35moe.") + suffix);
    ExpectRefused(model, code, parts);
  };
  refuse("expert_count", 0u, "Q2003", {"0", "expected 1"});
  refuse("expert_used_count", 0u, "Q2003", {"0", "expected 1"});
  refuse("expert_used_count", 7u, "Q2004", {"7 experts", "of 6", "qwen35moe.expert_count"});
  refuse("expert_gating_func", 3u, "Q2003", {"3", "softmax", "sigmoid"});
  refuse("expert_weights_scale", -1.0f, "Q2003", {"-1"});
  refuse("expert_weights_scale", std::nanf(""), "Q2003", {"nan"});
  refuse("expert_group_count", 4u, "Q2008", {"4"});
  refuse("leading_dense_block_count", 1u, "Q2008", {"1"});
  TinyModel model = MakeTiny(Config("qwen35moe"));
  model.set("expert_group_count", 1u);
  EXPECT_TRUE(Import(model).status.ok()) << Import(model).status;
}

class RequiredExpertKey : public ::testing::TestWithParam<const char*> {};

TEST_P(RequiredExpertKey, ItsAbsenceIsNamed) {
  TinyModel model = MakeTiny(Config("qwen35moe"));
  ASSERT_TRUE(model.erase(GetParam())) << "the test's model lacks " << GetParam();
  ExpectRefused(model, "Q2002", {std::string("qwen35moe.") + GetParam(), "missing"});
}

INSTANTIATE_TEST_SUITE_P(Qwen35Moe, RequiredExpertKey,
                         ::testing::Values("attention.head_count", "block_count", "embedding_length",
                                           "attention.layer_norm_rms_epsilon", "ssm.conv_kernel",
                                           "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
                                           "expert_count", "expert_used_count",
                                           "expert_feed_forward_length"));

TEST(Widths, FollowFromTheDenseOneWhereTheyCoincide) {
  TinyConfig config = Config("qwen35moe");
  config.expert_ffn = 24;
  config.shared_ffn = 48;
  const TinyModel stated = MakeTiny(config);
  TinyModel bare = stated;
  ASSERT_TRUE(bare.erase("expert_feed_forward_length"));
  ASSERT_TRUE(bare.erase("expert_shared_feed_forward_length"));
  bare.set("feed_forward_length", 48u);  // two experts of 24
  const Imported a = Import(stated), b = Import(bare);
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text());
  // Without a dense one the shared expert's tensors say its width.
  TinyModel none = stated;
  ASSERT_TRUE(none.erase("expert_shared_feed_forward_length"));
  EXPECT_EQ(Import(none).text(), a.text()) << Import(none).status;
  // Where the tensors have another width, the key is what is missing.
  bare.set("feed_forward_length", 96u);
  ExpectRefused(bare, "Q2002", {"qwen35moe.expert_feed_forward_length", "missing"});
}

// Gate rows of the shared expert's factor at 0: a sigmoid of exactly one half.
TEST(SharedExpert, AZeroGateGivesHalf) {
  TinyConfig config = Config("qwen35moe");
  config.layers = 1;
  config.interval = 1;
  TinyModel half = MakeTiny(config);
  for (float& value : half.find("blk.0.ffn_gate_inp_shexp.weight")->values) value = 0;
  TinyModel doubled = half;
  for (float& value : doubled.find("blk.0.ffn_down_shexp.weight")->values) value *= 2;
  ExpectOracle(half);
  const std::vector<int32_t> ids = SomeIds(5, 64);
  const OpenModel open = Open(doubled);
  EXPECT_LT(Nmse(Logits(half, ids), OracleLogits(*Open(half).file, ids)), kSame);
  EXPECT_LT(Nmse(Logits(*open.file, ids), OracleLogits(*open.file, ids)), kSame);
  // Half of twice as much is the shared expert without a gate.
  EXPECT_LT(Nmse(Logits(doubled, ids), OracleLogits(*Open(half).file, ids, {.shared_open = true})), kSame);
}

// Where its own key does not say that there is one in every layer.
TEST(SharedExpert, IsAbsentWithAllOfItsTensors) {
  TinyModel model = MakeTiny(Config("qwen35moe"));
  ASSERT_TRUE(model.erase("expert_shared_feed_forward_length"));
  model.set("feed_forward_length", static_cast<uint32_t>(Config("qwen35moe").shared_ffn));
  for (const char* part : {"gate_inp", "gate", "up", "down"})
    ASSERT_TRUE(model.erase_tensor(std::string("blk.1.ffn_") + part + "_shexp.weight"));
  ExpectOracle(model);
  EXPECT_EQ(Import(model).functions(),
            (std::vector<std::string>{"block_gdn", "block_gdn_1", "block_attn", "trunk", "head"}));
}

TEST(SharedExpert, IsInEveryLayerWhereTheKeySaysSo) {
  for (const char* arch : {"qwen35moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    TinyModel model = MakeTiny(Config(arch));
    for (const char* part : {"gate_inp", "gate", "up", "down"})
      ASSERT_TRUE(model.erase_tensor(std::string("blk.1.ffn_") + part + "_shexp.weight"));
    ExpectRefused(model, "Q2005", {"blk.1.ffn_gate_shexp.weight", "missing"});
  }
}

// A router that ties takes the experts of the lowest ids, and nothing else moves the logits.
TEST(Routing, ATieTakesTheLowestIds) {
  TinyConfig config = Config("qwen3moe");
  config.layers = 1;
  config.experts_used = 3;
  TinyModel model = MakeTiny(config);
  for (float& value : model.find("blk.0.ffn_gate_inp.weight")->values) value = 0;
  const std::vector<int32_t> ids = SomeIds(6, 64);
  const std::vector<double> expected = Logits(model, ids);
  for (int64_t e = 0; e < config.experts; ++e) {
    TinyModel poisoned = model;
    TinyTensor* up = poisoned.find("blk.0.ffn_up_exps.weight");
    const int64_t size = config.expert_ffn * config.hidden;
    for (int64_t i = 0; i < size; ++i) up->values[e * size + i] += 0.5f;
    EXPECT_EQ(Logits(poisoned, ids) != expected, e < 3) << "expert " << e;
  }
}

// One layer, so that a token's logits hang on its own experts alone. Every token is moved by as many experts
// as it uses, and others stay as they are.
TEST(Routing, PoisonReachesTheTokensOfItsExpert) {
  TinyConfig config = Config("qwen3moe");
  config.layers = 1;
  config.experts = 40;
  config.experts_used = 5;
  config.expert_ffn = 8;
  const TinyModel model = MakeTiny(config);
  ExpectOracle(model);
  const std::vector<int32_t> ids = SomeIds(9, config.vocab);
  const std::vector<double> before = Logits(model, ids);
  std::vector<int> moved_by(ids.size());
  for (int64_t e = 0; e < config.experts; ++e) {
    TinyModel poisoned = model;
    TinyTensor* down = poisoned.find("blk.0.ffn_down_exps.weight");
    const int64_t size = config.expert_ffn * config.hidden;
    for (int64_t i = 0; i < size; ++i) down->values[e * size + i] += 0.25f;
    const std::vector<double> after = Logits(poisoned, ids);
    for (size_t t = 0; t < ids.size(); ++t)
      moved_by[t] += !std::equal(after.begin() + t * config.vocab, after.begin() + (t + 1) * config.vocab,
                                 before.begin() + t * config.vocab);
  }
  EXPECT_EQ(moved_by, std::vector<int>(ids.size(), 5));
}

TinyTensor Merged(const TinyModel& model, const std::string& layer, int64_t experts) {
  TinyModel copy = model;
  const TinyTensor* gate = copy.find(layer + "ffn_gate_exps.weight");
  const TinyTensor* up = copy.find(layer + "ffn_up_exps.weight");
  TinyTensor both{
      layer + "ffn_gate_up_exps.weight", {gate->ne[0], 2 * gate->ne[1], experts}, {}, gate->format};
  const size_t size = gate->values.size() / experts;
  for (int64_t e = 0; e < experts; ++e)
    for (const TinyTensor* part : {gate, up})
      both.values.insert(both.values.end(), part->values.begin() + e * size,
                         part->values.begin() + (e + 1) * size);
  return both;
}

TEST(Merged, GateAndUpOfAllExpertsAreTheSameBlocks) {
  for (Format format : {Format::F32, Format::Q8_0}) {
    TinyConfig config = Config("qwen35moe");
    TinyModel apart = MakeTiny(config);
    for (TinyTensor& tensor : apart.tensors)
      if (tensor.name.ends_with("gate_exps.weight") || tensor.name.ends_with("up_exps.weight"))
        tensor.format = format;
    TinyModel merged = apart;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      const std::string b = "blk." + std::to_string(layer) + ".";
      merged.add(Merged(apart, b, config.experts));
      merged.erase_tensor(b + "ffn_gate_exps.weight");
      merged.erase_tensor(b + "ffn_up_exps.weight");
    }
    const std::vector<int32_t> ids = SomeIds(7, 64);
    EXPECT_EQ(Logits(merged, ids), Logits(apart, ids));
    // The blocks' functions are the same text; only the params differ.
    const Imported a = Import(apart), b = Import(merged);
    EXPECT_TRUE(b.warnings.empty()) << b.warnings[0];
    const std::string text_a = a.text(), text_b = b.text();
    EXPECT_EQ(text_a.substr(0, text_a.find("func.func @trunk")),
              text_b.substr(0, text_b.find("func.func @trunk")));
    EXPECT_NE(
        text_b.find("hir.param \"blk.0.ffn_gate_up_exps.weight\" pieces <6 groups of 48 rows, [24], [24]>"),
        std::string::npos)
        << text_b;
  }
  // Its scale is that of both.
  TinyModel merged = MakeTiny(Config("qwen3moe")), scaled;
  for (int64_t layer = 0; layer < 4; ++layer) {
    const std::string b = "blk." + std::to_string(layer) + ".";
    merged.add(Merged(merged, b, 6));
    merged.erase_tensor(b + "ffn_gate_exps.weight");
    merged.erase_tensor(b + "ffn_up_exps.weight");
  }
  scaled = merged;
  scaled.add({"blk.1.ffn_gate_up_exps.scale", {6}, {1, 2, 0.5f, 4, 1, 0.25f}});
  TinyTensor* both = merged.find("blk.1.ffn_gate_up_exps.weight");
  const float factors[] = {1, 2, 0.5f, 4, 1, 0.25f};
  for (size_t i = 0; i < both->values.size(); ++i) both->values[i] *= factors[i / (both->values.size() / 6)];
  const std::vector<int32_t> ids = SomeIds(7, 64);
  EXPECT_EQ(Logits(scaled, ids), Logits(merged, ids));
}

TEST(Companions, ScalesOfExpertsAreOneNumberOrOneForEach) {
  const TinyModel base = MakeTiny(Config("qwen35moe"));
  const std::vector<int32_t> ids = SomeIds(6, 64);
  const std::vector<double> unscaled = Logits(base, ids);
  const float factors[] = {0.5f, 2, 4, 0.25f, 1, 8};
  for (const char* part : {"gate_exps", "up_exps", "down_exps", "gate_shexp", "up_shexp", "down_shexp"})
    for (bool each : {false, true}) {
      const std::string stem = std::string("blk.2.ffn_") + part;
      if (each && stem.ends_with("shexp")) continue;
      SCOPED_TRACE(stem + (each ? " each" : " one"));
      TinyModel scaled = base, multiplied = base;
      if (each)
        scaled.add({stem + ".scale", {6}, {factors, factors + 6}});
      else
        scaled.add({stem + ".scale", {1}, {0.5f}});
      scaled.add({stem + ".input_scale", {1}, {3}});
      std::vector<float>& values = multiplied.find(stem + ".weight")->values;
      for (size_t i = 0; i < values.size(); ++i) values[i] *= each ? factors[i / (values.size() / 6)] : 0.5f;
      const std::vector<double> logits = Logits(scaled, ids);
      EXPECT_EQ(logits, Logits(multiplied, ids));
      EXPECT_NE(logits, unscaled);
    }
  TinyModel wrong = base;
  wrong.add({"blk.2.ffn_up_exps.scale", {3}, {1, 1, 1}});
  ExpectRefused(wrong, "Q2006", {"blk.2.ffn_up_exps.scale", "{3}", "{6}"});
  for (const char* name :
       {"blk.2.ffn_gate_inp.scale", "blk.2.ffn_gate_inp_shexp.scale", "blk.2.exp_probs_b.bias"}) {
    SCOPED_TRACE(name);
    TinyModel foreign = base;
    foreign.add({name, {1}, {1}});
    ExpectRefused(foreign, "Q2008", {name});
  }
}

TEST(Shapes, EveryTensorOfExpertsIsCheckedByName) {
  for (const TinyConfig& config : {Config("qwen35moe", 1), Config("qwen3moe"), Config("qwen3next", 1)})
    ExpectEveryShapeChecked(MakeTiny(config), [](const std::string& tensor) {
      return tensor.find("shared_head_norm") != std::string::npos;
    });
}

TEST(Formats, RoutersAreNotQuantized) {
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_inp_shexp.weight"}) {
    SCOPED_TRACE(name);
    TinyModel model = MakeTiny(Config("qwen35moe"));
    model.find(name)->format = Format::Q8_0;
    ExpectRefused(model, "Q2007", {name, "q8_0", "f32"});
    model.find(name)->format = Format::F16;
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_EQ(imported.text(), Import(MakeTiny(Config("qwen35moe"))).text());
  }
}

TEST(Variants, NormalisedWeightsHaveTwoSpellings) {
  TinyModel other = MakeTiny(Config("qwen35moe")), usual = other;
  other.set("norm_top_k_prob", false);
  usual.set("expert_weights_norm", false);
  const Imported imported = Import(other);
  EXPECT_TRUE(imported.warnings.empty()) << imported.warnings[0];
  EXPECT_EQ(imported.text(), Import(usual).text());
}

TEST(Variants, KeysWithANumberForEachLayer) {
  const TinyConfig config = Config("qwen35moe");
  const TinyModel plain = MakeTiny(config);
  const Imported expected = Import(plain);
  for (const auto& [key, value] : {std::pair("expert_feed_forward_length", config.expert_ffn),
                                   std::pair("expert_used_count", config.experts_used)}) {
    SCOPED_TRACE(key);
    std::vector<int32_t> values(static_cast<size_t>(config.layers), static_cast<int32_t>(value));
    TinyModel model = plain;
    model.set(key, values);
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_EQ(imported.text(), expected.text());
    values[1] += 1;
    model.set(key, values);
    ExpectRefused(model, "Q2003", {key, "expected one number for all layers"});
  }
}

TEST(Variants, OfAttentionLayersHoldWithExperts) {
  for (const char* arch : kArchitectures) {
    SCOPED_TRACE(arch);
    const TinyModel plain = MakeTiny(Config(arch));
    const std::vector<int32_t> ids = SomeIds(7, 64);
    const std::vector<double> expected = Logits(plain, ids);
    TinyModel model = plain;
    const int32_t none = arch == std::string("qwen3moe") ? 2 : 0;
    model.set("attention.head_count_kv", std::vector<int32_t>{2, none, 2, 2});
    EXPECT_EQ(Logits(model, ids), expected);
    FuseQkv(model, 3);
    EXPECT_EQ(Logits(model, ids), expected);
    model.set("rope.scaling.type", std::string("yarn"));
    model.set("rope.scaling.factor", 4.0f);
    model.set("rope.scaling.original_context_length", 64u);
    EXPECT_NE(Logits(model, ids), expected);
    if (arch == std::string("qwen3moe")) continue;
    model = plain;
    model.set("attention.recurrent_layers", std::vector<bool>{true, true, true, false});
    model.set("full_attention_interval", 3u);
    for (int layer : {0, 1, 2}) {
      const std::string b = "blk." + std::to_string(layer) + ".ssm_dt";
      model.find(b + ".bias")->name = layer == 0 ? b : b + ".weight";
    }
    EXPECT_EQ(Logits(model, ids), expected);
  }
}

TEST(Nextn, ItsBlockHasExpertsOrIsDenseOrHasNeither) {
  for (const char* arch : {"qwen35moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    const TinyModel with = MakeTiny(Config(arch, 1));
    ExpectOracle(with);  // of the trunk
    EXPECT_EQ(Import(with).functions(),
              (std::vector<std::string>{"block_gdn", "block_attn", "trunk", "head", "mtp_hidden", "mtp"}))
        << "its block is the trunk's";
    TinyModel bare = with;
    std::erase_if(bare.tensors,
                  [](const TinyTensor& tensor) { return tensor.name.starts_with("blk.4.ffn_"); });
    const Imported neither = Import(bare);
    ASSERT_TRUE(neither.status.ok()) << neither.status;
    EXPECT_EQ(neither.functions().at(2), "block_attn_1");
    TinyModel dense = bare;
    for (auto [part, rows, columns] :
         {std::tuple("gate", 20, 32), std::tuple("up", 20, 32), std::tuple("down", 32, 20)})
      dense.add(
          {std::string("blk.4.ffn_") + part + ".weight", {columns, rows}, std::vector<float>(640, 0.1f)});
    ExpectRefused(dense, "Q2002", {"feed_forward_length", "missing"});
    dense.set("feed_forward_length", 20u);
    const Imported imported = Import(dense);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_NE(imported.text().find("hir.param \"blk.4.ffn_up.weight\""), std::string::npos);
    ExpectOracle(dense);
  }
}

TEST(Nextn, AloneIsNotAModelWithExpertsEither) {
  TinyModel model = MakeTiny(Config("qwen35moe", 1));
  std::erase_if(model.tensors, [](const TinyTensor& tensor) {
    return tensor.name.starts_with("blk.") && !tensor.name.starts_with("blk.4.");
  });
  ExpectRefused(model, "Q2005", {"only the NextN block"});
}

// A layer without a router and with a dense block is dense.
TEST(Dense, SomeLayersMayBe) {
  TinyModel model = MakeTiny(Config("qwen3moe"));
  std::erase_if(model.tensors, [](const TinyTensor& tensor) {
    return tensor.name.starts_with("blk.1.ffn_") && !tensor.name.ends_with("norm.weight");
  });
  ExpectRefused(model, "Q2005", {"blk.1.ffn_gate_inp.weight"});
  for (auto [part, rows, columns] :
       {std::tuple("gate", 20, 32), std::tuple("up", 20, 32), std::tuple("down", 32, 20)})
    model.add({std::string("blk.1.ffn_") + part + ".weight", {columns, rows}, std::vector<float>(640, 0.1f)});
  ExpectRefused(model, "Q2002", {"feed_forward_length", "missing"});
  model.set("feed_forward_length", 20u);
  ExpectOracle(model);
}

TEST(Module, HasTheOpsOfExperts) {
  const Imported imported = Import(MakeTiny(Config("qwen35moe")));
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  const std::set<std::string> ops = imported.ops();
  for (const char* op : {"hir.moe_route", "hir.moe_experts", "hir.scale_rows"})
    EXPECT_TRUE(ops.contains(op)) << op;
  EXPECT_EQ(imported.functions(), (std::vector<std::string>{"block_gdn", "block_attn", "trunk", "head"}));
  EXPECT_NE(imported.text().find("softmax top_k 2 normalise true floor 6.1035"), std::string::npos);
  mlir::ModuleOp(*imported.module).walk([&](mlir::Operation* op) {
    EXPECT_TRUE(llvm::isa<mlir::NameLoc>(op->getLoc()) || llvm::isa<mlir::func::ReturnOp>(op))
        << op->getName().getStringRef().str() << " has no name in its location";
  });
}

TEST(Pieces, AnySplitGivesEqualBitsWithExperts) {
  for (const char* arch : kArchitectures) {
    const OpenModel open = Open(MakeTiny(Config(arch)));
    const std::vector<int32_t> ids = SomeIds(7, 64);
    const std::vector<double> whole = Logits(*open.file, ids);
    for (size_t first = 1; first < ids.size(); ++first) {
      auto session = compiler::EvalSession::Create(*open.file, true, false);
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<double> all;
      for (size_t at = 0; at < ids.size();) {
        const size_t count = std::min(at == 0 ? first : size_t{2}, ids.size() - at);
        auto logits = (*session)->Step(std::span(ids).subspan(at, count));
        ASSERT_TRUE(logits.ok()) << logits.status();
        all.insert(all.end(), logits->begin(), logits->end());
        at += count;
      }
      EXPECT_EQ(all, whole) << arch << ", first " << first;
    }
  }
}

}  // namespace
}  // namespace qcc::models::testing
