// qwen35moe: qwen35 with experts, and a shared one, in the place of dense feed-forward blocks.
#include "frontends/models/Architectures.h"
#include "frontends/models/Family.h"

namespace qcc::models {

absl::StatusOr<ImportResult> importQwen35Moe(mlir::MLIRContext& context, const gguf::File& file,
                                             const ImportOptions& options) {
  return importFamily(context, file, options, "qwen35moe",
                      {.hybrid = true,
                       .nextn = true,
                       .experts = true,
                       .sections = true,
                       .defaultRotaryDivisor = 4,
                       .defaultRopeBase = 1e7});
}

}  // namespace qcc::models
