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

// Row r of every result depends on row r of the operands that have rows, and on nothing else of the step: the op gives the
// same bits for some rows as for all. The verifier refuses operands that know more: states and the table of rows.
def Hir_RowWise : NativeOpTrait<"RowWise"> { let cppNamespace = "::qcc::hir"; }

def Hir_FusedOpInterface : OpInterface<"FusedOpInterface"> {
  let cppNamespace = "::qcc::hir";
  let description = [{
    Ops that one kernel executes, as one op: its operands and attributes are all that the kernel needs, its body holds the
    ops that it stands for. Argument i of the body is operand i. The verifier holds operands, attributes and results against
    what `match` finds in the body, so they cannot say different things.
  }];
  let methods = [
    StaticInterfaceMethod<[{
      What `ops`, in order, amount to when just `yielded` is needed of their results. When they are not what this op's kernel
      executes: failure, and `reason` says which op is in the way and what stands there instead.
    }], "::llvm::FailureOr<::qcc::hir::FusedParts>", "match",
      (ins "::llvm::ArrayRef<::mlir::Operation *>":$ops, "::mlir::ValueRange":$yielded, "std::string &":$reason)>
  ];
  let extraSharedClassDeclaration = [{
    // "gated_delta" of "hir.fused.gated_delta".
    ::llvm::StringRef getKind() { return ::qcc::hir::fusedKind($_op->getName().getStringRef()); }
  }];
  let verify = "return ::qcc::hir::verifyFused($_op);";
  let verifyWithRegions = 1;
}
#endif
