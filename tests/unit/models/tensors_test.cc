// Tensors: names, spellings, shapes, formats, and what the module looks like.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dialects/hir/IR/Hir.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tests/unit/models/imported.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {
namespace {

TinyConfig Config(const std::string& arch = "qwen35", int64_t nextn = 0) {
  TinyConfig config;
  config.arch = arch;
  config.nextn = nextn;
  return config;
}

TEST(Spelling, DtBiasAndConvolutionRankDoNotMatter) {
  const TinyModel plain = MakeTiny(Config());
  const std::vector<int32_t> ids = SomeIds(6, 64);
  const std::vector<double> expected = Logits(plain, ids);
  std::string blocks;
  for (const char* dt : {"ssm_dt.bias", "ssm_dt", "ssm_dt.weight"})
    for (bool rank3 : {false, true}) {
      SCOPED_TRACE(std::string(dt) + (rank3 ? ", rank 3" : ", rank 2"));
      TinyModel model = plain;
      for (int layer = 0; layer < 3; ++layer) {
        const std::string b = "blk." + std::to_string(layer) + ".";
        model.find(b + "ssm_dt.bias")->name = b + dt;
        TinyTensor* conv = model.find(b + "ssm_conv1d.weight");
        if (rank3) conv->ne = {conv->ne[0], 1, conv->ne[1]};
      }
      const Imported imported = Import(model);
      ASSERT_TRUE(imported.status.ok()) << imported.status;
      EXPECT_TRUE(imported.warnings.empty()) << imported.warnings[0];
      // Only the name in hir.param may differ.
      std::string text = imported.text();
      const std::string from = std::string("ssm_dt") + (dt + 6) + "\"";
      for (size_t at; std::string(dt) != "ssm_dt.bias" && (at = text.find(from)) != std::string::npos;)
        text.replace(at, from.size(), "ssm_dt.bias\"");
      if (blocks.empty()) blocks = text;
      EXPECT_EQ(text, blocks);
      EXPECT_EQ(Logits(model, ids), expected);
    }
}

TEST(Spelling, FfnNormIsAcceptedForPostAttentionNorm) {
  TinyModel model = MakeTiny(Config());
  const std::vector<int32_t> ids = SomeIds(4, 64);
  const std::vector<double> expected = Logits(model, ids);
  model.find("blk.1.post_attention_norm.weight")->name = "blk.1.ffn_norm.weight";
  EXPECT_EQ(Logits(model, ids), expected);
}

TEST(TiedHead, ACopyOfTheEmbeddingIsTheEmbedding) {
  const TinyModel tied = MakeTiny(Config());
  TinyModel copied = tied;
  TinyTensor head = *copied.find("token_embd.weight");
  head.name = "output.weight";
  copied.add(head);
  const Imported a = Import(tied), b = Import(copied);
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text()) << "the copy is a matrix of its own";
  EXPECT_TRUE(b.warnings.empty()) << b.warnings[0];
  const std::vector<int32_t> ids = SomeIds(5, 64);
  EXPECT_EQ(Logits(tied, ids), Logits(copied, ids));

  copied.find("output.weight")->values.back() += 1;
  const Imported c = Import(copied);
  EXPECT_NE(c.text().find("hir.param \"output.weight\""), std::string::npos)
      << "a head of its own is not used";
  // The same values in another format are other bytes: rounding differs, so they are another matrix.
  copied = tied;
  head.format = Format::F16;
  copied.add(head);
  EXPECT_NE(Import(copied).text().find("hir.param \"output.weight\""), std::string::npos);
}

TEST(Shapes, EveryTensorIsCheckedByName) {
  for (const TinyConfig& config : {Config("qwen35", 1), Config("qwen3")})
    ExpectEveryShapeChecked(MakeTiny(config), [&](const std::string& tensor) {
      const bool draft_ffn = tensor.starts_with("blk.4.ffn_") && config.arch == "qwen35";
      return draft_ffn || tensor.find("shared_head_norm") != std::string::npos;
    });
}

TEST(Shapes, AnEmptyVocabularyIsRefused) {
  TinyModel model = MakeTiny(Config());
  model.find("token_embd.weight")->ne[1] = 0;
  model.find("token_embd.weight")->values.clear();
  ExpectRefused(model, "Q2006", {"token_embd.weight", "{32, 0}"});
}

