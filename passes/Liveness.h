// Whether a value is needed further on: what both fusion and lowering ask before they reuse its place.
#ifndef QCC_PASSES_LIVENESS_H_
#define QCC_PASSES_LIVENESS_H_

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace qcc::passes {

// Of the values that lie where `value` does the first: a reshape is its operand seen otherwise, and equal
// slices of one linear are one piece of it.
mlir::Value placeOf(mlir::Value value);

// Whether nobody reads what lies in the value's place after `op`, which stands in the same function: neither
// there nor, of an argument, elsewhere.
bool diesAt(mlir::Value value, mlir::Operation* op);

}  // namespace qcc::passes

#endif  // QCC_PASSES_LIVENESS_H_
