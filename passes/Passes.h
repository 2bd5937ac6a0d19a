// The passes of the compiler: hir -> hir, hir -> plan, plan -> plan. Records and options: Passes.td.
#ifndef QCC_PASSES_PASSES_H_
#define QCC_PASSES_PASSES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace qcc::passes {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

// hir -> fused hir: the groups that kernels execute. The big groups first, so that what they leave is merged
// around them. `int8`: first round the inputs of block-quantised linears (numerics = int8). `functions`: see
// SelectFunctions; none: all. `deferLastFfn`: last of all qcc-defer-last-ffn, which must see just the
// functions that programs are made of. `traces`: qcc-trace-layers.
enum class Traces : uint8_t { kNone, kLayers, kAll };
void addFusionPasses(mlir::OpPassManager& pm, bool int8, llvm::ArrayRef<std::string> functions = {},
                     bool deferLastFfn = true, Traces traces = Traces::kNone);

// qcc-layout-weights and qcc-build-plan for a target that chooses its layouts by `policy`; without one, by
// X16Everywhere. Both passes of a module take the same.
std::unique_ptr<mlir::Pass> createLayoutWeights(layouts::Policy policy);
std::unique_ptr<mlir::Pass> createBuildPlan(const BuildPlanOptions& options, layouts::Policy policy);

// Fused hir -> verified plan: with `part` qcc-cut-layers, qcc-layout-weights, qcc-build-plan,
// qcc-insert-barriers, qcc-assign-arena, qcc-verify-plan, in this order, on a module. `options`: see
// BuildPlan in Passes.td. `policy`: of the target or targets that the plan is for. `part`: see CutLayers;
// none: all layers.
void addPlanPasses(mlir::OpPassManager& pm, const BuildPlanOptions& options = {},
                   layouts::Policy policy = layouts::X16Everywhere,
                   const std::optional<CutLayersOptions>& part = std::nullopt);

// Verified plan -> plan of a CPU: qcc-replicate-rows and qcc-insert-barriers again. Where a plan is for
// other targets, too, on a copy.
void addCpuPlanPasses(mlir::OpPassManager& pm);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PASSES_H_
