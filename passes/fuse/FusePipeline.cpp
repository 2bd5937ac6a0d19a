#include "passes/Passes.h"

namespace qcc::passes {

void addFusionPasses(mlir::OpPassManager& pm, bool int8) {
  if (int8) pm.addPass(createQuantizeActivations());
  pm.addPass(createFuseGatedDelta());
  pm.addPass(createFuseQkNormRopeStore());
  pm.addPass(createFuseGatedAttention());
  pm.addPass(createFuseMoe());
  pm.addPass(createFuseSwiglu());
  pm.addPass(createFuseResidual());
  pm.addPass(createMergeLinears());
  pm.addPass(createFuseNormQuant());
}

}  // namespace qcc::passes
