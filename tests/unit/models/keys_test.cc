// Hyper-parameters: which keys are needed, what stands in for the optional ones, which values are impossible.
#include <gtest/gtest.h>

#include <cmath>

#include "frontends/models/RopeFrequencies.h"
#include "tests/unit/models/imported.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {
namespace {

TinyModel Tiny(const std::string& arch = "qwen35") {
  TinyConfig config;
  config.arch = arch;
  return MakeTiny(config);
}

TEST(Architecture, OtherNamesAreRefusedWithTheAcceptedList) {
  TinyModel model = Tiny();
  model.keys[0].second = std::string("llama");
  ExpectRefused(model, "Q2001", {"\"llama\"", "qwen35", "qwen3", "general.architecture", "tiny.gguf"});
  model.keys.erase(model.keys.begin());
  ExpectRefused(model, "Q2002", {"general.architecture"});
}

TEST(Architecture, ProjectorsAndAdaptersAreRefused) {
  TinyModel model = Tiny();
  model.set("general.type", std::string("mmproj"));
  ExpectRefused(model, "Q2001", {"mmproj", "general.type"});
  model.set("general.type", std::string("model"));
  EXPECT_TRUE(Import(model).status.ok()) << Import(model).status;
  // An importance matrix has no architecture at all.
  model.keys.erase(model.keys.begin());
  model.set("general.type", std::string("imatrix"));
  ExpectRefused(model, "Q2001", {"imatrix", "general.type"});
}

// Who takes the block out of a file may leave its key.
TEST(Nextn, ABlockThatIsNotThereIsDoneWithout) {
  TinyConfig config;
  config.nextn = 1;
  TinyModel model = MakeTiny(config);
  const size_t removed = std::erase_if(
      model.tensors, [](const TinyTensor& tensor) { return tensor.name.starts_with("blk.4."); });
  ASSERT_GT(removed, 0u);
  const Imported imported = Import(model);
  EXPECT_EQ(imported.text(), Import(Tiny()).text());
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("no tensor of that NextN block (blk.4.*)"), std::string::npos)
      << imported.warnings[0];
  // With some of it, it is a file that lacks the others.
  TinyModel some = MakeTiny(config);
  ASSERT_TRUE(some.erase_tensor("blk.4.nextn.eh_proj.weight"));
  ExpectRefused(some, "Q2005", {"blk.4.nextn.eh_proj.weight"});
}

class RequiredKey : public ::testing::TestWithParam<const char*> {};

TEST_P(RequiredKey, ItsAbsenceIsNamed) {
  TinyModel model = Tiny();
  ASSERT_TRUE(model.erase(GetParam())) << "the test's model lacks " << GetParam();
  ExpectRefused(model, "Q2002", {std::string("qwen35.") + GetParam(), "missing"});
}

