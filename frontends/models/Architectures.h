// One importer per value of `general.architecture`.
#ifndef QCC_FRONTENDS_MODELS_ARCHITECTURES_H_
#define QCC_FRONTENDS_MODELS_ARCHITECTURES_H_

#include "frontends/models/import.h"

namespace qcc::models {

// Dense hybrid of gated delta nets and gated attention (Qwen3.5, 3.6, 3.8), with or without a NextN block.
absl::StatusOr<ImportResult> importQwen35(mlir::MLIRContext& context, const gguf::File& file,
                                          const ImportOptions& options);
// The same with experts (Qwen3.5, 3.6).
absl::StatusOr<ImportResult> importQwen35Moe(mlir::MLIRContext& context, const gguf::File& file,
                                             const ImportOptions& options);
// Dense transformer with normalised queries and keys (Qwen3, Bonsai).
absl::StatusOr<ImportResult> importQwen3(mlir::MLIRContext& context, const gguf::File& file,
                                         const ImportOptions& options);
// The same with experts.
absl::StatusOr<ImportResult> importQwen3Moe(mlir::MLIRContext& context, const gguf::File& file,
                                            const ImportOptions& options);
// Hybrid with experts, its value heads by key head (Qwen3-Next).
absl::StatusOr<ImportResult> importQwen3Next(mlir::MLIRContext& context, const gguf::File& file,
                                             const ImportOptions& options);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_ARCHITECTURES_H_
