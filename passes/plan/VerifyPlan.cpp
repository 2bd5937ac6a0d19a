#include "passes/Passes.h"

#include <limits>
#include <map>

#include "dialects/layouts/layouts.h"
#include "dialects/plan/kernel_families.h"

namespace qcc::passes {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

std::string range(int64_t begin, int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// Format of the weights that a dispatch decodes; its family has that key.
Format weightFormat(plan::DispatchOp op) {
  Format format{};
  plan::visitDispatch(op, [&](const auto& spec, const auto&) {
    if constexpr (requires { spec.format; }) format = spec.format;
  });
  return format;
}

// Whether a verified dispatch reads the step's tokens.
bool readsTokens(plan::DispatchOp op) {
  bool reads = false;
  plan::visitDispatch(op, [&](const auto& spec, const auto&) { reads = plan::readsOfStep(spec, "tokens"); });
  return reads;
}

// Whether a verified dispatch writes the rows that the step chooses, not all of them.
bool writesChosenRows(plan::DispatchOp op) {
  bool chosen = false;
  plan::visitDispatch(op, [&](const auto& spec, const auto&) {
    if constexpr (requires { spec.rows; }) chosen = spec.rows == plan::RowsFrom::OutRows;
  });
  return chosen;
}

// What lies where: pieces of one space, by offset, disjoint.
class Pieces {
 public:
  LogicalResult add(Operation* op, int64_t offset, int64_t bytes) {
    auto [it, isNew] = pieces.try_emplace(offset, Piece{offset + bytes, op});
    auto next = isNew ? std::next(it) : it;
    if (!isNew || (next != pieces.end() && next->first < offset + bytes)) return overlap(op, next->second.op);
    if (it != pieces.begin() && std::prev(it)->second.end > offset)
      return overlap(op, std::prev(it)->second.op);
    return success();
  }
  // The piece that holds all of [offset, offset + bytes), with its begin; null if there is none.
  std::pair<Operation*, int64_t> find(int64_t offset, int64_t bytes) const {
    auto it = pieces.upper_bound(offset);
    if (it == pieces.begin() || std::prev(it)->second.end < offset + bytes) return {nullptr, 0};
    return {std::prev(it)->second.op, std::prev(it)->first};
  }
  int64_t end() const { return pieces.empty() ? 0 : pieces.rbegin()->second.end; }

 private:
  struct Piece {
    int64_t end;
    Operation* op;
  };
  static LogicalResult overlap(Operation* a, Operation* b) {
    return a->emitError("'") << SymbolTable::getSymbolName(a).getValue() << "' overlaps '"
                             << SymbolTable::getSymbolName(b).getValue() << "'";
  }
  std::map<int64_t, Piece> pieces;
};

// Which value each byte of the arena holds.
class ArenaBytes {
 public:
  void write(int64_t begin, int64_t end, StringAttr value) {
    split(begin);
    split(end);
    spans.erase(spans.lower_bound(begin), spans.lower_bound(end));
    spans[begin] = {end, value};
  }
  // The first byte of [begin, end) that does not hold `value`, and what it holds (null: nothing yet).
  std::optional<std::pair<int64_t, StringAttr>> firstOther(int64_t begin, int64_t end,
                                                           StringAttr value) const {
    int64_t at = begin;
    auto it = spans.upper_bound(begin);
    if (it != spans.begin()) --it;
    for (; at < end; ++it) {
      while (it != spans.end() && it->second.end <= at) ++it;
      if (it == spans.end() || it->first > at) return std::pair(at, StringAttr());
      if (it->second.value != value) return std::pair(at, it->second.value);
      at = it->second.end;
    }
    return std::nullopt;
  }

  bool holdsAny(int64_t at) const {
    auto it = spans.upper_bound(at);
    return it != spans.begin() && std::prev(it)->second.end > at;
  }

 private:
  struct Span {
    int64_t end;
    StringAttr value;
  };
  void split(int64_t at) {
    auto it = spans.lower_bound(at);
    if (it == spans.begin()) return;
    Span& span = std::prev(it)->second;
    if (span.end <= at) return;
    spans[at] = {span.end, span.value};
    span.end = at;
  }
  std::map<int64_t, Span> spans;
};

struct Touch {
  plan::Space space;
  int64_t begin, end;
  bool writes;
  plan::DispatchOp op;
};

// What a program expects in the arena when it starts.
struct LiveIn {
  plan::DispatchOp op;
  StringAttr value;
  int64_t begin, end, rowBytes;
};

struct Run {
  plan::ProgramOp program;
  plan::CallOp call;  // the layer that is running, or null
  ArenaBytes arena;
  ArenaBytes thread;           // of every thread: all do the same
  SmallVector<Touch> pending;  // since the last barrier
  // Of the dispatches that write logits: whether of chosen rows or of all.
  bool wroteChosen = false, wroteAll = false;

  InFlightDiagnostic error(Operation* op) {
    InFlightDiagnostic diagnostic = op->emitError("in program '") << program.getSymName() << "'";
    if (call) diagnostic << ", layer '" << call.getLayer() << "'";
    diagnostic << ": ";
    return diagnostic;
  }
};

struct VerifyPlanPass : impl::VerifyPlanBase<VerifyPlanPass> {
  using VerifyPlanBase::VerifyPlanBase;

  Pieces weights, states, kv;

  void runOnOperation() override {
    weights = {};
    states = {};
    kv = {};
    if (failed(collect()) || failed(runAll())) signalPassFailure();
  }

  LogicalResult collect() {
    for (Operation& op : *getOperation().getBody()) {
      if (auto weight = dyn_cast<plan::WeightOp>(op)) {
        if (failed(weights.add(weight, weight.getOffset(), weight.getBytes()))) return failure();
      } else if (auto constant = dyn_cast<plan::ConstantOp>(op)) {
        if (failed(weights.add(constant, constant.getOffset(), 8 * constant.getValues().size())))
          return failure();
      } else if (auto state = dyn_cast<plan::StateOp>(op)) {
        Pieces& area = state.isKv() ? kv : states;
        if (failed(area.add(state, state.getOffset(), state.getBytes()))) return failure();
      } else if (auto block = dyn_cast<plan::BlockOp>(op)) {
        if (failed(checkBlock(block))) return failure();
      }
    }
    return success();
  }

  // References of a block stay within what its calls hand it.
  LogicalResult checkBlock(plan::BlockOp block) {
    for (auto op : block.getBody().getOps<plan::DispatchOp>()) {
      for (auto ref : op.getBindings().getAsRange<plan::RefAttr>()) {
        int64_t limit;
        switch (ref.getSpace()) {
          case plan::Space::Weights:
            limit = block.getWeightBytes();
            break;
          case plan::Space::State:
            limit = block.getStateBytes();
            break;
          case plan::Space::KV:
            limit = block.getKvBytes();
            break;
          default:
            continue;
        }
        if (ref.getOffset() + ref.getBytes() > limit)
          return op.emitError("in block '") << block.getSymName() << "': " << stringifySpace(ref.getSpace())
                                            << " " << range(ref.getOffset(), ref.getOffset() + ref.getBytes())
                                            << " lies outside the block's " << limit << " bytes";
      }
    }
    return success();
  }

  LogicalResult runAll() {
    SmallVector<Run> runs;
    SmallVector<LiveIn> liveIns;
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      Run run;
      run.program = program;
      if (failed(runProgram(run, liveIns)) || failed(checkOutputs(run))) return failure();
      if (program.getLeaves()) runs.push_back(std::move(run));
    }
    auto leaves = [](const Run& run) { return plan::ProgramOp(run.program).getLeavesAttr(); };
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      StringAttr stream = program.getStreamAttr();
      if (stream && llvm::none_of(runs, [&](const Run& run) { return leaves(run) == stream; }))
        return program.emitError("program '") << program.getSymName() << "' takes stream '"
                                              << stream.getValue() << "', which no program leaves";
    }
    for (LiveIn& in : liveIns) {
      StringAttr stream = in.op->getParentOfType<plan::ProgramOp>().getStreamAttr();
      for (const Run& run : runs)
        if (leaves(run) == stream && failed(checkHandOver(in, run))) return failure();
    }
    return success();
  }

