#include "compiler/driver/synth_model.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/driver/synth_mix.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

class Builder {
 public:
  explicit Builder(const SynthConfig& config) : c_(config) {}

  std::vector<SynthTensor> Build() {
    // Logits of a normed hidden vector against rows of this size have a deviation of 2.
    const float head = 2.0f / std::sqrt(static_cast<float>(c_.hidden));
    Add("token_embd.weight", {c_.hidden, c_.vocab}, TensorRole::kEmbedding, Draw::kNormal, head);
    for (int64_t i = 0; i < c_.layers; ++i) Block(i);
    if (c_.mtp) Block(c_.layers);
    Norm("output_norm.weight", c_.hidden);
    if (!c_.tied) Add("output.weight", {c_.hidden, c_.vocab}, TensorRole::kOutput, Draw::kNormal, head);
    return std::move(tensors_);
  }

 private:
  void Add(std::string name, std::vector<int64_t> ne, TensorRole role, Draw draw, float scale) {
    tensors_.push_back({std::move(name), std::move(ne), role, draw, scale});
  }
  void Norm(std::string name, int64_t n) {
    Add(std::move(name), {n}, TensorRole::kVector, Draw::kAroundOne, 0.1f);
  }
  // A linear layer that keeps the size of its input.
  void Matrix(std::string name, int64_t in, int64_t out, TensorRole role = TensorRole::kMatrix) {
    Add(std::move(name), {in, out}, role, Draw::kNormal, 1.0f / std::sqrt(static_cast<float>(in)));
  }

  // The linear at the end of a branch. All branches together outweigh the embedding, but not by the layer
  // count: a deep random model whose first layers drown their input amplifies every rounding, one whose last
  // layers do not, with a tied head, repeats its input.
  void BranchOut(std::string name, int64_t in, TensorRole role = TensorRole::kMatrix) {
    Add(std::move(name), {in, c_.hidden}, role, Draw::kNormal, BranchScale(in));
  }
  float BranchScale(int64_t in) const {
    const float embedding = 2.0f / std::sqrt(static_cast<float>(c_.hidden));
    const float branches = std::sqrt(2.0f * static_cast<float>(c_.layers));
    return 24.0f * embedding / (branches * std::sqrt(static_cast<float>(in)));
  }

  void Block(int64_t i) {
    const std::string p = Concat("blk.", i, ".");
    const bool hybrid = c_.hybrid(), mtp = i >= c_.layers;
    Norm(p + "attn_norm.weight", c_.hidden);
    if (hybrid && !mtp && (i + 1) % c_.full_attention_interval != 0) {
      DeltaNet(p);
    } else {
      Attention(p, hybrid);
    }
    Norm(p + (hybrid ? "post_attention_norm.weight" : "ffn_norm.weight"), c_.hidden);
    if (c_.has_experts()) {
      Experts(p);
    } else {
      Matrix(p + "ffn_gate.weight", c_.hidden, c_.ffn, TensorRole::kFfnGate);
      Matrix(p + "ffn_up.weight", c_.hidden, c_.ffn, TensorRole::kFfnUp);
      BranchOut(p + "ffn_down.weight", c_.ffn, TensorRole::kFfnDown);
    }
    if (!mtp) return;
    Matrix(p + "nextn.eh_proj.weight", 2 * c_.hidden, c_.hidden);
    Norm(p + "nextn.enorm.weight", c_.hidden);
    Norm(p + "nextn.hnorm.weight", c_.hidden);
    Norm(p + "nextn.shared_head_norm.weight", c_.hidden);
  }

  // Logits of the router have a deviation of 2: some experts of a token matter more than others, as they do
  // in trained models, and few are near a tie.
  void Experts(const std::string& p) {
    const float unit = 1.0f / std::sqrt(static_cast<float>(c_.hidden));
    const std::vector<int64_t> in = {c_.hidden, c_.expert_ffn, c_.experts};
    Add(p + "ffn_gate_inp.weight", {c_.hidden, c_.experts}, TensorRole::kVector, Draw::kNormal, 2 * unit);
    Add(p + "ffn_gate_exps.weight", in, TensorRole::kExpertGate, Draw::kNormal, unit);
    Add(p + "ffn_up_exps.weight", in, TensorRole::kExpertUp, Draw::kNormal, unit);
    Add(p + "ffn_down_exps.weight", {c_.expert_ffn, c_.hidden, c_.experts}, TensorRole::kExpertDown,
        Draw::kNormal, BranchScale(c_.expert_ffn));
    if (c_.shared_ffn == 0) return;
    Add(p + "ffn_gate_inp_shexp.weight", {c_.hidden}, TensorRole::kVector, Draw::kNormal, unit);
    Matrix(p + "ffn_gate_shexp.weight", c_.hidden, c_.shared_ffn, TensorRole::kSharedGate);
    Matrix(p + "ffn_up_shexp.weight", c_.hidden, c_.shared_ffn, TensorRole::kSharedUp);
    BranchOut(p + "ffn_down_shexp.weight", c_.shared_ffn, TensorRole::kSharedDown);
  }

