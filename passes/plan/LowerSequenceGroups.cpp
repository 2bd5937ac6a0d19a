// Ops around a sequence's state: the fused gated delta net, KV store and attention; the trace of a row.
#include "dialects/layouts/sequence_state.h"
#include "passes/plan/Lowering.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

namespace qcc::passes {
namespace {

plan::KvElement kvElement(Value cache) {
  switch (stateElement(cache)) {
    case plan::Element::F32:
      return plan::KvElement::F32;
    case plan::Element::F16:
      return plan::KvElement::F16;
    case plan::Element::B16:
      return plan::KvElement::B16;
  }
  llvm_unreachable("all elements are listed");
}

plan::L2Form formOf(hir::L2Form form) {
  return form == hir::L2Form::Max ? plan::L2Form::Max : plan::L2Form::Sum;
}

// What the store of keys and values and the attention over them say alike of heads and cache.
template <typename Spec, typename Op>
void setHeads(Spec& spec, Op op) {
  spec.q_heads = op.getQueryHeads();
  spec.kv_heads = op.getKvHeads();
  spec.head_dim = op.getHeadDim();
  spec.kv = kvElement(op.getState());
}

struct GatedDeltaLowering : LoweringOf<GatedDeltaLowering, hir::FusedGatedDeltaOp> {
  static void weights(hir::FusedGatedDeltaOp op, AddWeight add) {
    add(layouts::Use::kConvTaps, op.getConv());
    for (Value vector : {op.getSsmA(), op.getDtBias(), op.getNorm()}) add(layouts::Use::kVector, vector);
  }

  static void entries(hir::FusedGatedDeltaOp op, SmallVectorImpl<StateEntry>& entries) {
    int64_t heads = op.getKeyHeads(), valueHeads = op.getValueHeads();
    layouts::DeltaEntry entry(heads, valueHeads, op.getKeyDim(), op.getValueDim());
    int64_t channels = 2 * heads * op.getKeyDim() + valueHeads * op.getValueDim();
    entries.push_back({op.getConvState(), 4 * channels});
    entries.push_back({op.getDeltaState(), 4 * entry.floats});
  }

  static LogicalResult lowerOp(hir::FusedGatedDeltaOp op, Lowering& l) {
    FailureOr<View> qkv = l.denseRows(op.getQkv(), op), z = l.denseRows(op.getZ(), op);
    FailureOr<View> alpha = l.view(op.getAlpha(), op), beta = l.view(op.getBeta(), op);
    if (failed(qkv) || failed(z) || failed(alpha) || failed(beta)) return failure();
    if (alpha->stride == 0 || alpha->stride != beta->stride)
      return l.noKernel(op) << " with rows of beta " << beta->stride << " values apart, of alpha "
                            << alpha->stride;
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    FailureOr<plan::Ref> conv = l.state(op.getConvState(), op), delta = l.state(op.getDeltaState(), op);
    if (failed(w) || failed(conv) || failed(delta)) return failure();
    plan::GatedDeltaSpec spec;
    spec.key_heads = op.getKeyHeads();
    spec.value_heads = op.getValueHeads();
    spec.key_dim = op.getKeyDim();
    spec.value_dim = op.getValueDim();
    spec.taps = op.getTaps();
    spec.l2_eps = op.getL2Eps().convertToFloat();
    spec.l2_form = formOf(op.getL2Form());
    spec.norm_eps = op.getNormEps().convertToFloat();
    spec.scale = op.getScale().convertToFloat();
    spec.ld_ab = alpha->stride;
    spec.heads = op.getHeads() == hir::HeadOrder::Tiled ? plan::HeadOrder::Tiled : plan::HeadOrder::Grouped;
    plan::GatedDeltaBindings<plan::Ref> bindings;
    bindings.qkv = Lowering::ref(*qkv);
    bindings.z = Lowering::ref(*z);
    bindings.alpha = Lowering::ref(*alpha);
    bindings.beta = Lowering::ref(*beta);
    bindings.conv_w = (*w)[0];
    bindings.ssm_a = (*w)[1];
    bindings.dt_bias = (*w)[2];
    bindings.norm_w = (*w)[3];
    bindings.conv_state = *conv;
    bindings.delta_state = *delta;
    bindings.out =
        Lowering::ref(l.result(op.getResult(), "gated_delta", op.getValueHeads() * op.getValueDim(), false));
    l.dispatch(op, spec, bindings);
    return success();
  }
};

struct QkNormRopeStoreLowering : LoweringOf<QkNormRopeStoreLowering, hir::FusedQkNormRopeStoreOp> {
  static void weights(hir::FusedQkNormRopeStoreOp op, AddWeight add) {
    for (Value norm : {op.getQNorm(), op.getKNorm()}) add(layouts::Use::kVector, norm);
  }