INSTANTIATE_TEST_SUITE_P(Qwen35, RequiredKey,
                         ::testing::Values("attention.head_count", "block_count", "embedding_length",
                                           "feed_forward_length", "attention.layer_norm_rms_epsilon",
                                           "ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                                           "ssm.time_step_rank"));

TEST(RequiredKeyQwen3, TheirAbsenceIsNamed) {
  for (const char* key : {"attention.head_count", "block_count", "embedding_length", "feed_forward_length",
                          "attention.layer_norm_rms_epsilon"}) {
    SCOPED_TRACE(key);
    TinyModel model = Tiny("qwen3");
    ASSERT_TRUE(model.erase(key));
    ExpectRefused(model, "Q2002", {std::string("qwen3.") + key});
  }
}

TEST(Defaults, Qwen35WithoutOptionalKeysIsTheSameModule) {
  TinyConfig config;
  config.hidden = 128;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 64;   // hidden / heads
  config.rope_dims = 16;  // head_dim / 4
  config.sections = {11, 11, 10, 0};
  config.rope_base = 1e7f;
  config.value_dim = config.key_dim;
  const TinyModel stated = MakeTiny(config);
  TinyModel bare = stated;
  for (const char* key :
       {"attention.key_length", "attention.value_length", "rope.dimension_count", "rope.dimension_sections",
        "ssm.inner_size", "context_length", "rope.freq_base", "full_attention_interval"})
    ASSERT_TRUE(bare.erase(key)) << key;
  const Imported a = Import(stated), b = Import(bare);
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text());
  // Each of those keys matters: another value gives another module or is refused for its tensors.
  TinyModel other = stated;
  other.set("rope.freq_base", 1e6f);
  EXPECT_NE(Import(other).text(), a.text()) << "rope.freq_base has no effect";
  other = stated;
  other.set("rope.dimension_sections", std::vector<int32_t>{4, 2, 2, 0});
  EXPECT_NE(Import(other).text(), a.text()) << "rope.dimension_sections has no effect";
  other = stated;
  other.set("context_length", 8192u);
  EXPECT_NE(Import(other).text(), a.text()) << "context_length has no effect";
  other = stated;
  other.set("rope.dimension_count", 32u);
  EXPECT_NE(Import(other).text(), a.text()) << "rope.dimension_count has no effect";
}

TEST(Defaults, Qwen3RotatesWholeHeads) {
  TinyConfig config;
  config.arch = "qwen3";
  config.hidden = 64;
  config.heads = 4;
  config.head_dim = 16;
  TinyModel stated = MakeTiny(config);
  TinyModel bare = stated;
  stated.set("rope.dimension_count", 16u);
  for (const char* key : {"attention.key_length", "attention.value_length", "context_length"})
    ASSERT_TRUE(bare.erase(key)) << key;
  const Imported a = Import(stated), b = Import(bare);
  ASSERT_TRUE(a.status.ok()) << a.status;
  EXPECT_EQ(a.text(), b.text());
}

TEST(KvHeads, ScalarAndPerLayerArrayAreTheSameModule) {
  const TinyModel scalar = Tiny();
  TinyModel array = scalar;
  array.set("attention.head_count_kv", std::vector<int32_t>{0, 0, 0, 2});
  const Imported a = Import(scalar), b = Import(array);
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text());
  array.set("attention.head_count_kv", std::vector<int32_t>{0, 0, 2});
  ExpectRefused(array, "Q2003", {"attention.head_count_kv", "3 entries"});
  array.set("attention.head_count_kv", std::vector<int32_t>{0, 0, 0, 0});
  ExpectRefused(array, "Q2003", {"attention.head_count_kv", "0"});
}

// Whichever key says which layers are recurrent.
TEST(KvHeads, NoneOfAnAttentionLayerIsRefused) {
  TinyModel model = Tiny();
  model.set("attention.head_count_kv", std::vector<int32_t>{2, 0, 2, 0});
  ExpectRefused(model, "Q2004", {"entry 3 of qwen35.attention.head_count_kv is 0", "block 3"});
  model.set("attention.recurrent_layers", std::vector<bool>{false, true, true, true});
  model.set("attention.head_count_kv", std::vector<int32_t>{0, 2, 2, 2});
  ExpectRefused(model, "Q2004", {"entry 0 of qwen35.attention.head_count_kv is 0", "block 0"});
  TinyModel dense = Tiny("qwen3");
  dense.set("attention.head_count_kv", std::vector<int32_t>{2, 2, 0, 2});
  ExpectRefused(dense, "Q2004", {"entry 2 of qwen3.attention.head_count_kv is 0", "block 2"});
}

TEST(KvHeads, WithoutTheKeyEachHeadHasItsOwn) {
  TinyConfig config;
  config.kv_heads = config.heads;
  const TinyModel stated = MakeTiny(config);
  TinyModel bare = stated;
  ASSERT_TRUE(bare.erase("attention.head_count_kv"));
  const Imported a = Import(stated), b = Import(bare);
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text());
  TinyModel groups = Tiny();  // has fewer: its tensors say so
  ASSERT_TRUE(groups.erase("attention.head_count_kv"));
  ExpectRefused(groups, "Q2006", {"attn_k.weight"});
}

// Some writers give a number for each layer.
TEST(PerLayer, ArraysOfOneNumberAreTheNumber) {
  for (const char* arch : {"qwen3", "qwen35"}) {
    for (const char* key : {"feed_forward_length", "attention.head_count"}) {
      SCOPED_TRACE(std::string(arch) + " " + key);
      const TinyModel scalar = Tiny(arch);
      const TinyConfig config;
      const auto value =
          static_cast<int32_t>(std::string(key) == "feed_forward_length" ? config.ffn : config.heads);
      std::vector<int32_t> values(static_cast<size_t>(config.layers), value);
      TinyModel array = scalar;
      array.set(key, values);
      const Imported a = Import(scalar), b = Import(array);
      ASSERT_TRUE(b.status.ok()) << b.status;
      EXPECT_EQ(a.text(), b.text());
      values.back() = 2 * value;
      array.set(key, values);
      ExpectRefused(array, "Q2003", {std::string(arch) + "." + key, "expected one number for all layers"});
    }
  }
}

