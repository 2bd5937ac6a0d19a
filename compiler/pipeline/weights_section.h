// The weight section: every plan.weight and plan.constant packed from the mapped GGUF, in order of address.
#ifndef QCC_COMPILER_PIPELINE_WEIGHTS_SECTION_H_
#define QCC_COMPILER_PIPELINE_WEIGHTS_SECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/artifact/manifest_spec.h"
#include "compiler/artifact/writer.h"
#include "compiler/pipeline/layout_plans.h"
#include "compiler/pipeline/options.h"
#include "dialects/plan/IR/Plan.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// What the weights amount to per GGUF format, sorted by name: each tensor once, packed in all plans together.
std::vector<FormatSpec> SummarizeFormats(std::span<const LayoutPlan> plans, const gguf::File& file);

// Bytes of the weights that a fused module names, in the formats that it has them in. Packed they take as
// much, or a little more.
uint64_t NamedWeightBytes(mlir::ModuleOp fused);
// Bytes of all sections of weights.
uint64_t PackedWeightBytes(std::span<const LayoutPlan> plans);

// Where a section's bytes stand in what a stage shows: behind `before` of `total`.
struct WeightsProgress {
  uint64_t before = 0, total = 0;
};

// Streams the section, `total` bytes (plan::summarize), piece by piece: at most a few MiB in memory. The
// tensors are those the importer checked.
absl::Status WriteWeights(mlir::ModuleOp plan, uint64_t total, const gguf::File& file, ProgressSink& sink,
                          WeightsProgress shown, ArtifactWriter::Append append);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_WEIGHTS_SECTION_H_
