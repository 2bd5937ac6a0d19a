#include "compiler/driver/synth_mix.h"

#include <map>
#include <optional>

#include "dialects/formats/formats.h"

namespace qcc::compiler {

// Some of the n matrices of a category.
enum class Share { kNone, kAll, kFirstTwo, kFirstFour, kFirstSixteenth, kFirstEighth, kMoreBits, kMiddle };

struct LayerRule {
  Share share = Share::kNone;
  Format format = Format::F32;
  std::optional<Format> rest = {};  // of the others; the mix's base if not given
};

// A column that is not given is the mix's base.
struct Mix {
  std::string_view name;
  uint32_t file_type;
  Format base, output;
  std::optional<Format> embedding = {};  // of a model with an output matrix of its own
  LayerRule value = {};                  // attn_v and attn_qkv
  LayerRule down = {};
  LayerRule gate_up = {};
  std::optional<Format> attn_output = {}, query_key = {};
  std::optional<Format> beside_experts = {};  // of all matrices of a model with experts that are not theirs
};

namespace {

using enum Format;

// As llama.cpp's quantiser chooses. Columns of one format stand for files in which every matrix has it.
constexpr Mix kMixes[] = {
    {.name = "f32", .file_type = 0, .base = F32, .output = F32},
    {.name = "f16", .file_type = 1, .base = F16, .output = F16},
    {.name = "bf16", .file_type = 32, .base = BF16, .output = BF16},
    {.name = "q8_0", .file_type = 7, .base = Q8_0, .output = Q8_0},
    {.name = "q4_0", .file_type = 2, .base = Q4_0, .output = Q6_K},
    {.name = "q4_1", .file_type = 3, .base = Q4_1, .output = Q6_K},
    {.name = "q4_k_m",
     .file_type = 15,
     .base = Q4_K,
     .output = Q6_K,
     .value = {Share::kMoreBits, Q6_K},
     .down = {Share::kMoreBits, Q6_K}},
    {.name = "q5_k_m",
     .file_type = 17,
     .base = Q5_K,
     .output = Q6_K,
     .value = {Share::kMoreBits, Q6_K},
     .down = {Share::kMoreBits, Q6_K}},
    {.name = "q6_k", .file_type = 18, .base = Q6_K, .output = Q6_K},
    {.name = "q2_k",
     .file_type = 10,
     .base = Q2_K,
     .output = Q6_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kAll, Q3_K},
     .attn_output = Q3_K},
    {.name = "q3_k_s", .file_type = 11, .base = Q3_K, .output = Q6_K},
    {.name = "q3_k_m",
     .file_type = 12,
     .base = Q3_K,
     .output = Q6_K,
     .value = {Share::kFirstTwo, Q5_K, Q4_K},
     .down = {Share::kFirstSixteenth, Q5_K, Q4_K},
     .attn_output = Q4_K},
    {.name = "q3_k_l",
     .file_type = 13,
     .base = Q3_K,
     .output = Q6_K,
     .value = {Share::kAll, Q5_K},
     .down = {Share::kAll, Q5_K},
     .attn_output = Q5_K},
    {.name = "q4_k_s",
     .file_type = 14,
     .base = Q4_K,
     .output = Q6_K,
     .value = {Share::kFirstFour, Q5_K},
     .down = {Share::kFirstEighth, Q5_K}},
    {.name = "q5_0", .file_type = 8, .base = Q5_0, .output = Q6_K},
    {.name = "q5_1", .file_type = 9, .base = Q5_1, .output = Q6_K},
    {.name = "q5_k_s", .file_type = 16, .base = Q5_K, .output = Q6_K},
    {.name = "iq1_s",
     .file_type = 24,
     .base = IQ1_S,
     .output = Q5_K,
     .embedding = Q2_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q2_K},
     .attn_output = IQ2_XXS},
    {.name = "iq1_m",
     .file_type = 31,
     .base = IQ1_M,
     .output = Q5_K,
     .embedding = Q2_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q2_K},
     .attn_output = IQ2_XXS},
    {.name = "iq2_xxs",
     .file_type = 19,
     .base = IQ2_XXS,
     .output = Q5_K,
     .embedding = Q2_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q2_K}},
    {.name = "iq2_xs",
     .file_type = 20,
     .base = IQ2_XS,
     .output = Q5_K,
     .embedding = Q2_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q2_K}},
    {.name = "iq2_s",
     .file_type = 28,
     .base = IQ2_XS,
     .output = Q5_K,
     .embedding = IQ3_S,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, IQ3_S},
     .attn_output = IQ3_S},
    {.name = "iq2_m",
     .file_type = 29,
     .base = IQ2_S,
     .output = Q5_K,
     .embedding = IQ3_S,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, IQ3_S},
     .attn_output = IQ3_S},
    {.name = "iq3_xxs",
     .file_type = 23,
     .base = IQ3_XXS,
     .output = Q5_K,
     .embedding = IQ3_S,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q4_K, Q3_K},
     .attn_output = IQ3_S,
     .query_key = IQ2_S},
    {.name = "iq3_xs",
     .file_type = 22,
     .base = IQ3_S,
     .output = Q6_K,
     .value = {Share::kAll, Q4_K},
     .gate_up = {Share::kMiddle, IQ3_XXS},
     .query_key = IQ3_XXS},
    {.name = "iq3_s", .file_type = 26, .base = IQ3_S, .output = Q6_K, .value = {Share::kAll, Q4_K}},
    {.name = "iq3_m",
     .file_type = 27,
     .base = IQ3_S,
     .output = Q6_K,
     .value = {Share::kAll, Q4_K},
     .down = {Share::kFirstEighth, Q4_K},
     .attn_output = Q4_K},
    {.name = "iq4_nl",
     .file_type = 25,
     .base = IQ4_NL,
     .output = Q6_K,
     .value = {Share::kAll, Q5_K},
     .down = {Share::kFirstEighth, Q5_K}},
    {.name = "iq4_xs",
     .file_type = 30,
     .base = IQ4_XS,
     .output = Q6_K,
     .value = {Share::kAll, Q5_K},
     .down = {Share::kFirstEighth, Q5_K}},
    {.name = "tq1_0", .file_type = 36, .base = TQ1_0, .output = Q6_K, .embedding = Q4_K},
    {.name = "tq2_0", .file_type = 37, .base = TQ2_0, .output = Q6_K, .embedding = Q4_K},
    {.name = "mxfp4", .file_type = 38, .base = MXFP4, .output = Q8_0, .beside_experts = Q8_0},
    {.name = "nvfp4", .file_type = 39, .base = NVFP4, .output = NVFP4, .embedding = BF16},
    {.name = "q1_0", .file_type = 40, .base = Q1_0, .output = Q1_0},
    {.name = "q2_0", .file_type = 41, .base = Q2_0, .output = Q2_0},
    {.name = "q2_0_g128", .file_type = 41, .base = Q2_0_G128, .output = Q2_0_G128},
};

