// qcc-opt: any pass of the compiler alone, on IR in text form. For tests and for looking at what a pass does.
#include "dialects/hir/IR/Hir.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  registry.insert<qcc::hir::HirDialect, mlir::func::FuncDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerInlinerPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "qcc pass driver\n", registry));
}
