// qwen3moe: qwen3 with experts in the place of dense feed-forward blocks.
#include "frontends/models/Architectures.h"
#include "frontends/models/Family.h"

namespace qcc::models {

absl::StatusOr<ImportResult> importQwen3Moe(mlir::MLIRContext& context, const gguf::File& file,
                                            const ImportOptions& options) {
  return importFamily(context, file, options, "qwen3moe", {.experts = true});
}

}  // namespace qcc::models
