// What the fuzzers of the importer and of the compiler's front half share: a model file from the bytes of its
// head, and the mutations of it.
#ifndef QCC_TESTS_FUZZ_MODEL_ENTRY_H_
#define QCC_TESTS_FUZZ_MODEL_ENTRY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/import.h"
#include "mlir/IR/MLIRContext.h"

namespace qcc::fuzz {

// The head that was given and zeros where its tensors' data lies: inputs stay small, and no mutation is lost
// on weights, whose values the importer and the passes do not read.
struct ModelFile {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::File> file;  // null: refused
};

// Traps on an error without a code. So does every function below.
ModelFile OpenHead(std::span<const uint8_t> head);

// Null if the importer refuses the file.
mlir::OwningOpRef<mlir::ModuleOp> Import(mlir::MLIRContext& context, const gguf::File& file,
                                         models::KvElement kv);

// An error has to say what is wrong with the input: a code, and not that of an internal error.
void CheckRefusal(const absl::Status& status);

}  // namespace qcc::fuzz

#endif  // QCC_TESTS_FUZZ_MODEL_ENTRY_H_
