#include "tests/unit/models/tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "frontends/gguf/writer.h"

namespace qcc::models::testing {

namespace {

// Uniform in [-1, 1), the same on every platform (the distributions of <random> are not).
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float next() { return static_cast<float>(engine_() >> 8) * (2.0f / (1 << 24)) - 1.0f; }

 private:
  std::mt19937 engine_;
};

void AddKey(gguf::Writer& writer, const std::string& key, const KeyValue& value) {
  if (const auto* v = std::get_if<uint32_t>(&value)) writer.AddU32(key, *v);
  if (const auto* v = std::get_if<float>(&value)) writer.AddF32(key, *v);
  if (const auto* v = std::get_if<bool>(&value)) writer.AddBool(key, *v);
  if (const auto* v = std::get_if<std::string>(&value)) writer.AddString(key, *v);
  if (const auto* v = std::get_if<std::vector<int32_t>>(&value)) writer.AddI32Array(key, *v);
  if (const auto* v = std::get_if<std::vector<bool>>(&value)) writer.AddBoolArray(key, *v);
}

std::vector<uint8_t> Encode(const TinyTensor& tensor) {
  const int64_t row = tensor.ne[0];
  const int64_t rows = static_cast<int64_t>(tensor.values.size()) / row;
  const int64_t stride = row_bytes(tensor.format, row);
  std::vector<uint8_t> data(rows * stride);
  for (int64_t r = 0; r < rows; ++r)
    encode_row(tensor.format, tensor.values.data() + r * row, row, data.data() + r * stride);
  return data;
}

}  // namespace

std::string TinyModel::arch() const {
  for (const auto& [key, value] : keys)
    if (key == "general.architecture") return std::get<std::string>(value);
  return "";
}

void TinyModel::set(const std::string& suffix, KeyValue value) {
  const std::string key = suffix.starts_with("general.") ? suffix : arch() + "." + suffix;
  for (auto& entry : keys)
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  keys.emplace_back(key, std::move(value));
}

bool TinyModel::erase(const std::string& suffix) {
  const std::string key = suffix.starts_with("general.") ? suffix : arch() + "." + suffix;
  return std::erase_if(keys, [&](const auto& entry) { return entry.first == key; }) > 0;
}

TinyTensor* TinyModel::find(const std::string& name) {
  for (TinyTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

bool TinyModel::erase_tensor(const std::string& name) {
  return std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == name; }) > 0;
}

