#include "passes/fuse/Group.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/Liveness.h"

using namespace mlir;

namespace qcc::passes {

void growBackwards(OpSet& ops, llvm::function_ref<bool(Operation*)> accept) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < ops.size(); ++i) {
      for (Value operand : ops[i]->getOperands()) {
        Operation* producer = operand.getDefiningOp();
        if (!producer || producer->getBlock() != ops[i]->getBlock() || ops.contains(producer) ||
            !accept(producer))
          continue;
        bool internal =
            llvm::all_of(producer->getUsers(), [&](Operation* user) { return ops.contains(user); });
        if (internal) changed |= ops.insert(producer);
      }
    }
  }
}

// An op outside that reaches the same state as one of `ops` that moves past it to `anchor`: which of the two
// comes first would change.
static Operation* otherUserOfState(Operation* anchor, const OpSet& ops) {
  Block* block = anchor->getBlock();
  for (Operation* op : ops) {
    auto [first, last] = op->isBeforeInBlock(anchor) ? std::pair(op, anchor) : std::pair(anchor, op);
    for (Value operand : op->getOperands()) {
      if (!isa<hir::StateType>(operand.getType())) continue;
      for (Operation* user : operand.getUsers()) {
        Operation* inBlock = block->findAncestorOpInBlock(*user);
        if (inBlock && !ops.contains(inBlock) && first->isBeforeInBlock(inBlock) &&
            inBlock->isBeforeInBlock(last))
          return user;
      }
    }
  }
  return nullptr;
}

// What an op may put its result in place of.
static SmallVector<Value, 2> overwritten(Operation* op) {
  if (auto add = dyn_cast<hir::AddOp>(op)) return {add.getLhs(), add.getRhs()};
  if (auto linear = dyn_cast<hir::FusedLinearResidualOp>(op)) return {linear.getResidual()};
  if (auto moe = dyn_cast<hir::FusedMoeOp>(op); moe && moe.getResidual()) return {moe.getResidual()};
  if (auto call = dyn_cast<func::CallOp>(op); call && call.getNumOperands() != 0) return {call.getOperand(0)};
  return {};
}

// An op outside that overwrites what one of `ops` that moves down past it to `anchor` reads.
static Operation* overwritesInput(Operation* anchor, const OpSet& ops) {
  for (Operation* op : ops) {
    if (!op->isBeforeInBlock(anchor)) continue;
    for (Operation* between = op->getNextNode(); between != anchor; between = between->getNextNode()) {
      if (ops.contains(between)) continue;
      for (Value place : overwritten(between))
        if (llvm::any_of(op->getOperands(), [&](Value read) { return placeOf(read) == placeOf(place); }))
          return between;
    }
  }
  return nullptr;
}

// Values of `ops` that are needed behind them, in order; failure when one is needed before `anchor`, or one
// that they need comes after it.
static FailureOr<SmallVector<Value>> valuesNeeded(ArrayRef<Operation*> order, const OpSet& ops,
                                                  Operation* anchor, std::string& reason) {
  auto quoted = [](Operation* op) { return "'" + op->getName().getStringRef().str() + "'"; };
  SmallVector<Value> needed;
  for (Operation* op : order) {
    for (Value operand : op->getOperands()) {
      Operation* producer = operand.getDefiningOp();
      if (!producer || producer->getBlock() != anchor->getBlock() || ops.contains(producer)) continue;
      if (!producer->isBeforeInBlock(anchor)) {
        reason = quoted(producer) + " produces an input only after the group";
        return failure();
      }
    }
    for (Value result : op->getResults()) {
      bool escapes = false;
      for (Operation* user : result.getUsers()) {
        if (ops.contains(user)) continue;
        escapes = true;
        Operation* inBlock = anchor->getBlock()->findAncestorOpInBlock(*user);
        if (!inBlock || inBlock->isBeforeInBlock(anchor)) {
          reason = quoted(user) + " needs an intermediate value before the group";
          return failure();
        }
      }
      if (escapes) needed.push_back(result);
    }
  }
  return needed;
}

// A kernel reads what another one stored. Slices of a linear are stored: the matrix is run in pieces. Others
// are views that only a kernel of its own shape resolves.
static bool isStored(Value value) {
  while (auto reshape = value.getDefiningOp<hir::ReshapeOp>()) value = reshape.getX();
  auto slice = value.getDefiningOp<hir::SliceOp>();
  return !slice || isa_and_present<hir::LinearOp, hir::FusedMergedLinearOp>(slice.getX().getDefiningOp());
}

Operation* makeFused(StringRef opName, const OpSet& ops, GroupAt at, Operation* about, std::string& reason) {
  SmallVector<Operation*> order(ops.begin(), ops.end());
  llvm::sort(order, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  Operation* anchor = at == GroupAt::First ? order.front() : order.back();
  if (Operation* other = otherUserOfState(anchor, ops)) {
    reason = ("'" + other->getName().getStringRef() + "' reaches the same state in between").str();
    return nullptr;
  }
  if (Operation* other = overwritesInput(anchor, ops)) {
    reason = ("'" + other->getName().getStringRef() + "' may overwrite an input in between").str();
    return nullptr;
  }
  FailureOr<SmallVector<Value>> needed = valuesNeeded(order, ops, anchor, reason);
  if (failed(needed)) return nullptr;
  OperationState state(about->getLoc(), opName);
  const auto* fused = state.name.getInterface<hir::FusedOpInterface>();
  FailureOr<hir::FusedParts> parts = fused->match(order, *needed, reason);
  if (failed(parts)) return nullptr;
  for (const hir::FusedParts::Operand& operand : parts->operands) {
    if (!isStored(operand.value)) {
      reason = ("'" + operand.name + "' is a part of other values").str();
      return nullptr;
    }
    state.operands.push_back(operand.value);
  }
  state.addAttributes(parts->attributes);
  for (Value result : *needed) state.types.push_back(result.getType());
  Block* body = &state.addRegion()->emplaceBlock();

  OpBuilder b(anchor);
  Operation* group = b.create(state);
  for (Operation* op : order) op->moveBefore(body, body->end());
  for (Value operand : group->getOperands()) {
    Value argument = body->addArgument(operand.getType(), operand.getLoc());
    operand.replaceUsesWithIf(argument,
                              [&](OpOperand& use) { return group->isProperAncestor(use.getOwner()); });
  }
  for (auto [inner, outer] : llvm::zip_equal(*needed, group->getResults()))
    inner.replaceUsesWithIf(outer, [&](OpOperand& use) { return !group->isProperAncestor(use.getOwner()); });
  b.setInsertionPointToEnd(body);
  hir::YieldOp::create(b, about->getLoc(), *needed);
  return group;
}

void reportFused(Operation* op, StringRef opName, size_t opCount) {
  op->emitRemark() << "fused " << hir::fusedKind(opName) << ": " << opCount << " ops";
}

void reportMissed(Operation* op, StringRef opName, const llvm::Twine& reason) {
  op->emitRemark() << "missed " << hir::fusedKind(opName) << ": " << reason.str();
}

void fuseAndReport(StringRef opName, const OpSet& ops, Operation* about) {
  std::string reason;
  if (!makeFused(opName, ops, GroupAt::Last, about, reason)) return reportMissed(about, opName, reason);
  reportFused(about, opName, ops.size());
}

bool isPartOfLinear(Operation* op) {
  auto slice = dyn_cast<hir::SliceOp>(op);
  return slice && slice.getX().getDefiningOp<hir::LinearOp>();
}

}  // namespace qcc::passes
