// The tensors of a GGUF file as the reference evaluator asks for them.
#ifndef QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_
#define QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_

#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "dialects/hir/eval/Evaluator.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

// `file` must outlive it. Once `interrupted` says so it finds nothing, which ends an evaluation where it
// needs the next weight: within a layer, and not after the whole step. Whoever evaluates then asks
// `interrupted`, too, before it believes the error.
class FileWeights final : public hir::WeightSource {
 public:
  explicit FileWeights(const gguf::File& file, std::function<bool()> interrupted = nullptr)
      : file_(file), interrupted_(std::move(interrupted)) {}

  std::optional<hir::WeightBytes> find(llvm::StringRef name) const override {
    if (interrupted_ && interrupted_()) return std::nullopt;
    const gguf::Tensor* tensor = file_.FindTensor(std::string_view(name.data(), name.size()));
    if (tensor == nullptr) return std::nullopt;
    return hir::WeightBytes{tensor->format, {tensor->data, tensor->bytes}};
  }

 private:
  const gguf::File& file_;
  std::function<bool()> interrupted_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_
