// qcc synth: small models of every mix open and are complete; formats, vocabulary and weights are what they
// should be.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/driver/synth.h"
#include "compiler/driver/synth_mix.h"
#include "compiler/driver/synth_model.h"
#include "compiler/driver/synth_random.h"
#include "compiler/driver/synth_vocab.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {
namespace {

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "synth_" + std::to_string(::getpid()) + "_" + name + ".gguf";
}

SynthOptions Tiny(const std::string& arch) {
  SynthOptions o;
  o.arch = arch;
  o.preset = arch == "qwen35" ? "0.8b" : "0.6b";
  o.layers = 4;
  o.hidden = 256;
  o.ffn = 512;
  o.heads = 4;
  o.kv_heads = 2;
  o.head_dim = 64;
  o.vocab = 512;
  o.context = 1024;
  if (arch == "qwen35") {
    o.linear_key_heads = 2;
    o.linear_value_heads = 4;
    o.linear_head_dim = 64;
    o.mtp = true;
  }
  return o;
}

absl::Status Ignore(uint64_t, uint64_t) {
  return absl::OkStatus();
}

std::vector<char> Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// The tensors of Tiny("qwen35"), written down from the naming rules of the architecture.
Shapes TinyHybridShapes() {
  Shapes s = {{"token_embd.weight", {256, 512}}, {"output_norm.weight", {256}}};
  for (int i = 0; i < 5; ++i) {
    std::string p = "blk." + std::to_string(i) + ".";
    s[p + "attn_norm.weight"] = {256};
    s[p + "post_attention_norm.weight"] = {256};
    s[p + "ffn_gate.weight"] = {256, 512};
    s[p + "ffn_up.weight"] = {256, 512};
    s[p + "ffn_down.weight"] = {512, 256};
    if (i < 3) {
      s[p + "attn_qkv.weight"] = {256, 2 * 128 + 256};
      s[p + "attn_gate.weight"] = {256, 256};
      s[p + "ssm_conv1d.weight"] = {4, 512};
      s[p + "ssm_dt.bias"] = {4};
      s[p + "ssm_a"] = {4};
      s[p + "ssm_alpha.weight"] = {256, 4};
      s[p + "ssm_beta.weight"] = {256, 4};
      s[p + "ssm_norm.weight"] = {64};
      s[p + "ssm_out.weight"] = {256, 256};
    } else {
      s[p + "attn_q.weight"] = {256, 2 * 256};
      s[p + "attn_k.weight"] = {256, 128};
      s[p + "attn_v.weight"] = {256, 128};
      s[p + "attn_q_norm.weight"] = {64};
      s[p + "attn_k_norm.weight"] = {64};
      s[p + "attn_output.weight"] = {256, 256};
    }
  }
  s["blk.4.nextn.eh_proj.weight"] = {512, 256};
  s["blk.4.nextn.enorm.weight"] = {256};
  s["blk.4.nextn.hnorm.weight"] = {256};
  s["blk.4.nextn.shared_head_norm.weight"] = {256};
  return s;
}

Shapes TinyPlainShapes() {
  Shapes s = {{"token_embd.weight", {256, 512}}, {"output_norm.weight", {256}}};
  for (int i = 0; i < 4; ++i) {
    std::string p = "blk." + std::to_string(i) + ".";
    s[p + "attn_norm.weight"] = {256};
    s[p + "ffn_norm.weight"] = {256};
    s[p + "ffn_gate.weight"] = {256, 512};
    s[p + "ffn_up.weight"] = {256, 512};
    s[p + "ffn_down.weight"] = {512, 256};
    s[p + "attn_q.weight"] = {256, 256};
    s[p + "attn_k.weight"] = {256, 128};
    s[p + "attn_v.weight"] = {256, 128};
    s[p + "attn_q_norm.weight"] = {64};
    s[p + "attn_k_norm.weight"] = {64};
    s[p + "attn_output.weight"] = {256, 256};
  }
  return s;
}

