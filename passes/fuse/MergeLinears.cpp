#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_MERGELINEARS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kMergedLinear = hir::FusedMergedLinearOp::getOperationName();

// The activation behind an int8 copy: linears on either form share one input.
Value activationOf(hir::LinearOp op) {
  if (auto quantize = op.getX().getDefiningOp<hir::QuantizeOp>()) return quantize.getX();
  return op.getX();
}

// Whether a linear's result, or a slice of it, is a model's logits: programs that give none leave the matrix
// out, which they could not if it came with others.
bool isLogits(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand& use) {
    Operation* user = use.getOwner();
    if (isa<hir::SliceOp>(user)) return isLogits(user->getResult(0));
    auto func = isa<func::ReturnOp>(user) ? cast<func::FuncOp>(user->getParentOp()) : func::FuncOp();
    return func && func.getResultAttr(use.getOperandNumber(), hir::kLogits);
  });
}

struct MergeLinearsPass : impl::MergeLinearsBase<MergeLinearsPass> {
  using MergeLinearsBase::MergeLinearsBase;

  void runOnOperation() override {
    getOperation().walk([&](func::FuncOp func) {
      llvm::MapVector<Value, SmallVector<hir::LinearOp>> byInput;
      for (Block& block : func.getBody())
        for (auto linear : block.getOps<hir::LinearOp>())
          if (!isLogits(linear.getResult())) byInput[activationOf(linear)].push_back(linear);
      for (auto& [input, linears] : byInput) merge(linears);
    });
  }

  // What the group, where its first linear stood, cannot have yet.
  static Operation* lateInput(hir::LinearOp op, hir::LinearOp first) {
    for (Value operand : op->getOperands())
      if (Operation* producer = operand.getDefiningOp();
          producer && producer->getBlock() == first->getBlock() && !producer->isBeforeInBlock(first))
        return producer;
    return nullptr;
  }

  static void merge(ArrayRef<hir::LinearOp> linears) {
    OpSet ops;
    for (hir::LinearOp op : linears) {
      if (Operation* late = lateInput(op, linears.front()))
        reportMissed(op, kMergedLinear,
                     "'" + late->getName().getStringRef() + "' produces an input only after the group");
      else
        ops.insert(op);
    }
    if (ops.size() < 2) return;
    std::string reason;
    Operation* group = makeFused(kMergedLinear, ops, GroupAt::First, linears.front(), reason);
    if (!group) return reportMissed(linears.front(), kMergedLinear, reason);
    reportFused(group, kMergedLinear, ops.size());
  }
};
}  // namespace
}  // namespace qcc::passes
