// What the fused ops (HirFusedOps.td) share: their parts as found in a list of ops, their verifier and their
// reference meaning.
#ifndef QCC_DIALECTS_HIR_IR_FUSED_H_
#define QCC_DIALECTS_HIR_IR_FUSED_H_

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/Value.h"

namespace qcc::hir {

class Evaluator;  // dialects/hir/eval/Evaluator.h

// What a kernel needs to execute some ops: the operands and the attributes of the fused op that they become.
// Its results are the values that were asked for.
struct FusedParts {
  struct Operand {
    llvm::StringRef name;
    mlir::Value value;
  };
  llvm::SmallVector<Operand> operands;  // in the order of the fused op's operands
  llvm::SmallVector<mlir::NamedAttribute> attributes;
};

// "gated_delta" of "hir.fused.gated_delta".
llvm::StringRef fusedKind(llvm::StringRef opName);

// The kinds of all fused ops.
llvm::ArrayRef<llvm::StringRef> fusedKinds();

// Body against operands and results, then FusedOpInterface::match of the body against operands and
// attributes.
llvm::LogicalResult verifyFused(mlir::Operation* op);

// Runs the body.
llvm::LogicalResult evaluateFused(mlir::Operation* op, Evaluator& ev);

}  // namespace qcc::hir

#endif  // QCC_DIALECTS_HIR_IR_FUSED_H_
