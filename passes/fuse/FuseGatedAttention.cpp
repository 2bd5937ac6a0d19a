#include "passes/Passes.h"

#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSEGATEDATTENTION
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kGatedAttention = hir::FusedGatedAttentionOp::getOperationName();

bool isGate(Operation* op) {
  if (auto activation = dyn_cast<hir::ActivationOp>(op))
    return activation.getKind() == hir::ActivationKind::Sigmoid;
  return isa<hir::SliceOp, hir::ReshapeOp>(op);
}

bool hasSigmoid(const OpSet& ops) {
  return llvm::any_of(ops, [](Operation* op) { return isa<hir::ActivationOp>(op); });
}

struct FuseGatedAttentionPass : impl::FuseGatedAttentionBase<FuseGatedAttentionPass> {
  using FuseGatedAttentionBase::FuseGatedAttentionBase;

  void runOnOperation() override {
    for (hir::AttentionOp attention : collect<hir::AttentionOp>(getOperation())) fuse(attention);
  }

  void fuse(hir::AttentionOp attention) {
    OpSet ops;
    ops.insert(attention);
    Value out = attention.getResult();
    OpSet gated = ops;
    if (auto mul = soleUserBehindReshapes<hir::MulOp>(out, gated)) {
      gated.insert(mul);
      growBackwards(gated, isGate);
      if (!hasSigmoid(gated)) {
        reportMissed(attention, kGatedAttention, "the factor on the output is not a sigmoid gate of its own");
      } else {
        ops = gated;
        out = mul.getResult();
      }
    }
    if (auto flat = soleUser<hir::ReshapeOp>(out)) ops.insert(flat);
    fuseAndReport(kGatedAttention, ops, attention);
  }
};
}  // namespace
}  // namespace qcc::passes
