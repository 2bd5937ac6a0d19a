// What the reference evaluator makes of tokens, whatever the model's functions are called.
#ifndef QCC_COMPILER_PIPELINE_REFERENCE_LOGITS_H_
#define QCC_COMPILER_PIPELINE_REFERENCE_LOGITS_H_

#include <cstdint>
#include <vector>

#include "dialects/hir/eval/Evaluator.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Logits, a tensor [ids][vocabulary], of the tokens behind the first `past` ones of a text, which the
// evaluator has seen. `module`: the evaluator's, under the model contract. Errors: those of
// Evaluator::evaluate, as diagnostics.
mlir::FailureOr<hir::EvalValue> ReferenceLogits(hir::Evaluator& evaluator, mlir::ModuleOp module,
                                                const std::vector<int32_t>& ids, int64_t past);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_REFERENCE_LOGITS_H_