  // What the program says that it leaves and gives is there.
  LogicalResult checkOutputs(Run& run) {
    plan::ProgramOp program = run.program;
    auto error = [&] { return program.emitError("program '") << program.getSymName() << "' "; };
    plan::Output gives = program.getOutput();
    if (run.wroteChosen && gives != plan::Output::ChosenLogits)
      return error() << "gives " << stringifyOutput(gives) << ", but writes logits of chosen rows";
    if (run.wroteAll && gives != plan::Output::Logits)
      return error() << "gives " << stringifyOutput(gives) << ", but writes logits of every row";
    if (!run.wroteChosen && !run.wroteAll && gives != plan::Output::Nothing)
      return error() << "gives " << stringifyOutput(gives) << ", but writes no logits";
    if (program.getLeaves() && !run.arena.holdsAny(0))
      return error() << "leaves stream '" << *program.getLeaves()
                     << "', but nothing lies at the arena's begin";
    return success();
  }

  LogicalResult checkHandOver(const LiveIn& in, const Run& before) {
    plan::DispatchOp reader = in.op;
    plan::ProgramOp program = before.program, taker = reader->getParentOfType<plan::ProgramOp>();
    int64_t end = in.begin + in.rowBytes * static_cast<int64_t>(program.getRows());
    // What takes tokens too has a row for each of them: the first ones.
    if (taker.getTokens()) end = std::min(end, in.end);
    if (end > in.end)
      return reader.emitError("in program '")
             << taker.getSymName() << "': reads arena " << range(in.begin, in.end) << ", but program '"
             << program.getSymName() << "' leaves " << program.getRows() << " rows up to " << end;
    if (auto other = before.arena.firstOther(in.begin, end, in.value))
      return reader.emitError("in program '")
             << taker.getSymName() << "': reads '" << in.value.getValue() << "' at arena "
             << range(in.begin, end) << ", but program '" << program.getSymName() << "' leaves "
             << (other->second ? "'" + other->second.str() + "'" : std::string("nothing")) << " at "
             << other->first;
    return success();
  }