std::vector<uint8_t> TinyModel::serialize() const {
  gguf::Writer writer;
  for (const auto& [key, value] : keys) AddKey(writer, key, value);
  for (const TinyTensor& tensor : tensors) writer.AddTensor(tensor.name, tensor.format, tensor.ne);
  std::vector<uint8_t> out;
  size_t next = 0;
  const absl::Status status =
      writer.WriteTo([&](const gguf::Writer::TensorInfo&,
                         const gguf::Writer::Sink& sink) { return sink(Encode(tensors[next++])); },
                     [&](std::span<const uint8_t> bytes) {
                       out.insert(out.end(), bytes.begin(), bytes.end());
                       return absl::OkStatus();
                     });
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

namespace {

class Builder {
 public:
  explicit Builder(const TinyConfig& config) : c_(config), random_(config.seed) {}

  TinyModel Build() {
    Keys();
    Tensor("token_embd.weight", {c_.hidden, c_.vocab}, 1.0f);
    for (int64_t i = 0; i < c_.layers; ++i) {
      const std::string b = "blk." + std::to_string(i) + ".";
      Norm(b + "attn_norm.weight", c_.hidden);
      if (!c_.hybrid() || (i + 1) % c_.interval == 0)
        Attention(b);
      else
        DeltaNet(b);
      FeedForward(b);
    }
    for (int64_t i = c_.layers; i < c_.layers + c_.nextn; ++i) {
      const std::string b = "blk." + std::to_string(i) + ".";
      Norm(b + "attn_norm.weight", c_.hidden);
      Attention(b);
      FeedForward(b);
      Matrix(b + "nextn.eh_proj.weight", c_.hidden, 2 * c_.hidden);
      Norm(b + "nextn.enorm.weight", c_.hidden);
      Norm(b + "nextn.hnorm.weight", c_.hidden);
      Norm(b + "nextn.shared_head_norm.weight", c_.hidden);
    }
    Norm("output_norm.weight", c_.hidden);
    if (!c_.tied) Matrix("output.weight", c_.vocab, c_.hidden);
    return std::move(model_);
  }

 private:
  void Set(const std::string& suffix, int64_t value) { model_.set(suffix, static_cast<uint32_t>(value)); }

  void Keys() {
    model_.keys.emplace_back("general.architecture", c_.arch);
    Set("block_count", c_.layers + c_.nextn);
    Set("context_length", 4096);
    Set("embedding_length", c_.hidden);
    if (!c_.has_experts()) Set("feed_forward_length", c_.ffn);
    Set("attention.head_count", c_.heads);
    Set("attention.head_count_kv", c_.kv_heads);
    Set("attention.key_length", c_.head_dim);
    Set("attention.value_length", c_.head_dim);
    model_.set("attention.layer_norm_rms_epsilon", 1e-6f);
    model_.set("rope.freq_base", c_.rope_base);
    if (c_.hybrid()) {
      Set("rope.dimension_count", c_.rope_dims);
      if (!c_.by_key_head()) model_.set("rope.dimension_sections", c_.sections);
      Set("ssm.conv_kernel", c_.taps);
      Set("ssm.state_size", c_.key_dim);
      Set("ssm.group_count", c_.key_heads);
      Set("ssm.time_step_rank", c_.value_heads);
      Set("ssm.inner_size", c_.value_heads * c_.value_dim);
      Set("full_attention_interval", c_.interval);
      if (c_.nextn > 0) Set("nextn_predict_layers", c_.nextn);
    }
    if (!c_.has_experts()) return;
    Set("expert_count", c_.experts);
    Set("expert_used_count", c_.experts_used);
    Set("expert_feed_forward_length", c_.expert_ffn);
    if (c_.has_shared()) Set("expert_shared_feed_forward_length", c_.shared_ffn);
  }

  // Values around `centre`, with a spread that keeps a layer's output of order one.
  void Tensor(const std::string& name, std::vector<int64_t> ne, float spread, float centre = 0) {
    int64_t count = 1;
    for (int64_t dim : ne) count *= dim;
    TinyTensor result{name, std::move(ne), std::vector<float>(count)};
    for (float& value : result.values) value = centre + spread * random_.next();
    model_.add(std::move(result));
  }
  void Matrix(const std::string& name, int64_t rows, int64_t columns) {
    Tensor(name, {columns, rows}, 1.7f / std::sqrt(static_cast<float>(columns)));
  }
  void Norm(const std::string& name, int64_t size) { Tensor(name, {size}, 0.3f, 1.0f); }

  void Attention(const std::string& b) {
    Matrix(b + "attn_q.weight", (c_.hybrid() ? 2 : 1) * c_.heads * c_.head_dim, c_.hidden);
    Matrix(b + "attn_k.weight", c_.kv_heads * c_.head_dim, c_.hidden);
    Matrix(b + "attn_v.weight", c_.kv_heads * c_.head_dim, c_.hidden);
    Matrix(b + "attn_output.weight", c_.hidden, c_.heads * c_.head_dim);
    Norm(b + "attn_q_norm.weight", c_.head_dim);
    Norm(b + "attn_k_norm.weight", c_.head_dim);
  }

  void DeltaNet(const std::string& b) {
    const int64_t channels = 2 * c_.key_heads * c_.key_dim + c_.value_heads * c_.value_dim;
    Matrix(b + "attn_qkv.weight", channels, c_.hidden);
    Matrix(b + "attn_gate.weight", c_.value_heads * c_.value_dim, c_.hidden);
    Tensor(b + "ssm_conv1d.weight", {c_.taps, channels}, 0.8f);
    Tensor(b + "ssm_dt.bias", {c_.value_heads}, 0.5f);
    Tensor(b + "ssm_a", {c_.value_heads}, 0.4f, -0.5f);
    if (c_.by_key_head()) {
      Matrix(b + "ssm_ba.weight", 2 * c_.value_heads, c_.hidden);
    } else {
      Matrix(b + "ssm_beta.weight", c_.value_heads, c_.hidden);
      Matrix(b + "ssm_alpha.weight", c_.value_heads, c_.hidden);
    }
    Norm(b + "ssm_norm.weight", c_.value_dim);
    Matrix(b + "ssm_out.weight", c_.hidden, c_.value_heads * c_.value_dim);
  }

  void FeedForward(const std::string& b) {
    Norm(b + (c_.hybrid() ? "post_attention_norm.weight" : "ffn_norm.weight"), c_.hidden);
    if (c_.has_experts()) return Experts(b);
    Matrix(b + "ffn_gate.weight", c_.ffn, c_.hidden);
    Matrix(b + "ffn_up.weight", c_.ffn, c_.hidden);
    Matrix(b + "ffn_down.weight", c_.hidden, c_.ffn);
  }

  void Experts(const std::string& b) {
    const auto stacked = [&](const std::string& name, int64_t rows, int64_t columns) {
      Tensor(name, {columns, rows, c_.experts}, 1.7f / std::sqrt(static_cast<float>(columns)));
    };
    Tensor(b + "ffn_gate_inp.weight", {c_.hidden, c_.experts}, 1.0f);
    stacked(b + "ffn_gate_exps.weight", c_.expert_ffn, c_.hidden);
    stacked(b + "ffn_up_exps.weight", c_.expert_ffn, c_.hidden);
    stacked(b + "ffn_down_exps.weight", c_.hidden, c_.expert_ffn);
    if (!c_.has_shared()) return;
    Tensor(b + "ffn_gate_inp_shexp.weight", {c_.hidden}, 0.5f);
    Matrix(b + "ffn_gate_shexp.weight", c_.shared_ffn, c_.hidden);
    Matrix(b + "ffn_up_shexp.weight", c_.shared_ffn, c_.hidden);
    Matrix(b + "ffn_down_shexp.weight", c_.hidden, c_.shared_ffn);
  }

  const TinyConfig& c_;
  Random random_;
  TinyModel model_;
};

}  // namespace

TinyModel MakeTiny(const TinyConfig& config) {
  return Builder(config).Build();
}

OpenModel Open(const TinyModel& model) {
  OpenModel result;
  result.bytes = std::make_unique<std::vector<uint8_t>>(model.serialize());
  absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Parse(*result.bytes, "tiny.gguf");
  if (file.ok())
    result.file = *std::move(file);
  else
    ADD_FAILURE() << "the reader refuses the test's own file: " << file.status();
  return result;
}

void FuseQkv(TinyModel& model, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".attn_";
  TinyTensor fused{prefix + "qkv.weight", {0, 0}, {}};
  for (const char* part : {"q", "k", "v"}) {
    const std::string name = prefix + part + ".weight";
    const TinyTensor* tensor = model.find(name);
    fused.ne[0] = tensor->ne[0];
    fused.ne[1] += tensor->ne[1];
    fused.values.insert(fused.values.end(), tensor->values.begin(), tensor->values.end());
    model.erase_tensor(name);
  }
  model.add(fused);
}

std::vector<int32_t> SomeIds(int64_t count, int64_t vocab, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(engine() % static_cast<uint32_t>(vocab));
  return ids;
}

double Nmse(const std::vector<double>& x, const std::vector<double>& reference) {
  if (x.size() != reference.size() || x.empty()) return std::numeric_limits<double>::infinity();
  double error = 0, power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<double>::infinity();
    error += (x[i] - reference[i]) * (x[i] - reference[i]);
    power += reference[i] * reference[i];
  }
  return error / power;
}

}  // namespace qcc::models::testing
