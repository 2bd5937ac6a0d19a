#include "passes/Passes.h"

#include "dialects/layouts/layouts.h"
#include "llvm/ADT/StringMap.h"
#include "passes/Liveness.h"
#include "passes/plan/Lowering.h"
#include "passes/plan/PackedUses.h"
#include "passes/plan/ProgramKinds.h"
#include "passes/plan/buckets.h"

namespace qcc::passes {
#define GEN_PASS_DEF_BUILDPLAN
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// Where weights, constants and states lie in the artifact: the ops that qcc-layout-weights made.
struct Tables {
  explicit Tables(ModuleOp module) {
    for (auto op : module.getOps<plan::WeightOp>()) weights[packedKey(op)] = op.getOffset();
    for (auto op : module.getOps<plan::ConstantOp>()) constants[op.getValuesAttr()] = op.getOffset();
    for (auto op : module.getOps<plan::StateOp>()) states[op.getSymName()] = op;
  }

  FailureOr<int64_t> weight(const PackedUse& use, ValueRange callOperands) const {
    SmallVector<TensorRows> found;
    for (Value source : use.sources) found.push_back(tensorRows(source, callOperands));
    auto it = weights.find(packedKey(use, found));
    if (it != weights.end()) return it->second;
    return use.user->emitError("weight '") << found.front().text() << "' has no place in layout "
                                           << stringifyLayout(use.layout) << "; run qcc-layout-weights first";
  }

  FailureOr<plan::StateOp> state(Value value, ValueRange callOperands, Operation* user) const {
    std::string name = stateName(value, callOperands);
    auto it = states.find(name);
    if (it != states.end()) return it->second;
    return user->emitError("state '") << name << "' has no place; run qcc-layout-weights first";
  }

