// qcc-opt: any pass of the compiler alone, on IR in text form. For tests and for looking at what a pass does.
#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/IR/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "runtime/base/standard_streams.h"

int main(int argc, char** argv) {
  if (!qrt::FillStandardStreams()) return 1;
  mlir::DialectRegistry registry;
  registry.insert<qcc::hir::HirDialect, qcc::plan::PlanDialect, mlir::func::FuncDialect>();
  qcc::gpu::registerKernelDialects(registry);
  qcc::gpu::registerSpirvDialects(registry);
  qcc::passes::registerQccPasses();
  qcc::gpu::registerSpirvPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "qcc pass driver\n", registry));
}