  void DeltaNet(const std::string& p) {
    const int64_t key_dim = c_.linear_key_heads * c_.linear_head_dim;
    const int64_t value_dim = c_.linear_value_heads * c_.linear_head_dim;
    const int64_t conv_dim = 2 * key_dim + value_dim;
    Matrix(p + "attn_qkv.weight", c_.hidden, conv_dim, TensorRole::kValue);
    Matrix(p + "attn_gate.weight", c_.hidden, value_dim);
    Add(p + "ssm_conv1d.weight", {c_.conv_kernel, conv_dim}, TensorRole::kVector, Draw::kNormal,
        1.0f / std::sqrt(static_cast<float>(c_.conv_kernel)));
    Add(p + "ssm_dt.bias", {c_.linear_value_heads}, TensorRole::kVector, Draw::kTimeStep, 1.0f);
    Add(p + "ssm_a", {c_.linear_value_heads}, TensorRole::kVector, Draw::kDecay, 1.0f);
    if (c_.by_key_head()) {
      Matrix(p + "ssm_ba.weight", c_.hidden, 2 * c_.linear_value_heads);
    } else {
      Matrix(p + "ssm_beta.weight", c_.hidden, c_.linear_value_heads);
      Matrix(p + "ssm_alpha.weight", c_.hidden, c_.linear_value_heads);
    }
    Norm(p + "ssm_norm.weight", c_.linear_head_dim);
    BranchOut(p + "ssm_out.weight", value_dim);
  }

  // With `gate` each head of attn_q is followed by a gate of the same size.
  void Attention(const std::string& p, bool gate) {
    Matrix(p + "attn_q.weight", c_.hidden, (gate ? 2 : 1) * c_.heads * c_.head_dim, TensorRole::kQueryKey);
    Matrix(p + "attn_k.weight", c_.hidden, c_.kv_heads * c_.head_dim, TensorRole::kQueryKey);
    Matrix(p + "attn_v.weight", c_.hidden, c_.kv_heads * c_.head_dim, TensorRole::kValue);
    Norm(p + "attn_q_norm.weight", c_.head_dim);
    Norm(p + "attn_k_norm.weight", c_.head_dim);
    BranchOut(p + "attn_output.weight", c_.heads * c_.head_dim, TensorRole::kAttnOutput);
  }

  const SynthConfig& c_;
  std::vector<SynthTensor> tensors_;
};

// Behind every NVFP4 matrix NAME.weight the scale of the whole tensor, NAME.scale, by which the result of the
// linear is multiplied: unsigned E4M3 scales reach from 2^-9 to 448 only. The matrix itself is drawn with a
// deviation of 768, so that the largest weights (3.5 deviations) are what 448 * 6 can hold.
std::vector<SynthTensor> WithTensorScales(std::vector<SynthTensor> tensors) {
  constexpr float kDeviation = 768;
  constexpr std::string_view kSuffix = ".weight";
  std::vector<SynthTensor> out;
  for (SynthTensor& t : tensors) {
    const bool scaled = t.format == Format::NVFP4;
    const float scale = t.scale / kDeviation;
    if (scaled) t.scale = kDeviation;
    const std::string stem = t.name.substr(0, t.name.size() - kSuffix.size());
    out.push_back(std::move(t));
    if (scaled) out.push_back({stem + ".scale", {1}, TensorRole::kVector, Draw::kConstant, scale});
  }
  return out;
}

}  // namespace

std::vector<SynthTensor> SynthTensors(const SynthConfig& config, const Mix& mix) {
  std::vector<SynthTensor> tensors = Builder(config).Build();
  AssignFormats(mix, config.tied, &tensors);
  return WithTensorScales(std::move(tensors));
}

void AddModelKeys(const SynthConfig& config, const SynthOptions& options, const Mix& mix,
                  gguf::Writer& writer) {
  auto u32 = [&](std::string_view key, int64_t value) {
    writer.AddU32(Concat(config.arch, ".", key), static_cast<uint32_t>(value));
  };
  auto f32 = [&](std::string_view key, float value) { writer.AddF32(Concat(config.arch, ".", key), value); };
  writer.AddString("general.architecture", config.arch);
  writer.AddString("general.type", "model");
  writer.AddString("general.name", Concat("synthetic ", config.arch, " ", options.preset, " ", options.format,
                                          " seed ", options.seed));
  writer.AddU32("general.file_type", FileType(mix));
  writer.AddU32("general.quantization_version", 2);
  u32("block_count", config.layers + (config.mtp ? 1 : 0));
  u32("context_length", config.context);
  u32("embedding_length", config.hidden);
  if (config.ffn > 0) u32("feed_forward_length", config.ffn);
  u32("attention.head_count", config.heads);
  u32("attention.head_count_kv", config.kv_heads);
  u32("attention.key_length", config.head_dim);
  u32("attention.value_length", config.head_dim);
  f32("attention.layer_norm_rms_epsilon", 1e-6f);
  f32("rope.freq_base", config.rope_base);
  u32("rope.dimension_count", config.rope_dims);
  if (config.has_experts()) {
    u32("expert_count", config.experts);
    u32("expert_used_count", config.experts_used);
    u32("expert_feed_forward_length", config.expert_ffn);
    if (config.shared_ffn > 0) u32("expert_shared_feed_forward_length", config.shared_ffn);
  }
  if (config.hybrid() && !config.by_key_head()) {  // which has one position for each token
    const int32_t pairs = static_cast<int32_t>(config.rope_dims / 2);
    const std::array<int32_t, 4> sections = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    writer.AddI32Array(Concat(config.arch, ".rope.dimension_sections"), sections);
  }
  if (config.hybrid()) {
    u32("full_attention_interval", config.full_attention_interval);
    u32("ssm.conv_kernel", config.conv_kernel);
    u32("ssm.state_size", config.linear_head_dim);
    u32("ssm.group_count", config.linear_key_heads);
    u32("ssm.time_step_rank", config.linear_value_heads);
    u32("ssm.inner_size", config.linear_value_heads * config.linear_head_dim);
  }
  if (config.mtp) u32("nextn_predict_layers", 1);
}

}  // namespace qcc::compiler
