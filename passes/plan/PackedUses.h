// Which weights a function's ops read and how they must lie: shared by the layout and by the lowering.
#ifndef QCC_PASSES_PLAN_PACKEDUSES_H_
#define QCC_PASSES_PLAN_PACKEDUSES_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/SmallVector.h"

namespace qcc::passes {

// One weight of the artifact: the hir values of its sources (two for x16_pair) and its layout.
struct PackedUse {
  llvm::SmallVector<mlir::Value, 2> sources;
  plan::Layout layout;
  mlir::Operation* user;
};

// The uses of `block`'s ops (and of the groups in it), in order.
llvm::SmallVector<PackedUse> collectPackedUses(mlir::Block& block);

// Identity of a weight of the artifact: a tensor used twice in one layout is stored once.
std::string packedKey(plan::Layout layout, llvm::ArrayRef<std::string> sources);

// The GGUF tensor (or the name of the state) behind a value of the trunk, the head or, through the operands
// of `call`, a block. Empty when the value is neither a hir.param/hir.state nor such an argument.
std::string sourceName(mlir::Value value, mlir::ValueRange callOperands);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_PACKEDUSES_H_
