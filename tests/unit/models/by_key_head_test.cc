// Delta nets whose value heads stand by key head: what says so, and the forms that their inputs have in
// files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/models/against_oracle.h"

namespace qcc::models::testing {
namespace {

// qwen3next: value head j reads key head j / (value heads / key heads).
TEST(ByKeyHead, ValueHeadsAreGrouped) {
  TinyConfig config = Config("qwen3next");
  config.key_heads = 2;
  config.value_heads = 6;
  ExpectOracle(MakeTiny(config));
  ExpectMutantDiffers(MakeTiny(config), {.other_key_head = true});
  ExpectMutantDiffers(MakeTiny(config), {.alphas_first = true});
  config.value_dim = 12;
  ExpectOracle(MakeTiny(config));
  EXPECT_NE(Import(MakeTiny(config)).text().find(" grouped :"), std::string::npos);
  // One value head for each key head: both orders are one, and it is called by the usual name.
  config.value_heads = 2;
  ExpectOracle(MakeTiny(config));
  EXPECT_EQ(Import(MakeTiny(config)).text().find(" grouped :"), std::string::npos);
  // The other hybrid is tiled.
  ExpectMutantDiffers(MakeTiny(Config("qwen35moe")), {.other_key_head = true});
}

// Older files hold query, key, values and z of each key head in one tensor.
TEST(ByKeyHead, TheMergedProjectionGivesTheSameLogits) {
  for (auto [value_heads, value_dim] : {std::pair(4, 8), std::pair(6, 12), std::pair(2, 8)}) {
    TinyConfig config = Config("qwen3next");
    config.value_heads = value_heads;
    config.value_dim = value_dim;
    const TinyModel apart = MakeTiny(config);
    TinyModel merged = apart;
    const int64_t perHead = value_heads / config.key_heads * value_dim,
                  keys = config.key_heads * config.key_dim;
    for (const char* layer : {"blk.0.", "blk.1.", "blk.2."}) {
      TinyModel copy = apart;
      const TinyTensor* qkv = copy.find(layer + std::string("attn_qkv.weight"));
      const TinyTensor* z = copy.find(layer + std::string("attn_gate.weight"));
      TinyTensor in{layer + std::string("ssm_in.weight"), {config.hidden, qkv->ne[1] + z->ne[1]}, {}};
      const auto rows = [&](const TinyTensor* from, int64_t begin, int64_t count) {
        in.values.insert(in.values.end(), from->values.begin() + begin * config.hidden,
                         from->values.begin() + (begin + count) * config.hidden);
      };
      for (int64_t g = 0; g < config.key_heads; ++g) {
        rows(qkv, g * config.key_dim, config.key_dim);
        rows(qkv, keys + g * config.key_dim, config.key_dim);
        rows(qkv, 2 * keys + g * perHead, perHead);
        rows(z, g * perHead, perHead);
      }
      merged.erase_tensor(qkv->name);
      merged.erase_tensor(z->name);
      merged.add(in);
    }
    const std::vector<int32_t> ids = SomeIds(7, 64);
    EXPECT_EQ(Logits(merged, ids), Logits(apart, ids));
    const Imported a = Import(apart), b = Import(merged);
    ASSERT_TRUE(b.status.ok()) << b.status;
    EXPECT_TRUE(b.warnings.empty()) << b.warnings[0];
    EXPECT_EQ(a.functions(), b.functions());
    TinyModel wrong = merged;
    TinyTensor* in = wrong.find("blk.1.ssm_in.weight");
    in->ne[1] += 1;
    in->values.resize(in->ne[0] * in->ne[1]);
    ExpectRefused(wrong, "Q2006", {"blk.1.ssm_in.weight"});
    merged.add({"blk.1.ssm_in.scale", {1}, {0.5f}});
    TinyModel halved = apart;
    for (const char* name : {"blk.1.attn_qkv.weight", "blk.1.attn_gate.weight"})
      for (float& value : halved.find(name)->values) value *= 0.5f;
    EXPECT_EQ(Logits(merged, ids), Logits(halved, ids));
  }
}

TEST(ByKeyHead, SeparateBetaAndAlphaDoNotReplaceTheMergedOne) {
  TinyModel model = MakeTiny(Config("qwen3next"));
  TinyTensor half = *model.find("blk.0.ssm_ba.weight");
  half.ne[1] /= 2;
  half.values.resize(half.values.size() / 2);
  model.erase_tensor("blk.0.ssm_ba.weight");
  for (const char* name : {"blk.0.ssm_beta.weight", "blk.0.ssm_alpha.weight"}) {
    half.name = name;
    model.add(half);
  }
  // Which order their heads have is not known.
  ExpectRefused(model, "Q2005", {"blk.0.ssm_ba.weight"});
}

// A key says which order the value heads have, whatever the architecture's is.
TEST(ByKeyHead, AKeyOverridesTheArchitecture) {
  const std::vector<int32_t> ids = SomeIds(7, 64);
  TinyConfig config = Config("qwen35moe");
  config.key_heads = 2;
  config.value_heads = 6;
  const TinyModel tiled = MakeTiny(config);
  TinyModel stated = tiled;
  stated.set("ssm.v_head_reordered", true);
  const Imported as_usual = Import(stated);
  EXPECT_EQ(as_usual.text(), Import(tiled).text());
  EXPECT_TRUE(as_usual.warnings.empty()) << as_usual.warnings[0];
  // The oracle reads the key, too.
  TinyModel grouped = tiled;
  grouped.set("ssm.v_head_reordered", false);
  ExpectOracle(grouped);
  EXPECT_NE(Logits(grouped, ids), Logits(tiled, ids));
  grouped.erase_tensor("blk.1.ssm_alpha.weight");
  ExpectRefused(grouped, "Q2005", {"blk.1.ssm_alpha.weight"});
}

// Ollama gives Qwen3-Next the architecture of its successor, splits its input and says nothing of the order.
TEST(ByKeyHead, BetaAndAlphaInOneMatrixTellTheOrder) {
  TinyConfig config = Config("qwen35moe");
  config.key_heads = 2;
  config.value_heads = 6;
  TinyModel model = MakeTiny(config);
  for (const char* block : {"blk.0.", "blk.1.", "blk.2."}) {
    const std::string prefix = block;
    if (model.find(prefix + "ssm_beta.weight") == nullptr) continue;
    TinyTensor both = *model.find(prefix + "ssm_beta.weight");
    const std::vector<float> alpha = model.find(prefix + "ssm_alpha.weight")->values;
    both.name = prefix + "ssm_ba.weight";
    both.ne[1] *= 2;
    both.values.insert(both.values.end(), alpha.begin(), alpha.end());
    model.erase_tensor(prefix + "ssm_beta.weight");
    model.erase_tensor(prefix + "ssm_alpha.weight");
    model.add(both);
  }
  ExpectOracle(model);
}

}  // namespace
}  // namespace qcc::models::testing
