#include "passes/Passes.h"

#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSENORMQUANT
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kNormQuant = hir::FusedNormQuantOp::getOperationName();

struct FuseNormQuantPass : impl::FuseNormQuantBase<FuseNormQuantPass> {
  using FuseNormQuantBase::FuseNormQuantBase;

  void runOnOperation() override {
    for (hir::QuantizeOp op : collect<hir::QuantizeOp>(getOperation())) fuse(op);
  }

  void fuse(hir::QuantizeOp op) {
    auto norm = op.getX().getDefiningOp<hir::RmsNormOp>();
    if (!norm || norm->getBlock() != op->getBlock())
      return reportMissed(op, kNormQuant, "the rounded value does not come from a norm");
    OpSet ops;
    ops.insert(norm);
    ops.insert(op);
    std::string reason;
    if (!makeFused(kNormQuant, ops, GroupAt::First, norm, reason))
      return reportMissed(op, kNormQuant, reason);
    reportFused(norm, kNormQuant, ops.size());
  }
};
}  // namespace
}  // namespace qcc::passes