// The impossible half; the others are compared with the oracle in semantics_test.cc.
TEST(Schedule, IntervalZeroIsRefused) {
  TinyModel model = Tiny();
  model.set("full_attention_interval", 0u);
  ExpectRefused(model, "Q2003", {"qwen35.full_attention_interval", "0", "expected 1"});
}

TEST(Schedule, RecurrentFlagsOverrideTheInterval) {
  const TinyModel stated = Tiny();
  TinyModel flags = stated;
  flags.set("attention.recurrent_layers", std::vector<bool>{true, true, true, false});
  flags.set("full_attention_interval", 3u);
  const Imported a = Import(stated), b = Import(flags);
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.text(), b.text());
  flags.set("attention.recurrent_layers", std::vector<bool>{true, false});
  ExpectRefused(flags, "Q2003", {"attention.recurrent_layers", "2 entries"});
  TinyConfig config;
  config.nextn = 1;
  TinyModel draft = MakeTiny(config);
  draft.set("attention.recurrent_layers", std::vector<bool>{true, true, true, false, false});
  EXPECT_EQ(Import(draft).text(), Import(MakeTiny(config)).text());
  draft.set("attention.recurrent_layers", std::vector<bool>{true, true, true, false, true});
  ExpectRefused(draft, "Q2003", {"attention.recurrent_layers", "block 4 is a NextN block"});
}

// Neither key of the schedule is there: the layers without heads for keys are the recurrent ones.
TEST(Schedule, FollowsTheKvHeadsWhereNothingElseSaysIt) {
  for (const int64_t nextn : {0, 1}) {
    TinyConfig config;
    config.nextn = nextn;
    const TinyModel stated = MakeTiny(config);
    TinyModel bare = stated;
    ASSERT_TRUE(bare.erase("full_attention_interval"));
    std::vector<int32_t> heads = {0, 0, 0, 2};
    if (nextn != 0) heads.push_back(0);
    bare.set("attention.head_count_kv", heads);
    const Imported a = Import(stated), b = Import(bare);
    ASSERT_TRUE(b.status.ok()) << b.status;
    EXPECT_EQ(a.text(), b.text());
    EXPECT_TRUE(b.warnings.empty()) << b.warnings[0];
    bare.set("attention.head_count_kv", std::vector<int32_t>{0, 0, 2, 2});
    ExpectRefused(bare, "Q2006", {"blk.2.attn_qkv.weight"});  // now one of attention
  }
}

// Converters of other runtimes spell it otherwise, or several times.
TEST(Sections, HaveThreeSpellings) {
  const TinyModel stated = Tiny();
  const Imported expected = Import(stated);
  const TinyConfig config;
  for (const char* spelling : {"mrope_sections", "rope.mrope_section"}) {
    SCOPED_TRACE(spelling);
    TinyModel other = stated;
    other.set(spelling, std::vector<int32_t>{1, 1, 1});
    other.set("rope.mrope_interleaved", true);
    const Imported both = Import(other);
    EXPECT_EQ(both.text(), expected.text());
    EXPECT_TRUE(both.warnings.empty()) << both.warnings[0];
    ASSERT_TRUE(other.erase("rope.dimension_sections"));
    EXPECT_NE(Import(other).text(), expected.text());
    other.set(spelling, config.sections);
    const Imported alone = Import(other);
    EXPECT_EQ(alone.text(), expected.text());
    EXPECT_TRUE(alone.warnings.empty()) << alone.warnings[0];
    other.set(spelling, std::vector<int32_t>{0, 0, 0});
    ExpectRefused(other, "Q2003", {std::string("qwen35.") + spelling});
  }
}

