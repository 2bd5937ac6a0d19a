#include "passes/Passes.h"

namespace qcc::passes {

void addPlanPasses(mlir::OpPassManager& pm, const BuildPlanOptions& options) {
  pm.addPass(createLayoutWeights());
  pm.addPass(createBuildPlan(options));
  pm.addPass(createInsertBarriers());
  pm.addPass(createAssignArena());
  pm.addPass(createVerifyPlan());
}

}  // namespace qcc::passes
