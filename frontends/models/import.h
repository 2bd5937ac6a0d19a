// A checked GGUF view -> a hir module: one file per architecture (Qwen35.cpp, Qwen3Next.cpp, ...).
//
// The module holds `@trunk`, `@head`, `@block_*` and, for a file with a NextN block, `@mtp`;
// docs/contracts.md gives their arguments and the module attributes. Weights appear by their GGUF name
// (`hir.param`); no value of theirs is read, except to find out whether `output.weight` repeats
// `token_embd.weight`.
#ifndef QCC_FRONTENDS_MODELS_IMPORT_H_
#define QCC_FRONTENDS_MODELS_IMPORT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace qcc::models {

// Element type of the KV cache. Convolution and delta-rule states are always f32.
enum class KvElement { kF16, kF32 };

// Unit length of the delta net's queries and keys: x * rsqrt(sum x^2 + eps), or x / max(sqrt(sum x^2), eps).
enum class L2Norm { kSum, kMax };

struct ImportOptions {
  KvElement kv = KvElement::kF16;
  L2Norm l2_norm = L2Norm::kSum;
  // Emit `@mtp` when the file has a NextN block. Its tensors are checked either way.
  bool mtp = true;
  // The file's NextN block alone, for which it needs no trunk: a module of `@mtp` and `@mtp_hidden`.
  bool draft = false;
  // With a list, checks go on behind a refusal and each is added to it; the first is then returned. Refusals
  // that hang on what an earlier one leaves open are not found.
  std::vector<absl::Status>* refusals = nullptr;
};

struct ImportResult {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  // One sentence each: what the file holds and the importer does not use (never something that would change
  // logits), and where it leaves a choice open or contradicts itself, how that was taken.
  std::vector<std::string> warnings;
};

// The accepted values of `general.architecture`.
std::span<const std::string_view> SupportedArchitectures();

// Builds and verifies the module. Loads the dialects it needs into `context`. The result does not refer to
// `file`.
//
// Errors (docs/reference/errors.md, Q2xxx) name the file, the key or tensor, what was found and what was
// expected: unknown architecture, missing or impossible hyper-parameter, missing tensor, wrong shape or
// format, and anything in the file that changes the arithmetic in a way that this importer does not honour.
absl::StatusOr<ImportResult> ImportModel(mlir::MLIRContext& context, const gguf::File& file,
                                         const ImportOptions& options);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_IMPORT_H_
