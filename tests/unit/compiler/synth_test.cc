// qcc synth: small models of every mix open and are complete; vocabulary and weights are what they should be.
// Formats: synth_mix_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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
#include "tests/unit/compiler/synth_tiny.h"

namespace qcc::compiler {
namespace {

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "synth_" + std::to_string(::getpid()) + "_" + name + ".gguf";
}

absl::Status Ignore(uint64_t, uint64_t) {
  return absl::OkStatus();
}

std::vector<char> Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// The tensors of Tiny(arch), written down from the naming rules of the architectures.
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

Shapes TinyShapes(const std::string& arch) {
  const bool hybrid = arch != "qwen3" && arch != "qwen3moe";
  Shapes s = hybrid ? TinyHybridShapes() : TinyPlainShapes();
  if (arch == "qwen35" || arch == "qwen3") return s;
  for (int i = 0; i < (hybrid ? 5 : 4); ++i) {
    std::string p = "blk." + std::to_string(i) + ".";
    for (const char* dense : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) s.erase(p + dense);
    s[p + "ffn_gate_inp.weight"] = {256, 6};
    s[p + "ffn_gate_exps.weight"] = s[p + "ffn_up_exps.weight"] = {256, 256, 6};
    s[p + "ffn_down_exps.weight"] = {256, 256, 6};
    if (arch == "qwen3next" && s.erase(p + "ssm_alpha.weight") + s.erase(p + "ssm_beta.weight") > 0) {
      s[p + "ssm_ba.weight"] = {256, 8};
    }
    if (!hybrid) continue;
    s[p + "ffn_gate_inp_shexp.weight"] = {256};
    s[p + "ffn_gate_shexp.weight"] = s[p + "ffn_up_shexp.weight"] = {256, 512};
    s[p + "ffn_down_shexp.weight"] = {512, 256};
  }
  // Their presets have a head of their own.
  s["output.weight"] = {256, 512};
  return s;
}

TEST(Synth, EveryMixOpensAndIsComplete) {
  for (std::string arch : {"qwen35", "qwen3", "qwen35moe", "qwen3moe", "qwen3next"}) {
    const bool hybrid = arch != "qwen3" && arch != "qwen3moe";
    const Shapes expected = TinyShapes(arch);
    for (std::string_view mix : SynthFormats()) {
      // Which tensors there are, and of what kind, is known from the first: the encoders take most of the
      // time.
      const bool every = arch == "qwen35" || arch == "qwen35moe";
      if (!every && mix != "f16" && mix != "q4_k_m" && mix != "nvfp4") continue;
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
        if (t.n_dims == 1 || t.name.find("ssm_conv1d") != std::string::npos ||
            t.name.find("ffn_gate_inp.") != std::string::npos) {
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
      EXPECT_EQ(file.GetInt(arch + ".block_count").value(), hybrid ? 5 : 4);
      EXPECT_EQ(file.GetInt(arch + ".embedding_length").value(), 256);
      EXPECT_EQ(file.GetInt(arch + ".attention.key_length").value(), 64);
      EXPECT_EQ(file.GetInt(arch + ".rope.dimension_count").value(), hybrid ? 16 : 64);
      EXPECT_EQ(file.Has(arch + ".rope.dimension_sections"), arch.starts_with("qwen35"));
      if (arch.starts_with("qwen35")) {
        EXPECT_EQ(file.GetIntArray(arch + ".rope.dimension_sections").value(),
                  (std::vector<int64_t>{3, 3, 2, 0}));
      }
      if (hybrid) {
        EXPECT_EQ(file.GetInt(arch + ".nextn_predict_layers").value(), 1);
        EXPECT_EQ(file.GetInt(arch + ".ssm.inner_size").value(), 256);
      }
      if (arch != "qwen35" && arch != "qwen3") {
        EXPECT_EQ(file.GetInt(arch + ".expert_count").value(), 6);
        EXPECT_EQ(file.GetInt(arch + ".expert_used_count").value(), 2);
        EXPECT_EQ(file.GetInt(arch + ".expert_feed_forward_length").value(), 256);
        EXPECT_EQ(file.Has(arch + ".expert_shared_feed_forward_length"), hybrid);
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

TEST(Synth, LargeTensorsHaveTheirScaleAndNoOrder) {
  SynthOptions options = Tiny("qwen3");
  options.layers = 2;
  options.ffn = 8704;  // x 256: more than are encoded one by one
  options.format = "q4_0";
  options.output = TempPath("large");
  ASSERT_TRUE(RunSynth(options, Ignore).ok());
  auto file = gguf::File::Open(options.output);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::vector<float>> layers;
  for (const char* name : {"blk.0.ffn_up.weight", "blk.1.ffn_up.weight"}) {
    const gguf::Tensor* tensor = (*file)->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::vector<float>& values = layers.emplace_back(size_t{8704} * 256);
    decode_row(tensor->format, tensor->data, static_cast<int64_t>(values.size()), values.data());
    double squares = 0;
    for (float v : values) squares += static_cast<double>(v) * v;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 1.0 / 16, 0.002) << name;
    EXPECT_NE(std::memcmp(values.data(), values.data() + 256, 1024), 0) << name << ": two rows are equal";
  }
  EXPECT_NE(std::memcmp(layers[0].data(), layers[1].data(), 1024), 0) << "two layers begin alike";
  std::filesystem::remove(options.output);
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
      {"qwen35 0.8b", {320, 335}},
      {"qwen35 2b", {320, 335}},
      {"qwen35 4b", {426, 441}},
      {"qwen3 0.6b", {310, 0}},
      {"qwen3 1.7b", {310, 0}},
      {"qwen3 4b", {398, 0}},
      {"qwen3 8b", {399, 0}},
      {"qwen35moe 35b-a3b", {733, 753}},
      {"qwen3moe 30b-a3b", {579, 0}},
      {"qwen3next 80b-a3b", {3 * 18 + 16 + 3, 3 * 18 + 16 + 3 + 20}}};  // 4 of 48 layers
  EXPECT_EQ(SynthPresets().size(), counts.size());
  EXPECT_EQ(SynthPresetsText(),
            "qwen35: 0.8b, 2b, 4b; qwen35moe: 35b-a3b; qwen3: 0.6b, 1.7b, 4b, 8b; qwen3moe: 30b-a3b; "
            "qwen3next: 80b-a3b");
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
      {"qwen35 0.8b", {0.72, 0.80}},  {"qwen35 2b", {1.8, 2.0}},           {"qwen35 4b", {4.0, 4.5}},
      {"qwen3 0.6b", {0.58, 0.62}},   {"qwen3 1.7b", {1.68, 1.76}},        {"qwen3 4b", {4.0, 4.05}},
      {"qwen3 8b", {8.15, 8.22}},     {"qwen35moe 35b-a3b", {34.5, 34.8}}, {"qwen3moe 30b-a3b", {30.4, 30.6}},
      {"qwen3next 80b-a3b", {79, 81}}};
  for (const auto& [name, range] : billions) {
    SynthOptions options;
    options.arch = name.substr(0, name.find(' '));
    options.preset = name.substr(name.find(' ') + 1);
    if (options.arch == "qwen3next") options.layers = 48;  // the preset has 4
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

TEST(SynthVocabulary, IsAValidByteLevelBpe) {
  for (auto [arch, size] : {std::pair<std::string, int64_t>{"qwen35", 248320},
                            {"qwen3", 151936},
                            {"qwen35", 512},
                            {"qwen35moe", 248320},
                            {"qwen3moe", 151936},
                            {"qwen3next", 151936},
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
      {"--layers",  // with the NextN block more than qcc compile takes
       [](SynthOptions& o) {
         o.layers = 4096;
         o.mtp = true;
       }},
      {"--context", [](SynthOptions& o) { o.context = (int64_t{1} << 30) + 1; }},
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
      {"--experts", [](SynthOptions& o) { o.experts = 8; }},
      {"--experts",
       [](SynthOptions& o) {
         o = Tiny("qwen35moe");
         o.experts = 0;
       }},
      {"--experts-used",
       [](SynthOptions& o) {
         o = Tiny("qwen35moe");
         o.experts_used = 7;
       }},
      {"--expert-ffn",
       [](SynthOptions& o) {
         o = Tiny("qwen3next");
         o.expert_ffn = 0;
       }},
      {"--shared-ffn",
       [](SynthOptions& o) {
         o = Tiny("qwen3moe");
         o.shared_ffn = 64;
       }},
      {"--ffn",
       [](SynthOptions& o) {
         o = Tiny("qwen3moe");
         o.ffn = 64;
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
