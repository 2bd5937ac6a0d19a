// qwen3: full attention in every layer, queries and keys normalised per head, plain NeoX rotation of whole
// heads, no output gate, dense feed-forward blocks.
#include "frontends/models/Architectures.h"
#include "frontends/models/Family.h"

namespace qcc::models {

absl::StatusOr<ImportResult> importQwen3(mlir::MLIRContext& context, const gguf::File& file,
                                         const ImportOptions& options) {
  return importFamily(context, file, options, "qwen3", {});
}

}  // namespace qcc::models
