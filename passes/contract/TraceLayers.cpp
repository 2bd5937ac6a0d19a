#include "llvm/ADT/MapVector.h"
#include "passes/Passes.h"

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
    Value stream = ret.getOperand(0);
    auto features = streamType.getShape().drop_front();
    OpBuilder b(ret);
    auto type = hir::StateType::get(b.getContext(), hir::StateKind::Trace, features, b.getF32Type());
    if (failed(block.insertArgument(block.getNumArguments(), type, {}, block.getLoc()))) return failure();
    hir::TraceOp::create(b, ret.getLoc(), stream, block.getArguments().back(), rowsOfStep);
    for (func::CallOp call : calls) {
      b.setInsertionPoint(call);
      std::string name = call->getAttrOfType<StringAttr>("layer").str() + ".trace";
      call.getOperandsMutable().append({hir::StateOp::create(b, call.getLoc(), type, name)});
    }
    return success();
  }
};
}  // namespace
}  // namespace qcc::passes