  static LogicalResult lowerOp(hir::FusedQkNormRopeStoreOp op, Lowering& l) {
    FailureOr<View> q = l.denseRows(op.getQ(), op), k = l.denseRows(op.getK(), op);
    FailureOr<View> v = l.denseRows(op.getV(), op), rope = l.denseRows(op.getRope(), op);
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    FailureOr<plan::Ref> kv = l.state(op.getState(), op);
    if (failed(q) || failed(k) || failed(v) || failed(rope) || failed(w) || failed(kv)) return failure();
    plan::QkNormRopeStoreSpec spec;
    setHeads(spec, op);
    spec.rot_dims = op.getRotatedDims();
    spec.gated = op.isGated();
    spec.eps = op.getEps().convertToFloat();
    plan::QkNormRopeStoreBindings<plan::Ref> bindings;
    bindings.q = Lowering::ref(*q);
    bindings.k = Lowering::ref(*k);
    bindings.v = Lowering::ref(*v);
    bindings.q_norm = (*w)[0];
    bindings.k_norm = (*w)[1];
    bindings.rope = Lowering::ref(*rope);
    bindings.out =
        Lowering::ref(l.result(op.getResult(), "query", op.getQueryHeads() * op.getHeadDim(), false));
    bindings.kv = *kv;
    l.dispatch(op, spec, bindings);
    return success();
  }
};

struct GatedAttentionLowering : LoweringOf<GatedAttentionLowering, hir::FusedGatedAttentionOp> {
  static LogicalResult lowerOp(hir::FusedGatedAttentionOp op, Lowering& l) {
    FailureOr<View> q = l.denseRows(op.getQ(), op);
    FailureOr<plan::Ref> kv = l.state(op.getState(), op);
    if (failed(q) || failed(kv)) return failure();
    plan::AttentionSpec spec;
    setHeads(spec, op);
    spec.scale = op.getScale().convertToFloat();
    spec.gated = static_cast<bool>(op.getGate());
    plan::AttentionBindings<plan::Ref> bindings;
    bindings.q = Lowering::ref(*q);
    if (spec.gated) {
      FailureOr<View> gate = l.denseRows(op.getGate(), op);
      if (failed(gate)) return failure();
      bindings.gate = Lowering::ref(*gate);
    }
    bindings.kv = *kv;
    bindings.out =
        Lowering::ref(l.result(op.getResult(), "attention", op.getQueryHeads() * op.getHeadDim(), false));
    l.dispatch(op, spec, bindings);
    return success();
  }
};

struct TraceLowering : LoweringOf<TraceLowering, hir::TraceOp> {
  static LogicalResult lowerOp(hir::TraceOp op, Lowering& l) {
    FailureOr<View> x = l.denseRows(op.getX(), op);
    FailureOr<plan::Ref> last = l.state(op.getState(), op);
    if (failed(x) || failed(last)) return failure();
    if (x->outRows) return l.noKernel(op, " of selected rows");
    l.dispatch(op, plan::TraceSpec{rowElements(op.getX())}, {Lowering::ref(*x), *last});
    return success();
  }
};

}  // namespace

void attachSequenceLowerings(MLIRContext& context) {
  hir::FusedGatedDeltaOp::attachInterface<GatedDeltaLowering>(context);
  hir::FusedQkNormRopeStoreOp::attachInterface<QkNormRopeStoreLowering>(context);
  hir::FusedGatedAttentionOp::attachInterface<GatedAttentionLowering>(context);
  hir::TraceOp::attachInterface<TraceLowering>(context);
}

}  // namespace qcc::passes
