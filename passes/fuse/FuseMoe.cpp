#include "passes/Passes.h"

#include "passes/Liveness.h"
#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSEMOE
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kMoe = hir::FusedMoeOp::getOperationName();

// The producer of `value`, if it is a T whose result nobody else needs.
template <typename T>
T soleProducer(Value value) {
  auto op = value.getDefiningOp<T>();
  return op && op->hasOneUse() ? op : T();
}

Value otherAddend(hir::AddOp add, Value value) {
  return add.getLhs() == value ? add.getRhs() : add.getLhs();
}

// Route and router of the experts; the reason why they cannot be a group.
const char* addRouting(hir::MoeExpertsOp experts, OpSet& ops) {
  auto route = experts.getIds().getDefiningOp<hir::MoeRouteOp>();
  if (!route || experts.getWeights().getDefiningOp() != route.getOperation())
    return "ids and weights do not come from one route next to it";
  if (!route.getIds().hasOneUse() || !route.getWeights().hasOneUse())
    return "the routing is needed elsewhere";
  auto router = route.getLogits().getDefiningOp<hir::LinearOp>();
  if (!router) return "the route's logits do not come from a linear";
  if (!router->hasOneUse()) return "the router's logits are needed elsewhere";
  ops.insert(router);
  ops.insert(route);
  ops.insert(experts);
  return nullptr;
}

// What `scaled` is the end of.
const char* addShared(hir::ScaleRowsOp scaled, OpSet& ops) {
  if (!scaled->hasOneUse()) return "the shared expert's result is needed elsewhere";
  auto sigmoid = soleProducer<hir::ActivationOp>(scaled.getFactors());
  auto router = sigmoid ? soleProducer<hir::LinearOp>(sigmoid.getX()) : hir::LinearOp();
  if (!router) return "the shared expert's factor is not an activated linear of its own";
  auto down = soleProducer<hir::LinearOp>(scaled.getX());
  if (!down) return "the shared expert does not end with a linear of its own";
  auto quantize = soleProducer<hir::QuantizeOp>(down.getX());
  auto swiglu = soleProducer<hir::SwigluOp>(quantize ? quantize.getX() : down.getX());
  auto gate = swiglu ? soleProducer<hir::LinearOp>(swiglu.getGate()) : hir::LinearOp();
  auto up = swiglu ? soleProducer<hir::LinearOp>(swiglu.getUp()) : hir::LinearOp();
  if (!gate || !up) return "the shared expert's hidden rows are not a swiglu of two linears of its own";
  for (Operation* op : {gate.getOperation(), up.getOperation(), swiglu.getOperation()}) ops.insert(op);
  if (quantize) ops.insert(quantize);
  for (Operation* op : {down.getOperation(), router.getOperation(), sigmoid.getOperation()}) ops.insert(op);
  ops.insert(scaled);
  return nullptr;
}

bool reads(const OpSet& ops, Value value) {
  return llvm::any_of(ops, [&](Operation* op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) { return placeOf(operand) == placeOf(value); });
  });
}

struct FuseMoePass : impl::FuseMoeBase<FuseMoePass> {
  using FuseMoeBase::FuseMoeBase;

  void runOnOperation() override {
    for (hir::MoeExpertsOp experts : collect<hir::MoeExpertsOp>(getOperation())) fuse(experts);
  }

  void fuse(hir::MoeExpertsOp experts) {
    OpSet ops;
    if (const char* reason = addRouting(experts, ops)) return reportMissed(experts, kMoe, reason);
    Value sum = experts.getResult();
    auto add = soleUser<hir::AddOp>(sum);
    if (auto scaled = add ? otherAddend(add, sum).getDefiningOp<hir::ScaleRowsOp>() : hir::ScaleRowsOp()) {
      if (const char* reason = addShared(scaled, ops)) return reportMissed(experts, kMoe, reason);
      ops.insert(add);
      sum = add.getResult();
      add = soleUser<hir::AddOp>(sum);
    }
    // A kernel adds into the residual's own place; where the old one is read afterwards, or by the experts
    // themselves, the sum stays outside.
    if (add && diesAt(otherAddend(add, sum), add) && !reads(ops, otherAddend(add, sum))) ops.insert(add);
    for (Operation* op : ops)
      if (op->getBlock() != experts->getBlock())
        return reportMissed(experts, kMoe, "its parts stand in different blocks");
    fuseAndReport(kMoe, ops, experts);
  }
};
}  // namespace
}  // namespace qcc::passes
