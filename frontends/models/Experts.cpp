#include "frontends/models/Experts.h"

#include <algorithm>

#include "frontends/models/Emit.h"
#include "frontends/models/Layers.h"

using namespace mlir;

namespace qcc::models {

namespace {

constexpr const char* kRouter = "ffn_gate_inp.weight";
constexpr const char* kGate = "ffn_gate_exps.weight";
constexpr const char* kUp = "ffn_up_exps.weight";
constexpr const char* kDown = "ffn_down_exps.weight";
constexpr const char* kMerged = "ffn_gate_up_exps.weight";
constexpr const char* kSharedRouter = "ffn_gate_inp_shexp.weight";
constexpr const char* kSharedGate = "ffn_gate_shexp.weight";
constexpr const char* kSharedUp = "ffn_up_shexp.weight";
constexpr const char* kSharedDown = "ffn_down_shexp.weight";

// The least sum of gates that weights are divided by: 2^-14, the smallest normal half, as in the runtimes
// that these files are made for.
constexpr float kNormFloor = 6.103515625e-05f;

// silu(gate x) * (up x), down, times the sigmoid of one number for each row.
Value buildSharedExpert(BlockScope& scope, Emit& emit, Value x) {
  const Value hidden = emit.swiglu(emit.linear(x, kSharedGate), emit.linear(x, kSharedUp), kSharedGate);
  const Value y = emit.linear(hidden, kSharedDown);
  const Value factor =
      emit.activate(hir::ActivationKind::Sigmoid, emit.linear(x, kSharedRouter), kSharedRouter);
  return hir::ScaleRowsOp::create(scope.builder(), scope.loc(kSharedRouter), y, factor);
}

}  // namespace

void collectExperts(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp, bool draft,
                    BlockInputs& inputs) {
  const ExpertParameters& e = hp.experts;
  const auto name = [&](const char* role) { return prefix + "." + role; };
  collectFeedForwardNorm(tensors, prefix, hp, inputs);
  inputs.add(kRouter, tensors.router(name(kRouter), e.count, hp.embedding));
  if (tensors.has(name(kMerged)) && !tensors.has(name(kGate)) && !tensors.has(name(kUp))) {
    const Linear both = tensors.experts(name(kMerged), e.count, 2 * e.feedForward, hp.embedding);
    const auto half = [&](int64_t begin) {
      return piecesOf(both, {e.count, 2 * e.feedForward, {begin}, {e.feedForward}},
                      {e.count, e.feedForward, hp.embedding});
    };
    inputs.add(kGate, half(0));
    inputs.add(kUp, half(e.feedForward));
  } else {
    inputs.add(kGate, tensors.experts(name(kGate), e.count, e.feedForward, hp.embedding));
    inputs.add(kUp, tensors.experts(name(kUp), e.count, e.feedForward, hp.embedding));
  }
  inputs.add(kDown, tensors.experts(name(kDown), e.count, hp.embedding, e.feedForward));

  const auto shared = {kSharedRouter, kSharedGate, kSharedUp, kSharedDown};
  const bool stated = e.sharedStated && !draft;
  if (!stated &&
      std::none_of(shared.begin(), shared.end(), [&](const char* role) { return tensors.has(name(role)); }))
    return;
  inputs.add(kSharedGate, tensors.linear(name(kSharedGate), e.sharedFeedForward, hp.embedding));
  inputs.add(kSharedUp, tensors.linear(name(kSharedUp), e.sharedFeedForward, hp.embedding));
  inputs.add(kSharedDown, tensors.linear(name(kSharedDown), hp.embedding, e.sharedFeedForward));
  inputs.add(kSharedRouter, tensors.router(name(kSharedRouter), 1, hp.embedding));
}

bool hasExperts(const BlockScope& scope) {
  return scope.has(kRouter);
}

Value buildExperts(BlockScope& scope, Value x, const HyperParameters& hp) {
  Emit emit(scope, hp);
  OpBuilder& builder = scope.builder();
  const ExpertParameters& e = hp.experts;
  const Value u = emit.norm(x, "ffn_norm.weight");
  const auto gating =
      hir::GatingAttr::get(builder.getContext(), e.sigmoid ? hir::Gating::Sigmoid : hir::Gating::Softmax);
  auto route = hir::MoeRouteOp::create(builder, scope.loc(kRouter), emit.linear(u, kRouter), gating,
                                       builder.getI64IntegerAttr(e.used), builder.getBoolAttr(e.normalise),
                                       builder.getF32FloatAttr(kNormFloor), builder.getF32FloatAttr(e.scale));
  const auto scale = [&](const char* role) { return scope[scaleRole(role)]; };
  Value y = hir::MoeExpertsOp::create(builder, scope.loc(kGate), u, route.getIds(), route.getWeights(),
                                      scope[kGate], scope[kUp], scope[kDown], scale(kGate), scale(kUp),
                                      scale(kDown), builder.getI64IntegerAttr(0));
  if (scope.has(kSharedUp)) y = emit.add(y, buildSharedExpert(scope, emit, u), kSharedUp);
  return emit.add(x, y, kDown);
}

}  // namespace qcc::models