  LogicalResult runProgram(Run& run, SmallVector<LiveIn>& liveIns) {
    for (Operation& op : run.program.getBody().front()) {
      if (isa<plan::BarrierOp>(op)) {
        run.pending.clear();
      } else if (auto dispatch = dyn_cast<plan::DispatchOp>(op)) {
        if (failed(runDispatch(run, dispatch, liveIns))) return failure();
      } else if (auto call = dyn_cast<plan::CallOp>(op)) {
        if (failed(runCall(run, call, liveIns))) return failure();
      }
    }
    return success();
  }

  LogicalResult runCall(Run& run, plan::CallOp call, SmallVector<LiveIn>& liveIns) {
    auto block = SymbolTable::lookupNearestSymbolFrom<plan::BlockOp>(call, call.getBlockAttr());
    run.call = call;
    struct {
      StringRef name;
      int64_t base, bytes, end;
    } areas[] = {
        {"weights", static_cast<int64_t>(call.getWeights()), static_cast<int64_t>(block.getWeightBytes()),
         weights.end()},
        {"state", static_cast<int64_t>(call.getState()), static_cast<int64_t>(block.getStateBytes()),
         states.end()},
        {"kv", static_cast<int64_t>(call.getKv()), static_cast<int64_t>(block.getKvBytes()), kv.end()}};
    for (const auto& area : areas) {
      if (area.base < 0 || area.base % plan::kAlignment != 0)
        return run.error(call) << area.name << " base " << area.base << " is not a multiple of "
                               << plan::kAlignment;
      const int64_t room = std::numeric_limits<int64_t>::max() - area.base;
      if (const int64_t end = area.base + std::min(area.bytes, room); end > area.end && area.bytes > 0)
        return run.error(call) << area.name << " " << range(area.base, end) << " lies outside the artifact's "
                               << area.end << " bytes";
    }
    for (Operation& op : block.getBody().front()) {
      if (isa<plan::BarrierOp>(op))
        run.pending.clear();
      else if (failed(runDispatch(run, cast<plan::DispatchOp>(op), liveIns)))
        return failure();
    }
    run.call = nullptr;
    return success();
  }

