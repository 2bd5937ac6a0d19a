// What a plan says about programs, states and memory, as manifest fields.
#ifndef QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_
#define QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_

#include "compiler/artifact/manifest_spec.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

// Fills model numbers, states, programs, weight, state and KV bytes from a verified plan module.
void DescribePlan(mlir::ModuleOp plan, ManifestSpec& manifest);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_PLAN_MANIFEST_H_
