// Golden values of an artifact: what its own model says about a short prompt, for `qrun check` on another
// machine.
#ifndef QCC_COMPILER_PIPELINE_GOLDENS_H_
#define QCC_COMPILER_PIPELINE_GOLDENS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/pipeline/options.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Runs the fused hir, int8 roundings included, through the reference evaluator in f32: the arithmetic that
// the kernels must reproduce up to the order of sums. Returns the goldens section, or nothing when an op
// fails (the reason is a diagnostic). Reads every weight once.
std::optional<std::vector<uint8_t>> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                                NumericsMode numerics);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_GOLDENS_H_
