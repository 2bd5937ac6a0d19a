// What of the options only the imported model can judge.
#ifndef QCC_COMPILER_PIPELINE_MODEL_OPTIONS_H_
#define QCC_COMPILER_PIPELINE_MODEL_OPTIONS_H_

#include <set>

#include "absl/status/status.h"
#include "compiler/pipeline/compile_options.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// What options are about that need something of the model (CompileOption::needs).
std::set<ModelPart> PartsOfModel(mlir::ModuleOp module);

// Whether the model has the functions that were chosen. Errors: Q0102.
absl::Status CheckFunctionsOf(mlir::ModuleOp module, const PipelineOptions& options);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_MODEL_OPTIONS_H_
