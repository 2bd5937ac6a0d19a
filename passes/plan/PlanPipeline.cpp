#include "passes/Passes.h"

namespace qcc::passes {

void addPlanPasses(mlir::OpPassManager& pm, const BuildPlanOptions& options,
                   llvm::ArrayRef<std::string> functions, layouts::Policy policy,
                   const std::optional<CutLayersOptions>& part) {
  SelectFunctionsOptions select;
  select.functions.assign(functions.begin(), functions.end());
  pm.addPass(createSelectFunctions(select));
  if (part) pm.addPass(createCutLayers(*part));
  pm.addPass(createLayoutWeights(policy));
  pm.addPass(createBuildPlan(options, policy));
  pm.addPass(createInsertBarriers());
  pm.addPass(createAssignArena());
  pm.addPass(createVerifyPlan());
}

}  // namespace qcc::passes
