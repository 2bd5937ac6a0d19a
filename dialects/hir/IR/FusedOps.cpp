// The shapes of ops that kernels execute, one `match` per fused op. Fusion passes ask it what they may fuse,
// the verifier asks it whether a body says the same as its op; so each shape is written down once.
#include "dialects/hir/IR/FusedShape.h"
#include "dialects/hir/IR/Hir.h"

using namespace mlir;

namespace qcc::hir {

static constexpr StringLiteral kPrefix = "hir.fused.";

StringRef fusedKind(StringRef opName) {
  opName.consume_front(kPrefix);
  return opName;
}

template <typename... Ops>
static SmallVector<StringRef> kindsAmong() {
  SmallVector<StringRef> kinds;
  for (StringRef name : {StringRef(Ops::getOperationName())...})
    if (name.starts_with(kPrefix)) kinds.push_back(fusedKind(name));
  return kinds;
}

ArrayRef<StringRef> fusedKinds() {
  static const SmallVector<StringRef> kinds = kindsAmong<
#define GET_OP_LIST
#include "dialects/hir/IR/HirOps.cpp.inc"
      >();
  return kinds;
}

static LogicalResult verifyBody(Operation* op) {
  Block& body = op->getRegion(0).front();
  if (body.getArgumentTypes() != op->getOperandTypes())
    return op->emitOpError() << "body takes (" << body.getArgumentTypes() << "), has operands of types ("
                             << op->getOperandTypes() << ")";
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield) return op->emitOpError() << "body must end with hir.yield";
  if (yield.getValues().getTypes() != op->getResultTypes())
    return op->emitOpError() << "yields " << yield.getValues().size() << " values of types ("
                             << yield.getValues().getTypes() << "), has " << op->getNumResults()
                             << " results of types (" << op->getResultTypes() << ")";
  return success();
}

LogicalResult verifyFused(Operation* op) {
  if (failed(verifyBody(op))) return failure();
  Block& body = op->getRegion(0).front();
  SmallVector<Operation*> ops;
  for (Operation& inner : body.without_terminator()) ops.push_back(&inner);
  std::string reason;
  FailureOr<FusedParts> parts =
      cast<FusedOpInterface>(op).match(ops, body.getTerminator()->getOperands(), reason);
  if (failed(parts)) return op->emitOpError() << reason;
  for (NamedAttribute expected : parts->attributes)
    if (Attribute found = op->getAttr(expected.getName()); found != expected.getValue())
      return op->emitOpError() << "attribute " << expected.getName() << " is " << found << ", its body has "
                               << expected.getValue();
  if (parts->operands.size() != op->getNumOperands())
    return op->emitOpError() << "has " << op->getNumOperands() << " operands, its body uses "
                             << parts->operands.size();
  for (auto [operand, part] : llvm::zip_equal(op->getOperands(), parts->operands)) {
    // Two arguments for one value may stand in for each other.
    auto argument = dyn_cast<BlockArgument>(part.value);
    if (!argument || op->getOperand(argument.getArgNumber()) != operand)
      return op->emitOpError() << "operand '" << part.name << "' is not what its body uses in that place";
  }
  return success();
}

FailureOr<FusedParts> FusedNormQuantOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                              std::string& reason) {
  Shape s(ops, reason);
  auto norm = s.only<RmsNormOp>();
  auto quantize = norm ? s.only<QuantizeOp>() : QuantizeOp();
  if (!norm || !quantize) return failure();
  if (quantize.getX() != norm.getResult()) return s.refuse(quantize, "it does not read the norm");
  SmallVector<Value> results = {quantize.getResult()};
  if (yielded.size() == 2) results.insert(results.begin(), norm.getResult());
  if (failed(s.finish(yielded, results))) return failure();
  return FusedParts{{{"x", norm.getX()}, {"weight", norm.getWeight()}}, {named("eps", norm.getEpsAttr())}};
}

