#include "passes/Passes.h"

#include "dialects/plan/pack_layout.h"
#include "llvm/ADT/StringMap.h"
#include "passes/plan/Lowering.h"
#include "passes/plan/PackedUses.h"

namespace qcc::passes {
#define GEN_PASS_DEF_BUILDPLAN
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// Where weights, constants and states lie in the artifact: the ops that qcc-layout-weights made.
struct Tables {
  explicit Tables(ModuleOp module) {
    for (auto op : module.getOps<plan::WeightOp>()) {
      SmallVector<std::string> sources;
      for (auto source : op.getSources().getAsRange<StringAttr>()) sources.push_back(source.str());
      weights[packedKey(op.getLayout(), sources)] = op.getOffset();
    }
    for (auto op : module.getOps<plan::ConstantOp>()) constants[op.getValuesAttr()] = op.getOffset();
    for (auto op : module.getOps<plan::StateOp>()) states[op.getSymName()] = op;
  }

  FailureOr<int64_t> weight(plan::Layout layout, ValueRange sources, ValueRange callOperands,
                            Operation* user) const {
    SmallVector<std::string> names;
    for (Value source : sources) names.push_back(sourceName(source, callOperands));
    auto it = weights.find(packedKey(layout, names));
    if (it != weights.end()) return it->second;
    return user->emitError("weight '") << names.front() << "' has no place in layout "
                                       << stringifyLayout(layout) << "; run qcc-layout-weights first";
  }