TEST(Keys, OfAnImageEncoderAreWarnedAboutOnce) {
  TinyModel model = Tiny();
  const Imported plain = Import(model);
  model.set("vision.block_count", 27u);
  model.set("vision.image_mean", std::string("0.5"));
  model.set("image_token_id", 7u);
  const Imported imported = Import(model);
  EXPECT_EQ(imported.text(), plain.text());
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("3 keys of an image encoder"), std::string::npos)
      << imported.warnings[0];
}

TEST(Heads, ValueHeadsMustBeAMultipleOfKeyHeads) {
  TinyModel model = Tiny();
  model.set("ssm.time_step_rank", 3u);
  ExpectRefused(model, "Q2004", {"3 value heads", "2 key heads", "ssm.time_step_rank", "ssm.group_count"});
}

// The impossible half.
TEST(Heads, AttentionHeadsMustBeAMultipleOfKvHeads) {
  TinyModel model = Tiny();
  model.set("attention.head_count", 6u);
  model.set("attention.head_count_kv", 4u);
  ExpectRefused(model, "Q2004", {"6 attention heads", "4 key/value heads"});
}

TEST(Values, ImpossibleOnesAreRefusedByKey) {
  const auto refuse = [](const char* suffix, KeyValue value, const char* code, const char* found) {
    SCOPED_TRACE(suffix);
    TinyModel model = Tiny();
    model.set(suffix, std::move(value));
    ExpectRefused(model, code, {std::string("qwen35.") + suffix, found});
  };
  refuse("block_count", 0u, "Q2003", "0");
  refuse("block_count", 4000000000u, "Q2003", "4000000000");
  refuse("embedding_length", 0u, "Q2003", "0");
  refuse("attention.layer_norm_rms_epsilon", 0.0f, "Q2003", "0");
  refuse("attention.layer_norm_rms_epsilon", std::nanf(""), "Q2003", "nan");
  refuse("attention.value_length", 32u, "Q2003", "32, expected the key length 16");
  refuse("rope.dimension_count", 7u, "Q2003", "7");
  refuse("rope.dimension_count", 32u, "Q2003", "32");
  refuse("rope.dimension_sections", std::vector<int32_t>{1, 2}, "Q2003", "2 entries");
  refuse("rope.dimension_sections", std::vector<int32_t>{-1, 2, 1, 0}, "Q2003", "4 entries");
  refuse("rope.freq_base", 0.5f, "Q2003", "0.5");
  refuse("rope.freq_base", 1e30f, "Q2003", "1e+30");
  refuse("rope.scaling.factor", -1.0f, "Q2003", "-1");
  refuse("rope.scaling.factor", 9e-10f, "Q2003", "9e-10, expected 1e-9");
  refuse("ssm.conv_kernel", 1u, "Q2003", "1");
  refuse("ssm.inner_size", 33u, "Q2004", "33");
  refuse("nextn_predict_layers", 2u, "Q2003", "2, expected 0 to 1");
  TinyModel model = Tiny();
  model.set("nextn_predict_layers", 1u);
  model.set("block_count", 1u);
  ExpectRefused(model, "Q2004", {"no trunk"});
}

TEST(Values, WrongTypesAreErrorsOfTheReader) {
  TinyModel model = Tiny();
  model.set("embedding_length", std::string("thirty-two"));
  const Imported imported = Import(model);
  ASSERT_FALSE(imported.status.ok());
  EXPECT_NE(std::string(imported.status.message()).find("qwen35.embedding_length"), std::string::npos)
      << imported.status;
}

TEST(Rope, AFactorOf0ScalesNothingAndTheBoundsAreIn) {
  const std::string plain = Import(Tiny()).text();
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    TinyModel model = Tiny();
    model.set(key, 0.0f);
    EXPECT_EQ(Import(model).text(), plain) << key;
  }
  TinyModel model = Tiny();
  model.set("rope.scale_linear", 4.0f);
  model.set("rope.scaling.factor", 0.0f);
  EXPECT_EQ(Import(model).text(), plain) << "the older key counts only where the newer one is absent";
  for (float bound : {1e-9f, 1e12f}) {
    model.set("rope.scaling.factor", bound);
    EXPECT_TRUE(Import(model).status.ok()) << bound << ": " << Import(model).status;
  }
}

