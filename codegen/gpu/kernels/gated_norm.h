// The norm of each head of a row, times silu of its gate: x * rsqrt(mean(x^2) + eps) * weight * silu(gate).
#ifndef QCC_CODEGEN_GPU_KERNELS_GATED_NORM_H_
#define QCC_CODEGEN_GPU_KERNELS_GATED_NORM_H_

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/norm.h"

namespace qcc::gpu {

// Of the sum of squares of a head, the part of the `thread`th of kNormThreads: of `dim` numbers of x from
// number `first` on every kNormThreads-th. The sum of these parts is the head's.
Val OwnSquares(Builder& b, Val thread, Val x, Val first, int dim);
// Of the sum of squares of `dim` numbers.
Val GatedNormScale(Builder& b, Val squares, int dim, Val eps);
Val GatedNormed(Val x, Val scale, Val weight, Val gate);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_GATED_NORM_H_
