#include "passes/Passes.h"

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::passes {
#define GEN_PASS_DEF_VERIFYMODELCONTRACT
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

constexpr StringLiteral kIntAttributes[] = {"hir.vocab_size", "hir.context_length", "hir.embedding_length"};

struct VerifyModelContractPass : impl::VerifyModelContractBase<VerifyModelContractPass> {
  using VerifyModelContractBase::VerifyModelContractBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkAttributes(module)) || failed(checkEntries(module)) || failed(checkFunctions(module)))
      signalPassFailure();
  }

  LogicalResult checkAttributes(ModuleOp module) {
    if (!module->getAttrOfType<StringAttr>("hir.arch"))
      return module.emitError("model contract: module attribute 'hir.arch' (string) is missing");
    for (StringLiteral name : kIntAttributes) {
      auto value = module->getAttrOfType<IntegerAttr>(name);
      if (!value || value.getInt() <= 0)
        return module.emitError("model contract: module attribute '")
               << name << "' must be a positive integer";
    }
    return success();
  }

  // @trunk: ids, rows -> residual stream; @head: residual stream, row numbers -> logits.
  LogicalResult checkEntries(ModuleOp module) {
    Builder b(&getContext());
    int64_t embedding = module->getAttrOfType<IntegerAttr>("hir.embedding_length").getInt();
    int64_t vocab = module->getAttrOfType<IntegerAttr>("hir.vocab_size").getInt();
    auto rows = [&](int64_t cols) {
      return RankedTensorType::get({ShapedType::kDynamic, cols}, b.getF32Type());
    };
    Type ids = RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
    Type step = hir::RowsType::get(&getContext());
    if (failed(checkEntry(module, "trunk", b.getFunctionType({ids, step}, {rows(embedding)}))))
      return failure();
    return checkEntry(module, "head", b.getFunctionType({rows(embedding), ids}, {rows(vocab)}));
  }

  LogicalResult checkEntry(ModuleOp module, StringRef name, FunctionType expected) {
    auto func = module.lookupSymbol<func::FuncOp>(name);
    if (!func) return module.emitError("model contract: no function @") << name;
    if (func.getFunctionType() != expected)
      return func.emitError("model contract: @")
             << name << " is " << func.getFunctionType() << ", expected " << expected;
    return success();
  }

  LogicalResult checkFunctions(ModuleOp module) {
    if (failed(entryPoints(module))) return failure();
    llvm::StringSet<> states;
    for (Operation& top : module.getBody()->getOperations()) {
      auto func = dyn_cast<func::FuncOp>(top);
      if (!func) return top.emitError("model contract: only functions may stand in a model module");
      if (func.isExternal()) return func.emitError("model contract: @") << func.getName() << " has no body";
      bool isBlock = func.getName().starts_with("block_");
      if (isBlock != func.isPrivate())
        return func.emitError("model contract: blocks are private, entry points are public; @")
               << func.getName() << " is neither";
      WalkResult walked = func.walk([&](Operation* op) { return checkOp(func, isBlock, op, states); });
      if (walked.wasInterrupted()) return failure();
    }
    return success();
  }

  WalkResult checkOp(func::FuncOp func, bool isBlock, Operation* op, llvm::StringSet<>& states) {
    if (op == func.getOperation() || isa<func::ReturnOp>(op)) return WalkResult::advance();
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (isBlock) return op->emitError("model contract: a block calls nothing"), WalkResult::interrupt();
      if (!call->getAttrOfType<StringAttr>("layer"))
        return op->emitError("model contract: a call names its layer ('layer' = \"blk.N\")"),
               WalkResult::interrupt();
      return WalkResult::advance();
    }
    if (!isa<hir::HirDialect>(op->getDialect()))
      return op->emitError("model contract: '") << op->getName() << "' is not a hir op",
             WalkResult::interrupt();
    if (isBlock && isa<hir::ParamOp, hir::StateOp, hir::RopeTableOp>(op))
      return op->emitError("model contract: a block takes weights, states and the rope table as arguments"),
             WalkResult::interrupt();
    if (auto state = dyn_cast<hir::StateOp>(op); state && !states.insert(state.getName()).second)
      return op->emitError("model contract: state '") << state.getName() << "' appears twice",
             WalkResult::interrupt();
    return WalkResult::advance();
  }
};
}  // namespace
}  // namespace qcc::passes
