#include "dialects/plan/PlanSummary.h"

#include <algorithm>

#include "dialects/plan/pack_layout.h"

using namespace mlir;

namespace qcc::plan {
namespace {

constexpr int64_t kAlignment = 64;

void grow(int64_t& end, int64_t offset, int64_t bytes) {
  end = std::max(end, align_up(offset + bytes, kAlignment));
}

void count(Block& body, ProgramSummary& program) {
  for (Operation& op : body) {
    if (isa<DispatchOp>(op)) ++program.dispatches;
    if (isa<BarrierOp>(op)) ++program.barriers;
    if (auto call = dyn_cast<CallOp>(op))
      count(SymbolTable::lookupNearestSymbolFrom<BlockOp>(call, call.getBlockAttr()).getBody().front(),
            program);
  }
}

}  // namespace

PlanSummary summarize(ModuleOp module) {
  PlanSummary summary;
  for (Operation& op : *module.getBody()) {
    if (auto weight = dyn_cast<WeightOp>(op)) {
      grow(summary.weightBytes, weight.getOffset(), weight.getBytes());
      summary.weightBytesByFormat[weight.getFormat().str()] += weight.getBytes();
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      grow(summary.weightBytes, constant.getOffset(), 8 * constant.getValues().size());
    } else if (auto state = dyn_cast<StateOp>(op)) {
      if (state.getKind() == "kv")
        summary.kvBytesPerToken =
            std::max(summary.kvBytesPerToken, static_cast<int64_t>(state.getOffset() + state.getBytes()));
      else
        grow(summary.stateBytes, state.getOffset(), state.getBytes());
    } else if (auto program = dyn_cast<ProgramOp>(op)) {
      ProgramSummary p{program.getSymName().str(),
                       program.getPhase(),
                       static_cast<int64_t>(program.getRows()),
                       static_cast<int64_t>(program.getArenaBytes()),
                       0,
                       0};
      count(program.getBody().front(), p);
      summary.arenaBytes = std::max(summary.arenaBytes, p.arenaBytes);
      summary.programs.push_back(std::move(p));
    }
  }
  return summary;
}

}  // namespace qcc::plan
