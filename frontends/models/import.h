// A checked GGUF view -> a hir module: one file per architecture (Qwen35.cpp, Qwen3Next.cpp, ...).
//
// The module holds `@trunk`, `@head`, `@block_*` and, for a file with a NextN block, `@mtp`;
// docs/contracts.md gives their arguments and the module attributes. Weights appear by their GGUF name
// (`hir.param`); no value of theirs is read, except to find out whether `output.weight` repeats
// `token_embd.weight`.
#ifndef QCC_FRONTENDS_MODELS_IMPORT_H_
#define QCC_FRONTENDS_MODELS_IMPORT_H_

#include <memory>
#include <optional>
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

// Tokens that a draft chooses among. Ids of byte-level vocabularies are given in the order in which pairs
// were merged, so that the first are the frequent ones, and the whole head would be most of what a draft
// reads.
inline constexpr int64_t kUsualDraftVocabulary = 32768;

struct ImportOptions {
  KvElement kv = KvElement::kF16;
  L2Norm l2_norm = L2Norm::kSum;
  // Emit `@mtp` when the file has a NextN block. Its tensors are checked either way.
  bool mtp = true;
  // Tokens that `@mtp` gives logits of, the first by id, rounded up to a multiple of 16; 0: of all. Unset:
  // kUsualDraftVocabulary, or what the file itself has trimmed the block to.
  std::optional<int64_t> draft_vocabulary;
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

// Opens the GGUF file of a model, and takes along the NextN block that lies in the file `nextn` (empty:
// none), as it is published beside models without it. Errors: as gguf::File::Open; Q2010, the block is not
// one, or another model's.
absl::StatusOr<std::unique_ptr<gguf::File>> OpenModel(const std::string& path, const std::string& nextn);

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