FailureOr<FusedParts> FusedMergedLinearOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                                 std::string& reason) {
  Shape s(ops, reason);
  SmallVector<Value> results;
  SmallVector<FusedParts::Operand> inputs, weights, scales;
  SmallVector<int64_t> scaled;
  for (Operation* op : ops) {
    auto linear = s.take(dyn_cast<LinearOp>(op));
    if (!linear) return s.refuse(op, "it is no linear");
    if (linear.getScale()) {
      scales.push_back({"scales", linear.getScale()});
      scaled.push_back(results.size());
    }
    inputs.push_back({"inputs", linear.getX()});
    weights.push_back({"weights", linear.getWeight()});
    results.push_back(linear.getResult());
  }
  if (results.empty()) return s.refuse("has no 'hir.linear'");
  if (failed(s.finish(yielded, results))) return failure();
  MLIRContext* context = ops.front()->getContext();
  auto n = static_cast<int32_t>(inputs.size());
  FusedParts parts{std::move(inputs), {}};
  llvm::append_range(parts.operands, weights);
  llvm::append_range(parts.operands, scales);
  parts.attributes = {segments(context, {n, n, static_cast<int32_t>(scales.size())}),
                      named("scaled", DenseI64ArrayAttr::get(context, scaled))};
  return parts;
}

Value FusedMergedLinearOp::getScale(int64_t i) {
  const int64_t* at = llvm::find(getScaled(), i);
  return at == getScaled().end() ? Value() : getScales()[at - getScaled().begin()];
}

LinearOp FusedMergedLinearOp::getLinear(int64_t i) {
  return cast<LinearOp>(*std::next(getBody().front().begin(), i));
}

FailureOr<FusedParts> FusedLinearSwigluOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                                 std::string& reason) {
  Shape s(ops, reason);
  auto swiglu = s.only<SwigluOp>();
  if (!swiglu) return failure();
  auto gate = s.producer<LinearOp>(swiglu.getGate(), swiglu);
  auto up = s.producer<LinearOp>(swiglu.getUp(), swiglu);
  if (!gate || !up) return failure();
  if (gate == up) return s.refuse(gate, "it is gate and up at once");
  if (gate.getX() != up.getX()) return s.refuse(up, "its input is not the gate's");
  if (gate.getWeight().getType() != up.getWeight().getType())
    return s.refuse(up, "its weight's type is not that of the gate's");
  if (failed(s.finish(yielded, swiglu.getResult()))) return failure();
  FusedParts parts{{{"x", gate.getX()}, {"gate", gate.getWeight()}, {"up", up.getWeight()}}, {}};
  if (gate.getScale()) parts.operands.push_back({"gate_scale", gate.getScale()});
  if (up.getScale()) parts.operands.push_back({"up_scale", up.getScale()});
  parts.attributes = {
      segments(swiglu.getContext(), {1, 1, 1, gate.getScale() ? 1 : 0, up.getScale() ? 1 : 0})};
  return parts;
}

FailureOr<FusedParts> FusedLinearResidualOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                                   std::string& reason) {
  Shape s(ops, reason);
  auto add = s.only<AddOp>();
  auto linear = add ? s.only<LinearOp>() : LinearOp();
  if (!add || !linear || failed(s.finish(yielded, add.getResult()))) return failure();
  bool isLhs = add.getLhs() == linear.getResult(), isRhs = add.getRhs() == linear.getResult();
  if (isLhs == isRhs) return s.refuse(add, "it does not add the linear to another value");
  FusedParts parts{{{"x", linear.getX()},
                    {"weight", linear.getWeight()},
                    {"residual", isLhs ? add.getRhs() : add.getLhs()}},
                   {}};
  if (linear.getScale()) parts.operands.push_back({"scale", linear.getScale()});
  return parts;
}

