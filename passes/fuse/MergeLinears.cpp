#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"
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

struct MergeLinearsPass : impl::MergeLinearsBase<MergeLinearsPass> {
  using MergeLinearsBase::MergeLinearsBase;

  void runOnOperation() override {
    getOperation().walk([&](func::FuncOp func) {
      llvm::MapVector<Value, SmallVector<hir::LinearOp>> byInput;
      for (Block& block : func.getBody())
        for (auto linear : block.getOps<hir::LinearOp>()) byInput[activationOf(linear)].push_back(linear);
      for (auto& [input, linears] : byInput) merge(linears);
    });
  }

  void merge(ArrayRef<hir::LinearOp> linears) {
    if (linears.size() < 2) return;
    OpSet ops;
    for (hir::LinearOp op : linears) ops.insert(op);
    std::string reason;
    Operation* group = makeFused(kMergedLinear, ops, GroupAt::First, linears.front(), reason);
    if (!group) return reportMissed(linears.front(), kMergedLinear, reason);
    reportFused(group, kMergedLinear, ops.size());
  }
};
}  // namespace
}  // namespace qcc::passes
