#include "llvm/ADT/MapVector.h"
#include "passes/Passes.h"
#include "passes/ValueRoles.h"

namespace qcc::passes {
#define GEN_PASS_DEF_TRACELAYERS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

struct TraceLayersPass : impl::TraceLayersBase<TraceLayersPass> {
  using TraceLayersBase::TraceLayersBase;

  void runOnOperation() override {
    llvm::MapVector<func::FuncOp, SmallVector<func::CallOp>> callsOf;
    SymbolTable symbols(getOperation());
    // What qcc-verify-model-contract ensures of calls and blocks is taken for granted.
    getOperation().walk(
        [&](func::CallOp call) { callsOf[symbols.lookup<func::FuncOp>(call.getCallee())].push_back(call); });
    for (auto& [block, calls] : callsOf)
      if (failed(traceBlock(block, calls))) return signalPassFailure();
  }

  LogicalResult traceBlock(func::FuncOp block, ArrayRef<func::CallOp> calls) {
    auto ret = cast<func::ReturnOp>(block.getBody().front().getTerminator());
    auto rows = llvm::find_if(block.getArguments(),
                              [](BlockArgument argument) { return isa<hir::RowsType>(argument.getType()); });
    if (rows == block.getArguments().end())
      return block.emitError("cannot trace '") << block.getName() << "': it does not know the step's rows";
    BlockArgument rowsOfStep = *rows;
    auto streamType = ret.getNumOperands() == 1 ? dyn_cast<RankedTensorType>(ret.getOperand(0).getType())
                                                : RankedTensorType();
    if (!streamType || streamType.getRank() != 2)
      return block.emitError("cannot trace '")
             << block.getName() << "': it does not return the residual stream alone";
    SmallVector<Kept> kept;
    if (all) kept = storedValues(block, ret.getOperand(0));
    kept.push_back({kLayerOutput, ret.getOperand(0)});
    for (const Kept& value : kept)
      if (failed(trace(block, value, rowsOfStep, calls))) return failure();
    return success();
  }

  struct Kept {
    StringRef role;
    Value value;
  };

  // Those with a role, each once, but for the block's result.
  static SmallVector<Kept> storedValues(func::FuncOp block, Value result) {
    SmallVector<Kept> kept;
    for (Operation& op : block.getBody().front()) {
      for (Value value : op.getResults()) {
        const StringRef role = valueRole(value);
        const bool again = llvm::any_of(kept, [&](const Kept& other) { return other.role == role; });
        if (!role.empty() && isDenseRows(value) && !again && value != result) kept.push_back({role, value});
      }
    }
    return kept;
  }

  static LogicalResult trace(func::FuncOp block, const Kept& kept, Value rows, ArrayRef<func::CallOp> calls) {
    auto features = cast<RankedTensorType>(kept.value.getType()).getShape().drop_front();
    OpBuilder b(block.getContext());
    b.setInsertionPointAfterValue(kept.value);
    auto type = hir::StateType::get(b.getContext(), hir::StateKind::Trace, features, b.getF32Type());
    if (failed(block.insertArgument(block.getNumArguments(), type, {}, block.getLoc()))) return failure();
    hir::TraceOp::create(b, kept.value.getLoc(), kept.value, block.getArguments().back(), rows);
    for (func::CallOp call : calls) {
      b.setInsertionPoint(call);
      auto layer = call->getAttrOfType<StringAttr>("layer");
      if (!layer) return call.emitError("a layer's call needs the attribute 'layer'");
      std::string name = (layer.getValue() + "." + kept.role).str();
      call.getOperandsMutable().append({hir::StateOp::create(b, call.getLoc(), type, name)});
    }
    return success();
  }
};
}  // namespace
}  // namespace qcc::passes
