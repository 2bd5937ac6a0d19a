#include "compiler/pipeline/finite.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "dialects/hir/IR/Hir.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "llvm/ADT/StringSet.h"

namespace qcc::compiler {

absl::Status CheckWeights(mlir::ModuleOp module, const gguf::File& file,
                          const std::function<bool()>& interrupted) {
  llvm::StringSet<> used;
  module.walk([&](hir::ParamOp param) { used.insert(param.getName()); });
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (interrupted && interrupted()) return absl::CancelledError("interrupted");
    if (!used.contains(tensor.name)) continue;
    if (absl::Status s = gguf::CheckFinite(file, tensor); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckLogits(const std::vector<double>& values, int64_t vocab, int64_t past,
                         const gguf::File& file) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](double v) { return std::isfinite(static_cast<float>(v)); });
  if (bad == values.end()) return absl::OkStatus();
  const int64_t at = bad - values.begin(), tokens = past + at / vocab + 1;
  return MakeError(
      "Q3006",
      absl::StrCat("the model's weights are finite, but its logits are not: that of token ", at % vocab,
                   " after ", tokens, tokens == 1 ? " token is " : " tokens is ", *bad),
      file.path(), "some value on the way is too large for f32; convert the model again");
}

}  // namespace qcc::compiler