TEST(Synth, EveryMixOpensAndIsComplete) {
  for (std::string arch : {"qwen35", "qwen3"}) {
    const Shapes expected = arch == "qwen35" ? TinyHybridShapes() : TinyPlainShapes();
    for (std::string_view mix : SynthFormats()) {
      SynthOptions options = Tiny(arch);
      options.format = std::string(mix);
      options.output = TempPath(arch + "_" + options.format);
      absl::Status status = RunSynth(options, Ignore);
      ASSERT_TRUE(status.ok()) << arch << " " << mix << ": " << status;
      auto opened = gguf::File::Open(options.output);
      ASSERT_TRUE(opened.ok()) << arch << " " << mix << ": " << opened.status();
      const gguf::File& file = **opened;
      Shapes found;
      for (const gguf::Tensor& t : file.tensors()) {
        found[t.name] = std::vector<int64_t>(t.ne.begin(), t.ne.begin() + t.n_dims);
        EXPECT_TRUE(gguf::CheckFinite(file, t).ok()) << arch << " " << mix << " " << t.name;
        if (t.n_dims == 1 || t.name.find("ssm_conv1d") != std::string::npos) {
          EXPECT_EQ(t.format, Format::F32) << arch << " " << mix << " " << t.name;
        }
      }
      // Behind every NVFP4 matrix its tensor scale, whatever the other rules are.
      Shapes with_scales = expected;
      for (const gguf::Tensor& t : file.tensors()) {
        if (t.format != Format::NVFP4) continue;
        with_scales[t.name.substr(0, t.name.size() - 6) + "scale"] = {1};
      }
      EXPECT_EQ(found, with_scales) << arch << " " << mix;
      EXPECT_EQ(mix == "nvfp4", with_scales.size() > expected.size()) << arch << " " << mix;
      EXPECT_EQ(file.GetString("general.architecture").value(), arch);
      EXPECT_EQ(file.GetInt(arch + ".block_count").value(), arch == "qwen35" ? 5 : 4);
      EXPECT_EQ(file.GetInt(arch + ".embedding_length").value(), 256);
      EXPECT_EQ(file.GetInt(arch + ".attention.key_length").value(), 64);
      EXPECT_EQ(file.GetInt(arch + ".rope.dimension_count").value(), arch == "qwen35" ? 16 : 64);
      if (arch == "qwen35") {
        EXPECT_EQ(file.GetIntArray("qwen35.rope.dimension_sections").value(),
                  (std::vector<int64_t>{3, 3, 2, 0}));
        EXPECT_EQ(file.GetInt("qwen35.nextn_predict_layers").value(), 1);
        EXPECT_EQ(file.GetInt("qwen35.ssm.inner_size").value(), 256);
      }
      EXPECT_EQ(file.GetStringArray("tokenizer.ggml.tokens").value().size(), 512u);
      std::filesystem::remove(options.output);
    }
  }
}

TEST(Synth, TheSameOptionsGiveTheSameBytesAndSeedsDiffer) {
  SynthOptions options = Tiny("qwen35");
  std::vector<std::vector<char>> files;
  for (uint64_t seed : {1u, 1u, 2u}) {
    options.seed = seed;
    options.output = TempPath("seed");
    ASSERT_TRUE(RunSynth(options, Ignore).ok());
    files.push_back(Contents(options.output));
    std::filesystem::remove(options.output);
  }
  ASSERT_FALSE(files[0].empty());
  EXPECT_TRUE(files[0] == files[1]) << "one seed gave two files";
  EXPECT_FALSE(files[0] == files[2]) << "two seeds gave one file";
}