TEST(Rope, LinearAndYarnChangeTheFrequenciesAsPublished) {
  // 64 rotated dimensions, base 1e7, 262144 tokens stretched by 4: pairs up to 14 turn more than 32 times
  // over the original context and stay, pairs from 22 turn less than once and are divided by 4.
  YarnParameters yarn;
  yarn.factor = 4;
  yarn.originalContext = 262144;
  const RopeFrequencies rope = yarnFrequencies(1e7, 64, yarn);
  const std::vector<double> plain = plainFrequencies(1e7, 64);
  ASSERT_EQ(rope.invFreq.size(), 32u);
  for (int s = 0; s < 32; ++s) {
    SCOPED_TRACE(s);
    EXPECT_DOUBLE_EQ(plain[s], std::pow(1e7, -s / 32.0));
    const double kept = s <= 14 ? 1 : s >= 22 ? 0 : 1 - (s - 14) / 8.0;
    EXPECT_NEAR(rope.invFreq[s] / plain[s], kept + (1 - kept) / 4, 1e-12);
  }
  EXPECT_NEAR(rope.magnitude, 1.1386294361119891, 1e-12);

  TinyModel model = Tiny();
  model.set("rope.scaling.factor", 4.0f);
  const Imported untyped = Import(model);
  model.set("rope.scaling.type", std::string("linear"));
  const Imported linear = Import(model);
  ASSERT_TRUE(linear.status.ok()) << linear.status;
  EXPECT_EQ(untyped.text(), linear.text()) << "a factor without a type means linear";
  EXPECT_NE(linear.text(), Import(Tiny()).text());
  EXPECT_NE(linear.text().find("inv_freq = array<f64: 2.500000e-01, 2.500000e-02"), std::string::npos)
      << linear.text();
  model.set("rope.scaling.type", std::string("none"));
  EXPECT_EQ(Import(model).text(), Import(Tiny()).text());
  model.set("rope.scaling.type", std::string("longrope"));
  ExpectRefused(model, "Q2009", {"longrope", "rope.scaling.type"});
  model.set("rope.scaling.type", std::string("yarn"));
  model.set("rope.scaling.original_context_length", 1024u);
  const Imported stretched = Import(model);
  ASSERT_TRUE(stretched.status.ok()) << stretched.status;
  EXPECT_NE(stretched.text().find("magnitude = 1.138629436111989"), std::string::npos) << stretched.text();
  model.set("rope.scaling.factor", 0.5f);
  ExpectRefused(model, "Q2003", {"rope.scaling.factor", "0.5"});
}

// Every parameter of a scaling that is taken moves what is computed; those that are not taken are refused.
TEST(Rope, NoParameterOfYarnIsDropped) {
  TinyConfig config;
  config.arch = "qwen3";
  config.head_dim = 64;  // 32 pairs: where YaRN begins and ends to stretch is rounded to whole ones
  TinyModel base = MakeTiny(config);
  base.set("rope.scaling.type", std::string("yarn"));
  base.set("rope.scaling.factor", 4.0f);
  base.set("rope.scaling.original_context_length", 4096u);
  const Imported plain = Import(base);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  const std::pair<const char*, KeyValue> others[] = {
      {"rope.scaling.factor", 2.0f},          {"rope.scaling.original_context_length", 256u},
      {"rope.scaling.attn_factor", 0.5f},     {"rope.scaling.yarn_beta_fast", 4.0f},
      {"rope.scaling.yarn_beta_slow", 0.25f}, {"rope.scaling.yarn_ext_factor", 0.5f}};
  for (const auto& [key, value] : others) {
    TinyModel model = base;
    model.set(key, value);
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_TRUE(imported.text() != plain.text()) << key << " has no effect";
  }
  TinyModel unset = base;
  unset.set("rope.scaling.yarn_ext_factor", -1.0f);
  EXPECT_TRUE(Import(unset).text() == plain.text()) << "-1 says that it is not set";
  base.set("rope.scaling.finetuned", true);
  EXPECT_TRUE(Import(base).text() == plain.text()) << "it says where the scaling comes from, not what it is";
  // 1 + 0.1 ln 4 is what YaRN gives by itself; its reciprocal, of DeepSeek-R1-0528-Qwen3-8B, nobody follows.
  for (const float factor : {1.0f, 1.1386294f, 0.8782488f}) {
    TinyModel model = base;
    model.set("rope.scaling.yarn_attn_factor", factor);
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_TRUE(imported.text() == plain.text()) << factor;
    EXPECT_EQ(imported.warnings.size(), factor < 1 ? 1u : 0u) << factor;
  }
  TinyModel unsaid = base;
  unsaid.erase("rope.scaling.original_context_length");
  const Imported with_default = Import(unsaid);
  ASSERT_EQ(with_default.warnings.size(), 1u);
  EXPECT_NE(with_default.warnings[0].find("original_context_length is missing"), std::string::npos)
      << with_default.warnings[0];
  for (const char* type : {"none", "linear"}) {
    TinyModel model = Tiny();
    model.set("rope.scaling.type", std::string(type));
    model.set("rope.scaling.attn_factor", 0.5f);
    EXPECT_TRUE(Import(model).text() != Import(Tiny()).text()) << "attn_factor has no effect with " << type;
  }
}