  llvm::StringMap<int64_t> weights;
  llvm::DenseMap<Attribute, int64_t> constants;
  llvm::StringMap<plan::StateOp> states;
};

// What a layer's call adds to the relative offsets of its block.
struct Bases {
  int64_t weights = 0, state = 0, kv = 0;
};

// Begin and end of the bytes that a layer uses in one space.
struct Range {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  void add(int64_t offset, int64_t bytes) {
    begin = std::min(begin, offset);
    end = std::max(end, offset + bytes);
  }
  int64_t base() const { return end == 0 ? 0 : begin; }
  int64_t bytes() const { return end == 0 ? 0 : end - begin; }
};

struct Layer {
  Range weights, state, kv;
  SmallVector<int64_t> relative;  // of every weight and state in order: equal for all calls of one block
  Bases bases() const { return {weights.base(), state.base(), kv.base()}; }
};

FailureOr<Layer> measure(const Tables& tables, func::CallOp call, func::FuncOp func, layouts::Policy policy) {
  Layer layer;
  SmallVector<int64_t> weightOffsets, stateOffsets, kvOffsets;
  FailureOr<SmallVector<PackedUse>> uses = packedUses(func.getBody().front(), policy);
  if (failed(uses)) return failure();
  for (const PackedUse& use : *uses) {
    FailureOr<int64_t> offset = tables.weight(use, call.getOperands());
    if (failed(offset)) return failure();
    layer.weights.add(*offset, use.bytes());
    weightOffsets.push_back(*offset);
  }
  for (Value operand : call.getOperands()) {
    if (!isa<hir::StateType>(operand.getType())) continue;
    FailureOr<plan::StateOp> state = tables.state(operand, {}, call);
    if (failed(state)) return failure();
    bool kv = state->isKv();
    (kv ? layer.kv : layer.state).add(state->getOffset(), state->getBytes());
    (kv ? kvOffsets : stateOffsets).push_back(state->getOffset());
  }
  for (int64_t o : weightOffsets) layer.relative.push_back(o - layer.weights.base());
  for (int64_t o : stateOffsets) layer.relative.push_back(o - layer.state.base());
  for (int64_t o : kvOffsets) layer.relative.push_back(o - layer.kv.base());
  return layer;
}

// The value that becomes the residual stream: what the calls hand on, followed back from a function's result.
Value streamRoot(Value value) {
  for (auto call = value.getDefiningOp<func::CallOp>(); call && call.getNumOperands() != 0;
       call = value.getDefiningOp<func::CallOp>())
    value = call.getOperand(0);
  return value;
}

// A block takes the residual stream first and returns the new one in its place.
LogicalResult checkStream(func::CallOp call) {
  if (call.getNumOperands() == 0)
    return call.emitError("a block takes the residual stream first, but '")
           << call.getCallee() << "' takes nothing";
  if (mlir::Type type = call.getOperand(0).getType(); !isa<RankedTensorType>(type))
    return call.emitError("a block takes the residual stream first, but '")
           << call.getCallee() << "' takes " << type;
  if (call.getNumResults() != 1)
    return call.emitError("a block returns the residual stream alone, but '")
           << call.getCallee() << "' returns " << call.getNumResults() << " values";
  // Chosen rows lie among the others, where the program has both.
  Value stream = call.getOperand(0);
  while (auto select = placeOf(stream).getDefiningOp<hir::SelectRowsOp>()) stream = select.getX();
  if (!diesAt(stream, call))
    return call.emitError("'") << call.getCallee()
                               << "' puts its result in place of the residual stream, which is needed "
                                  "afterwards";
  return success();
}

// What a block takes beside the stream it may read when the stream has changed.
LogicalResult checkApart(func::CallOp call, ArrayRef<std::pair<BlockArgument, View>> arguments) {
  for (const auto& [argument, view] : arguments.drop_front())
    if (view.space == arguments.front().second.space && view.offset == arguments.front().second.offset)
      return call.emitError("'") << call.getCallee() << "' puts its result in place of the residual stream, "
                                 << "which it takes again as argument " << argument.getArgNumber();
  return success();
}

// Of a program that leaves a function's logits out: the ops that nothing else needs.
DenseSet<Operation*> onlyForLogits(const EntryPoint& entry) {
  DenseSet<Operation*> unneeded;
  if (entry.logits || !entry.left) return unneeded;
  Block& body = func::FuncOp(entry.func).getBody().front();
  for (Operation& op : llvm::reverse(body.without_terminator())) {
    if (isa<func::CallOp>(op) || op.getNumResults() == 0) continue;
    const bool needed = llvm::any_of(op.getUsers(), [&](Operation* user) {
      if (user == body.getTerminator()) return llvm::is_contained(op.getResults(), entry.left);
      return !unneeded.contains(user);
    });
    if (!needed) unneeded.insert(&op);
  }
  return unneeded;
}

struct BuildPlanPass : impl::BuildPlanBase<BuildPlanPass> {
  explicit BuildPlanPass(const BuildPlanOptions& options = {},
                         layouts::Policy policy = layouts::X16Everywhere)
      : BuildPlanBase(options), policy(policy) {}

  void getDependentDialects(DialectRegistry& registry) const override {
    BuildPlanBase::getDependentDialects(registry);
    registerLowerings(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(module);
    Buckets rows;
    if (failed(entries) || failed(buckets("decode", decode, kTokenBuckets, rows.token)) ||
        failed(buckets("prefill", prefill, kManyBuckets, rows.many)) ||
        failed(buckets("head", head, kAfterBuckets, rows.after)))
      return signalPassFailure();

    Tables tables(module);
    Builder builder{module, tables, Target{target, policy}, OpBuilder::atBlockEnd(module.getBody()), {}};
    SmallVector<ProgramKind> kinds = programKinds(*entries, rows);
    for (ProgramKind& kind : kinds)
      if (const EntryPoint* leaves = kind.leaves()) {
        if (kind.overwritesRows()) continue;
        int64_t& most = builder.streamRows[leaves->name()];
        most = std::max(most, kind.rows.back());
      }
    for (ProgramKind& kind : kinds)
      for (int64_t n : kind.rows)
        if (failed(builder.program(kind, n))) return signalPassFailure();
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) func.erase();
  }

  LogicalResult buckets(StringRef name, ArrayRef<int64_t> given, ArrayRef<int64_t> usual,
                        SmallVector<int64_t>& rows) {
    llvm::append_range(rows, given.empty() ? usual : given);
    llvm::sort(rows);
    if (rows.front() <= 0 || std::adjacent_find(rows.begin(), rows.end()) != rows.end())
      return getOperation().emitError("option '") << name << "' needs different positive row counts";
    return success();
  }