TEST(Synth, ProgressReachesTheTotalAndCanStop) {
  SynthOptions options = Tiny("qwen3");
  options.output = TempPath("progress");
  uint64_t last = 0, total = 0;
  auto watch = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return absl::OkStatus();
  };
  ASSERT_TRUE(RunSynth(options, watch).ok());
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
  std::filesystem::remove(options.output);
  auto stop = [](uint64_t, uint64_t) { return absl::CancelledError("stopped"); };
  EXPECT_EQ(RunSynth(options, stop).code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST(SynthPresets, HaveThePublishedTensorCounts) {
  const std::map<std::string, std::pair<size_t, size_t>> counts = {
      {"qwen35 0.8b", {320, 335}}, {"qwen35 2b", {320, 335}}, {"qwen35 4b", {426, 441}},
      {"qwen3 0.6b", {310, 0}},    {"qwen3 1.7b", {310, 0}},  {"qwen3 4b", {398, 0}},
      {"qwen3 8b", {399, 0}}};
  EXPECT_EQ(SynthPresets().size(), counts.size());
  EXPECT_EQ(SynthPresetsText(), "qwen35: 0.8b, 2b, 4b; qwen3: 0.6b, 1.7b, 4b, 8b");
  for (const SynthPreset& preset : SynthPresets()) {
    SynthOptions options;
    options.arch = std::string(preset.arch);
    options.preset = std::string(preset.name);
    auto config = ResolveSynth(options);
    ASSERT_TRUE(config.ok()) << config.status();
    auto expected = counts.find(options.arch + " " + options.preset);
    ASSERT_NE(expected, counts.end()) << options.arch << " " << options.preset;
    EXPECT_EQ(SynthTensors(*config, *FindMix("q8_0")).size(), expected->second.first)
        << options.arch << " " << options.preset;
    if (expected->second.second == 0) continue;
    config->mtp = true;
    EXPECT_EQ(SynthTensors(*config, *FindMix("q8_0")).size(), expected->second.second)
        << options.preset << " with MTP";
  }
}

TEST(SynthPresets, HaveTheParametersOfTheirNames) {
  const std::map<std::string, std::pair<double, double>> billions = {
      {"qwen35 0.8b", {0.72, 0.80}}, {"qwen35 2b", {1.8, 2.0}},    {"qwen35 4b", {4.0, 4.5}},
      {"qwen3 0.6b", {0.58, 0.62}},  {"qwen3 1.7b", {1.68, 1.76}}, {"qwen3 4b", {4.0, 4.05}},
      {"qwen3 8b", {8.15, 8.22}}};
  for (const auto& [name, range] : billions) {
    SynthOptions options;
    options.arch = name.substr(0, name.find(' '));
    options.preset = name.substr(name.find(' ') + 1);
    double parameters = 0;
    for (const SynthTensor& t : SynthTensors(ResolveSynth(options).value(), *FindMix("f32"))) {
      double n = 1;
      for (int64_t d : t.ne) n *= static_cast<double>(d);
      parameters += n;
    }
    EXPECT_GE(parameters, range.first * 1e9) << name;
    EXPECT_LE(parameters, range.second * 1e9) << name;
  }
}

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

TEST(SynthVocabulary, IsAValidByteLevelBpe) {
  for (auto [arch, size] : {std::pair<std::string, int64_t>{"qwen35", 248320},
                            {"qwen3", 151936},
                            {"qwen35", 512},
                            {"qwen35", MinimumVocabulary("qwen35")},
                            {"qwen3", MinimumVocabulary("qwen3")}}) {
    SynthVocabulary v = MakeVocabulary(arch, size);
    ASSERT_EQ(v.tokens.size(), static_cast<size_t>(size)) << arch;
    ASSERT_EQ(v.types.size(), v.tokens.size()) << arch;
    std::map<std::string, size_t> ids;
    for (size_t i = 0; i < v.tokens.size(); ++i) {
      ASSERT_TRUE(ids.emplace(v.tokens[i], i).second)
          << arch << ": token " << v.tokens[i] << " appears twice";
    }
    EXPECT_EQ(ids.at("!"), 0u);
    EXPECT_EQ(ids.at("\xc4\x8a"), 198u) << "newline";
    for (size_t i = 0; i < v.merges.size(); ++i) {
      size_t at = v.merges[i].find(' ');
      ASSERT_NE(at, std::string::npos);
      std::string left = v.merges[i].substr(0, at), right = v.merges[i].substr(at + 1);
      ASSERT_EQ(v.tokens[256 + i], left + right) << arch << " merge " << i;
      ASSERT_LT(ids.at(left), 256 + i) << arch << " merge " << i << " uses a token that comes later";
      ASSERT_LT(ids.at(right), 256 + i) << arch << " merge " << i << " uses a token that comes later";
    }
    EXPECT_EQ(v.tokens[static_cast<size_t>(v.end_of_text)], "<|endoftext|>");
    EXPECT_EQ(v.tokens[static_cast<size_t>(v.im_end)], "<|im_end|>");
    EXPECT_EQ(v.types[static_cast<size_t>(v.im_end)], 3);
    EXPECT_EQ(v.types[ids.at("<think>")], 4);
    EXPECT_EQ(v.types[0], 1);
  }
  SynthVocabulary v = MakeVocabulary("qwen35", 248320);
  EXPECT_EQ(v.end_of_text, 248044);
  EXPECT_EQ(v.tokens[248069], "</think>");
  EXPECT_EQ(v.tokens[248077], "[PAD248077]");
  EXPECT_EQ(v.types[248077], 5);
  EXPECT_EQ(v.tokens.back(), "[PAD248319]");
  EXPECT_EQ(v.merges.size(), 248044u - 256);
  v = MakeVocabulary("qwen3", 151936);
  EXPECT_EQ(v.end_of_text, 151643);
  EXPECT_EQ(v.tokens[151668], "</think>");
}

TEST(SynthRandom, HasTheMomentsAskedForAndNoOrder) {
  std::vector<float> x(1 << 18);
  uint64_t key = StreamKey(1, "blk.0.ffn_up.weight");
  DrawValues(Draw::kNormal, 0.5f, key, 0, x);
  double sum = 0, squares = 0;
  for (float v : x) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  double n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 0.004);
  EXPECT_NEAR(std::sqrt(squares / n), 0.5, 0.003);
  std::vector<float> piece(100);
  DrawValues(Draw::kNormal, 0.5f, key, 1000, piece);
  EXPECT_EQ(std::memcmp(piece.data(), x.data() + 1000, 400), 0)
      << "a value depends on where the piece begins";
  DrawValues(Draw::kNormal, 0.5f, StreamKey(1, "blk.1.ffn_up.weight"), 0, piece);
  EXPECT_NE(std::memcmp(piece.data(), x.data(), 400), 0) << "two tensors have the same values";
}

