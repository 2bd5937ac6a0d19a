#include "compiler/pipeline/model_options.h"

#include "absl/strings/str_cat.h"
#include "dialects/formats/formats.h"
#include "dialects/hir/IR/Hir.h"
#include "frontends/base/error.h"
#include "frontends/models/function_names.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::compiler {

std::set<ModelPart> PartsOfModel(mlir::ModuleOp module) {
  std::set<ModelPart> parts;
  if (module.lookupSymbol(llvm::StringRef(models::kMtpFunction))) parts.insert(ModelPart::kNextnBlock);
  module.walk([&](hir::GatedDeltaOp) { parts.insert(ModelPart::kDeltaNets); });
  const auto weight = [&](hir::WeightType type) {
    if (format_info(type.getFormat()).cls == FormatClass::kBlock) parts.insert(ModelPart::kQuantisedWeights);
  };
  module.walk([&](hir::LinearOp op) { weight(op.getWeight().getType()); });
  module.walk([&](hir::MoeExpertsOp op) {
    for (hir::WeightType type : {op.getGate().getType(), op.getUp().getType(), op.getDown().getType()}) {
      weight(type);
    }
  });
  return parts;
}

absl::Status CheckFunctionsOf(mlir::ModuleOp module, const PipelineOptions& options) {
  const auto entries = passes::entryPoints(module);
  if (mlir::failed(entries)) return absl::OkStatus();  // the passes say what is wrong
  const auto has = passes::namesToChoose(*entries);
  for (const std::string& wanted : options.functions) {
    if (llvm::is_contained(has, wanted)) continue;
    return MakeError(
        "Q0102",
        absl::StrCat("the model has no function '", wanted, "', it has '", llvm::join(has, "', '"), "'"),
        FindCompileOption("functions")->Flag());
  }
  return absl::OkStatus();
}

}  // namespace qcc::compiler
