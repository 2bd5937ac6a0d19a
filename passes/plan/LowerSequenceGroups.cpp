// Groups around a sequence's state: the gated delta net, the KV store and attention. Each kernel executes one
// shape of ops; what is matched here is that shape, and the spec is read off its types and attributes.
#include "dialects/plan/pack_layout.h"
#include "passes/plan/Lowering.h"

using namespace mlir;

namespace qcc::passes {
namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

}  // namespace

Value GroupMatch::behindReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<hir::ReshapeOp>()) {
    if (reshape->getParentOp() == group) covered.insert(reshape);
    value = reshape.getX();
  }
  return value;
}

void GroupMatch::expected(Operation* user, StringRef what, Value found) {
  InFlightDiagnostic error = user->emitError("group '") << kind() << "' needs '" << what << "' in front of '"
                                                        << user->getName() << "', found ";
  if (Operation* op = found.getDefiningOp())
    error << "'" << op->getName() << "'" << (op->getParentOp() == group ? "" : " outside the group");
  else
    error << "an argument";
}

InFlightDiagnostic GroupMatch::unexpected(Operation* op, const Twine& found) {
  return op->emitError("the kernel of group '")
         << kind() << "' does not execute this '" << op->getName() << "': " << found.str();
}

hir::ActivationOp GroupMatch::activation(Value value, hir::ActivationKind wanted, Operation* user) {
  auto op = producer<hir::ActivationOp>(value, user);
  if (op && op.getKind() != wanted) {
    unexpected(op, Twine(hir::stringifyActivationKind(op.getKind())) + " instead of " +
                       hir::stringifyActivationKind(wanted));
    return nullptr;
  }
  return op;
}

LogicalResult GroupMatch::finish(ValueRange values) {
  Operation* yield = group.getBody().front().getTerminator();
  if (!llvm::equal(yield->getOperands(), values))
    return group.emitError("group '") << kind() << "' yields " << yield->getNumOperands()
                                      << " values that are not the results of its kernel";
  for (Operation& op : group.getBody().front())
    if (&op != yield && !covered.contains(&op))
      return unexpected(&op, "it is not part of what the kernel computes");
  return success();
}

