// qcc synth: which format each matrix gets in each mix.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/synth.h"
#include "compiler/driver/synth_mix.h"
#include "compiler/driver/synth_model.h"
#include "compiler/driver/synth_random.h"
#include "dialects/formats/formats.h"
#include "tests/unit/compiler/synth_tiny.h"

namespace qcc::compiler {
namespace {

// Blocks of the tensors named `suffix` that have `format`.
std::set<int> BlocksWith(const std::vector<SynthTensor>& tensors, const std::string& suffix, Format format) {
  std::set<int> blocks;
  for (const SynthTensor& t : tensors) {
    size_t dot = t.name.find('.', 4);
    if (t.name.rfind("blk.", 0) == 0 && t.name.substr(dot + 1) == suffix && t.format == format) {
      blocks.insert(std::stoi(t.name.substr(4)));
    }
  }
  return blocks;
}

// The published Q4_K_M file of the 27B model (64 layers) tells which layers get more bits.
TEST(SynthMix, Q4KMFollowsThePublishedLayers) {
  SynthOptions options = Tiny("qwen35");
  options.layers = 64;
  options.mtp = false;
  options.tied = false;
  std::vector<SynthTensor> tensors = SynthTensors(ResolveSynth(options).value(), *FindMix("q4_k_m"));
  EXPECT_EQ(BlocksWith(tensors, "attn_qkv.weight", Format::Q6_K),
            (std::set<int>{0,  1,  2,  4,  5,  6,  10, 13, 16, 22, 25, 28,
                           34, 37, 40, 46, 49, 52, 56, 57, 58, 60, 61, 62}));
  EXPECT_EQ(BlocksWith(tensors, "attn_v.weight", Format::Q6_K),
            (std::set<int>{3, 7, 19, 31, 43, 55, 59, 63}));
  std::set<int> downs;
  for (int i = 0; i < 64; ++i) {
    if (i < 8 || i >= 56 || (i >= 10 && (i - 10) % 3 == 0)) downs.insert(i);
  }
  EXPECT_EQ(downs.size(), 32u);
  EXPECT_EQ(BlocksWith(tensors, "ffn_down.weight", Format::Q6_K), downs);
  EXPECT_EQ(BlocksWith(tensors, "attn_q.weight", Format::Q4_K).size(), 16u);
  EXPECT_EQ(BlocksWith(tensors, "ssm_alpha.weight", Format::Q4_K).size(), 48u);
  EXPECT_EQ(tensors.front().format, Format::Q4_K) << "token_embd of an untied model";
  EXPECT_EQ(tensors.back().name, "output.weight");
  EXPECT_EQ(tensors.back().format, Format::Q6_K);
}

// Formats of single matrices of an untied model of 32 attention layers, from llama.cpp's rules: a column of
// matrices and the layers that differ in it.
TEST(SynthMix, FollowsTheTableOfEachName) {
  SynthOptions options = Tiny("qwen3");
  options.layers = 32;
  options.tied = false;
  struct Case {
    const char* mix;
    const char* tensor;
    Format format;
  };
  const Case cases[] = {{"q2_k", "token_embd", Format::Q2_K},
                        {"q2_k", "blk.9.attn_v", Format::Q4_K},
                        {"q2_k", "blk.9.ffn_down", Format::Q3_K},
                        {"q2_k", "blk.9.attn_output", Format::Q3_K},
                        {"q2_k", "blk.9.attn_q", Format::Q2_K},
                        {"q3_k_s", "blk.0.attn_v", Format::Q3_K},
                        {"q3_k_m", "blk.1.attn_v", Format::Q5_K},
                        {"q3_k_m", "blk.2.attn_v", Format::Q4_K},
                        {"q3_k_m", "blk.1.ffn_down", Format::Q5_K},
                        {"q3_k_m", "blk.2.ffn_down", Format::Q4_K},
                        {"q3_k_m", "blk.2.attn_output", Format::Q4_K},
                        {"q3_k_m", "blk.2.ffn_up", Format::Q3_K},
                        {"q3_k_l", "blk.31.ffn_down", Format::Q5_K},
                        {"q4_k_s", "blk.3.attn_v", Format::Q5_K},
                        {"q4_k_s", "blk.4.attn_v", Format::Q4_K},
                        {"q4_k_s", "blk.3.ffn_down", Format::Q5_K},
                        {"q4_k_s", "blk.4.ffn_down", Format::Q4_K},
                        {"q5_0", "output", Format::Q6_K},
                        {"q5_1", "blk.0.attn_v", Format::Q5_1},
                        {"q5_k_s", "blk.0.attn_v", Format::Q5_K},
                        {"iq1_s", "output", Format::Q5_K},
                        {"iq1_s", "token_embd", Format::Q2_K},
                        {"iq1_m", "blk.3.ffn_down", Format::Q2_K},
                        {"iq1_m", "blk.4.ffn_down", Format::IQ1_M},
                        {"iq1_m", "blk.4.attn_output", Format::IQ2_XXS},
                        {"iq2_xxs", "blk.4.attn_output", Format::IQ2_XXS},
                        {"iq2_xs", "blk.4.attn_v", Format::Q4_K},
                        {"iq2_s", "blk.4.ffn_up", Format::IQ2_XS},
                        {"iq2_m", "blk.4.ffn_up", Format::IQ2_S},
                        {"iq2_m", "blk.0.ffn_down", Format::IQ3_S},
                        {"iq3_xxs", "blk.0.attn_k", Format::IQ2_S},
                        {"iq3_xxs", "blk.4.ffn_down", Format::Q3_K},
                        {"iq3_xxs", "blk.4.ffn_gate", Format::IQ3_XXS},
                        {"iq3_xs", "blk.3.ffn_gate", Format::IQ3_S},
                        {"iq3_xs", "blk.4.ffn_gate", Format::IQ3_XXS},
                        {"iq3_xs", "blk.27.ffn_up", Format::IQ3_XXS},
                        {"iq3_xs", "blk.28.ffn_up", Format::IQ3_S},
                        {"iq3_xs", "blk.28.attn_q", Format::IQ3_XXS},
                        {"iq3_s", "blk.0.ffn_down", Format::IQ3_S},
                        {"iq3_m", "blk.0.ffn_down", Format::Q4_K},
                        {"iq3_m", "blk.9.attn_output", Format::Q4_K},
                        {"iq4_nl", "blk.9.attn_v", Format::Q5_K},
                        {"iq4_xs", "blk.3.ffn_down", Format::Q5_K},
                        {"iq4_xs", "blk.4.ffn_down", Format::IQ4_XS},
                        {"tq1_0", "token_embd", Format::Q4_K},
                        {"mxfp4", "output", Format::Q8_0},
                        {"mxfp4", "token_embd", Format::MXFP4},
                        {"nvfp4", "output", Format::NVFP4},
                        {"nvfp4", "token_embd", Format::BF16},
                        {"q1_0", "output", Format::Q1_0},
                        {"q2_0", "token_embd", Format::Q2_0},
                        {"q2_0_g128", "blk.0.attn_v", Format::Q2_0_G128}};
  const SynthConfig config = ResolveSynth(options).value();
  for (const Case& c : cases) {
    ASSERT_NE(FindMix(c.mix), nullptr) << c.mix;
    bool found = false;
    for (const SynthTensor& t : SynthTensors(config, *FindMix(c.mix))) {
      if (t.name != std::string(c.tensor) + ".weight") continue;
      found = true;
      EXPECT_EQ(format_info(t.format).name, format_info(c.format).name) << c.mix << " " << c.tensor;
    }
    EXPECT_TRUE(found) << c.mix << " " << c.tensor;
  }
}

// llama.cpp tells layers of models with experts by their number: a layer's experts and its shared expert
// follow the rule of the layer.
TEST(SynthMix, ExpertsFollowTheRulesOfTheirLayer) {
  SynthOptions options = Tiny("qwen35moe");
  options.layers = 40;
  options.mtp = false;
  const SynthConfig config = ResolveSynth(options).value();
  const std::vector<SynthTensor> q4_k_m = SynthTensors(config, *FindMix("q4_k_m"));
  std::set<int> more_bits;
  for (int i = 0; i < 40; ++i)
    if (i < 5 || i >= 35 || (i - 5) % 3 == 2) more_bits.insert(i);
  for (const char* down : {"ffn_down_exps.weight", "ffn_down_shexp.weight"})
    EXPECT_EQ(BlocksWith(q4_k_m, down, Format::Q6_K), more_bits) << down;
  for (const char* rest : {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_gate_shexp.weight"})
    EXPECT_EQ(BlocksWith(q4_k_m, rest, Format::Q4_K).size(), 40u) << rest;
  for (const SynthTensor& t : SynthTensors(config, *FindMix("mxfp4"))) {
    if (t.name.ends_with("_exps.weight")) {
      EXPECT_EQ(t.format, Format::MXFP4) << t.name;
    } else if (t.role != TensorRole::kVector) {
      EXPECT_EQ(t.format, Format::Q8_0) << t.name;
    }
  }
}

TEST(SynthMix, EveryFormatIsTheBaseOfOne) {
  std::set<std::string_view> used;
  for (std::string_view mix : SynthFormats()) {
    for (const SynthTensor& t : SynthTensors(ResolveSynth(Tiny("qwen3")).value(), *FindMix(mix))) {
      if (t.name == "blk.0.ffn_up.weight") used.insert(format_info(t.format).name);
    }
  }
  for (int i = 0; i < kFormatCount; ++i) {
    const std::string_view name = format_info(static_cast<Format>(i)).name;
    EXPECT_TRUE(used.count(name)) << "no mix writes " << name;
  }
  EXPECT_EQ(FindMix("q3_k"), nullptr);
}

TEST(SynthMix, TiedEmbeddingTakesTheOutputsFormat) {
  SynthOptions untied = Tiny("qwen3");
  untied.tied = false;
  for (std::string_view mix : SynthFormats()) {
    const std::vector<SynthTensor> with = SynthTensors(ResolveSynth(Tiny("qwen3")).value(), *FindMix(mix));
    Format output = Format::F32;
    for (const SynthTensor& t : SynthTensors(ResolveSynth(untied).value(), *FindMix(mix))) {
      if (t.name == "output.weight") output = t.format;
    }
    // A table of rows to look up has no place for the tensor scale of NVFP4.
    EXPECT_EQ(with.front().format, output == Format::NVFP4 ? Format::BF16 : output) << mix;
  }
  const std::map<std::string_view, Format> formats = {
      {"f32", Format::F32},   {"f16", Format::F16},   {"bf16", Format::BF16},   {"q8_0", Format::Q8_0},
      {"q4_0", Format::Q6_K}, {"q4_1", Format::Q6_K}, {"q4_k_m", Format::Q6_K}, {"q5_k_m", Format::Q6_K},
      {"q6_k", Format::Q6_K}, {"iq2_m", Format::Q5_K}};
  for (const auto& [mix, format] : formats) {
    EXPECT_EQ(SynthTensors(ResolveSynth(Tiny("qwen3")).value(), *FindMix(mix)).front().format, format) << mix;
  }
}

// The matrix times its tensor scale has the deviation of the same matrix in other mixes.
TEST(SynthMix, Nvfp4ScalesBelongToTheirMatrices) {
  const SynthConfig config = ResolveSynth(Tiny("qwen3")).value();
  std::map<std::string, float> plain;
  for (const SynthTensor& t : SynthTensors(config, *FindMix("f32"))) plain[t.name] = t.scale;
  const std::vector<SynthTensor> tensors = SynthTensors(config, *FindMix("nvfp4"));
  int scales = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].format != Format::NVFP4) continue;
    ++scales;
    ASSERT_LT(i + 1, tensors.size());
    const SynthTensor& scale = tensors[i + 1];
    const std::string stem = tensors[i].name.substr(0, tensors[i].name.size() - 7);
    EXPECT_EQ(scale.name, stem + ".scale");
    EXPECT_EQ(scale.format, Format::F32);
    EXPECT_FLOAT_EQ(tensors[i].scale * scale.scale, plain.at(tensors[i].name)) << tensors[i].name;
    std::vector<float> value(1);
    DrawValues(scale.draw, scale.scale, StreamKey(1, scale.name), 0, value);
    EXPECT_EQ(value[0], scale.scale) << scale.name;
  }
  EXPECT_EQ(scales, 4 * 7) << "every matrix of 4 blocks";
}

TEST(SynthMix, RowsThatDoNotFitFallBack) {
  SynthOptions options = Tiny("qwen3");
  options.hidden = 96;
  options.ffn = 50;
  const std::map<std::string, Format> expected = {{"blk.0.ffn_gate.weight", Format::Q8_0},
                                                  {"blk.0.ffn_down.weight", Format::F16},
                                                  {"blk.0.attn_output.weight", Format::Q4_K}};
  size_t checked = 0;
  for (const SynthTensor& t : SynthTensors(ResolveSynth(options).value(), *FindMix("q4_k_m"))) {
    EXPECT_EQ(t.ne[0] % format_info(t.format).block_elems, 0) << t.name;
    auto it = expected.find(t.name);
    if (it == expected.end()) continue;
    EXPECT_EQ(t.format, it->second) << t.name;
    ++checked;
  }
  EXPECT_EQ(checked, expected.size());
}

}  // namespace
}  // namespace qcc::compiler
