#include "passes/Passes.h"

#include "passes/Liveness.h"
#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSERESIDUAL
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kLinearResidual = hir::FusedLinearResidualOp::getOperationName();

struct FuseResidualPass : impl::FuseResidualBase<FuseResidualPass> {
  using FuseResidualBase::FuseResidualBase;

  void runOnOperation() override {
    for (hir::AddOp add : collect<hir::AddOp>(getOperation())) fuse(add);
  }

  void fuse(hir::AddOp add) {
    auto linear = add.getRhs().getDefiningOp<hir::LinearOp>();
    Value residual = add.getLhs();
    if (!linear) {
      linear = add.getLhs().getDefiningOp<hir::LinearOp>();
      residual = add.getRhs();
    }
    if (!linear || linear->getBlock() != add->getBlock())
      return reportMissed(add, kLinearResidual, "neither side is a linear next to it");
    if (!linear->hasOneUse())
      return reportMissed(add, kLinearResidual, "the linear's result is needed elsewhere");
    // The kernel adds into the residual's own buffer.
    if (!diesAt(residual, add))
      return reportMissed(add, kLinearResidual, "the old residual is read after the sum");
    if (placeOf(linear.getX()) == placeOf(residual))
      return reportMissed(add, kLinearResidual, "the linear reads the residual");
    OpSet ops;
    ops.insert(linear);
    ops.insert(add);
    std::string reason;
    if (!makeFused(kLinearResidual, ops, GroupAt::Last, linear, reason))
      return reportMissed(add, kLinearResidual, reason);
    reportFused(linear, kLinearResidual, ops.size());
  }
};
}  // namespace
}  // namespace qcc::passes
