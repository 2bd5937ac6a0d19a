#include "passes/Liveness.h"

#include "dialects/hir/IR/Hir.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace qcc::passes {

namespace {
// Whether nobody reads the value, or what looks at it, after `op`.
bool isReadUpTo(Value value, Operation* op) {
  return llvm::all_of(value.getUsers(), [&](Operation* user) {
    if (isa<hir::ReshapeOp, hir::SelectRowsOp>(user)) return isReadUpTo(user->getResult(0), op);
    Operation* inBlock = op->getBlock()->findAncestorOpInBlock(*user);
    return inBlock && (inBlock == op || inBlock->isBeforeInBlock(op));
  });
}

// Whether an argument may be read when its function is done: of a block's all but the first, which is the
// residual stream, and rows that another program left.
bool isReadElsewhere(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto func = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!func) return false;
  const unsigned number = argument.getArgNumber();
  return func.isPrivate() ? number != 0 : static_cast<bool>(func.getArgAttr(number, hir::kLeftBy));
}
}  // namespace

Value placeOf(Value value) {
  while (auto reshape = value.getDefiningOp<hir::ReshapeOp>()) value = reshape.getX();
  auto slice = value.getDefiningOp<hir::SliceOp>();
  if (!slice) return value;
  for (Operation* user : slice.getX().getUsers()) {
    auto other = dyn_cast<hir::SliceOp>(user);
    if (!other || other.getOffset() != slice.getOffset() || other.getSize() != slice.getSize()) continue;
    if (other->getBlock() == slice->getBlock() && other->isBeforeInBlock(slice)) slice = other;
  }
  return slice.getResult();
}

bool diesAt(Value value, Operation* op) {
  Value place = placeOf(value);
  // Whoever calls a block knows that it overwrites, and no program that does leaves these rows (ProgramKind).
  if (isReadElsewhere(place) && !isa<func::CallOp>(op)) return false;
  auto slice = place.getDefiningOp<hir::SliceOp>();
  if (!slice) return isReadUpTo(place, op);
  return llvm::all_of(slice.getX().getUsers(), [&](Operation* user) {
    auto other = dyn_cast<hir::SliceOp>(user);
    return !other || placeOf(other.getResult()) != place || isReadUpTo(other.getResult(), op);
  });
}

}  // namespace qcc::passes
