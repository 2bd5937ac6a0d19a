#include "passes/Passes.h"

namespace qcc::passes {

void addPlanPasses(mlir::OpPassManager& pm, const BuildPlanOptions& options, layouts::Policy policy,
                   const std::optional<CutLayersOptions>& part) {
  if (part) pm.addPass(createCutLayers(*part));
  pm.addPass(createLayoutWeights(policy));
  pm.addPass(createBuildPlan(options, policy));
  pm.addPass(createInsertBarriers());
  pm.addPass(createAssignArena());
  pm.addPass(createVerifyPlan());
}

void addCpuPlanPasses(mlir::OpPassManager& pm) {
  pm.addPass(createReplicateRows());
  pm.addPass(createInsertBarriers());
}

}  // namespace qcc::passes