TEST(Formats, MatricesMayHaveAnyVectorsAreNotQuantized) {
  TinyModel model = MakeTiny(Config());
  model.find("blk.0.attn_gate.weight")->format = Format::Q8_0;
  model.find("blk.1.ffn_up.weight")->format = Format::F16;
  model.find("token_embd.weight")->format = Format::Q4_0;
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_NE(imported.text().find("hir.param \"blk.0.attn_gate.weight\" : !hir.weight<32x32, q8_0>"),
            std::string::npos)
      << imported.text();
  TinyModel bad = MakeTiny(Config());
  bad.find("blk.0.attn_norm.weight")->format = Format::Q8_0;
  ExpectRefused(bad, "Q2007", {"blk.0.attn_norm.weight", "q8_0", "expected f32, f16 or bf16"});
}

// What a model needs in f32 may lie in fewer bits: f32 holds the same values.
TEST(Formats, HalvesGoAsF32) {
  const std::vector<int32_t> ids = SomeIds(7, 64);
  for (Format format : {Format::F16, Format::BF16}) {
    TinyModel halves = MakeTiny(Config()), same = halves;
    for (const char* name : {"blk.0.attn_norm.weight", "blk.1.ssm_a", "blk.0.ssm_conv1d.weight",
                             "blk.2.ssm_dt.bias", "blk.3.attn_q_norm.weight", "output_norm.weight"}) {
      halves.find(name)->format = format;
      for (float& value : same.find(name)->values) {
        uint8_t bytes[2];
        encode_row(format, &value, 1, bytes);
        decode_row(format, bytes, 1, &value);
      }
    }
    EXPECT_EQ(Import(halves).text(), Import(MakeTiny(Config())).text());
    EXPECT_EQ(Logits(halves, ids), Logits(same, ids));
    EXPECT_NE(Logits(halves, ids), Logits(MakeTiny(Config()), ids));
  }
}

// A converter that left A as it was: the state would grow, and no one would know why the text is nonsense.
TEST(Values, ADecayThatGrowsIsRefused) {
  TinyModel model = MakeTiny(Config());
  TinyTensor* rates = model.find("blk.1.ssm_a");
  rates->values[1] = 0;
  EXPECT_TRUE(Import(model).status.ok()) << Import(model).status;
  rates->values[1] = 0.25f;
  ExpectRefused(model, "Q2012", {"value 1 of tensor blk.1.ssm_a is 0.25", "at most 0"});
  rates->format = Format::F16;
  ExpectRefused(model, "Q2012", {"value 1 of tensor blk.1.ssm_a is 0.25"});
}

TEST(Companions, TensorsThatChangeOthersAreRefused) {
  for (const char* name :
       {"blk.0.attn_norm.scale", "blk.0.ssm_conv1d.scale", "token_embd.scale", "output.scale",
        "blk.3.attn_q_norm.input_scale", "blk.3.attn_q.bias", "output.bias", "blk.0.pestle.0.v.weight",
        "rope_freqs.weight", "blk.0.ffn_up.weight.lora_a", "blk.3.attn_sinks.weight"}) {
    SCOPED_TRACE(name);
    TinyModel model = MakeTiny(Config());
    model.add({name, {1}, {1.0f}});
    ExpectRefused(model, "Q2008", {name});
  }
}

bool IsLinear(const TinyTensor& tensor) {
  return tensor.ne.size() == 2 && tensor.name.ends_with(".weight") && tensor.name != "token_embd.weight" &&
         !tensor.name.ends_with("conv1d.weight");
}

std::string Beside(const std::string& weight, const char* companion) {
  return weight.substr(0, weight.size() - std::string_view("weight").size()) + companion;
}

// A scale of 0.5 is exact, so the logits are those of a file with halved weights, bit for bit.
TEST(Companions, AScaleMultipliesItsLinear) {
  const std::vector<int32_t> ids = SomeIds(5, 64);
  for (const char* arch : {"qwen35", "qwen3"}) {
    TinyConfig config = Config(arch);
    config.tied = false;
    const TinyModel base = MakeTiny(config);
    const std::vector<double> unscaled = Logits(base, ids);
    int linears = 0;
    for (const TinyTensor& tensor : base.tensors) {
      if (!IsLinear(tensor)) continue;
      SCOPED_TRACE(arch + (" " + tensor.name));
      ++linears;
      TinyModel scaled = base, halved = base;
      scaled.add({Beside(tensor.name, "scale"), {1}, {0.5f}});
      for (float& value : halved.find(tensor.name)->values) value *= 0.5f;
      const std::vector<double> logits = Logits(scaled, ids);
      EXPECT_EQ(logits, Logits(halved, ids));
      EXPECT_NE(logits, unscaled);
    }
    EXPECT_EQ(linears, arch == std::string("qwen35") ? 3 * 8 + 7 + 1 : 4 * 7 + 1);
  }
}

