#include "passes/Passes.h"

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::passes {
#define GEN_PASS_DEF_VERIFYMODELCONTRACT
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

constexpr StringLiteral kIntAttributes[] = {hir::kVocabSize, hir::kContextLength, hir::kEmbeddingLength};

struct VerifyModelContractPass : impl::VerifyModelContractBase<VerifyModelContractPass> {
  using VerifyModelContractBase::VerifyModelContractBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkAttributes(module)) || failed(checkEntries(module)) || failed(checkFunctions(module)))
      signalPassFailure();
  }

  LogicalResult checkAttributes(ModuleOp module) {
    if (!module->getAttrOfType<StringAttr>(hir::kArch))
      return module.emitError("model contract: module attribute '") << hir::kArch << "' (string) is missing";
    for (StringLiteral name : kIntAttributes) {
      auto value = module->getAttrOfType<IntegerAttr>(name);
      if (!value || value.getInt() <= 0)
        return module.emitError("model contract: module attribute '")
               << name << "' must be a positive integer";
    }
    return success();
  }

  // Widths that the artifact states; and what golden values are made by.
  LogicalResult checkEntries(ModuleOp module) {
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(module);
    if (failed(entries)) return failure();
    const auto drafts = [](const EntryPoint& entry) {
      return entry.tokens && entry.rows && entry.leftBy.empty() && entry.logits && entry.left;
    };
    for (EntryPoint& entry : *entries)
      if (failed(checkWidth(entry, entry.left, "leaves rows", hir::kEmbeddingLength)) ||
          failed(checkWidth(entry, entry.logits, "gives logits", hir::kVocabSize, drafts(entry))))
        return failure();
    // A draft alone works on the rows of another module's trunk.
    if (tokensToLogits(*entries).empty() && llvm::none_of(*entries, drafts))
      return module.emitError("model contract: no public functions make logits of tokens");
    return success();
  }

  // `orFewer`: a draft may choose among the first tokens.
  LogicalResult checkWidth(EntryPoint& entry, Value rows, StringRef what, StringRef attribute,
                           bool orFewer = false) {
    int64_t expected = getOperation()->getAttrOfType<IntegerAttr>(attribute).getInt();
    if (!rows || colsOf(rows) == expected || (orFewer && colsOf(rows) < expected)) return success();
    return entry.func.emitError("model contract: @")
           << entry.name() << " " << what << " of " << colsOf(rows) << " values, expected " << expected
           << " (" << attribute << ")";
  }

  LogicalResult checkFunctions(ModuleOp module) {
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
