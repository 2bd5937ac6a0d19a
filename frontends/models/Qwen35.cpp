// qwen35: full attention with output gates in every `full_attention_interval`-th layer, gated delta nets in
// the others, a quarter of each head rotated, in M-RoPE sections; dense feed-forward blocks.
#include "frontends/models/Architectures.h"
#include "frontends/models/Family.h"

namespace qcc::models {

absl::StatusOr<ImportResult> importQwen35(mlir::MLIRContext& context, const gguf::File& file,
                                          const ImportOptions& options) {
  return importFamily(
      context, file, options, "qwen35",
      {.hybrid = true, .nextn = true, .sections = true, .defaultRotaryDivisor = 4, .defaultRopeBase = 1e7});
}

}  // namespace qcc::models
