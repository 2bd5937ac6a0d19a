// Golden values of an artifact: what its own model says about a short prompt, for `qrun check` on another
// machine.
#ifndef QCC_COMPILER_PIPELINE_GOLDENS_H_
#define QCC_COMPILER_PIPELINE_GOLDENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/options.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// `section` is empty where there are none; `summary` says what they cover ("goldens of 4 tokens").
struct Goldens {
  std::vector<uint8_t> section;
  std::string summary;
};

// Runs the fused hir, int8 roundings included, through the reference evaluator in f32: the arithmetic that
// the kernels must reproduce up to the order of sums. Reads every weight that the prompt needs once. The
// prompt is as long as options.golden_tokens says; where it says nothing, as long as the model's size allows,
// so that a compile does not wait for a reference that was never meant to be fast: which is a matter of
// counts, not of time, as equal input gives equal artifacts. None where no function gives logits of tokens.
// Errors: Q0102 (such goldens were asked for), Q3002 (an op failed; `diagnostics` has
// the reason), Q3006 (a logit is not finite), CancelledError once `sink` says that the user wants to stop.
absl::StatusOr<Goldens> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                    const PipelineOptions& options, const DiagnosticCollector& diagnostics,
                                    const ProgressSink& sink);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_GOLDENS_H_
