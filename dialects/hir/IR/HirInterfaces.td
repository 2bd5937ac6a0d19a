#ifndef QCC_HIR_INTERFACES_TD
#define QCC_HIR_INTERFACES_TD
include "mlir/IR/OpBase.td"
include "mlir/IR/Interfaces.td"

def Hir_EvaluableOpInterface : OpInterface<"EvaluableOpInterface"> {
  let cppNamespace = "::qcc::hir";
  let description = [{
    The reference meaning of an op: plain loops, in f32 or f64 (the evaluator's precision), no SIMD, no fusion.
    Every kernel and every pass is tested against it.
  }];
  let methods = [
    InterfaceMethod<"compute the results from the operands' values in `ev`; errors are diagnostics on the op",
                    "::llvm::LogicalResult", "evaluate", (ins "::qcc::hir::Evaluator &":$ev)>
  ];
}

def Hir_WeightedOpInterface : OpInterface<"WeightedOpInterface"> {
  let cppNamespace = "::qcc::hir";
  let description = "Ops that stream a weight matrix; for cost reports and layout.";
  let methods = [
    InterfaceMethod<"the operand that holds the matrix", "::mlir::Value", "getMatrix">,
    InterfaceMethod<"multiply-adds per row", "int64_t", "getMacsPerRow">
  ];
}
#endif
