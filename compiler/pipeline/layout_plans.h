// The plans of a model: one for all targets that lay its weights out alike.
#ifndef QCC_COMPILER_PIPELINE_LAYOUT_PLANS_H_
#define QCC_COMPILER_PIPELINE_LAYOUT_PLANS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/options.h"
#include "compiler/targets/targets.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace qcc::compiler {

struct LayoutPlan {
  mlir::OwningOpRef<mlir::ModuleOp> module;  // verified
  std::vector<std::string> targets;          // whose code runs it, by name
  bool part = false;                         // of some layers alone: other plans are of the others
};

// Plans fused hir for `targets`, at least one: they share a plan where their policies choose the same layout
// for every weight of the model. All plans have the same programs and states. What a program says of its
// arena is the most of all plans, as an artifact says it once. Errors: Q3003.
absl::StatusOr<std::vector<LayoutPlan>> PlanForTargets(mlir::OwningOpRef<mlir::ModuleOp> hir,
                                                       std::span<const TargetInfo* const> targets,
                                                       const PipelineOptions& options,
                                                       DiagnosticCollector& diagnostics);

// Plans fused hir in parts: a plan for each of `options.layers`, in their order, with its layers' states and
// programs alone. `targets`: of the parts. Errors: Q3003.
absl::StatusOr<std::vector<LayoutPlan>> PlanParts(mlir::OwningOpRef<mlir::ModuleOp> hir,
                                                  std::span<const TargetInfo* const> targets,
                                                  const PipelineOptions& options,
                                                  DiagnosticCollector& diagnostics);

// How many programs an artifact of these plans has: parts have their own.
size_t CountPrograms(std::span<const LayoutPlan> plans);

// The plan of a target that PlanForTargets was given.
const LayoutPlan& PlanOf(std::span<const LayoutPlan> plans, std::string_view target);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_LAYOUT_PLANS_H_