bool Has(Share share, int64_t i, int64_t n) {
  switch (share) {
    case Share::kNone:
      return false;
    case Share::kAll:
      return true;
    case Share::kFirstTwo:
      return i < 2;
    case Share::kFirstFour:
      return i < 4;
    case Share::kFirstSixteenth:
      return i < n / 16;
    case Share::kFirstEighth:
      return i < n / 8;
    case Share::kMoreBits:  // the first and the last eighth, and every third between
      return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case Share::kMiddle:
      return i >= n / 8 && i < 7 * n / 8;
  }
  return false;
}

Format ByRule(const LayerRule& rule, const Mix& mix, int64_t i, int64_t n) {
  return Has(rule.share, i, n) ? rule.format : rule.rest.value_or(mix.base);
}

// The format itself, or the nearest larger one whose blocks fit rows of `n` weights.
Format Fitting(Format format, int64_t n) {
  for (Format f : {format, Q8_0}) {
    if (n % format_info(f).block_elems == 0) return f;
  }
  return F16;
}

bool IsOfExperts(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp || role == TensorRole::kExpertDown;
}

// `i`: the matrix is number i of n with its role.
Format FormatOf(const Mix& mix, bool tied, TensorRole role, int64_t i, int64_t n) {
  switch (role) {
    case TensorRole::kVector:
      return F32;
    case TensorRole::kMatrix:
      return mix.base;
    case TensorRole::kEmbedding:
      // NVFP4 has a scale for the tensor, which a table of rows to look up does not: such files keep BF16.
      if (tied && mix.output != NVFP4) return mix.output;
      return mix.embedding.value_or(mix.base);
    case TensorRole::kOutput:
      return mix.output;
    case TensorRole::kValue:
      return ByRule(mix.value, mix, i, n);
    case TensorRole::kFfnDown:
    case TensorRole::kExpertDown:
    case TensorRole::kSharedDown:
      return ByRule(mix.down, mix, i, n);
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      return ByRule(mix.gate_up, mix, i, n);
    case TensorRole::kAttnOutput:
      return mix.attn_output.value_or(mix.base);
    case TensorRole::kQueryKey:
      return mix.query_key.value_or(mix.base);
  }
  return mix.base;
}

}  // namespace

std::vector<std::string_view> SynthFormats() {
  std::vector<std::string_view> names;
  for (const Mix& mix : kMixes) names.push_back(mix.name);
  return names;
}

const Mix* FindMix(std::string_view name) {
  for (const Mix& mix : kMixes) {
    if (mix.name == name) return &mix;
  }
  return nullptr;
}

uint32_t FileType(const Mix& mix) {
  return mix.file_type;
}

void AssignFormats(const Mix& mix, bool tied, std::vector<SynthTensor>* tensors) {
  std::map<TensorRole, int64_t> total, seen;
  for (const SynthTensor& t : *tensors) ++total[t.role];
  const bool experts = total[TensorRole::kExpertDown] > 0;
  for (SynthTensor& t : *tensors) {
    Format format = FormatOf(mix, tied, t.role, seen[t.role]++, total[t.role]);
    if (experts && mix.beside_experts && !IsOfExperts(t.role)) format = *mix.beside_experts;
    if (t.role == TensorRole::kVector) format = F32;
    t.format = t.role == TensorRole::kVector ? format : Fitting(format, t.ne[0]);
  }
}

}  // namespace qcc::compiler
