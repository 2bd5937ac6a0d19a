// The shape of a feed-forward block of experts (FusedShape.h): router, routing, experts; a shared expert and
// the residual sum where they are there.
#include "dialects/hir/IR/FusedShape.h"
#include "dialects/hir/IR/Hir.h"

using namespace mlir;

namespace qcc::hir {
namespace {

// From rows to the experts' weighted sum.
struct Routed {
  LinearOp router;
  MoeRouteOp route;
  MoeExpertsOp experts;
};

// A feed-forward block for all rows, whose result is scaled by one number for each row.
struct SharedExpert {
  LinearOp gate, up, down, router;
  int64_t hiddenBlock = 0;
};

FailureOr<Routed> matchRouted(Shape& s) {
  auto experts = s.only<MoeExpertsOp>();
  auto route = experts ? s.producer<MoeRouteOp>(experts.getIds(), experts) : MoeRouteOp();
  auto router = route ? s.producer<LinearOp>(route.getLogits(), route) : LinearOp();
  if (!router) return failure();
  if (experts.getWeights() != route.getWeights())
    return s.refuse(experts, "its weights are not those of the ids");
  if (router.getScale()) return s.refuse(router, "it has a scale");
  if (router.getWeight().getType().getFormat() != Format::F32)
    return s.refuse(router, "its weight is not f32");
  if (cast<RankedTensorType>(router.getX().getType()).getEncoding())
    return s.refuse(router, "its input is rounded");
  return Routed{router, route, experts};
}

// scale_rows(down(swiglu(gate(x), up(x))), sigmoid(router(x0))), x0 being what the experts are routed by.
FailureOr<SharedExpert> matchShared(Shape& s, ScaleRowsOp scaled, Value routedBy) {
  SharedExpert shared;
  shared.down = s.producer<LinearOp>(s.take(scaled).getX(), scaled);
  if (!shared.down) return failure();
  Value hidden = shared.down.getX();
  if (auto quantize = hidden.getDefiningOp<QuantizeOp>(); s.has(quantize)) {
    if (quantize.getTerms() != 1) return s.refuse(quantize, "it rounds to more than one term");
    shared.hiddenBlock = s.take(quantize).getBlock();
    hidden = quantize.getX();
  }
  auto swiglu = s.producer<SwigluOp>(hidden, shared.down);
  if (!swiglu) return failure();
  shared.gate = s.producer<LinearOp>(swiglu.getGate(), swiglu);
  shared.up = shared.gate ? s.producer<LinearOp>(swiglu.getUp(), swiglu) : LinearOp();
  if (!shared.up) return failure();
  if (shared.gate == shared.up) return s.refuse(shared.gate, "it is gate and up at once");
  if (shared.gate.getX() != shared.up.getX()) return s.refuse(shared.up, "its input is not the gate's");
  auto sigmoid = s.activation(scaled.getFactors(), ActivationKind::Sigmoid, scaled);
  shared.router = sigmoid ? s.producer<LinearOp>(sigmoid.getX(), sigmoid) : LinearOp();
  if (!shared.router) return failure();
  if (shared.router.getX() != routedBy) return s.refuse(shared.router, "its input is not the router's");
  if (shared.router.getScale()) return s.refuse(shared.router, "it has a scale");
  return shared;
}

// The sum of `value` and another among `ops`.
AddOp sumWith(ArrayRef<Operation*> ops, Value value) {
  for (Operation* op : ops)
    if (auto add = dyn_cast<AddOp>(op); add && (add.getLhs() == value || add.getRhs() == value)) return add;
  return nullptr;
}

Value otherAddend(AddOp add, Value value) {
  return add.getLhs() == value ? add.getRhs() : add.getLhs();
}

// Collects optional operands with their segments, in the order of the op's operands.
class Operands {
 public:
  explicit Operands(FusedParts& parts) : parts(parts) {}
  void add(StringRef name, Value value) {
    if (value) parts.operands.push_back({name, value});
    sizes.push_back(value ? 1 : 0);
  }
  ArrayRef<int32_t> segmentSizes() const { return sizes; }

 private:
  FusedParts& parts;
  SmallVector<int32_t> sizes;
};

FusedParts partsOf(Routed routed, std::optional<SharedExpert> shared, Value residual) {
  FusedParts parts;
  Operands operands(parts);
  MoeExpertsOp experts = routed.experts;
  operands.add("x", routed.router.getX());
  operands.add("router", routed.router.getWeight());
  operands.add("experts_x", experts.getX());
  operands.add("gate", experts.getGate());
  operands.add("up", experts.getUp());
  operands.add("down", experts.getDown());
  operands.add("gate_scale", experts.getGateScale());
  operands.add("up_scale", experts.getUpScale());
  operands.add("down_scale", experts.getDownScale());
  operands.add("shared_x", shared ? Value(shared->gate.getX()) : Value());
  operands.add("shared_gate", shared ? Value(shared->gate.getWeight()) : Value());
  operands.add("shared_up", shared ? Value(shared->up.getWeight()) : Value());
  operands.add("shared_down", shared ? Value(shared->down.getWeight()) : Value());
  operands.add("shared_router", shared ? Value(shared->router.getWeight()) : Value());
  operands.add("shared_gate_scale", shared ? Value(shared->gate.getScale()) : Value());
  operands.add("shared_up_scale", shared ? Value(shared->up.getScale()) : Value());
  operands.add("shared_down_scale", shared ? Value(shared->down.getScale()) : Value());
  operands.add("residual", residual);

  MoeRouteOp route = routed.route;
  Builder b(route.getContext());
  parts.attributes = {segments(b.getContext(), operands.segmentSizes()),
                      named("gating", GatingAttr::get(b.getContext(), route.getGating())),
                      named("top_k", route.getTopKAttr()),
                      named("normalise", route.getNormaliseAttr()),
                      named("norm_floor", route.getNormFloorAttr()),
                      named("scale", route.getScaleAttr()),
                      named("hidden_block", b.getI64IntegerAttr(experts.getHiddenBlock())),
                      named("shared_hidden_block", b.getI64IntegerAttr(shared ? shared->hiddenBlock : 0))};
  return parts;
}

}  // namespace

FailureOr<FusedParts> FusedMoeOp::match(ArrayRef<Operation*> ops, ValueRange yielded, std::string& reason) {
  Shape s(ops, reason);
  FailureOr<Routed> routed = matchRouted(s);
  if (failed(routed)) return failure();
  Value sum = routed->experts.getResult(), residual;
  std::optional<SharedExpert> shared;
  if (auto* found = llvm::find_if(ops, llvm::IsaPred<ScaleRowsOp>); found != ops.end()) {
    auto scaled = cast<ScaleRowsOp>(*found);
    FailureOr<SharedExpert> matched = matchShared(s, scaled, routed->router.getX());
    if (failed(matched)) return failure();
    shared = *matched;
    AddOp add = sumWith(ops, sum);
    if (!add || otherAddend(add, sum) != scaled.getResult())
      return s.refuse(scaled, "it is not what is added to the experts' sum");
    sum = s.take(add).getResult();
  }
  if (AddOp add = sumWith(ops, sum)) {
    residual = otherAddend(add, sum);
    if (residual == sum || s.has(residual.getDefiningOp()))
      return s.refuse(add, "it does not add the sum to another value");
    sum = s.take(add).getResult();
  }
  if (failed(s.finish(yielded, sum))) return failure();
  return partsOf(*routed, shared, residual);
}

}  // namespace qcc::hir
