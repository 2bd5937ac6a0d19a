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

  // Either side may be the linear; where both are, the right one is asked first, and why not is what it says.
  static void fuse(hir::AddOp add) {
    std::string missed;
    for (auto [side, residual] :
         {std::pair(add.getRhs(), add.getLhs()), std::pair(add.getLhs(), add.getRhs())}) {
      auto linear = side.getDefiningOp<hir::LinearOp>();
      if (!linear || linear->getBlock() != add->getBlock()) continue;
      std::string reason;
      if (fuse(add, linear, residual, reason)) return;
      if (missed.empty()) missed = reason;
    }
    reportMissed(add, kLinearResidual, missed.empty() ? "neither side is a linear next to it" : missed);
  }

  static bool fuse(hir::AddOp add, hir::LinearOp linear, Value residual, std::string& reason) {
    auto refuse = [&](const char* why) {
      reason = why;
      return false;
    };
    if (!linear->hasOneUse()) return refuse("the linear's result is needed elsewhere");
    // The kernel adds into the residual's own buffer.
    if (!diesAt(residual, add)) return refuse("the old residual is read after the sum");
    if (placeOf(linear.getX()) == placeOf(residual)) return refuse("the linear reads the residual");
    OpSet ops;
    ops.insert(linear);
    ops.insert(add);
    if (!makeFused(kLinearResidual, ops, GroupAt::Last, linear, reason)) return false;
    reportFused(linear, kLinearResidual, ops.size());
    return true;
  }
};
}  // namespace
}  // namespace qcc::passes