TEST(SynthRandom, GatesAreInTheirRanges) {
  std::vector<float> x(4096);
  DrawValues(Draw::kDecay, 1, StreamKey(3, "ssm_a"), 0, x);
  for (float v : x) ASSERT_TRUE(v <= -0.1f && v >= -8.0f) << v;
  DrawValues(Draw::kTimeStep, 1, StreamKey(3, "ssm_dt"), 0, x);
  for (float v : x) {
    double step = std::log1p(std::exp(static_cast<double>(v)));
    ASSERT_TRUE(step > 0.00099 && step < 0.101) << v;
  }
  DrawValues(Draw::kAroundOne, 0.1f, StreamKey(3, "norm"), 0, x);
  for (float v : x) ASSERT_TRUE(v > 0.6f && v < 1.4f) << v;
}

TEST(SynthOptions, BadOnesAreRefusedByName) {
  struct Case {
    std::string option;
    void (*change)(SynthOptions&);
  };
  const Case cases[] = {
      {"--arch", [](SynthOptions& o) { o.arch = "llama"; }},
      {"--preset", [](SynthOptions& o) { o.preset = "900b"; }},
      {"--format", [](SynthOptions& o) { o.format = "q3_k"; }},
      {"--layers", [](SynthOptions& o) { o.layers = 0; }},
      {"--hidden", [](SynthOptions& o) { o.hidden = -1; }},
      {"--ffn", [](SynthOptions& o) { o.ffn = int64_t{1} << 40; }},
      {"--kv-heads", [](SynthOptions& o) { o.kv_heads = 3; }},
      {"--kv-heads", [](SynthOptions& o) { o.kv_heads = 0; }},
      {"--rope-dims", [](SynthOptions& o) { o.rope_dims = 7; }},
      {"--rope-dims", [](SynthOptions& o) { o.rope_dims = 4096; }},
      {"--vocab", [](SynthOptions& o) { o.vocab = 288; }},
      {"--linear-value-heads", [](SynthOptions& o) { o.linear_value_heads = 3; }},
      {"--full-attention-interval", [](SynthOptions& o) { o.full_attention_interval = 0; }},
      {"--linear-head-dim",
       [](SynthOptions& o) {
         o = Tiny("qwen3");
         o.linear_head_dim = 64;
       }},
      {"--mtp",
       [](SynthOptions& o) {
         o = Tiny("qwen3");
         o.mtp = true;
       }},
  };
  for (const Case& c : cases) {
    SynthOptions options = Tiny("qwen35");
    c.change(options);
    absl::Status status = ResolveSynth(options).status();
    ASSERT_FALSE(status.ok()) << c.option << " was accepted";
    EXPECT_EQ(PartsOf(status).code, "Q0102") << status;
    EXPECT_NE(PartsOf(status).where.find(c.option), std::string::npos) << status;
    EXPECT_EQ(RunSynth(options, Ignore), status);
  }
}

}  // namespace
}  // namespace qcc::compiler
