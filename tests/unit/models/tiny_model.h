// Small random models whose keys and tensors a test can change one by one before they become a GGUF image.
#ifndef QCC_TESTS_UNIT_MODELS_TINY_MODEL_H_
#define QCC_TESTS_UNIT_MODELS_TINY_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/gguf/gguf.h"

namespace qcc::models::testing {

using KeyValue = std::variant<uint32_t, float, bool, std::string, std::vector<int32_t>, std::vector<bool>>;

struct TinyTensor {
  std::string name;
  std::vector<int64_t> ne;  // GGUF order
  std::vector<float> values;
  Format format = Format::F32;
};

struct TinyConfig {
  std::string arch = "qwen35";
  int64_t layers = 4;    // trunk
  int64_t nextn = 0;     // NextN blocks behind the trunk
  int64_t interval = 4;  // full attention in every interval-th layer
  int64_t hidden = 32;
  int64_t ffn = 48;
  int64_t vocab = 64;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t rope_dims = 8;
  std::vector<int32_t> sections = {2, 1, 1, 0};
  int64_t key_heads = 2;
  int64_t value_heads = 4;
  int64_t key_dim = 8;
  int64_t value_dim = 8;
  int64_t taps = 4;
  float rope_base = 1e4f;
  bool tied = true;
  uint32_t seed = 1;
  // Of the architectures with experts.
  int64_t experts = 6;
  int64_t experts_used = 2;
  int64_t expert_ffn = 24;
  int64_t shared_ffn = 40;  // 0: no shared expert; qwen3moe has none

  bool hybrid() const { return arch != "qwen3" && arch != "qwen3moe"; }
  bool has_experts() const { return arch != "qwen3" && arch != "qwen35"; }
  bool has_shared() const { return has_experts() && arch != "qwen3moe" && shared_ffn > 0; }
  bool by_key_head() const { return arch == "qwen3next"; }
};

class TinyModel {
 public:
  std::vector<std::pair<std::string, KeyValue>> keys;
  std::vector<TinyTensor> tensors;

  // `suffix` without the architecture.
  void set(const std::string& suffix, KeyValue value);
  bool erase(const std::string& suffix);  // false: there was no such key
  TinyTensor* find(const std::string& name);
  bool erase_tensor(const std::string& name);
  void add(TinyTensor tensor) { tensors.push_back(std::move(tensor)); }

  std::string arch() const;
  std::vector<uint8_t> serialize() const;
};

TinyModel MakeTiny(const TinyConfig& config);

// An image and its view together.
struct OpenModel {
  std::unique_ptr<std::vector<uint8_t>> bytes;
  std::unique_ptr<gguf::File> file;
};
// Fails the current test when the reader refuses the image.
OpenModel Open(const TinyModel& model);

// Puts an attention layer's projections of queries, keys and values into one tensor.
void FuseQkv(TinyModel& model, int layer);

// `count` ids below `vocab`, always the same.
std::vector<int32_t> SomeIds(int64_t count, int64_t vocab, uint32_t seed = 7);

// sum (x - reference)^2 / sum reference^2; infinity when the sizes differ or a value is not finite.
double Nmse(const std::vector<double>& x, const std::vector<double>& reference);

}  // namespace qcc::models::testing

#endif  // QCC_TESTS_UNIT_MODELS_TINY_MODEL_H_
