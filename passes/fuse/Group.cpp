#include "passes/fuse/Group.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

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

hir::GroupOp makeGroup(hir::GroupKind kind, const OpSet& ops, GroupAt at, std::string& reason) {
  SmallVector<Operation*> order(ops.begin(), ops.end());
  llvm::sort(order, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  Operation* anchor = at == GroupAt::First ? order.front() : order.back();

  if (Operation* other = otherUserOfState(anchor, ops)) {
    reason = ("'" + other->getName().getStringRef() + "' reaches the same state in between").str();
    return nullptr;
  }

  SmallVector<Value> outputs;
  for (Operation* op : order) {
    for (Value operand : op->getOperands()) {
      Operation* producer = operand.getDefiningOp();
      if (!producer || producer->getBlock() != anchor->getBlock() || ops.contains(producer)) continue;
      if (!producer->isBeforeInBlock(anchor)) {
        reason =
            ("'" + producer->getName().getStringRef() + "' produces an input only after the group").str();
        return nullptr;
      }
    }
    for (Value result : op->getResults()) {
      bool escapes = false;
      for (Operation* user : result.getUsers()) {
        if (ops.contains(user)) continue;
        escapes = true;
        Operation* inBlock = anchor->getBlock()->findAncestorOpInBlock(*user);
        if (!inBlock || inBlock->isBeforeInBlock(anchor)) {
          reason =
              ("'" + user->getName().getStringRef() + "' needs an intermediate value before the group").str();
          return nullptr;
        }
      }
      if (escapes) outputs.push_back(result);
    }
  }

  OpBuilder b(anchor);
  SmallVector<Type> types = llvm::map_to_vector(outputs, [](Value v) { return v.getType(); });
  auto group =
      hir::GroupOp::create(b, anchor->getLoc(), types, hir::GroupKindAttr::get(b.getContext(), kind));
  Block* body = &group.getBody().emplaceBlock();
  for (Operation* op : order) op->moveBefore(body, body->end());
  for (auto [inner, outer] : llvm::zip(outputs, group.getResults()))
    inner.replaceUsesWithIf(outer, [&](OpOperand& use) { return !group->isProperAncestor(use.getOwner()); });
  b.setInsertionPointToEnd(body);
  hir::YieldOp::create(b, anchor->getLoc(), outputs);
  return group;
}

void reportFused(Operation* op, hir::GroupKind kind, size_t opCount) {
  op->emitRemark() << "fused " << hir::stringifyGroupKind(kind) << ": " << opCount << " ops";
}

void reportMissed(Operation* op, hir::GroupKind kind, const llvm::Twine& reason) {
  op->emitRemark() << "missed " << hir::stringifyGroupKind(kind) << ": " << reason.str();
}

}  // namespace qcc::passes
