// qwen3next: as qwen35moe, but with one position for each token, and with the delta net as it was trained:
// value heads stand by key head, and so do the rows of its merged projections (ssm_ba, and ssm_in of older
// files).
#include "frontends/models/Architectures.h"
#include "frontends/models/Family.h"

namespace qcc::models {

absl::StatusOr<ImportResult> importQwen3Next(mlir::MLIRContext& context, const gguf::File& file,
                                             const ImportOptions& options) {
  return importFamily(
      context, file, options, "qwen3next",
      {.hybrid = true, .nextn = true, .experts = true, .byKeyHead = true, .defaultRotaryDivisor = 4});
}

}  // namespace qcc::models
