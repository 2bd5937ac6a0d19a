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

TinyModel MakeTiny(const TinyConfig& c) {
  TinyModel model;
  Random random(c.seed);
  const bool hybrid = c.arch == "qwen35";
  const auto u32 = [](int64_t value) { return KeyValue(static_cast<uint32_t>(value)); };
  model.keys.emplace_back("general.architecture", c.arch);
  model.set("block_count", u32(c.layers + c.nextn));
  model.set("context_length", u32(4096));
  model.set("embedding_length", u32(c.hidden));
  model.set("feed_forward_length", u32(c.ffn));
  model.set("attention.head_count", u32(c.heads));
  model.set("attention.head_count_kv", u32(c.kv_heads));
  model.set("attention.key_length", u32(c.head_dim));
  model.set("attention.value_length", u32(c.head_dim));
  model.set("attention.layer_norm_rms_epsilon", 1e-6f);
  model.set("rope.freq_base", c.rope_base);
  if (hybrid) {
    model.set("rope.dimension_count", u32(c.rope_dims));
    model.set("rope.dimension_sections", c.sections);
    model.set("ssm.conv_kernel", u32(c.taps));
    model.set("ssm.state_size", u32(c.key_dim));
    model.set("ssm.group_count", u32(c.key_heads));
    model.set("ssm.time_step_rank", u32(c.value_heads));
    model.set("ssm.inner_size", u32(c.value_heads * c.value_dim));
    model.set("full_attention_interval", u32(c.interval));
    if (c.nextn > 0) model.set("nextn_predict_layers", u32(c.nextn));
  }

  // Values around `centre`, with a spread that keeps a layer's output of order one.
  const auto tensor = [&](const std::string& name, std::vector<int64_t> ne, float spread, float centre = 0) {
    int64_t count = 1;
    for (int64_t dim : ne) count *= dim;
    TinyTensor result{name, std::move(ne), std::vector<float>(count)};
    for (float& value : result.values) value = centre + spread * random.next();
    model.add(std::move(result));
  };
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
    tensor(name, {columns, rows}, 1.7f / std::sqrt(static_cast<float>(columns)));
  };
  const auto norm = [&](const std::string& name, int64_t size) { tensor(name, {size}, 0.3f, 1.0f); };
  const auto attention = [&](const std::string& b) {
    matrix(b + "attn_q.weight", (hybrid ? 2 : 1) * c.heads * c.head_dim, c.hidden);
    matrix(b + "attn_k.weight", c.kv_heads * c.head_dim, c.hidden);
    matrix(b + "attn_v.weight", c.kv_heads * c.head_dim, c.hidden);
    matrix(b + "attn_output.weight", c.hidden, c.heads * c.head_dim);
    norm(b + "attn_q_norm.weight", c.head_dim);
    norm(b + "attn_k_norm.weight", c.head_dim);
  };
  const auto feed_forward = [&](const std::string& b) {
    norm(b + (hybrid ? "post_attention_norm.weight" : "ffn_norm.weight"), c.hidden);
    matrix(b + "ffn_gate.weight", c.ffn, c.hidden);
    matrix(b + "ffn_up.weight", c.ffn, c.hidden);
    matrix(b + "ffn_down.weight", c.hidden, c.ffn);
  };

  tensor("token_embd.weight", {c.hidden, c.vocab}, 1.0f);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    norm(b + "attn_norm.weight", c.hidden);
    if (!hybrid || (i + 1) % c.interval == 0) {
      attention(b);
    } else {
      const int64_t channels = 2 * c.key_heads * c.key_dim + c.value_heads * c.value_dim;
      matrix(b + "attn_qkv.weight", channels, c.hidden);
      matrix(b + "attn_gate.weight", c.value_heads * c.value_dim, c.hidden);
      tensor(b + "ssm_conv1d.weight", {c.taps, channels}, 0.8f);
      tensor(b + "ssm_dt.bias", {c.value_heads}, 0.5f);
      tensor(b + "ssm_a", {c.value_heads}, 0.4f, -0.5f);
      matrix(b + "ssm_beta.weight", c.value_heads, c.hidden);
      matrix(b + "ssm_alpha.weight", c.value_heads, c.hidden);
      norm(b + "ssm_norm.weight", c.value_dim);
      matrix(b + "ssm_out.weight", c.hidden, c.value_heads * c.value_dim);
    }
    feed_forward(b);
  }
  for (int64_t i = c.layers; i < c.layers + c.nextn; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    norm(b + "attn_norm.weight", c.hidden);
    attention(b);
    feed_forward(b);
    matrix(b + "nextn.eh_proj.weight", c.hidden, 2 * c.hidden);
    norm(b + "nextn.enorm.weight", c.hidden);
    norm(b + "nextn.hnorm.weight", c.hidden);
    norm(b + "nextn.shared_head_norm.weight", c.hidden);
  }
  norm("output_norm.weight", c.hidden);
  if (!c.tied) matrix("output.weight", c.vocab, c.hidden);
  return model;
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
