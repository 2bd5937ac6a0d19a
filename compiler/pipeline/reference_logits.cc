#include "compiler/pipeline/reference_logits.h"

#include <numeric>

#include "passes/contract/EntryPoint.h"

namespace qcc::compiler {
namespace {

// An argument for each parameter; `left`: the rows that the function before left.
std::vector<hir::EvalValue> ArgumentsOf(passes::EntryPoint& entry, const std::vector<int32_t>& ids,
                                        int64_t past, const hir::EvalValue& left) {
  std::vector<int32_t> all(ids.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<hir::EvalValue> arguments;
  for (mlir::BlockArgument parameter : entry.func.getArguments()) {
    if (mlir::isa<hir::RowsType>(parameter.getType())) {
      arguments.push_back(hir::rowsValue(hir::StepRows::text(past, static_cast<int64_t>(ids.size()))));
    } else if (parameter == entry.rows) {
      arguments.push_back(left);
    } else {
      arguments.push_back(hir::idsValue(parameter == entry.chosen ? all : ids));
    }
  }
  return arguments;
}

}  // namespace

mlir::FailureOr<hir::EvalValue> ReferenceLogits(hir::Evaluator& evaluator, mlir::ModuleOp module,
                                                const std::vector<int32_t>& ids, int64_t past) {
  auto entries = passes::entryPoints(module);
  if (mlir::failed(entries)) return mlir::failure();
  hir::EvalValue left;
  for (passes::EntryPoint& entry : passes::tokensToLogits(*entries)) {
    auto results = evaluator.evaluate(entry.name(), ArgumentsOf(entry, ids, past, left));
    if (mlir::failed(results)) return mlir::failure();
    mlir::Operation* end = entry.func.getBody().front().getTerminator();
    for (mlir::OpOperand& returned : end->getOpOperands()) {
      const hir::EvalValue& value = (*results)[returned.getOperandNumber()];
      if (returned.get() == entry.logits) return value;
      left = value;
    }
  }
  module.emitError("no public functions make logits of tokens");
  return mlir::failure();
}

}  // namespace qcc::compiler