LogicalResult Lowering::lowerGatedDelta(hir::GroupOp group) {
  GroupMatch m(group);
  auto delta = m.only<hir::GatedDeltaOp>();
  auto conv = m.only<hir::CausalConv1dOp>();
  if (!delta || !conv) return failure();

  // Behind the rule: norm per head, times silu(z), flattened.
  auto norm = m.only<hir::RmsNormOp>();
  auto gated = m.only<hir::MulOp>();
  if (!norm || !gated) return failure();
  if (norm.getX() != delta.getResult()) return m.unexpected(norm, "it does not read the delta rule's result");
  bool normIsLhs = m.behindReshapes(gated.getLhs()) == norm.getResult();
  if (!normIsLhs && m.behindReshapes(gated.getRhs()) != norm.getResult())
    return m.unexpected(gated, "it does not gate the norm");
  auto silu = m.activation(normIsLhs ? gated.getRhs() : gated.getLhs(), hir::ActivationKind::Silu, gated);
  if (!silu) return failure();
  m.behindReshapes(silu.getX());

  // In front: conv, silu, cut into q, k, v; unit length for q and k.
  auto qNorm = m.producer<hir::L2NormOp>(delta.getQ(), delta);
  auto kNorm = m.producer<hir::L2NormOp>(delta.getK(), delta);
  if (!qNorm || !kNorm) return failure();
  auto q = m.producer<hir::SliceOp>(qNorm.getX(), qNorm);
  auto k = m.producer<hir::SliceOp>(kNorm.getX(), kNorm);
  auto v = m.producer<hir::SliceOp>(delta.getV(), delta);
  if (!q || !k || !v) return failure();
  ArrayRef<int64_t> qShape = shapeOf(delta.getQ()), vShape = shapeOf(delta.getV());
  int64_t keyHeads = qShape[1], keyDim = qShape[2], valueHeads = vShape[1], valueDim = vShape[2];
  int64_t keyWidth = keyHeads * keyDim, begin = 0;
  hir::ActivationOp convolved;
  for (auto [slice, size] :
       {std::pair(q, keyWidth), std::pair(k, keyWidth), std::pair(v, valueHeads * valueDim)}) {
    auto silu = m.activation(slice.getX(), hir::ActivationKind::Silu, slice);
    if (!silu) return failure();
    if ((convolved && silu != convolved) || silu.getX() != conv.getResult())
      return m.unexpected(silu, "it is not the one behind the convolution");
    convolved = silu;
    if (static_cast<int64_t>(slice.getOffset()) != begin || static_cast<int64_t>(slice.getSize()) != size)
      return m.unexpected(
          slice, "expected [" + Twine(begin) + ", " + Twine(size) + "]: queries, keys, values in turn");
    begin += size;
  }
  if (qNorm.getEpsAttr() != kNorm.getEpsAttr())
    return m.unexpected(kNorm, "its eps differs from the queries'");
  if (qNorm.getForm() != kNorm.getForm()) return m.unexpected(kNorm, "its form differs from the queries'");
  if (shapeOf(conv.getResult()).back() != begin)
    return m.unexpected(conv, "it has more channels than queries, keys and values");

  auto decay = m.producer<hir::GdnDecayOp>(delta.getG(), delta);
  if (!decay) return failure();
  auto beta = m.activation(delta.getBeta(), hir::ActivationKind::Sigmoid, delta);
  if (!beta) return failure();
  if (group.getNumResults() != 1) return group.emitError("group 'gated_delta' has one result");
  Value yielded = group.getBody().front().getTerminator()->getOperand(0);
  if (m.behindReshapes(yielded) != gated.getResult() || failed(m.finish(yielded)))
    return m.unexpected(gated, "it is not what the group yields");

  FailureOr<View> qkv = denseRows(conv.getX(), conv), z = denseRows(silu.getX(), silu);
  FailureOr<View> alpha = view(decay.getA(), decay), betaIn = view(beta.getX(), beta);
  if (failed(qkv) || failed(z) || failed(alpha) || failed(betaIn)) return failure();
  if (alpha->stride == 0 || alpha->stride != betaIn->stride)
    return m.unexpected(
        beta, "its rows are " + Twine(betaIn->stride) + " values apart, the decay's " + Twine(alpha->stride));
  FailureOr<Binding> convW = weight("conv_w", plan::Layout::ConvTaps, conv.getWeight(), conv);
  FailureOr<Binding> ssmA = weight("ssm_a", plan::Layout::F32, decay.getSsmA(), decay);
  FailureOr<Binding> dtBias = weight("dt_bias", plan::Layout::F32, decay.getDtBias(), decay);
  FailureOr<Binding> normW = weight("norm_w", plan::Layout::F32, norm.getWeight(), norm);
  FailureOr<Binding> convState = state("conv_state", conv.getState(), plan::Access::ReadWrite, conv);
  FailureOr<Binding> deltaState = state("delta_state", delta.getState(), plan::Access::ReadWrite, delta);
  if (failed(convW) || failed(ssmA) || failed(dtBias) || failed(normW) || failed(convState) ||
      failed(deltaState))
    return failure();
  View out = result(group.getResult(0), "gated_delta", valueHeads * valueDim, false);
  dispatch(delta, "gated_delta",
           {{"key_heads", integer(keyHeads)},
            {"value_heads", integer(valueHeads)},
            {"key_dim", integer(keyDim)},
            {"value_dim", integer(valueDim)},
            {"taps", integer(conv.getWeight().getType().getShape().back())},
            {"l2_eps", qNorm.getEpsAttr()},
            {"l2_form", string(stringifyL2Form(qNorm.getForm()))},
            {"norm_eps", norm.getEpsAttr()},
            {"scale", delta.getScaleAttr()},
            {"ld_ab", integer(alpha->stride)}},
           {read("qkv", *qkv), read("z", *z), read("alpha", *alpha), read("beta", *betaIn), *convW, *ssmA,
            *dtBias, *normW, *convState, *deltaState, bind("out", out, plan::Access::Write)});
  return success();
}