// Queries of twice the length are scores of twice the scale, and powers of two are exact.
TEST(AttentionScale, MultipliesTheScores) {
  const TinyModel plain = Tiny();
  const std::vector<int32_t> ids = SomeIds(6, 64);
  const std::vector<double> unscaled = Logits(plain, ids);
  const int64_t head_dim = TinyConfig().head_dim;
  const float own = 1 / std::sqrt(static_cast<float>(head_dim));
  TinyModel scaled = plain;
  for (float stated : {0.0f, own}) {
    scaled.set("attention.scale", stated);
    EXPECT_EQ(Logits(scaled, ids), unscaled) << "a scale of " << stated << " is that of the head size";
  }
  scaled.set("attention.scale", 2 * own);
  TinyModel longer = plain;
  for (float& value : longer.find("blk.3.attn_q_norm.weight")->values) value *= 2;
  const std::vector<double> logits = Logits(scaled, ids);
  EXPECT_EQ(logits, Logits(longer, ids));
  EXPECT_NE(logits, unscaled) << "attention.scale is dropped";
  for (float bad : {-1.0f, std::nanf("")}) {
    scaled.set("attention.scale", bad);
    ExpectRefused(scaled, "Q2003", {"qwen35.attention.scale"});
  }
}

TEST(Sections, TheirAbsenceIsWarnedOf) {
  for (const char* arch : {"qwen35", "qwen35moe"}) {
    TinyModel model = Tiny(arch);
    EXPECT_TRUE(Import(model).warnings.empty()) << Import(model).warnings[0];
    ASSERT_TRUE(model.erase("rope.dimension_sections"));
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    ASSERT_EQ(imported.warnings.size(), 1u) << arch << ": the default is taken in silence";
    EXPECT_EQ(imported.warnings[0], std::string("key ") + arch +
                                        ".rope.dimension_sections is missing; the family's sections "
                                        "11 11 10 0 are taken");
  }
}

// Nor is what decides what a model computes and the file leaves open.
TEST(Defaults, ThatDecideMuchAreWarnedOf) {
  const std::pair<const char*, const char*> kKeys[] = {{"context_length", "4096"},
                                                       {"full_attention_interval", "4"},
                                                       {"rope.freq_base", "1e+07"},
                                                       {"rope.dimension_count", "4"}};
  for (const auto& [key, taken] : kKeys) {
    TinyModel model = Tiny("qwen35");
    ASSERT_TRUE(model.erase(key)) << key;
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    ASSERT_EQ(imported.warnings.size(), 1u) << key << ": the default is taken in silence";
    EXPECT_EQ(imported.warnings[0], std::string("key qwen35.") + key + " is missing; " + taken + " is taken");
  }
}

