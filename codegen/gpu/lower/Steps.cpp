#include "codegen/gpu/lower/Steps.h"

#include "codegen/gpu/kernels/moe.h"
#include "llvm/ADT/STLExtras.h"

namespace qcc::gpu {
namespace {
using namespace mlir;

struct Walk {
  LogicalResult body(Block& block, const Bases& bases) {
    for (Operation& op : block) {
      if (auto dispatch = dyn_cast<plan::DispatchOp>(op)) {
        steps.push_back({dispatch, bases, std::exchange(barrier, false), std::nullopt, false, std::nullopt});
      } else if (isa<plan::BarrierOp>(op)) {
        barrier = true;
      } else if (auto call = dyn_cast<plan::CallOp>(op)) {
        auto inner = plan.lookupSymbol<plan::BlockOp>(call.getBlock());
        if (!inner) return call.emitError("gpu codegen: no block @") << call.getBlock();
        Bases within{static_cast<int64_t>(call.getWeights()), static_cast<int64_t>(call.getState()),
                     static_cast<int64_t>(call.getKv()), call.getLayer()};
        if (failed(body(inner.getBody().front(), within))) return failure();
      } else {
        return op.emitError("gpu codegen: '") << op.getName() << "' cannot stand in a program";
      }
    }
    return success();
  }

  ModuleOp plan;
  std::vector<Step> steps;
  bool barrier = false;
};

bool isOf(const Step& step, StringRef family) {
  plan::DispatchOp op = step.op;
  return op.getFamily() == family;
}

// Of few rows, kernels of experts read which experts a row has, and no lists by expert: what makes these
// goes.
void dropUnreadLists(std::vector<Step>& steps) {
  std::vector<Step> kept;
  bool waits = false;  // for what comes before a step that went
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto isReader = [](const Step& step) { return isOf(step, plan::MoeLinearSpec::kFamily); };
    const bool unread = isOf(steps[i], plan::MoeGroupSpec::kFamily) &&
                        plan::dispatchRows(steps[i].op) <= kFewMoeRows &&
                        std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.end(), isReader);
    const bool barrier = steps[i].barrier || waits;
    waits = unread && barrier;
    if (unread) continue;
    kept.push_back(steps[i]);
    kept.back().barrier = barrier;
  }
  steps = std::move(kept);
}

}  // namespace

FailureOr<std::vector<Step>> stepsOf(plan::ProgramOp program, ModuleOp plan) {
  Walk walk{plan, {}};
  if (failed(walk.body(program.getBody().front(), {}))) return failure();
  dropUnreadLists(walk.steps);
  return std::move(walk.steps);
}

Arg bind(const plan::Ref& ref, const Bases& bases) {
  const uint64_t bytes = ref.bytes;
  auto at = [&](int64_t base) { return static_cast<uint64_t>(base + ref.offset); };
  switch (ref.space) {
    case plan::Space::Weights:
      return {Space::kWeights, at(bases.weights), bytes};
    case plan::Space::Arena:
      return {Space::kArena, at(0), bytes};
    case plan::Space::Logits:
      return {Space::kLogits, at(0), bytes};
    case plan::Space::State:
      return Number(at(bases.state));
    case plan::Space::KV:
      return Number(at(bases.kv));
    case plan::Space::Thread:
      break;  // plans of CPUs alone have it
  }
  llvm_unreachable("all spaces are listed");
}

}  // namespace qcc::gpu
