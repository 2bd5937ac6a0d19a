#include "passes/Passes.h"

namespace qcc::passes {

void addFusionPasses(mlir::OpPassManager& pm, bool int8, llvm::ArrayRef<std::string> functions,
                     bool deferLastFfn) {
  SelectFunctionsOptions select;
  select.functions.assign(functions.begin(), functions.end());
  pm.addPass(createSelectFunctions(select));
  if (int8) pm.addPass(createQuantizeActivations());
  pm.addPass(createFuseGatedDelta());
  pm.addPass(createFuseQkNormRopeStore());
  pm.addPass(createFuseGatedAttention());
  pm.addPass(createFuseMoe());
  pm.addPass(createFuseSwiglu());
  pm.addPass(createFuseResidual());
  pm.addPass(createMergeLinears());
  pm.addPass(createFuseNormQuant());
  if (deferLastFfn) pm.addPass(createDeferLastFfn());
}

}  // namespace qcc::passes
