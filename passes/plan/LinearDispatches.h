// Dispatches of matrices that all rows of a step go through, for the lowerings of ops that have some.
#ifndef QCC_PASSES_PLAN_LINEARDISPATCHES_H_
#define QCC_PASSES_PLAN_LINEARDISPATCHES_H_

#include "passes/plan/Lowering.h"

namespace qcc::passes {

// A matrix that is to be run: `op` is where errors go.
struct LinearWork {
  mlir::Operation* op;
  mlir::Value x;
  hir::WeightType type;
  plan::Ref weight, scale, upScale;  // scales are unbound where the file has none
};

// A dispatch of n output rows of the matrix, from row `firstRow` on, into `y`.
mlir::LogicalResult emitLinear(const LinearWork& work, int64_t firstRow, int64_t n, plan::Epilogue epilogue,
                               const View& y, Lowering& l);

// silu(gate x) * (up x), of n rows each, of which those behind the types' are zeros. `up` is unbound where
// `gate` is the pair of both.
struct SwigluWork {
  mlir::Operation* op;
  mlir::Value x;
  hir::WeightType gateType, upType;
  plan::Ref gate, up, gateScale, upScale;
  int64_t n;
};
mlir::LogicalResult emitSwiglu(const SwigluWork& work, const View& y, Lowering& l);

// How a matrix of this type takes `x`: f32, or int8 rows of the kernels' block. What no kernel takes is the
// error.
mlir::FailureOr<plan::Numerics> numericsOf(mlir::Operation* op, mlir::Value x, hir::WeightType type,
                                           Lowering& l);

// The next of the weights that an op has added (collectWeights), if it has `value`.
plan::Ref nextWeight(llvm::ArrayRef<plan::Ref>& weights, mlir::Value value);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_LINEARDISPATCHES_H_
