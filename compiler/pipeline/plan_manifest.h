// What a plan says about programs, states and memory, as manifest fields.
#ifndef QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_
#define QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_

#include <cstddef>
#include <cstdint>

#include "compiler/artifact/manifest_spec.h"
#include "compiler/pipeline/options.h"
#include "compiler/targets/targets.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Fills model numbers, states, programs, weight, state and KV bytes from a verified plan module.
void DescribePlan(mlir::ModuleOp plan, ManifestSpec& manifest);

// Adds the plan of a part of the model, its layers `of`, behind those of the parts before it. How much code
// it has is left open.
void DescribePart(mlir::ModuleOp plan, const LayerPart& of, ManifestSpec& manifest);

// Adds the plan's weights, which lie in `section`.
void DescribeWeights(mlir::ModuleOp plan, uint32_t section, ManifestSpec& manifest);

// Adds the kernels and stages of a CPU's code; nothing of a GPU's. In the lists `programs` and `codes`, those
// of CPUs alone, stand before its own.
void DescribeKernels(const TargetCode& code, uint32_t programs, size_t codes, ManifestSpec& manifest);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_
