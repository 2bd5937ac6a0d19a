#include "passes/Passes.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::passes {
#define GEN_PASS_DEF_CUTLAYERS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

struct CutLayersPass : impl::CutLayersBase<CutLayersPass> {
  using CutLayersBase::CutLayersBase;

  void runOnOperation() override {
    if (failed(run())) signalPassFailure();
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(module);
    if (failed(entries)) return failure();
    for (EntryPoint& entry : llvm::drop_begin(*entries))
      if (entry.leftBy.empty() && !drafts(entry, *entries))
        return entry.func.emitError(
                   "cannot cut the layers of a model whose steps begin in several functions: @")
               << entries->front().name() << " and @" << entry.name();
    EntryPoint& trunk = entries->front();
    if (!trunk.left || trunk.logits)
      return trunk.func.emitError("cannot cut @") << trunk.name() << ": it does not leave rows alone";
    FailureOr<SmallVector<func::CallOp>> calls = layersOf(trunk);
    if (failed(calls)) return failure();
    auto count = static_cast<int64_t>(calls->size());
    if (first < 0 || first > last || last >= count)
      return trunk.func.emitError("cannot keep layers ")
             << first.getValue() << " to " << last.getValue() << ": the model has layers 0 to " << count - 1;
    if (last + 1 < count) {
      keepUpTo(trunk, (*calls)[last]);
      for (EntryPoint& entry : llvm::drop_begin(*entries)) entry.func.erase();
    }
    return first == 0 ? success() : beginAt(trunk, (*calls)[first]);
  }

  // Goes on from rows of the trunk's end, or prepares them.
  static bool drafts(const EntryPoint& entry, ArrayRef<EntryPoint> entries) {
    return (entry.tokens && entry.rows) ||
           llvm::any_of(entries, [&](const EntryPoint& other) { return entry.preparesRowsOf(other); });
  }

  // The calls in order: layer N hands the residual stream, its first operand, to layer N + 1.
  FailureOr<SmallVector<func::CallOp>> layersOf(EntryPoint& trunk) {
    SmallVector<func::CallOp> calls;
    for (auto call : trunk.func.getBody().front().getOps<func::CallOp>()) {
      auto layer = call->getAttrOfType<StringAttr>("layer");
      std::string expected = "blk." + std::to_string(calls.size());
      if (!layer || layer.getValue() != expected)
        return call.emitError("cannot cut between layers that do not follow each other: expected '")
               << expected << "', found '" << (layer ? layer.getValue() : StringRef()) << "'";
      bool follows = call.getNumOperands() != 0 && call.getNumResults() == 1 &&
                     (calls.empty() || call.getOperand(0) == calls.back().getResult(0));
      if (!follows)
        return call.emitError("cannot cut before '")
               << expected << "': it does not take the residual stream of the layer before it first";
      calls.push_back(call);
    }
    return calls;
  }

  void keepUpTo(EntryPoint& trunk, func::CallOp layer) {
    trunk.func.getBody().front().getTerminator()->setOperand(0, layer.getResult(0));
    eraseUnused(trunk);
  }

  // The rows in front of `layer` become an argument, in the place of what was embedded.
  LogicalResult beginAt(EntryPoint& trunk, func::CallOp layer) {
    Value stream = layer.getOperand(0);
    Type type = stream.getType();
    unsigned place = (trunk.tokens ? trunk.tokens : trunk.rows).getArgNumber();
    if (failed(trunk.func.insertArgument(place, type, {}, stream.getLoc()))) return failure();
    layer->setOperand(0, trunk.func.getArgument(place));
    eraseUnused(trunk);
    for (BlockArgument begin : {trunk.tokens, trunk.rows}) {
      if (!begin) continue;
      if (!begin.use_empty())
        return layer.emitError("cannot cut before '") << layer->getAttrOfType<StringAttr>("layer").getValue()
                                                      << "': what begins the step is needed behind it, too";
      if (failed(trunk.func.eraseArgument(begin.getArgNumber()))) return failure();
    }
    return success();
  }

  // What led only to what is gone: weights, states, tables, other layers.
  void eraseUnused(EntryPoint& trunk) {
    Block& body = trunk.func.getBody().front();
    SmallVector<Operation*> ops;
    for (Operation& op : body.without_terminator()) ops.push_back(&op);
    for (Operation* op : llvm::reverse(ops))
      if (op->use_empty()) op->erase();
  }
};
}  // namespace
}  // namespace qcc::passes
