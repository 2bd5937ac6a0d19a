#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dialects/hir/IR/Hir.h"
#include "frontends/base/error.h"
#include "frontends/models/Architectures.h"
#include "frontends/models/Metadata.h"
#include "frontends/models/import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace qcc::models {

namespace {

using Importer = absl::StatusOr<ImportResult> (*)(mlir::MLIRContext&, const gguf::File&,
                                                  const ImportOptions&);

constexpr std::array<std::string_view, 5> kNames = {"qwen35", "qwen35moe", "qwen3", "qwen3moe", "qwen3next"};
constexpr std::array<Importer, kNames.size()> kImporters = {importQwen35, importQwen35Moe, importQwen3,
                                                            importQwen3Moe, importQwen3Next};

absl::Status checkType(const gguf::File& file) {
  if (!file.Has("general.type")) return absl::OkStatus();
  absl::StatusOr<std::string_view> type = file.GetString("general.type");
  if (!type.ok()) return type.status();
  if (*type == "model") return absl::OkStatus();
  return MakeError(
      "Q2001", absl::StrCat("general.type is \"", text(*type), "\", expected \"model\""),
      absl::StrCat(file.path(), ", key general.type"),
      "pass the language model itself; projectors, adapters and importance matrices are separate files");
}

}  // namespace

std::span<const std::string_view> SupportedArchitectures() {
  return kNames;
}

absl::StatusOr<ImportResult> ImportModel(mlir::MLIRContext& context, const gguf::File& file,
                                         const ImportOptions& options) {
  constexpr std::string_view kKey = "general.architecture";
  const std::string where = absl::StrCat(file.path(), ", key ", text(kKey));
  if (absl::Status status = checkType(file); !status.ok()) return status;
  if (!file.Has(kKey))
    return MakeError("Q2002", "required key general.architecture is missing", where,
                     "this file does not say what model it holds");
  absl::StatusOr<std::string_view> arch = file.GetString(kKey);
  if (!arch.ok()) return arch.status();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != *arch) continue;
    context.loadDialect<mlir::func::FuncDialect, hir::HirDialect>();
    return kImporters[i](context, file, options);
  }
  return MakeError("Q2001",
                   absl::StrCat("architecture \"", text(*arch), "\" is not supported, expected one of: ",
                                absl::StrJoin(std::vector<std::string>(kNames.begin(), kNames.end()), ", ")),
                   where, "give a model of one of these");
}

}  // namespace qcc::models
