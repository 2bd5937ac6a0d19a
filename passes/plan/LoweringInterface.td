// How hir ops become dispatches. hir knows nothing of plan: the passes attach the interface to its ops
// (registerLowerings in Lowering.h), one model per op in Lower*.cpp.
#ifndef QCC_PASSES_LOWERING_INTERFACE_TD
#define QCC_PASSES_LOWERING_INTERFACE_TD
include "mlir/IR/Interfaces.td"

def LowerableOpInterface : OpInterface<"LowerableOpInterface"> {
  let cppNamespace = "::qcc::passes";
  let description = [{
    An op (a fused one, too) that kernels execute, or a view or name that its readers resolve. An op without the interface
    has no kernel.
  }];
  let methods = [
    InterfaceMethod<"the weights that it reads and what it does with them, in the order in which they are placed", "void",
                    "collectWeights", (ins "::llvm::SmallVectorImpl<::qcc::passes::WeightUse> &":$uses)>,
    InterfaceMethod<"the states that keep something of every token of a block, and how much", "void",
                    "collectEntries", (ins "::llvm::SmallVectorImpl<::qcc::passes::StateEntry> &":$entries)>,
    InterfaceMethod<"its dispatches, and where its results lie; errors are diagnostics on the op", "::llvm::LogicalResult",
                    "lower", (ins "::qcc::passes::Lowering &":$lowering)>
  ];
}
#endif
