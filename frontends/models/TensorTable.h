// The tensors of a file against the shapes that the hyper-parameters ask for.
#ifndef QCC_FRONTENDS_MODELS_TENSORTABLE_H_
#define QCC_FRONTENDS_MODELS_TENSORTABLE_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"

namespace qcc::models {

// Of a draft that chooses among some tokens: the id of each row of its head.
inline constexpr char kDraftTokens[] = "d2t";

// Some rows of a tensor, piece by piece and in each piece group by group: #hir.row_pieces says how.
struct RowPieces {
  int64_t groups = 0, groupRows = 0;
  std::vector<int64_t> begins, counts;

  bool whole() const { return groups == 0; }
};

// A tensor that passed its check. `shape` is slowest first, as in `!hir.weight`, and of `pieces` where these
// are not the whole tensor.
struct Weight {
  const gguf::Tensor* tensor = nullptr;
  std::vector<int64_t> shape;
  RowPieces pieces = {};
  bool widened = false;  // the model sees f32

  Format format() const { return widened ? Format::F32 : tensor->format; }
};

// y = scale * (W x). Without a scale beside the weight, `scale.tensor` is null.
struct Linear {
  Weight weight;
  Weight scale;
};

// Some rows of a linear's matrix, which together have this shape; its scale is that of the whole.
Linear piecesOf(const Linear& whole, RowPieces pieces, std::vector<int64_t> shape);

// Looks tensors up by name and checks them. The first error sticks: later lookups return an empty Weight and
// `status()` has the error, so an importer collects a whole model and checks once before it builds anything.
class TensorTable {
 public:
  // With `refusals`, every error is added to it, and lookups behind an error still check.
  explicit TensorTable(const gguf::File& file, std::vector<absl::Status>* refusals = nullptr)
      : file_(file), refusals_(refusals) {
    for (const gguf::RefusedTensor& tensor : file.refused_tensors())
      foreignFormat_.emplace(tensor.name, &tensor);
  }

  // Also one that was refused for its format: it is required then, not done without.
  bool has(std::string_view name) const {
    return file_.FindTensor(name) != nullptr || foreignFormat_.contains(name);
  }

  // y = W x with `rows` outputs and `columns` inputs (GGUF ne {columns, rows}), any format.
  Weight matrix(const std::string& name, int64_t rows, int64_t columns);
  // The matrix `name` ("*.weight") and what the file has beside it: "*.scale", one number that multiplies
  // the result, and "*.input_scale", which has a meaning only for activations in 4 bits and is passed over.
  Linear linear(const std::string& name, int64_t rows, int64_t columns);
  // The matrices of all experts in one tensor, ne {columns, rows, experts}; its scale is one number or one
  // for each expert.
  Linear experts(const std::string& name, int64_t experts, int64_t rows, int64_t columns);
  // A matrix in f32, or widened to it: what decides between experts. ne {columns} is one row.
  Weight router(const std::string& name, int64_t rows, int64_t columns);
  // `size` values in f32, or widened to it, under the first of `spellings` that the file has.
  Weight vector(std::initializer_list<std::string> spellings, int64_t size);
  Weight vector(const std::string& name, int64_t size);
  // The same, each at most 0: a decay's rate, -exp(A). Another number would let the state grow without end.
  Weight decays(const std::string& name, int64_t size);
  // Depthwise convolution, as vector(): ne {taps, channels}, or {taps, 1, channels} as some converters leave
  // it.
  Weight convolution(const std::string& name, int64_t channels, int64_t taps);

  // The table of `size` ids of the name, where the file has one: empty, or each at least 0 and below `limit`.
  std::vector<int64_t> ids(const std::string& name, int64_t size, int64_t limit);

  // After everything was looked up: refuses tensors of layers behind `blocks`, and those that change the
  // arithmetic of one in use (scales of anything but a linear, biases, low-rank factors, rope factors), lists
  // the others in `warnings`, an image encoder's in one.
  absl::Status finish(int64_t blocks, std::vector<std::string>& warnings);

  void fail(absl::Status status);
  // Whether more is to be looked up.
  bool goesOn() const { return ok() || refusals_ != nullptr; }
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  void refuseLayersFrom(int64_t blocks);
  const gguf::Tensor* require(std::span<const std::string> spellings);
  Weight checked(const gguf::Tensor* tensor, std::vector<int64_t> shape, bool f32Only, int64_t altNe1 = -1);
  Linear withScales(const std::string& name, Weight weight, int64_t experts);

  const gguf::File& file_;
  std::vector<absl::Status>* refusals_;
  std::unordered_set<std::string_view> used_;
  std::unordered_map<std::string_view, const gguf::RefusedTensor*> foreignFormat_;
  absl::Status status_;
};

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_TENSORTABLE_H_