namespace {

// What the gated delta net convolves and cuts into queries, keys and values.
struct Convolved {
  CausalConv1dOp conv;
  L2NormOp norm;  // of the queries; the keys' is alike
};

// conv1d, silu, cut into q, k, v; unit length for q and k.
FailureOr<Convolved> matchConvolved(Shape& s, GatedDeltaOp delta) {
  auto conv = s.only<CausalConv1dOp>();
  if (!conv) return failure();
  auto qNorm = s.producer<L2NormOp>(delta.getQ(), delta);
  auto kNorm = qNorm ? s.producer<L2NormOp>(delta.getK(), delta) : L2NormOp();
  if (!qNorm || !kNorm) return failure();
  if (failed(s.sameHeads(qNorm, delta.getQ())) || failed(s.sameHeads(kNorm, delta.getK()))) return failure();
  auto q = s.producer<SliceOp>(qNorm.getX(), qNorm);
  auto k = q ? s.producer<SliceOp>(kNorm.getX(), kNorm) : SliceOp();
  auto v = k ? s.producer<SliceOp>(delta.getV(), delta) : SliceOp();
  if (!v) return failure();
  ArrayRef<int64_t> qShape = shapeOf(delta.getQ()), vShape = shapeOf(delta.getV());
  int64_t keyWidth = qShape[1] * qShape[2], begin = 0;
  ActivationOp convolved;
  for (auto [slice, size] :
       {std::pair(q, keyWidth), std::pair(k, keyWidth), std::pair(v, vShape[1] * vShape[2])}) {
    auto silu = s.activation(slice.getX(), ActivationKind::Silu, slice);
    if (!silu) return failure();
    if ((convolved && silu != convolved) || silu.getX() != conv.getResult())
      return s.refuse(silu, "it is not the one behind the convolution");
    convolved = silu;
    if (static_cast<int64_t>(slice.getOffset()) != begin || static_cast<int64_t>(slice.getSize()) != size)
      return s.refuse(slice,
                      "expected [" + Twine(begin) + ", " + Twine(size) + "]: queries, keys, values in turn");
    begin += size;
  }
  if (qNorm.getEpsAttr() != kNorm.getEpsAttr()) return s.refuse(kNorm, "its eps differs from the queries'");
  if (qNorm.getForm() != kNorm.getForm()) return s.refuse(kNorm, "its form differs from the queries'");
  if (shapeOf(conv.getResult()).back() != begin)
    return s.refuse(conv, "it has more channels than queries, keys and values");
  if (conv.getRows() != delta.getRows()) return s.refuse(conv, "it goes over other rows than the delta rule");
  return Convolved{conv, qNorm};
}

}  // namespace

FailureOr<FusedParts> FusedGatedDeltaOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                               std::string& reason) {
  Shape s(ops, reason);
  auto delta = s.only<GatedDeltaOp>();
  if (!delta) return failure();
  FailureOr<Convolved> front = matchConvolved(s, delta);
  if (failed(front)) return failure();
  auto decay = s.producer<GdnDecayOp>(delta.getG(), delta);
  auto beta = decay ? s.activation(delta.getBeta(), ActivationKind::Sigmoid, delta) : ActivationOp();
  if (!beta) return failure();
  if (size_t rank = shapeOf(beta.getX()).size(); rank != 2)
    return s.refuse(beta,
                    "it is of " + Twine(rank) + " dimensions, a number for each row and head is needed");

  // Behind the rule: norm per head, times silu(z).
  auto norm = s.only<RmsNormOp>();
  auto gated = norm ? s.only<MulOp>() : MulOp();
  if (!gated) return failure();
  if (norm.getX() != delta.getResult()) return s.refuse(norm, "it does not read the delta rule's result");
  bool normIsLhs = s.behindReshapes(gated.getLhs()) == norm.getResult();
  if (!normIsLhs && s.behindReshapes(gated.getRhs()) != norm.getResult())
    return s.refuse(gated, "it does not gate the norm");
  auto silu = s.activation(normIsLhs ? gated.getRhs() : gated.getLhs(), ActivationKind::Silu, gated);
  if (!silu) return failure();
  Value z = s.behindReshapes(silu.getX());
  if (yielded.size() != 1 || s.behindReshapes(yielded.front()) != gated.getResult())
    return s.refuse(gated, "it is not what is needed of these ops");
  if (failed(s.finish(yielded, yielded.front()))) return failure();
  CausalConv1dOp conv = front->conv;
  return FusedParts{{{"qkv", conv.getX()},
                     {"z", z},
                     {"alpha", decay.getA()},
                     {"beta", beta.getX()},
                     {"conv", conv.getWeight()},
                     {"ssm_a", decay.getSsmA()},
                     {"dt_bias", decay.getDtBias()},
                     {"norm", norm.getWeight()},
                     {"conv_state", conv.getState()},
                     {"delta_state", delta.getState()},
                     {"rows", delta.getRows()}},
                    {named("l2_eps", front->norm.getEpsAttr()),
                     named("l2_form", L2FormAttr::get(delta.getContext(), front->norm.getForm())),
                     named("norm_eps", norm.getEpsAttr()), named("scale", delta.getScaleAttr()),
                     named("heads", HeadOrderAttr::get(delta.getContext(), delta.getHeads()))}};
}

