#include "passes/Passes.h"

#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSEGATEDDELTA
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kGatedDelta = hir::FusedGatedDeltaOp::getOperationName();

// What may stand between the projections and the recurrence.
bool isGdnInput(Operation* op) {
  return isa<hir::SliceOp, hir::CausalConv1dOp, hir::ActivationOp, hir::ReshapeOp, hir::L2NormOp,
             hir::GdnDecayOp>(op) &&
         !isPartOfLinear(op);
}

// result -> rms_norm -> mul(silu(z)) -> reshape to rows: the gated norm behind the recurrence.
const char* addGatedNorm(hir::GatedDeltaOp delta, OpSet& ops) {
  auto norm = soleUser<hir::RmsNormOp>(delta.getResult());
  if (!norm) return "the recurrence is not followed by a norm alone";
  auto gate = soleUserBehindReshapes<hir::MulOp>(norm.getResult(), ops);
  if (!gate) return "the norm is not followed by its gate alone";
  ops.insert(norm);
  ops.insert(gate);
  if (auto flat = soleUser<hir::ReshapeOp>(gate.getResult())) ops.insert(flat);
  return nullptr;
}

struct FuseGatedDeltaPass : impl::FuseGatedDeltaBase<FuseGatedDeltaPass> {
  using FuseGatedDeltaBase::FuseGatedDeltaBase;

  void runOnOperation() override {
    for (hir::GatedDeltaOp delta : collect<hir::GatedDeltaOp>(getOperation())) fuse(delta);
  }

  void fuse(hir::GatedDeltaOp delta) {
    OpSet ops;
    ops.insert(delta);
    if (const char* reason = addGatedNorm(delta, ops)) return reportMissed(delta, kGatedDelta, reason);
    growBackwards(ops, isGdnInput);
    auto convs = llvm::count_if(ops, [](Operation* op) { return isa<hir::CausalConv1dOp>(op); });
    if (convs != 1)
      return reportMissed(delta, kGatedDelta, "q, k and v do not come from one convolution of their own");
    fuseAndReport(kGatedDelta, ops, delta);
  }
};
}  // namespace
}  // namespace qcc::passes