  LogicalResult runDispatch(Run& run, plan::DispatchOp op, SmallVector<LiveIn>& liveIns) {
    if (!run.program.getTokens() && readsTokens(op))
      return run.error(op) << "'" << op.getFamily() << "' reads tokens, which the program does not take";
    if (op.getFamily() == StringRef(plan::SelectRowsSpec::kFamily) && !run.program.getStream())
      return run.error(op) << "'" << op.getFamily() << "' is for programs that take rows of another";
    int64_t rows = plan::dispatchRows(op);
    if (rows != static_cast<int64_t>(run.program.getRows()))
      return run.error(op) << "'" << op.getFamily() << "' is for " << rows << " rows, the program for "
                           << run.program.getRows();
    SmallVector<Touch> touches;
    for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>())) {
      StringRef roleName = cast<StringAttr>(op.getRoles()[i]).getValue();
      int64_t base = 0;
      if (run.call && ref.getSpace() == plan::Space::Weights) base = run.call.getWeights();
      if (run.call && ref.getSpace() == plan::Space::State) base = run.call.getState();
      if (run.call && ref.getSpace() == plan::Space::KV) base = run.call.getKv();
      int64_t begin = ref.getOffset() + base, end = begin + ref.getBytes();
      if (failed(checkPlace(run, op, roleName, ref, begin)) || failed(checkRows(run, op, roleName, ref)))
        return failure();
      if (ref.getSpace() != plan::Space::Weights && ref.getSpace() != plan::Space::Thread)
        touches.push_back({ref.getSpace(), begin, end, ref.getAccess() != plan::Access::Read, op});
    }
    if (failed(checkOrder(run, op, touches))) return failure();
    return checkValues(run, op, liveIns);
  }

  // Among a step's rows any may be chosen; how many another program leaves is checked where it hands them
  // over.
  static LogicalResult checkRows(Run& run, plan::DispatchOp op, StringRef roleName, plan::RefAttr ref) {
    if (ref.getSpace() != plan::Space::Arena || run.program.getStream()) return success();
    const plan::Role role = plan::roleOf(op, roleName);
    const auto rows = static_cast<int64_t>(run.program.getRows());
    if (role.unit != plan::Unit::AnyRows || ref.getBytes() / role.bytes >= rows) return success();
    return run.error(op) << "role '" << roleName << "' of '" << op.getFamily() << "' has "
                         << ref.getBytes() / role.bytes << " rows of the program's " << rows;
  }

  // Range and meaning of one binding.
  LogicalResult checkPlace(Run& run, plan::DispatchOp op, StringRef role, plan::RefAttr ref, int64_t begin) {
    int64_t end = begin + ref.getBytes();
    auto outside = [&](const Twine& what) -> LogicalResult {
      return run.error(op) << "role '" << role << "' of '" << op.getFamily()
                           << "': " << stringifySpace(ref.getSpace()) << " " << range(begin, end) << " "
                           << what.str();
    };
    switch (ref.getSpace()) {
      case plan::Space::Arena:
        if (end > static_cast<int64_t>(run.program.getArenaBytes()))
          return outside("lies outside the arena of " + Twine(run.program.getArenaBytes()) + " bytes");
        if (begin % plan::kAlignment != 0) return outside("is not aligned to " + Twine(plan::kAlignment));
        return success();
      case plan::Space::Thread:
        if (begin % plan::kAlignment != 0) return outside("is not aligned to " + Twine(plan::kAlignment));
        return success();
      case plan::Space::Logits:
        if (begin != 0) return outside("is not at the begin of the caller's rows");
        (writesChosenRows(op) ? run.wroteChosen : run.wroteAll) = true;
        return success();
      case plan::Space::Weights: {
        auto [piece, at] = weights.find(begin, ref.getBytes());
        if (!piece) return outside("lies in no weight");
        return checkWeight(run, op, role, ref, piece, begin - at);
      }
      case plan::Space::State:
      case plan::Space::KV: {
        auto [piece, at] = (ref.getSpace() == plan::Space::KV ? kv : states).find(begin, ref.getBytes());
        auto state = dyn_cast_or_null<plan::StateOp>(piece);
        if (!state || at != begin || static_cast<int64_t>(state.getBytes()) != ref.getBytes())
          return outside("is not a state");
        plan::Role::State needed = *plan::roleOf(op, role).state;
        if (state.getKind() != needed.kind)
          return outside("is the state '" + state.getSymName() + "' of another kind");
        if (state.getElement() != needed.element)
          return outside("holds " + stringifyElement(state.getElement()));
        return success();
      }
    }
    llvm_unreachable("all spaces are listed");
  }

  LogicalResult checkWeight(Run& run, plan::DispatchOp op, StringRef roleName, plan::RefAttr ref,
                            Operation* piece, int64_t inside) {
    plan::Role role = plan::roleOf(op, roleName);
    std::optional<plan::Layout> layout = role.layout;
    auto wrong = [&](const Twine& found) -> LogicalResult {
      return run.error(op) << "role '" << roleName << "' of '" << op.getFamily() << "' finds '"
                           << SymbolTable::getSymbolName(piece).getValue() << "' " << found.str();
    };
    auto weight = dyn_cast<plan::WeightOp>(piece);
    if (!layout) {
      if (weight || inside != 0) return wrong("instead of a constant");
      return success();
    }
    if (!weight) return wrong("instead of a weight");
    if (weight.getLayout() != *layout)
      return wrong("in layout " + stringifyLayout(weight.getLayout()) + " instead of " +
                   stringifyLayout(*layout));
    if (static_cast<int64_t>(weight.getCols()) != role.cols)
      return wrong("with " + Twine(weight.getCols()) + " columns instead of " + Twine(role.cols));
    int64_t step = weight.getBytes();
    if (*layout == plan::Layout::X16 || *layout == plan::Layout::X16Pair) {
      Format format = weightFormat(op);
      StringRef name = format_info(format).name;
      if (weight.getFormat() != name) return wrong("in format " + weight.getFormat() + " instead of " + name);
      if (*layout == plan::Layout::X16)
        step = layouts::X16Bytes(format, layouts::kGroupRows, weight.getCols());
    }
    if (inside % step != 0) return wrong("at byte " + Twine(inside) + ", inside a group of rows");
    if (*layout != plan::Layout::X16 && ref.getBytes() != static_cast<int64_t>(weight.getBytes()))
      return wrong("of " + Twine(weight.getBytes()) + " bytes instead of " + Twine(ref.getBytes()));
    return success();
  }

  // Nothing else may touch what a dispatch writes until the next barrier, not even through its own other
  // bindings.
  LogicalResult checkOrder(Run& run, plan::DispatchOp op, ArrayRef<Touch> touches) {
    for (auto [i, a] : llvm::enumerate(touches)) {
      auto clash = [&](const Touch& b) {
        return a.space == b.space && a.begin < b.end && b.begin < a.end && (a.writes || b.writes);
      };
      for (const Touch& b : touches.drop_front(i + 1))
        if (clash(b))
          return run.error(op) << "'" << op.getFamily() << "' writes " << stringifySpace(a.space) << " "
                               << range(std::max(a.begin, b.begin), std::min(a.end, b.end))
                               << " that it also binds elsewhere";
      for (const Touch& b : run.pending)
        if (clash(b)) {
          plan::DispatchOp earlier = b.op;
          InFlightDiagnostic error = run.error(op)
                                     << "'" << op.getFamily() << "' " << (a.writes ? "writes " : "reads ")
                                     << stringifySpace(a.space) << " "
                                     << range(std::max(a.begin, b.begin), std::min(a.end, b.end)) << " that '"
                                     << earlier.getFamily() << "' " << (b.writes ? "writes" : "reads")
                                     << ", without a barrier in between";
          return error;
        }
    }
    run.pending.append(touches.begin(), touches.end());
    return success();
  }

  LogicalResult checkValues(Run& run, plan::DispatchOp op, SmallVector<LiveIn>& liveIns) {
    for (bool writes : {false, true}) {
      for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>())) {
        const bool ofThread = ref.getSpace() == plan::Space::Thread;
        if (ref.getSpace() != plan::Space::Arena && !ofThread) continue;
        if (!op.getBuffers())
          return run.error(op) << "'" << op.getFamily() << "' does not name its "
                               << stringifySpace(ref.getSpace()) << " buffers";
        ArenaBytes& memory = ofThread ? run.thread : run.arena;
        auto value = cast<StringAttr>((*op.getBuffers())[i]);
        int64_t begin = ref.getOffset(), end = begin + ref.getBytes();
        if (writes) {
          if (ref.getAccess() != plan::Access::Read) memory.write(begin, end, value);
          continue;
        }
        if (ref.getAccess() == plan::Access::Write) continue;
        auto other = memory.firstOther(begin, end, value);
        if (!other) continue;
        bool whole =
            !ofThread && !other->second && other->first == begin && ref.getAccess() == plan::Access::Read;
        if (whole && begin == 0 && run.program.getGiven() &&
            end == 4 * static_cast<int64_t>(run.program.getRows() * *run.program.getGiven())) {
          run.arena.write(begin, end, value);
          continue;
        }
        if (whole && run.program.getStream() && !run.call) {
          plan::Role role = plan::roleOf(op, cast<StringAttr>(op.getRoles()[i]).getValue());
          liveIns.push_back({op, value, begin, end, role.bytes});
          run.arena.write(begin, end, value);
          continue;
        }
        return run.error(op) << "'" << op.getFamily() << "' reads '" << value.getValue() << "' at "
                             << stringifySpace(ref.getSpace()) << " " << range(begin, end) << ", but byte "
                             << other->first << " holds "
                             << (other->second ? "'" + other->second.str() + "'"
                                               : std::string("nothing yet"));
      }
    }
    return success();
  }
};
}  // namespace
}  // namespace qcc::passes
