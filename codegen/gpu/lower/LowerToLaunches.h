// plan -> launches: which kernels a GPU target needs and the list of dispatches of every program.
#ifndef QCC_CODEGEN_GPU_LOWER_LOWERTOLAUNCHES_H_
#define QCC_CODEGEN_GPU_LOWER_LOWERTOLAUNCHES_H_

#include <functional>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/profiles.h"
#include "codegen/gpu/lower/gpu_code.h"
#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::gpu {

struct LoweredGpu {
  GpuCode code;                 // complete but for the kernels' code and `shared_bytes`
  std::vector<Launch> kernels;  // kernels[i] emits code.kernels[i]
};

struct LaunchOptions {
  std::vector<uint32_t> choosable;  // Vocabulary::choosable
  // Whether the kernel of this name stays one of its own: it is to be replaced.
  std::function<bool(const std::string& kernel)> alone;
  // Hears every launch, also those whose kernel is known by its name already.
  std::function<void(const Launch&)> seen;
};

// `plan` is a module of plan ops that passed qcc-verify-plan. Blocks are inlined into the programs that call
// them. Fails with a diagnostic at the dispatch that has no kernel: it names family, layer, target and
// profile.
//
// Scratch of dispatches lies behind the largest arena of all programs: what one program leaves in the arena
// for another (the residual stream) stays whole. It is used again after a barrier of the plan only, because
// dispatches between two barriers may run side by side.
// Launches that do not wait for one another become one where they can (together.h). Norms and quantizes of
// few rows become part of the linears that read them (MakeRows.h).
mlir::FailureOr<LoweredGpu> lowerToLaunches(mlir::ModuleOp plan, const ProfileInfo& profile,
                                            const LaunchOptions& options = {});

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_LOWERTOLAUNCHES_H_