  struct Builder {
    // A block of the program that is being built.
    struct Built {
      std::string name;
      SmallVector<int64_t> relative;
      View result;
    };

    // The program that is being built, and what its functions share.
    struct Program {
      plan::ProgramOp op;
      std::string name;
      int64_t rows;
      Arena arena;
      llvm::StringMap<Built> blocks;
      View stream;  // offset 0 of the arena: the rows that are given, or left by or for another program
    };

    ModuleOp module;
    const Tables& tables;
    Target target;
    OpBuilder b;
    llvm::StringMap<int64_t> streamRows;  // most rows that a program leaves, by the function of the rows

    LogicalResult program(ProgramKind& kind, int64_t rows) {
      Program p;
      p.name = kind.name + "_" + std::to_string(rows);
      p.rows = rows;
      p.op = makeProgram(kind, p);
      OpBuilder body = OpBuilder::atBlockEnd(&p.op.getBody().emplaceBlock());
      auto weightAt = [&](const PackedUse& use) { return tables.weight(use, {}); };
      auto constantAt = [&](hir::RopeTableOp rope) -> FailureOr<int64_t> {
        auto it = tables.constants.find(rope.getInvFreqAttr());
        if (it != tables.constants.end()) return it->second;
        return rope.emitError("rope frequencies have no place; run qcc-layout-weights first");
      };
      auto stateAt = [&](Value, Operation* user) -> FailureOr<plan::Ref> {
        return user->emitError("no kernel for '")
               << user->getName() << "' outside a block on target " << target.name;
      };
      Places places{weightAt, constantAt, stateAt};
      Lowering lowering(body, "", rows, p.arena, places, target, !kind.functions.front().leftBy.empty());
      if (failed(allocateStream(kind, p))) return failure();
      if (kind.prepares() && failed(prepareRows(lowering, kind, p))) return failure();
      for (EntryPoint& entry : llvm::drop_begin(kind.functions, kind.prepares() ? 1 : 0))
        if (failed(lowerFunction(lowering, entry, p))) return failure();
      p.op.setArenaBytes(p.arena.end());
      return success();
    }

    plan::ProgramOp makeProgram(ProgramKind& kind, const Program& p) {
      EntryPoint &begin = kind.functions.front(), &end = kind.functions.back();
      const bool tokens = llvm::any_of(kind.functions, [](const EntryPoint& e) { return bool(e.tokens); });
      const EntryPoint* leaves = kind.overwritesRows() ? nullptr : kind.leaves();
      bool given = begin.rows && begin.leftBy.empty();
      IntegerAttr givenCols = given ? b.getI64IntegerAttr(colsOf(begin.rows)) : nullptr;
      StringAttr stream = begin.leftBy.empty() ? nullptr : b.getStringAttr(begin.leftBy);
      StringAttr left = leaves ? b.getStringAttr(leaves->name()) : nullptr;
      plan::OutputAttr gives;
      if (end.logits)
        gives = plan::OutputAttr::get(b.getContext(),
                                      end.chosen ? plan::Output::ChosenLogits : plan::Output::Logits);
      return plan::ProgramOp::create(b, module.getLoc(), p.name, tokens, givenCols, stream, left, gives,
                                     p.rows, 0);
    }

    // Offset 0 of every program's arena: of rows of another program, among which those of a step are chosen,
    // as many as the largest of them leaves.
    LogicalResult allocateStream(ProgramKind& kind, Program& p) {
      EntryPoint& begin = kind.functions.front();
      const EntryPoint* leaves = kind.leaves();
      if (!begin.rows && !leaves) return success();
      int64_t cols = colsOf(begin.rows ? Value(begin.rows) : leaves->left);
      if (leaves && colsOf(leaves->left) != cols)
        return begin.func.emitError("@")
               << begin.name() << " takes rows of " << cols << " values and leaves rows of "
               << colsOf(leaves->left) << ", in one place";
      int64_t rows = begin.leftBy.empty() || begin.tokens ? p.rows : streamRows.lookup(begin.leftBy);
      const bool all = !begin.leftBy.empty() && !begin.tokens && !begin.chosen;
      if (all && rows != p.rows)
        return begin.func.emitError("@")
               << begin.name() << " takes all rows that @" << begin.leftBy
               << " leaves, of which there are up to " << rows << ", in a program of " << p.rows
               << ": option 'head' needs " << rows << " alone";
      p.stream = p.arena.allocate("x", 4 * cols * rows);
      p.stream.stride = cols;
      return success();
    }

