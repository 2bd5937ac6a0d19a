// Norms, gated norms, quantizes and heads that are no launches of their own.
#ifndef QCC_CODEGEN_GPU_LOWER_MAKEROWS_H_
#define QCC_CODEGEN_GPU_LOWER_MAKEROWS_H_

#include <string>
#include <vector>

#include "codegen/gpu/kernels/together.h"
#include "codegen/gpu/lower/Steps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace qcc::gpu {

// Takes the norms and quantizes of `program` out whose rows are read by linears alone, which make them
// themselves (Step::made) and are one launch as before; with a quantize the gated norm of a gated_delta,
// where the norm's launch does nothing else (Step::unnormed). And the qk_norm_rope_stores whose heads an
// attention makes itself (Step::heads). `replaced`: whether a kernel's code is the product's own; such ones
// stay.
void makeRowsWhereRead(plan::ProgramOp program, std::vector<Step>& steps, Expansion& expansion,
                       const TogetherLimits& limits,
                       llvm::function_ref<bool(const std::string& kernel)> replaced);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_MAKEROWS_H_
