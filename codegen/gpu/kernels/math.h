// Elementary functions of the GPU kernels: own polynomials over exact operations, because what the targets
// promise is too coarse (Vulkan: exp2 within 3 + 2|x| ulp, sin within 2^-11). No result depends on how a
// target treats f32 subnormals, unless it is one itself.
#ifndef QCC_CODEGEN_GPU_KERNELS_MATH_H_
#define QCC_CODEGEN_GPU_KERNELS_MATH_H_

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

// 1.5 * 2^23: sums of it with what is less than 2^22 either way have the unit 1, and the integer stands in
// their low bits.
inline constexpr float kFloatBias = 12582912.f;
inline constexpr int32_t kFloatBiasBits = 0x4b400000;

// Nearest integer, ties to even, for |x| < 2^22.
Val RoundEvenToI32(Val x);

// exp(x), relative error below 2e-7; 0 below -87, exp(88) above 88.
Val Exp(Val x);
Val Sigmoid(Val x);
Val Silu(Val x);  // x * sigmoid(x)

// log(1 + x) for x in [0, 1], relative error below 3e-7.
Val Log1p(Val x);
// log(1 + exp(x)) without overflow, relative error below 4e-7 for x > -87; 0 below.
Val Softplus(Val x);

// cos and sin of `turn` (i32, taken as unsigned) / 2^32 of a full turn; absolute error below 1.5e-7.
struct CosSin {
  Val cos, sin;
};
CosSin CosSinOfTurn(Val turn);

// IEEE binary16 and bfloat16 in the low 16 bits of an i32 (higher bits: ignored in, 0 out). Exact,
// subnormals, infinities and NaN included; to half: nearest even. The way back: Builder::HalfToF32.
Val F32ToHalf(Val x);
Val Bf16ToF32(Val bits);

// The greater of two numbers without a sign, or NaN where x is one (MaxF may take the number).
Val AtLeast(Val x, Val floor);
// Whether x is an infinity or NaN.
Val IsNoNumber(Val x);

// Byte `index` (0..3) of an i32 as a number.
Val ByteU(Val word, int index);
Val ByteS(Val word, int index);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_MATH_H_