// What a file says and nothing looks at is not passed over in silence.
TEST(Unread, KeysAreWarnedOf) {
  for (const char* arch : {"qwen35", "qwen35moe", "qwen3", "qwen3moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    TinyModel model = Tiny(arch);
    model.set("rope.scaling.type", std::string("none"));
    model.set("rope.scaling.yarn_beta_fast", 4.0f);
    model.keys.emplace_back("general.of_tomorrow", 1u);
    const Imported plain = Import(model);
    EXPECT_TRUE(plain.warnings.empty()) << plain.warnings[0];
    model.set("attention.of_tomorrow", true);
    const Imported imported = Import(model);
    ASSERT_TRUE(imported.status.ok()) << imported.status;
    EXPECT_EQ(imported.warnings, std::vector<std::string>{std::string("key ") + arch +
                                                          ".attention.of_tomorrow is not used by this "
                                                          "architecture"});
    EXPECT_TRUE(imported.text() == plain.text());
  }
  TinyModel model = Tiny();
  model.set(std::string(60000, 'x'), true);
  ASSERT_EQ(Import(model).warnings.size(), 1u);
  EXPECT_EQ(Import(model).warnings[0],
            "key of 60007 bytes that begins with qwen35. is not used by this architecture");
}

// The embedding's rows decide; a key that contradicts them is warned of.
TEST(Vocabulary, IsThatOfTheTensor) {
  TinyConfig config;
  config.tied = false;
  TinyModel model = MakeTiny(config);
  const std::string plain = Import(model).text();
  model.set("vocab_size", 64u);
  EXPECT_TRUE(Import(model).warnings.empty()) << Import(model).warnings[0];
  model.set("vocab_size", 60u);
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  ASSERT_EQ(imported.warnings.size(), 1u) << "the contradiction is passed over in silence";
  for (const char* part : {"qwen35.vocab_size is 60", "token_embd.weight has 64 rows"})
    EXPECT_NE(imported.warnings[0].find(part), std::string::npos) << imported.warnings[0];
  EXPECT_EQ(imported.text(), plain) << "the key decides";
  TinyModel words = model;
  words.set("vocab_size", std::string("64"));
  EXPECT_EQ(Import(words).text(), plain) << "the key decides";
  EXPECT_EQ(Import(words).warnings.size(), 1u);
  // Neither the key's size nor the embedding's, and the key's: logits of ids that no embedding has.
  for (int64_t rows : {62, 60}) {
    TinyModel third = model;
    TinyTensor* head = third.find("output.weight");
    head->ne[1] = rows;
    head->values.resize(head->ne[0] * rows);
    ExpectRefused(third, "Q2006", {"output.weight", "{32, " + std::to_string(rows) + "}", "{32, 64}"});
  }
}

// Its head is another matrix than a generator's, which may be left out.
TEST(ForeignArithmetic, AModelThatWritesNoTextIsToldOf) {
  TinyModel model = Tiny();
  model.set("pooling_type", 3u);
  const Imported imported = Import(model);
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("embedding or reranking model"), std::string::npos)
      << imported.warnings[0];
  TinyTensor head = *model.find("output_norm.weight");
  head.name = "cls.output.weight";
  model.add(head);
  ExpectRefused(model, "Q2008", {"cls.output.weight", "reranker"});
}

TEST(ForeignArithmetic, KeysThatAskForItAreRefused) {
  const auto refuse = [](const char* suffix, KeyValue value) {
    SCOPED_TRACE(suffix);
    TinyModel model = Tiny();
    model.set(suffix, std::move(value));
    ExpectRefused(model, "Q2008", {std::string("qwen35.") + suffix});
  };
  refuse("expert_count", 8u);
  refuse("attention.sliding_window", 512u);
  refuse("rope.scaling.yarn_attn_factor", 0.5f);
  TinyModel yarn = Tiny();
  yarn.set("rope.scaling.type", std::string("yarn"));
  yarn.set("rope.scaling.factor", 4.0f);
  yarn.set("rope.scaling.yarn_attn_factor", 0.5f);
  ExpectRefused(yarn, "Q2008", {"qwen35.rope.scaling.yarn_attn_factor"});
  refuse("rope.scaling.of_tomorrow", 2.0f);
  refuse("attention.causal", false);
  refuse("attn_logit_softcapping", 50.0f);
  refuse("final_logit_softcapping", 30.0f);
  refuse("logit_scale", 0.5f);
  refuse("rope.scaling.yarn_log_multiplier", 0.1f);
  TinyModel model = Tiny();
  model.set("expert_count", 0u);
  model.set("attention.causal", true);
  model.set("logit_scale", 1.0f);
  EXPECT_TRUE(Import(model).status.ok()) << Import(model).status;
  for (const char* key : {"prism.hadamard.version", "quantize.hadamard_block", "qwen35.hadamard"}) {
    TinyModel rotated = model;
    rotated.keys.emplace_back(key, 1u);
    ExpectRefused(rotated, "Q2008", {key, "Hadamard"});
  }
}

}  // namespace
}  // namespace qcc::models::testing
