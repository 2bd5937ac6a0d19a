// The tensors of a GGUF file as the reference evaluator asks for them.
#ifndef QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_
#define QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_

#include <optional>
#include <string_view>

#include "dialects/hir/eval/Evaluator.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

// `file` must outlive it.
class FileWeights final : public hir::WeightSource {
 public:
  explicit FileWeights(const gguf::File& file) : file_(file) {}

  std::optional<hir::WeightBytes> find(llvm::StringRef name) const override {
    const gguf::Tensor* tensor = file_.FindTensor(std::string_view(name.data(), name.size()));
    if (tensor == nullptr) return std::nullopt;
    return hir::WeightBytes{tensor->format, {tensor->data, tensor->bytes}};
  }

 private:
  const gguf::File& file_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_FILE_WEIGHTS_H_
