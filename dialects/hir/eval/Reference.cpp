// Until the evaluator lands, every op says that it cannot be evaluated.
#include "dialects/hir/IR/Hir.h"

namespace qcc::hir {
#define QCC_NOT_EVALUATED(op) \
  llvm::LogicalResult op::evaluate(Evaluator&) { return emitOpError() << "has no reference evaluation"; }
QCC_NOT_EVALUATED(ParamOp)
QCC_NOT_EVALUATED(StateOp)
QCC_NOT_EVALUATED(EmbedOp)
QCC_NOT_EVALUATED(RmsNormOp)
QCC_NOT_EVALUATED(L2NormOp)
QCC_NOT_EVALUATED(QuantizeOp)
QCC_NOT_EVALUATED(LinearOp)
QCC_NOT_EVALUATED(AddOp)
QCC_NOT_EVALUATED(MulOp)
QCC_NOT_EVALUATED(ActivationOp)
QCC_NOT_EVALUATED(SwigluOp)
QCC_NOT_EVALUATED(ReshapeOp)
QCC_NOT_EVALUATED(SliceOp)
QCC_NOT_EVALUATED(ConcatOp)
QCC_NOT_EVALUATED(SelectRowsOp)
QCC_NOT_EVALUATED(CausalConv1dOp)
QCC_NOT_EVALUATED(GdnDecayOp)
QCC_NOT_EVALUATED(GatedDeltaOp)
QCC_NOT_EVALUATED(RopeTableOp)
QCC_NOT_EVALUATED(RopeOp)
QCC_NOT_EVALUATED(KvStoreOp)
QCC_NOT_EVALUATED(AttentionOp)
QCC_NOT_EVALUATED(GroupOp)
}  // namespace qcc::hir
