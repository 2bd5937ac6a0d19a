// The dispatches of a program one behind the other, blocks inlined: what lowering to launches walks.
#ifndef QCC_CODEGEN_GPU_LOWER_STEPS_H_
#define QCC_CODEGEN_GPU_LOWER_STEPS_H_

#include <optional>
#include <vector>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/linear.h"
#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/kernel_families.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::gpu {

// What references of a dispatch are relative to. Zero at program level, where they are absolute.
struct Bases {
  int64_t weights = 0, state = 0, kv = 0;
  llvm::StringRef layer;
};

struct Step {
  plan::DispatchOp op;
  Bases bases;
  bool barrier = false;                 // of the plan, before it
  std::optional<MadeOf> made;           // of a linear: what it makes its rows of
  bool unnormed = false;                // of a gated_delta: its readers norm
  std::optional<MadeHeads> heads = {};  // of an attention: what it makes its heads of
};

// Without the moe_groups whose lists no kernel reads.
mlir::FailureOr<std::vector<Step>> stepsOf(plan::ProgramOp program, mlir::ModuleOp plan);

Arg bind(const plan::Ref& ref, const Bases& bases);

// `step` as a dispatch of the family of `spec`, which is its own.
template <class Spec>
Dispatch<Spec> dispatchOf(const Step& step, const Spec& spec) {
  Dispatch<Spec> dispatch{spec, {}, plan::dispatchRows(step.op)};
  plan::forEachRole(spec, dispatch.bindings, [&](const plan::RoleExtent& role, std::optional<Arg>& arg) {
    if (plan::Ref ref = plan::refOf(step.op, role.name)) arg = bind(ref, step.bases);
  });
  return dispatch;
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_STEPS_H_
