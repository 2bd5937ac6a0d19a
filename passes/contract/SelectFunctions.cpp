#include "llvm/ADT/StringExtras.h"
#include "passes/Passes.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::passes {
#define GEN_PASS_DEF_SELECTFUNCTIONS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

struct SelectFunctionsPass : impl::SelectFunctionsBase<SelectFunctionsPass> {
  using SelectFunctionsBase::SelectFunctionsBase;

  void runOnOperation() override {
    if (functions.empty()) return;
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(getOperation());
    if (failed(entries)) return signalPassFailure();
    const SmallVector<StringRef> begins = namesToChoose(*entries);
    for (const std::string& wanted : functions) {
      if (llvm::is_contained(begins, wanted)) continue;
      getOperation().emitError("the model has no function '")
          << wanted << "' that programs could be made of; it has '" << llvm::join(begins, "', '") << "'";
      return signalPassFailure();
    }
    auto selected = [&](const EntryPoint& entry) {
      return llvm::is_contained(functions, entry.leftBy.empty() ? entry.name() : entry.leftBy);
    };
    auto wanted = [&](const EntryPoint& entry) {
      return selected(entry) || llvm::any_of(*entries, [&](const EntryPoint& other) {
               return selected(other) && entry.preparesRowsOf(other);
             });
    };
    SmallVector<func::FuncOp> unwanted;
    for (EntryPoint& entry : *entries)
      if (!wanted(entry)) unwanted.push_back(entry.func);
    for (func::FuncOp func : unwanted) func.erase();
  }
};
}  // namespace
}  // namespace qcc::passes
