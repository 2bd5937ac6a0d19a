#include "passes/Passes.h"

#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSESWIGLU
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kLinearSwiglu = hir::FusedLinearSwigluOp::getOperationName();

std::string formatName(hir::LinearOp op) {
  return std::string(format_info(op.getWeight().getType().getFormat()).name);
}

struct FuseSwigluPass : impl::FuseSwigluBase<FuseSwigluPass> {
  using FuseSwigluBase::FuseSwigluBase;

  void runOnOperation() override {
    for (hir::SwigluOp op : collect<hir::SwigluOp>(getOperation())) fuse(op);
  }

  void fuse(hir::SwigluOp op) {
    auto gate = op.getGate().getDefiningOp<hir::LinearOp>();
    auto up = op.getUp().getDefiningOp<hir::LinearOp>();
    if (!gate || !up || gate == up || gate->getBlock() != op->getBlock() || up->getBlock() != op->getBlock())
      return reportMissed(op, kLinearSwiglu, "gate and up are not two linears next to it");
    if (gate.getX() != up.getX()) return reportMissed(op, kLinearSwiglu, "gate and up have different inputs");
    if (!gate->hasOneUse() || !up->hasOneUse())
      return reportMissed(op, kLinearSwiglu, "gate or up is needed elsewhere");
    // One kernel walks both matrices in step, so their tiles must be alike.
    if (gate.getWeight().getType() != up.getWeight().getType())
      return reportMissed(op, kLinearSwiglu, "gate is " + formatName(gate) + ", up is " + formatName(up));
    OpSet ops;
    for (Operation* member : {gate.getOperation(), up.getOperation(), op.getOperation()}) ops.insert(member);
    std::string reason;
    if (!makeFused(kLinearSwiglu, ops, GroupAt::Last, gate, reason))
      return reportMissed(op, kLinearSwiglu, reason);
    reportFused(op, kLinearSwiglu, ops.size());
  }
};
}  // namespace
}  // namespace qcc::passes
