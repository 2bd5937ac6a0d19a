// libFuzzer target of the importer: GGUF heads -> hir modules. An error without a code, an internal error, or
// anything that a sanitizer sees, is a finding.
#include "tests/fuzz/model_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const qcc::fuzz::ModelFile model = qcc::fuzz::OpenHead({data, size});
  if (!model.file) return -1;  // the reader's fuzzer is another: such inputs do not join the corpus
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  qcc::fuzz::Import(context, *model.file, qcc::models::KvElement::kF16);
  return 0;
}