    // The rows that the kind's second function is given, from those at the begin of the arena.
    static LogicalResult prepareRows(Lowering& lowering, ProgramKind& kind, Program& p) {
      EntryPoint &first = kind.functions[0], &second = kind.functions[1];
      lowering.place(first.rows, p.stream);
      Operation* end = first.func.getBody().front().getTerminator();
      for (Operation& op : first.func.getBody().front().without_terminator())
        if (failed(lowering.lower(&op))) return failure();
      FailureOr<View> made = lowering.view(first.left, end);
      if (failed(made)) return failure();
      lowering.place(second.rows, *made);
      return success();
    }

    LogicalResult lowerFunction(Lowering& lowering, EntryPoint& entry, Program& p) {
      Block& body = entry.func.getBody().front();
      Operation* end = body.getTerminator();
      const bool prepared = entry.rows && lowering.isPlaced(entry.rows);
      if (entry.rows && !prepared) lowering.place(entry.rows, p.stream);
      if (entry.left) {
        Value root = streamRoot(entry.left);
        Operation* producer = root.getDefiningOp();
        if (entry.rows && !prepared && producer && !diesAt(entry.rows, producer))
          return producer->emitError("the rows that @")
                 << entry.name()
                 << " leaves take the place of those that it takes, which are needed afterwards";
        lowering.place(root, p.stream);
      }
      if (entry.logits && failed(placeLogits(lowering, entry, p.rows))) return failure();
      DenseSet<Operation*> unneeded = onlyForLogits(entry);
      for (Operation& op : body.without_terminator()) {
        if (unneeded.contains(&op)) continue;
        auto call = dyn_cast<func::CallOp>(op);
        if (failed(call ? lowerCall(lowering, call, p) : lowering.lower(&op))) return failure();
      }
      if (!entry.left) return success();
      FailureOr<View> result = lowering.view(entry.left, end);
      if (failed(result)) return failure();
      if (result->buffer != p.stream.buffer)
        return end->emitError("@") << entry.name() << " must return the residual stream that it began with";
      return success();
    }

    LogicalResult placeLogits(Lowering& lowering, EntryPoint& entry, int64_t rows) {
      // Of a slice the matrix's rows are those of the slice.
      auto slice = entry.logits.getDefiningOp<hir::SliceOp>();
      if (!(slice ? slice.getX() : entry.logits).getDefiningOp<hir::LinearOp>())
        return entry.func.getBody().front().getTerminator()->emitError(
                   "no kernel for logits that do not come from 'hir.linear' on target ")
               << target.name;
      View out;
      out.space = plan::Space::Logits;
      out.stride = layouts::AlignUp(colsOf(entry.logits), layouts::kGroupRows);
      out.bytes = 4 * rows * out.stride;
      out.outRows = static_cast<bool>(entry.chosen);
      lowering.place(entry.logits, out);
      return success();
    }

    LogicalResult lowerCall(Lowering& outer, func::CallOp call, Program& p) {
      auto func = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!func || func.isExternal())
        return call.emitError("call of unknown function '") << call.getCallee() << "'";
      auto name = call->getAttrOfType<StringAttr>("layer");
      if (!name)
        return call.emitError("call of '") << call.getCallee() << "' needs an attribute layer = \"blk.N\"";
      FailureOr<Layer> layer = measure(tables, call, func, target.layouts);
      if (failed(layer)) return failure();