LogicalResult Lowering::lowerQkNormRopeStore(hir::GroupOp group) {
  GroupMatch m(group);
  auto store = m.only<hir::KvStoreOp>();
  if (!store) return failure();
  if (group.getNumResults() != 1) return group.emitError("group 'qk_norm_rope_store' has one result");
  Operation* yield = group.getBody().front().getTerminator();
  auto qRope = m.producer<hir::RopeOp>(yield->getOperand(0), yield);
  auto kRope = m.producer<hir::RopeOp>(store.getK(), store);
  if (!qRope || !kRope) return failure();
  if (qRope.getTable() != kRope.getTable())
    return m.unexpected(kRope, "it has another table than the queries'");
  auto qNorm = m.producer<hir::RmsNormOp>(qRope.getX(), qRope);
  auto kNorm = m.producer<hir::RmsNormOp>(kRope.getX(), kRope);
  if (!qNorm || !kNorm) return failure();
  if (qNorm.getEpsAttr() != kNorm.getEpsAttr())
    return m.unexpected(kNorm, "its eps differs from the queries'");

  ArrayRef<int64_t> qShape = shapeOf(qRope.getResult()), kShape = shapeOf(store.getK());
  int64_t headDim = qShape[2];
  // Queries may be interleaved with gates: per head its query, then its gate.
  Value q = qNorm.getX();
  auto slice = m.behindReshapes(q).getDefiningOp<hir::SliceOp>();
  bool gated = slice && shapeOf(slice.getX()).size() == 3;
  if (gated) {
    if (static_cast<int64_t>(slice.getOffset()) != 0 || shapeOf(slice.getX()).back() != 2 * headDim)
      return m.unexpected(slice, "queries are the first half of each head of 2 x " + Twine(headDim));
    m.take(slice);
    q = slice.getX();
  }
  // Slices of a linear (one fused matrix for q, k and v) were lowered with it.
  auto source = [&](Value value) {
    value = m.behindReshapes(value);
    if (auto cut = value.getDefiningOp<hir::SliceOp>(); cut && views.contains(value)) m.take(cut);
    return value;
  };
  q = source(q);
  Value k = source(kNorm.getX()), v = source(store.getV());
  if (failed(m.finish(yield->getOperand(0)))) return failure();

  FailureOr<View> qView = denseRows(q, qNorm), kView = denseRows(k, kNorm), vView = denseRows(v, store);
  FailureOr<View> rope = denseRows(qRope.getTable(), qRope);
  FailureOr<Binding> qWeight = weight("q_norm", plan::Layout::F32, qNorm.getWeight(), qNorm);
  FailureOr<Binding> kWeight = weight("k_norm", plan::Layout::F32, kNorm.getWeight(), kNorm);
  FailureOr<Binding> kv = state("kv", store.getState(), plan::Access::Write, store);
  if (failed(qView) || failed(kView) || failed(vView) || failed(rope) || failed(qWeight) || failed(kWeight) ||
      failed(kv))
    return failure();
  View out = result(group.getResult(0), "query", qShape[1] * headDim, false);
  dispatch(store, "qk_norm_rope_store",
           {{"q_heads", integer(qShape[1])},
            {"kv_heads", integer(kShape[1])},
            {"head_dim", integer(headDim)},
            {"rot_dims", integer(shapeOf(qRope.getTable()).back())},
            {"gated", b.getBoolAttr(gated)},
            {"eps", qNorm.getEpsAttr()},
            {"kv", string(store.getState().getType().getElementType().isF16() ? "f16" : "f32")}},
           {read("q", *qView), read("k", *kView), read("v", *vView), *qWeight, *kWeight, read("rope", *rope),
            bind("out", out, plan::Access::Write), *kv});
  return success();
}

LogicalResult Lowering::lowerGatedAttention(hir::GroupOp group) {
  GroupMatch m(group);
  auto attention = m.only<hir::AttentionOp>();
  if (!attention) return failure();
  if (group.getNumResults() != 1) return group.emitError("group 'gated_attention' has one result");
  ArrayRef<int64_t> shape = shapeOf(attention.getQ());
  int64_t headDim = shape[2];
  Value yielded = group.getBody().front().getTerminator()->getOperand(0);
  Value computed = m.behindReshapes(yielded);
  Value gate;
  if (auto mul = computed.getDefiningOp<hir::MulOp>(); mul && mul->getParentOp() == group) {
    m.take(mul);
    bool attentionIsLhs = m.behindReshapes(mul.getLhs()) == attention.getResult();
    auto sigmoid =
        m.activation(attentionIsLhs ? mul.getRhs() : mul.getLhs(), hir::ActivationKind::Sigmoid, mul);
    if (!sigmoid) return failure();
    auto slice = m.behindReshapes(sigmoid.getX()).getDefiningOp<hir::SliceOp>();
    if (!slice || shapeOf(slice.getX()).size() != 3 || shapeOf(slice.getX()).back() != 2 * headDim ||
        static_cast<int64_t>(slice.getOffset()) != headDim)
      return m.unexpected(sigmoid, "gates are the second half of each head of 2 x " + Twine(headDim));
    m.take(slice);
    computed = m.behindReshapes(attentionIsLhs ? mul.getLhs() : mul.getRhs());
    gate = m.behindReshapes(slice.getX());
  }
  if (computed != attention.getResult()) return m.unexpected(attention, "it is not what the group yields");
  if (failed(m.finish(yielded))) return failure();

  FailureOr<View> q = denseRows(attention.getQ(), attention);
  FailureOr<Binding> kv = state("kv", attention.getState(), plan::Access::Read, attention);
  if (failed(q) || failed(kv)) return failure();
  SmallVector<Binding> bindings = {read("q", *q)};
  if (gate) {
    FailureOr<View> gateView = denseRows(gate, attention);
    if (failed(gateView)) return failure();
    bindings.push_back(read("gate", *gateView));
  }
  View out = result(group.getResult(0), "attention", shape[1] * headDim, false);
  bindings.push_back(*kv);
  bindings.push_back(bind("out", out, plan::Access::Write));
  hir::StateType cache = attention.getState().getType();
  dispatch(attention, "attention",
           {{"q_heads", integer(shape[1])},
            {"kv_heads", integer(cache.getShape()[0])},
            {"head_dim", integer(headDim)},
            {"scale", attention.getScaleAttr()},
            {"gated", b.getBoolAttr(static_cast<bool>(gate))},
            {"kv", string(cache.getElementType().isF16() ? "f16" : "f32")}},
           bindings);
  return success();
}

}  // namespace qcc::passes