FailureOr<FusedParts> FusedQkNormRopeStoreOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                                    std::string& reason) {
  Shape s(ops, reason);
  auto store = s.only<KvStoreOp>();
  if (!store) return failure();
  if (yielded.size() != 1) return s.refuse("gives other values than the rotated queries");
  auto qRope = s.producer<RopeOp>(yielded.front(), store);
  auto kRope = qRope ? s.producer<RopeOp>(store.getK(), store) : RopeOp();
  if (!kRope || failed(s.sameHeads(kRope, store.getK()))) return failure();
  if (qRope.getTable() != kRope.getTable()) return s.refuse(kRope, "it has another table than the queries'");
  auto qNorm = s.producer<RmsNormOp>(qRope.getX(), qRope);
  auto kNorm = qNorm ? s.producer<RmsNormOp>(kRope.getX(), kRope) : RmsNormOp();
  if (!kNorm || failed(s.sameHeads(qNorm, qRope.getX())) || failed(s.sameHeads(kNorm, kRope.getX())))
    return failure();
  if (qNorm.getEpsAttr() != kNorm.getEpsAttr()) return s.refuse(kNorm, "its eps differs from the queries'");
  int64_t headDim = shapeOf(qRope.getResult())[2];
  if (headDim != shapeOf(store.getK())[2])
    return s.refuse(kRope, "its heads are not as long as the queries'");

  // Queries may be interleaved with gates: per head its query, then its gate.
  Value q = s.behindReshapes(qNorm.getX());
  if (auto slice = q.getDefiningOp<SliceOp>(); s.has(slice)) {
    ArrayRef<int64_t> from = shapeOf(slice.getX());
    if (from.size() != 3 || slice.getOffset() != 0 || static_cast<int64_t>(slice.getSize()) != headDim ||
        from.back() != 2 * headDim)
      return s.refuse(slice, "queries are the first half of each head of 2 x " + Twine(headDim));
    q = s.behindReshapes(s.take(slice).getX());
  }
  Value k = s.behindReshapes(kNorm.getX()), v = s.behindReshapes(store.getV());
  if (failed(s.finish(yielded, qRope.getResult()))) return failure();
  return FusedParts{{{"q", q},
                     {"k", k},
                     {"v", v},
                     {"q_norm", qNorm.getWeight()},
                     {"k_norm", kNorm.getWeight()},
                     {"rope", qRope.getTable()},
                     {"state", store.getState()},
                     {"rows", store.getRows()}},
                    {named("eps", qNorm.getEpsAttr())}};
}

bool FusedQkNormRopeStoreOp::isGated() {
  return llvm::product_of(shapeOf(getQ()).drop_front()) != getQueryHeads() * getHeadDim();
}

FailureOr<FusedParts> FusedGatedAttentionOp::match(ArrayRef<Operation*> ops, ValueRange yielded,
                                                   std::string& reason) {
  Shape s(ops, reason);
  auto attention = s.only<AttentionOp>();
  if (!attention) return failure();
  if (yielded.size() != 1) return s.refuse("gives other values than the attention's");
  int64_t headDim = shapeOf(attention.getQ())[2];
  Value computed = s.behindReshapes(yielded.front()), gate;
  if (auto mul = computed.getDefiningOp<MulOp>(); s.has(mul)) {
    s.take(mul);
    Value lhs = s.behindReshapes(mul.getLhs()), rhs = s.behindReshapes(mul.getRhs());
    bool attentionIsLhs = lhs == attention.getResult();
    computed = attentionIsLhs ? lhs : rhs;
    auto sigmoid = s.activation(attentionIsLhs ? rhs : lhs, ActivationKind::Sigmoid, mul);
    if (!sigmoid) return failure();
    auto slice = s.behindReshapes(sigmoid.getX()).getDefiningOp<SliceOp>();
    if (!s.has(slice) || shapeOf(slice.getX()).size() != 3 || shapeOf(slice.getX()).back() != 2 * headDim ||
        static_cast<int64_t>(slice.getOffset()) != headDim ||
        static_cast<int64_t>(slice.getSize()) != headDim)
      return s.refuse(sigmoid, "gates are the second half of each head of 2 x " + Twine(headDim));
    gate = s.behindReshapes(s.take(slice).getX());
  }
  if (computed != attention.getResult()) return s.refuse(attention, "it is not what is needed of these ops");
  if (failed(s.finish(yielded, yielded.front()))) return failure();
  FusedParts parts{{{"q", attention.getQ()}}, {named("scale", attention.getScaleAttr())}};
  if (gate) parts.operands.push_back({"gate", gate});
  parts.operands.push_back({"state", attention.getState()});
  parts.operands.push_back({"rows", attention.getRows()});
  return parts;
}

}  // namespace qcc::hir
