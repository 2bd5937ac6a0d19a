// What a GGUF holds, and what `qcc compile` would refuse of it. Everything is counted from the file's tensors
// or read from its metadata; no size is guessed from a name.
#ifndef QCC_COMPILER_DRIVER_MODEL_REPORT_H_
#define QCC_COMPILER_DRIVER_MODEL_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

// Tensors that have something in common.
struct TensorShare {
  std::string name;
  uint64_t tensors = 0, parameters = 0;
  uint64_t bytes = 0;            // of those whose format is known
  uint64_t unknown = 0;          // tensors whose format is not
  double BitsPerWeight() const;  // 0 if any format is unknown
};

struct ModelTensor {
  std::string name, format;
  std::vector<int64_t> shape;     // GGUF order: fastest first
  std::optional<uint64_t> bytes;  // none: of a format that is not supported
};

// Numbers that the file does not give are absent.
struct ModelReport {
  std::string path;
  uint64_t file_bytes = 0, keys = 0;
  std::string arch, name, type, size_label;  // as the file says; may be empty

  uint64_t layers = 0;  // with tensors: attention, delta nets, and others; without NextN blocks
  uint64_t attention_layers = 0, delta_net_layers = 0, nextn_layers = 0;
  std::optional<int64_t> context, embedding, feed_forward, heads, head_dim, experts, experts_used;
  std::vector<int64_t> kv_heads;  // one number, or one per layer
  struct {
    std::optional<int64_t> key_heads, value_heads, key_dim, value_dim, convolution;
  } delta;
  struct {
    std::optional<int64_t> dims, original_context;
    std::optional<double> base, factor;
    std::string scaling;  // empty: none
    std::vector<int64_t> sections;
  } rope;
  struct {
    std::optional<int64_t> rows;  // of the embedding
    uint64_t tokens = 0, merges = 0;
    std::string model, pre;
    uint64_t chat_template_bytes = 0;  // 0: none
  } vocabulary;
  bool vision = false;
  // Of how many files; and the number, from 0, of the one that was read where its siblings could not be.
  std::optional<int64_t> shard, shards;

  // What a session will take: f16 KV, f32 recurrent and conv states.
  std::optional<uint64_t> kv_bytes_per_token, state_bytes;

  TensorShare all;
  // Of them those that a token goes through: of experts as many as it uses, no NextN block, no image encoder.
  uint64_t active_parameters = 0;
  std::vector<TensorShare> parts;    // embedding, attention, ...
  std::vector<TensorShare> formats;  // most bytes first
  std::vector<ModelTensor> tensors;  // in the file's order

  std::vector<absl::Status> refusals;  // with their codes (docs/reference/errors.md)
  std::vector<std::string> warnings;
};

// Errors: Q1xxx, of a file in which nothing can be looked at.
absl::StatusOr<ModelReport> ReportModel(const std::string& path);

// Whether a file begins as a GGUF does. A file that cannot be read does not.
bool IsGguf(const std::string& path);

std::string ModelReportText(const ModelReport& report);
// One object, keys in a fixed order, ends with a newline (docs/reference/inspect.md).
std::string ModelReportJson(const ModelReport& report);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_MODEL_REPORT_H_
