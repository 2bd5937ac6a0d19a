#include "passes/Passes.h"

namespace qcc::passes {

void addFusionPasses(mlir::OpPassManager& pm, bool int8, llvm::ArrayRef<std::string> functions,
                     bool deferLastFfn, Traces traces) {
  SelectFunctionsOptions select;
  select.functions.assign(functions.begin(), functions.end());
  pm.addPass(createSelectFunctions(select));
  if (int8) pm.addPass(createQuantizeActivations());
  pm.addPass(createFuseGatedDelta());
  pm.addPass(createFuseQkNormRopeStore());
  pm.addPass(createFuseGatedAttention());
  pm.addPass(createFuseMoe());
  // What is behind here saves launches and copies; kernels there are without it.
  if (traces == Traces::kAll) pm.addPass(createTraceLayers({.all = true}));
  pm.addPass(createFuseSwiglu());
  pm.addPass(createFuseResidual());
  pm.addPass(createMergeLinears());
  pm.addPass(createFuseNormQuant());
  if (traces == Traces::kLayers) pm.addPass(createTraceLayers());
  if (deferLastFfn) pm.addPass(createDeferLastFfn());
}

}  // namespace qcc::passes
