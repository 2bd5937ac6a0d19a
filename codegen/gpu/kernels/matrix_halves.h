// f32 numbers as sums of two halves, which matrix units of kind kMma take.
//
// Both halves together have 22 bits and a sign. So that they are normal numbers, what goes into one sum is
// scaled by the power of two that brings the greatest to 2^14; what lies 2^17 and more below it loses bits.
#ifndef QCC_CODEGEN_GPU_KERNELS_MATRIX_HALVES_H_
#define QCC_CODEGEN_GPU_KERNELS_MATRIX_HALVES_H_

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

// Words of two numbers: each number is the sum of its half in `high` and of that in `low`.
struct Halves {
  Val high, low;
};
// Words of `even` and, in the upper half, `odd`.
Halves SplitHalves(Builder& b, Val even, Val odd);

// What brings numbers of which `top` is the greatest absolute value to halves, and sums of their products
// back.
struct HalvesScale {
  Val up, down;
};
HalvesScale ScaleOfHalves(Builder& b, Val top);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_MATRIX_HALVES_H_
