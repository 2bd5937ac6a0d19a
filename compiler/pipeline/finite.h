// That a model computes with numbers and comes to some.
#ifndef QCC_COMPILER_PIPELINE_FINITE_H_
#define QCC_COMPILER_PIPELINE_FINITE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Every weight that the module names is finite. The goldens alone do not show it: they use a few rows of the
// embedding only. Looks at scales, a small part of the goldens' time. `interrupted` and `progress` (bytes
// done and in all; called from this thread only) may be empty. Errors: Q1214; CancelledError once
// `interrupted` says that the user wants to stop.
absl::Status CheckWeights(mlir::ModuleOp module, const gguf::File& file,
                          const std::function<bool()>& interrupted,
                          const std::function<void(uint64_t done, uint64_t total)>& progress = {});

// Every logit is finite in f32. `values`: rows of `vocab`, those of the tokens behind the first `past`.
// Errors: Q3006.
absl::Status CheckLogits(std::span<const float> values, int64_t vocab, int64_t past, const gguf::File& file);
absl::Status CheckLogits(std::span<const double> values, int64_t vocab, int64_t past, const gguf::File& file);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_FINITE_H_