TEST(Companions, AScaleOfTheDraftHeadIsInItsFunction) {
  TinyModel model = MakeTiny(Config("qwen35", 1));
  model.add({"blk.4.nextn.eh_proj.scale", {1}, {0.5f}});
  model.add({"blk.4.attn_q.scale", {1}, {0.5f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_TRUE(imported.warnings.empty());
  // Its attention block differs from the trunk's now.
  EXPECT_EQ(imported.functions(), (std::vector<std::string>{"block_gdn", "block_attn", "block_attn_1",
                                                            "trunk", "head", "mtp_hidden", "mtp"}));
  EXPECT_NE(imported.text().find("hir.param \"blk.4.nextn.eh_proj.scale\" : !hir.weight<1, f32>"),
            std::string::npos);
}

TEST(Companions, LayersWithScalesShareTheirBlock) {
  TinyModel model = MakeTiny(Config());
  for (const char* layer : {"blk.0.", "blk.1.", "blk.2."})
    model.add({std::string(layer) + "ffn_up.scale", {1}, {0.5f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.functions(), (std::vector<std::string>{"block_gdn", "block_attn", "trunk", "head"}));
}

TEST(Companions, AnInputScaleIsPassedOver) {
  TinyModel model = MakeTiny(Config());
  model.add({"blk.0.ffn_up.input_scale", {1}, {0.5f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_EQ(imported.text(), Import(MakeTiny(Config())).text());
}

TEST(Companions, OneNumberIsWhatAScaleHolds) {
  for (const char* name : {"blk.0.ffn_up.scale", "blk.3.attn_q.input_scale"}) {
    SCOPED_TRACE(name);
    TinyModel many = MakeTiny(Config());
    many.add({name, {2}, {1.0f, 1.0f}});
    ExpectRefused(many, "Q2006", {name, "{2}", "{1}"});
  }
}

TEST(Companions, OtherTensorsAreWarnedAbout) {
  TinyModel model = MakeTiny(Config());
  model.add({"blk.norm.weight", {2}, {1.0f, 1.0f}});
  model.add({"something.else", {1}, {1.0f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  ASSERT_EQ(imported.warnings.size(), 2u);
  EXPECT_NE(imported.warnings[0].find("blk.norm.weight"), std::string::npos) << imported.warnings[0];
  EXPECT_NE(imported.warnings[1].find("something.else"), std::string::npos) << imported.warnings[1];
  EXPECT_EQ(imported.text(), Import(MakeTiny(Config())).text());
}

// Converters that make one file of text and images put the encoder's tensors beside the others.
TEST(Companions, AnImageEncoderIsWarnedAboutOnce) {
  TinyModel model = MakeTiny(Config());
  const Imported plain = Import(model);
  for (const char* name : {"v.blk.0.attn_qkv.weight", "v.blk.0.attn_qkv.bias", "mm.0.bias"})
    model.add({name, {2}, {1.0f, 1.0f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.text(), plain.text());
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("3 tensors of an image encoder"), std::string::npos)
      << imported.warnings[0];
}

TEST(Companions, ANextnBlockOfOtherNamesIsWarnedAboutOnce) {
  TinyModel model = MakeTiny(Config());
  for (const char* name : {"mtp.fc.weight", "mtp.layers.0.attn_q.weight"})
    model.add({name, {2}, {1.0f, 1.0f}});
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("2 tensors of a NextN block (mtp.*)"), std::string::npos)
      << imported.warnings[0];
}

// A trunk cut short would still say something.
TEST(Companions, LayersBehindTheLastAreRefused) {
  TinyModel model = MakeTiny(Config());
  model.set("block_count", 3u);
  ExpectRefused(model, "Q2004", {"blk.2", "blk.3."});
}

TEST(Fused, QkvOfAnAttentionLayerGivesTheSameLogits) {
  for (const char* arch : {"qwen35", "qwen3"}) {
    SCOPED_TRACE(arch);
    TinyModel model = MakeTiny(Config(arch));
    const std::vector<int32_t> ids = SomeIds(7, 64);
    const std::vector<double> expected = Logits(model, ids);
    FuseQkv(model, 3);
    EXPECT_EQ(Logits(model, ids), expected);
  }
}

TEST(Outlining, LikeLayersShareOneFunction) {
  TinyConfig config = Config();
  config.layers = 8;
  TinyModel model = MakeTiny(config);
  EXPECT_EQ(Import(model).functions(),
            (std::vector<std::string>{"block_gdn", "block_attn", "trunk", "head"}));
  // One layer with another format needs a function of its own; later layers like the first still share.
  model.find("blk.4.ffn_down.weight")->format = Format::F16;
  const Imported mixed = Import(model);
  EXPECT_EQ(mixed.functions(),
            (std::vector<std::string>{"block_gdn", "block_attn", "block_gdn_1", "trunk", "head"}));
  std::vector<std::string> calls;
  mlir::ModuleOp(*mixed.module).walk([&](mlir::func::CallOp call) {
    calls.push_back(call->getAttrOfType<mlir::StringAttr>("layer").str() + " " + call.getCallee().str());
  });
  EXPECT_EQ(calls, (std::vector<std::string>{"blk.0 block_gdn", "blk.1 block_gdn", "blk.2 block_gdn",
                                             "blk.3 block_attn", "blk.4 block_gdn_1", "blk.5 block_gdn",
                                             "blk.6 block_gdn", "blk.7 block_attn"}));
}

TEST(Outlining, KvHeadsMayDifferPerLayer) {
  TinyConfig config = Config("qwen3");
  config.layers = 3;
  TinyModel model = MakeTiny(config);
  model.set("attention.head_count_kv", std::vector<int32_t>{2, 4, 2});
  for (const char* name : {"blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    TinyTensor* tensor = model.find(name);
    tensor->ne[1] *= 2;
    tensor->values.insert(tensor->values.end(), tensor->values.begin(), tensor->values.end());
  }
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.functions(), (std::vector<std::string>{"block_attn", "block_attn_1", "trunk", "head"}));
}

TEST(Module, CarriesAttributesLocationsAndStates) {
  const Imported imported = Import(MakeTiny(Config()));
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  mlir::ModuleOp module = *imported.module;
  EXPECT_EQ(module->getAttrOfType<mlir::StringAttr>("hir.arch").str(), "qwen35");
  EXPECT_EQ(module->getAttrOfType<mlir::IntegerAttr>("hir.vocab_size").getInt(), 64);
  EXPECT_EQ(module->getAttrOfType<mlir::IntegerAttr>("hir.context_length").getInt(), 4096);
  EXPECT_EQ(module->getAttrOfType<mlir::IntegerAttr>("hir.embedding_length").getInt(), 32);
  EXPECT_EQ(module->getAttrOfType<mlir::StringAttr>("hir.l2_norm").str(), "rsqrt(sum + eps)");
  std::vector<std::string> states;
  module.walk([&](mlir::Operation* op) {
    EXPECT_TRUE(llvm::isa<mlir::NameLoc>(op->getLoc()) || llvm::isa<mlir::func::ReturnOp>(op))
        << op->getName().getStringRef().str() << " has no name in its location";
    if (auto linear = llvm::dyn_cast<hir::LinearOp>(op)) {
      const std::string name = llvm::cast<mlir::NameLoc>(linear.getLoc()).getName().str();
      EXPECT_TRUE(name.ends_with(".weight")) << name;
    }
    if (auto state = llvm::dyn_cast<hir::StateOp>(op)) states.push_back(state.getName().str());
  });
  EXPECT_EQ(states, (std::vector<std::string>{"blk.0.conv", "blk.0.delta", "blk.1.conv", "blk.1.delta",
                                              "blk.2.conv", "blk.2.delta", "blk.3.kv"}));
  EXPECT_NE(imported.text().find("!hir.state<kv, 2x16, f16>"), std::string::npos) << imported.text();
  ImportOptions max;
  max.l2_norm = L2Norm::kMax;
  const Imported lower_bound = Import(MakeTiny(Config()), max);
  ASSERT_TRUE(lower_bound.status.ok()) << lower_bound.status;
  EXPECT_EQ((*lower_bound.module)->getAttrOfType<mlir::StringAttr>("hir.l2_norm").str(),
            "1 / max(sqrt(sum), eps)");
  ImportOptions f32;
  f32.kv = KvElement::kF32;
  EXPECT_NE(Import(MakeTiny(Config()), f32).text().find("!hir.state<kv, 2x16, f32>"), std::string::npos);
}

TEST(Nextn, IsAFunctionOfItsOwn) {
  const Imported with = Import(MakeTiny(Config("qwen35", 1)));
  ASSERT_TRUE(with.status.ok()) << with.status;
  EXPECT_TRUE(with.warnings.empty()) << with.warnings[0];
  // Its attention block is like the trunk's, so it is the same function.
  EXPECT_EQ(with.functions(),
            (std::vector<std::string>{"block_gdn", "block_attn", "trunk", "head", "mtp_hidden", "mtp"}));
  EXPECT_NE(with.text().find("hir.state \"blk.4.kv\""), std::string::npos);
  ImportOptions trunk_only;
  trunk_only.mtp = false;
  const Imported without = Import(MakeTiny(Config("qwen35", 1)), trunk_only);
  EXPECT_EQ(without.text(), Import(MakeTiny(Config())).text());
}

TEST(Nextn, AloneIsNotAModel) {
  TinyModel model = MakeTiny(Config("qwen35", 1));
  std::erase_if(model.tensors, [](const TinyTensor& tensor) {
    return tensor.name.starts_with("blk.") && !tensor.name.starts_with("blk.4.");
  });
  ExpectRefused(model, "Q2005", {"only the NextN block"});
}

TEST(Nextn, OptionalTensorsReplaceTheSharedOnes) {
  const TinyModel base = MakeTiny(Config("qwen35", 1));
  const auto text_of_mtp = [](const TinyModel& model) {
    const Imported imported = Import(model);
    EXPECT_TRUE(imported.status.ok()) << imported.status;
    const std::string text = imported.text();
    return text.substr(std::min(text.size(), text.find("@mtp(")));
  };
  TinyModel model = base;
  model.erase_tensor("blk.4.nextn.shared_head_norm.weight");
  EXPECT_NE(text_of_mtp(model).find("hir.param \"output_norm.weight\""), std::string::npos);
  for (const char* name : {"blk.4.nextn.embed_tokens.weight", "blk.4.nextn.shared_head_head.weight"}) {
    SCOPED_TRACE(name);
    model = base;
    TinyTensor own = *model.find("token_embd.weight");
    own.name = name;
    model.add(own);
    EXPECT_NE(text_of_mtp(model).find(std::string("hir.param \"") + name + "\""), std::string::npos);
  }
  model = base;
  for (const char* name : {"blk.4.ffn_gate.weight", "blk.4.ffn_up.weight", "blk.4.ffn_down.weight"})
    model.erase_tensor(name);
  EXPECT_NE(text_of_mtp(model).find("@block_attn_1"), std::string::npos)
      << "a NextN block without FFN is not a block of its own";
}

TEST(Nextn, AnyOfItsOptionalTensorsMayBeThere) {
  const TinyModel base = MakeTiny(Config("qwen35", 1));
  struct {
    const char *own, *shared, *like;
  } const parts[] = {{"blk.4.nextn.embed_tokens.weight", "token_embd.weight", "token_embd.weight"},
                     {"blk.4.nextn.shared_head_head.weight", "token_embd.weight", "token_embd.weight"},
                     {"blk.4.nextn.shared_head_norm.weight", "output_norm.weight", "output_norm.weight"}};
  for (int which = 0; which < 8; ++which) {
    SCOPED_TRACE(which);
    TinyModel model = base;
    model.erase_tensor(parts[2].own);
    for (int i = 0; i < 3; ++i) {
      if ((which >> i & 1) == 0) continue;
      TinyTensor own = *model.find(parts[i].like);
      own.name = parts[i].own;
      model.add(own);
    }
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_TRUE(imported.warnings.empty()) << imported.warnings[0];
    const std::string text = imported.text(), mtp = text.substr(text.find("@mtp("));
    const auto uses = [&](const char* name) {
      return mtp.find(std::string("hir.param \"") + name + "\"") != std::string::npos;
    };
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(uses(parts[i].own), (which >> i & 1) != 0) << parts[i].own;
    }
    EXPECT_EQ(uses("token_embd.weight"), (which & 3) != 3) << "embedding or head of the trunk";
    EXPECT_EQ(uses("output_norm.weight"), (which & 4) == 0) << "norm of the trunk";
  }
}

TEST(Nextn, ChoosesAmongTheFirstTokens) {
  const auto text_of_mtp = [](const TinyModel& model, std::optional<int64_t> vocabulary, bool draft = false) {
    ImportOptions options;
    options.draft_vocabulary = vocabulary;
    options.draft = draft;
    const Imported imported = Import(model, options);
    EXPECT_TRUE(imported.status.ok()) << imported.status;
    const std::string text = imported.text();
    return text.substr(std::min(text.size(), text.find("@mtp(")));
  };
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  TinyModel model = MakeTiny(Config("qwen35", 1));  // 64 tokens; the head is the embedding
  for (const std::optional<int64_t> all : {std::optional<int64_t>(), std::optional<int64_t>(0),
                                           std::optional<int64_t>(64), std::optional<int64_t>(49)})
    EXPECT_FALSE(has(text_of_mtp(model, all), "hir.slice")) << all.value_or(-1);
  EXPECT_TRUE(has(text_of_mtp(model, 48), "[0, 48]"));
  EXPECT_TRUE(has(text_of_mtp(model, 17), "[0, 32]")) << "the head's rows lie in groups of 16";
  EXPECT_TRUE(has(text_of_mtp(model, 17, /*draft=*/true), "[0, 32]")) << "the embedding is there in whole";
  // Rows of a head that nothing else uses are not taken along.
  TinyTensor own = *model.find("token_embd.weight");
  own.name = "blk.4.nextn.shared_head_head.weight";
  model.add(own);
  const std::string cut = text_of_mtp(model, 17);
  EXPECT_FALSE(has(cut, "hir.slice"));
  EXPECT_TRUE(has(cut, "<1 groups of 64 rows, [0], [32]>")) << cut;
}

// What is checked behind a refusal is checked as if there were none.
TEST(Refusals, OneMakesNoOthers) {
  TinyModel model = MakeTiny(Config("qwen35", 1));
  for (const char* name : {"blk.4.nextn.embed_tokens.weight", "blk.4.nextn.shared_head_head.weight"}) {
    TinyTensor own = *model.find("token_embd.weight");
    own.name = name;
    model.add(own);
  }
  model.erase_tensor("output_norm.weight");
  model.add({"blk.3.attn_q.scale", {2}, {1.0f, 1.0f}});
  std::vector<absl::Status> refusals;
  ImportOptions options;
  options.refusals = &refusals;
  const Imported imported = Import(model, options);
  EXPECT_FALSE(imported.status.ok());
  std::vector<std::string> codes;
  for (const absl::Status& refusal : refusals) codes.push_back(PartsOf(refusal).code);
  EXPECT_EQ(codes, (std::vector<std::string>{"Q2005", "Q2006"}));
}

// A head of a format that is not known is a head: what belongs to it is not taken for something foreign.
TEST(Refusals, AForeignFormatIsNoMissingTensor) {
  TinyModel model = MakeTiny(Config());
  TinyTensor head = *model.find("token_embd.weight");
  head.name = "output.weight";
  model.add(head);
  model.add({"output.scale", {1}, {2.0f}});
  std::vector<uint8_t> bytes = model.serialize();
  // Length and text of the name, the number of dimensions, the dimensions, and then the type.
  const std::string entry = std::string("\x0d\0\0\0\0\0\0\0", 8) + head.name;
  const auto found = std::search(bytes.begin(), bytes.end(), entry.begin(), entry.end());
  ASSERT_NE(found, bytes.end());
  const uint32_t unknown = 999;
  std::memcpy(&*found + entry.size() + 4 + 8 * head.ne.size(), &unknown, sizeof unknown);
  const std::string path = ::testing::TempDir() + "tensors_test_foreign_head.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::OpenForReport(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->refused_tensors().size(), 1u);
  EXPECT_EQ((*file)->refused_tensors()[0].name, "output.weight");

  std::vector<absl::Status> refusals;
  ImportOptions options;
  options.refusals = &refusals;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  const absl::Status status = ImportModel(context, **file, options).status();
  EXPECT_EQ(PartsOf(status).code, "Q1207") << status;
  EXPECT_TRUE(refusals.empty()) << refusals[0];
}

}  // namespace
}  // namespace qcc::models::testing
