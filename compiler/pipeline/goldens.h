// Golden values of an artifact: what its own model says about a short prompt, for `qrun check` on another
// machine.
#ifndef QCC_COMPILER_PIPELINE_GOLDENS_H_
#define QCC_COMPILER_PIPELINE_GOLDENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/options.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Runs the fused hir, int8 roundings included, through the reference evaluator in f32: the arithmetic that
// the kernels must reproduce up to the order of sums. Returns the goldens section. Reads every weight once.
// Errors: Q3002 (an op failed; `diagnostics` has the reason), Q3006 (a logit is not finite), CancelledError
// once `sink` says that the user wants to stop.
absl::StatusOr<std::vector<uint8_t>> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                                 NumericsMode numerics,
                                                 const DiagnosticCollector& diagnostics,
                                                 const ProgressSink& sink);

// Every weight that the module names is finite. The goldens alone do not show it: they use a few rows of the
// embedding only. Looks at scales, a small part of the goldens' time. Errors: Q1214, CancelledError.
absl::Status CheckWeights(mlir::ModuleOp module, const gguf::File& file, const ProgressSink& sink);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_GOLDENS_H_
