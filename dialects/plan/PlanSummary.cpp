#include "dialects/plan/PlanSummary.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "dialects/layouts/layouts.h"
#include "dialects/plan/kernel_families.h"

using namespace mlir;

namespace qcc::plan {
namespace {

void grow(int64_t& end, int64_t offset, int64_t bytes) {
  end = std::max(end, layouts::AlignUp(offset + bytes, kAlignment));
}

// The states of a module by where they lie.
class StatePlaces {
 public:
  explicit StatePlaces(ModuleOp module) {
    int64_t number = 0;
    for (auto state : module.getOps<StateOp>())
      (state.isKv() ? kv : states)[static_cast<int64_t>(state.getOffset())] = number++;
  }
  // The state that begins at or before `offset`; none for a plan that does not verify.
  std::optional<int64_t> at(bool inKv, int64_t offset) const {
    const std::map<int64_t, int64_t>& places = inKv ? kv : states;
    auto it = places.upper_bound(offset);
    if (it == places.begin()) return std::nullopt;
    return std::prev(it)->second;
  }

 private:
  std::map<int64_t, int64_t> states, kv;  // offset -> number
};

// Of a row of the logits that a dispatch writes; 0: it writes none.
int64_t logitsColsOf(DispatchOp op) {
  int64_t cols = 0;
  visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    if constexpr (requires {
                    bindings.y.space;
                    spec.n;
                  })
      if (bindings.y.space == Space::Logits) cols = spec.n;
  });
  return cols;
}

// Adds what the ops of `body` do; `call` is the layer that runs it, or null.
void count(Block& body, CallOp call, const StatePlaces& places, ProgramSummary& program,
           std::set<int64_t>& advances) {
  for (Operation& op : body) {
    if (isa<BarrierOp>(op)) ++program.barriers;
    if (auto inner = dyn_cast<CallOp>(op)) {
      auto block = SymbolTable::lookupNearestSymbolFrom<BlockOp>(inner, inner.getBlockAttr());
      count(block.getBody().front(), inner, places, program, advances);
    }
    auto dispatch = dyn_cast<DispatchOp>(op);
    if (!dispatch) continue;
    ++program.dispatches;
    program.weightBytes += weightBytesOf(dispatch);
    program.logitsCols = std::max(program.logitsCols, logitsColsOf(dispatch));
    for (auto ref : dispatch.getBindings().getAsRange<RefAttr>()) {
      bool inKv = ref.getSpace() == Space::KV;
      if ((!inKv && ref.getSpace() != Space::State) || ref.getAccess() == Access::Read) continue;
      int64_t base = !call ? 0 : static_cast<int64_t>(inKv ? call.getKv() : call.getState());
      if (auto state = places.at(inKv, base + ref.getOffset())) advances.insert(*state);
    }
  }
}

}  // namespace

int64_t weightBytesOf(DispatchOp op) {
  int64_t bytes = 0, rows = dispatchRows(op);
  visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    forEachRole(spec, bindings, [&](const RoleExtent&, const Ref& ref) {
      if (ref && ref.space == Space::Weights) bytes += weightBytesRead(spec, ref.bytes, rows);
    });
  });
  return bytes;
}

int64_t PlanSummary::streamNumber(StringRef name) const {
  auto it = std::find(streams.begin(), streams.end(), name.str());
  return it == streams.end() ? -1 : it - streams.begin();
}

PlanSummary summarize(ModuleOp module) {
  PlanSummary summary;
  const StatePlaces places(module);
  for (Operation& op : *module.getBody()) {
    if (auto weight = dyn_cast<WeightOp>(op)) {
      grow(summary.weightBytes, weight.getOffset(), weight.getBytes());
      summary.weightBytesByFormat[weight.getFormat().str()] += weight.getBytes();
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      grow(summary.weightBytes, constant.getOffset(), 8 * constant.getValues().size());
    } else if (auto state = dyn_cast<StateOp>(op)) {
      if (state.isKv())
        summary.kvBytesPerToken =
            std::max(summary.kvBytesPerToken, static_cast<int64_t>(state.getOffset() + state.getBytes()));
      else
        grow(summary.stateBytes, state.getOffset(), state.getBytes());
    } else if (auto program = dyn_cast<ProgramOp>(op)) {
      ProgramSummary p;
      p.op = program;
      p.name = program.getSymName().str();
      p.rows = program.getRows();
      p.arenaBytes = program.getArenaBytes();
      std::set<int64_t> advances;
      count(program.getBody().front(), nullptr, places, p, advances);
      p.advances.assign(advances.begin(), advances.end());
      for (std::optional<StringRef> stream : {program.getStream(), program.getLeaves()})
        if (stream && summary.streamNumber(*stream) < 0) summary.streams.push_back(stream->str());
      summary.arenaBytes = std::max(summary.arenaBytes, p.arenaBytes);
      summary.programs.push_back(std::move(p));
    }
  }
  return summary;
}

}  // namespace qcc::plan