      // Calls share a block when their tensors lie in the same places.
      SmallVector<std::pair<BlockArgument, View>> arguments;
      std::string key = func.getName().str();
      bool selected = false;
      for (auto [operand, argument] : llvm::zip(call.getOperands(), func.getArguments())) {
        if (!isa<RankedTensorType>(operand.getType())) continue;
        FailureOr<View> view = outer.view(operand, call);
        if (failed(view)) return failure();
        key += '\n' + view->buffer;
        selected |= view->selected;
        // A block runs on all rows of the buffer, and whoever reads its result selects among them.
        view->selected = false;
        arguments.push_back({argument, *view});
      }
      if (failed(checkStream(call)) || failed(checkApart(call, arguments))) return failure();
      auto [it, isNew] = p.blocks.try_emplace(key);
      Built& built = it->second;
      if (isNew) {
        built.name = blockName(func.getName(), p);
        built.relative = layer->relative;
        if (failed(lowerBlock(func, call, *layer, arguments, p, built))) return failure();
      } else if (built.relative != layer->relative) {
        return call.emitError("weights or states of this layer do not lie as those of the others that call '")
               << call.getCallee() << "'";
      }
      View result = built.result;
      result.selected = selected;
      outer.place(call.getResult(0), result);
      OpBuilder body = OpBuilder::atBlockEnd(&p.op.getBody().front());
      Bases bases = layer->bases();
      plan::CallOp::create(body, call.getLoc(), built.name, bases.weights, bases.state, bases.kv,
                           name.getValue());
      return success();
    }

    // Blocks of one function on other buffers are numbered; and so is one whose name is another's by chance.
    std::string blockName(StringRef function, const Program& p) {
      const std::string plain = (function + "_" + p.name).str();
      std::string name = plain;
      for (size_t n = p.blocks.size(); module.lookupSymbol(name); ++n) name = plain + "_" + std::to_string(n);
      return name;
    }

    LogicalResult lowerBlock(func::FuncOp func, func::CallOp call, const Layer& layer,
                             ArrayRef<std::pair<BlockArgument, View>> arguments, Program& p, Built& built) {
      OpBuilder before(p.op);
      auto block = plan::BlockOp::create(before, func.getLoc(), built.name, layer.weights.bytes(),
                                         layer.state.bytes(), layer.kv.bytes());
      OpBuilder body = OpBuilder::atBlockEnd(&block.getBody().emplaceBlock());
      Bases bases = layer.bases();
      auto weightAt = [&](const PackedUse& use) -> FailureOr<int64_t> {
        FailureOr<int64_t> offset = tables.weight(use, call.getOperands());
        if (failed(offset)) return failure();
        return *offset - bases.weights;
      };
      auto constantAt = [&](hir::RopeTableOp rope) -> FailureOr<int64_t> {
        return rope.emitError("no kernel for '")
               << rope->getName() << "' inside a block on target " << target.name;
      };
      auto stateAt = [&](Value value, Operation* user) -> FailureOr<plan::Ref> {
        FailureOr<plan::StateOp> state = tables.state(value, call.getOperands(), user);
        if (failed(state)) return failure();
        auto offset = static_cast<int64_t>(state->getOffset()),
             bytes = static_cast<int64_t>(state->getBytes());
        if (state->isKv()) return plan::Ref{plan::Space::KV, offset - bases.kv, bytes, ""};
        return plan::Ref{plan::Space::State, offset - bases.state, bytes, ""};
      };
      Places places{weightAt, constantAt, stateAt};
      Lowering lowering(body, func.getName().str() + ".", p.rows, p.arena, places, target,
                        /*rowsAreChosen=*/false);
      for (auto [argument, view] : arguments) lowering.place(argument, view);
      for (Operation& op : func.getBody().front().without_terminator())
        if (failed(lowering.lower(&op))) return failure();
      Operation* end = func.getBody().front().getTerminator();
      FailureOr<View> result = lowering.view(end->getOperand(0), end);
      if (failed(result)) return failure();
      if (result->buffer != arguments.front().second.buffer)
        return end->emitError("a block must return the residual stream in place of its first argument");
      built.result = *result;
      return success();
    }
  };

  layouts::Policy policy;
};
}  // namespace

std::unique_ptr<Pass> createBuildPlan(const BuildPlanOptions& options, layouts::Policy policy) {
  return std::make_unique<BuildPlanPass>(options, policy);
}

}  // namespace qcc::passes
