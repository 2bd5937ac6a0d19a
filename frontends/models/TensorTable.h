// The tensors of a file against the shapes that the hyper-parameters ask for.
#ifndef QCC_FRONTENDS_MODELS_TENSORTABLE_H_
#define QCC_FRONTENDS_MODELS_TENSORTABLE_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"

namespace qcc::models {

// A tensor that passed its check. `shape` is slowest first, as in `!hir.weight`.
struct Weight {
  const gguf::Tensor* tensor = nullptr;
  std::vector<int64_t> shape;
};

// Looks tensors up by name and checks them. The first error sticks: later lookups return an empty Weight and
// `status()` has the error, so an importer collects a whole model and checks once before it builds anything.
class TensorTable {
 public:
  explicit TensorTable(const gguf::File& file) : file_(file) {}

  bool has(std::string_view name) const { return file_.FindTensor(name) != nullptr; }

  // y = W x with `rows` outputs and `columns` inputs (GGUF ne {columns, rows}), any format.
  Weight matrix(const std::string& name, int64_t rows, int64_t columns);
  // `size` f32 values, under the first of `spellings` that the file has.
  Weight vector(std::initializer_list<std::string> spellings, int64_t size);
  Weight vector(const std::string& name, int64_t size);
  // Depthwise convolution, f32: ne {taps, channels}, or {taps, 1, channels} as some converters leave it.
  Weight convolution(const std::string& name, int64_t channels, int64_t taps);

  // After everything was looked up: refuses tensors that change the arithmetic of one in use (scales, biases,
  // low-rank factors, rope factors), lists the others in `warnings`.
  absl::Status finish(std::vector<std::string>& warnings);

  void fail(absl::Status status);
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  const gguf::Tensor* require(std::span<const std::string> spellings);
  Weight checked(const gguf::Tensor* tensor, std::vector<int64_t> shape, bool f32Only, int64_t altNe1 = -1);

  const gguf::File& file_;
  std::unordered_set<std::string_view> used_;
  absl::Status status_;
};

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_TENSORTABLE_H_