  FailureOr<plan::StateOp> state(Value value, ValueRange callOperands, Operation* user) const {
    std::string name = sourceName(value, callOperands);
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

FailureOr<Layer> measure(const Tables& tables, func::CallOp call, func::FuncOp func) {
  Layer layer;
  SmallVector<int64_t> weightOffsets, stateOffsets, kvOffsets;
  for (const PackedUse& use : collectPackedUses(func.getBody().front())) {
    FailureOr<int64_t> offset = tables.weight(use.layout, use.sources, call.getOperands(), use.user);
    if (failed(offset)) return failure();
    auto type = cast<hir::WeightType>(use.sources.front().getType());
    int64_t bytes = 4 * type.getNumElements();
    if (use.layout == plan::Layout::X16 || use.layout == plan::Layout::X16Pair)
      bytes = plan::x16_bytes(type.getFormat(), type.getShape().front(), type.getShape().back()) *
              use.sources.size();
    layer.weights.add(*offset, bytes);
    weightOffsets.push_back(*offset);
  }
  for (Value operand : call.getOperands()) {
    if (!isa<hir::StateType>(operand.getType())) continue;
    FailureOr<plan::StateOp> state = tables.state(operand, {}, call);
    if (failed(state)) return failure();
    bool kv = state->getKind() == "kv";
    (kv ? layer.kv : layer.state).add(state->getOffset(), state->getBytes());
    (kv ? kvOffsets : stateOffsets).push_back(state->getOffset());
  }
  for (int64_t o : weightOffsets) layer.relative.push_back(o - layer.weights.base());
  for (int64_t o : stateOffsets) layer.relative.push_back(o - layer.state.base());
  for (int64_t o : kvOffsets) layer.relative.push_back(o - layer.kv.base());
  return layer;
}

// The value that becomes the residual stream: what the calls hand on, followed back from the trunk's result.
Value streamRoot(Value value) {
  while (auto call = value.getDefiningOp<func::CallOp>()) value = call.getOperand(0);
  return value;
}

struct BuildPlanPass : impl::BuildPlanBase<BuildPlanPass> {
  using BuildPlanBase::BuildPlanBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto trunk = module.lookupSymbol<func::FuncOp>("trunk");
    auto head = module.lookupSymbol<func::FuncOp>("head");
    if (!trunk || !head) {
      module.emitError("a model has the functions @trunk and @head");
      return signalPassFailure();
    }
    SmallVector<int64_t> decodeRows, prefillRows, headRows;
    if (failed(buckets("decode", decode, {1, 2, 4, 8}, decodeRows)) ||
        failed(buckets("prefill", prefill, {16, 32, 64, 128, 256, 512}, prefillRows)) ||
        failed(buckets("head", this->head, {1, 8}, headRows)))
      return signalPassFailure();

    Tables tables(module);
    Builder builder{module, trunk, head, tables, target, OpBuilder::atBlockEnd(module.getBody())};
    builder.streamRows = std::max(decodeRows.back(), prefillRows.back());
    for (int64_t rows : decodeRows)
      if (failed(builder.program(plan::Phase::Decode, rows))) return signalPassFailure();
    for (int64_t rows : prefillRows)
      if (failed(builder.program(plan::Phase::Prefill, rows))) return signalPassFailure();
    for (int64_t rows : headRows)
      if (failed(builder.program(plan::Phase::Head, rows))) return signalPassFailure();
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

    ModuleOp module;
    func::FuncOp trunk, head;
    const Tables& tables;
    StringRef target;
    OpBuilder b;
    int64_t streamRows = 0;  // most rows that any program leaves in the residual stream

    LogicalResult program(plan::Phase phase, int64_t rows) {
      std::string name = (stringifyPhase(phase) + "_" + Twine(rows)).str();
      plan::ProgramOp op = plan::ProgramOp::create(b, module.getLoc(), name, phase, rows, 0);
      OpBuilder body = OpBuilder::atBlockEnd(&op.getBody().emplaceBlock());
      Arena arena;
      Places places{nullptr, nullptr, nullptr};
      auto weightAt = [&](plan::Layout layout, ValueRange sources, Operation* user) {
        return tables.weight(layout, sources, {}, user);
      };
      auto constantAt = [&](hir::RopeTableOp rope) -> FailureOr<int64_t> {
        auto it = tables.constants.find(rope.getInvFreqAttr());
        if (it != tables.constants.end()) return it->second;
        return rope.emitError("rope frequencies have no place; run qcc-layout-weights first");
      };
      auto stateAt = [&](Value, Operation* user) -> FailureOr<int64_t> {
        return user->emitError("no kernel for '")
               << user->getName() << "' outside a block on target " << target;
      };
      places.weight = weightAt;
      places.constant = constantAt;
      places.state = stateAt;
      Lowering lowering(body, "", rows, arena, places, target);

      // Offset 0 of every program's arena: the residual stream, which prefill leaves for the head.
      Value root = streamRoot(trunk.getBody().front().getTerminator()->getOperand(0));
      int64_t width = cast<RankedTensorType>(root.getType()).getShape().back();
      View stream = arena.allocate("x", 4 * width * (phase == plan::Phase::Head ? streamRows : rows));
      stream.stride = width;
      if (phase != plan::Phase::Head) {
        lowering.place(root, stream);
        if (failed(lowerTrunk(lowering, name, rows, op, arena))) return failure();
      }
      if (phase != plan::Phase::Prefill && failed(lowerHead(lowering, rows, stream))) return failure();
      op.setArenaBytes(arena.end());
      return success();
    }

    LogicalResult lowerTrunk(Lowering& lowering, StringRef programName, int64_t rows, plan::ProgramOp program,
                             Arena& arena) {
      llvm::StringMap<Built> blocks;
      for (Operation& op : trunk.getBody().front().without_terminator()) {
        auto call = dyn_cast<func::CallOp>(op);
        if (failed(call ? lowerCall(lowering, call, programName, rows, program, arena, blocks)
                        : lowering.lower(&op)))
          return failure();
      }
      Operation* end = trunk.getBody().front().getTerminator();
      FailureOr<View> result = lowering.view(end->getOperand(0), end);
      if (failed(result)) return failure();
      if (result->buffer != "x")
        return end->emitError("@trunk must return the residual stream that it began with");
      return success();
    }

    LogicalResult lowerHead(Lowering& lowering, int64_t rows, const View& stream) {
      Block& body = head.getBody().front();
      lowering.place(body.getArgument(0), stream);
      Operation* end = body.getTerminator();
      Value logits = end->getOperand(0);
      if (!logits.getDefiningOp<hir::LinearOp>())
        return end->emitError("no kernel for a head that does not end in 'hir.linear' on target ") << target;
      View out;
      out.space = plan::Space::Logits;
      out.stride =
          plan::align_up(cast<RankedTensorType>(logits.getType()).getShape().back(), plan::kGroupRows);
      out.bytes = 4 * rows * out.stride;
      out.outRows = true;
      lowering.place(logits, out);
      for (Operation& op : body.without_terminator())
        if (failed(lowering.lower(&op))) return failure();
      return success();
    }

    LogicalResult lowerCall(Lowering& outer, func::CallOp call, StringRef programName, int64_t rows,
                            plan::ProgramOp program, Arena& arena, llvm::StringMap<Built>& blocks) {
      auto func = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!func || func.isExternal())
        return call.emitError("call of unknown function '") << call.getCallee() << "'";
      FailureOr<Layer> layer = measure(tables, call, func);
      if (failed(layer)) return failure();

      // Calls share a block when their tensors lie in the same places.
      SmallVector<std::pair<BlockArgument, View>> arguments;
      std::string key = func.getName().str();
      for (auto [operand, argument] : llvm::zip(call.getOperands(), func.getArguments())) {
        if (!isa<RankedTensorType>(operand.getType())) continue;
        FailureOr<View> view = outer.view(operand, call);
        if (failed(view)) return failure();
        key += '\n' + view->buffer;
        arguments.push_back({argument, *view});
      }
      if (arguments.empty() || call.getNumResults() != 1 || !Lowering::diesAt(call.getOperand(0), call))
        return call.emitError(
            "a block takes the residual stream first and returns it, and nobody needs the old one");
      auto [it, isNew] = blocks.try_emplace(key);
      Built& built = it->second;
      if (isNew) {
        built.name = (func.getName() + "_" + programName).str();
        if (blocks.size() > 1 && module.lookupSymbol(built.name))
          built.name += "_" + std::to_string(blocks.size());
        built.relative = layer->relative;
        if (failed(lowerBlock(func, call, *layer, arguments, rows, program, arena, built))) return failure();
      } else if (built.relative != layer->relative) {
        return call.emitError("weights or states of this layer do not lie as those of the others that call '")
               << call.getCallee() << "'";
      }
      outer.place(call.getResult(0), built.result);
      OpBuilder body = OpBuilder::atBlockEnd(&program.getBody().front());
      Bases bases = layer->bases();
      plan::CallOp::create(body, call.getLoc(), built.name, bases.weights, bases.state, bases.kv,
                           call->getAttrOfType<StringAttr>("layer").getValue());
      return success();
    }

    LogicalResult lowerBlock(func::FuncOp func, func::CallOp call, const Layer& layer,
                             ArrayRef<std::pair<BlockArgument, View>> arguments, int64_t rows,
                             plan::ProgramOp program, Arena& arena, Built& built) {
      OpBuilder before(program);
      auto block = plan::BlockOp::create(before, func.getLoc(), built.name, layer.weights.bytes(),
                                         layer.state.bytes(), layer.kv.bytes());
      OpBuilder body = OpBuilder::atBlockEnd(&block.getBody().emplaceBlock());
      Bases bases = layer.bases();
      auto weightAt = [&](plan::Layout layout, ValueRange sources, Operation* user) -> FailureOr<int64_t> {
        FailureOr<int64_t> offset = tables.weight(layout, sources, call.getOperands(), user);
        if (failed(offset)) return failure();
        return *offset - bases.weights;
      };
      auto constantAt = [&](hir::RopeTableOp rope) -> FailureOr<int64_t> {
        return rope.emitError("no kernel for '")
               << rope->getName() << "' inside a block on target " << target;
      };
      auto stateAt = [&](Value value, Operation* user) -> FailureOr<int64_t> {
        FailureOr<plan::StateOp> state = tables.state(value, call.getOperands(), user);
        if (failed(state)) return failure();
        return static_cast<int64_t>(state->getOffset()) - (state->getKind() == "kv" ? bases.kv : bases.state);
      };
      Places places{weightAt, constantAt, stateAt};
      Lowering lowering(body, func.getName().str() + ".", rows, arena, places, target);
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
};
}  // namespace
}  // namespace qcc::passes
