// Vectors of the kernels: clang's portable vector types and, from the ISA level that is being built, the few
// operations that each level must spell itself. Kernels only. All arithmetic is IEEE with no contraction;
// fused multiply-add happens exactly where fma() is called.
#ifndef QCC_CODEGEN_CPU_KERNELS_VEC_H_
#define QCC_CODEGEN_CPU_KERNELS_VEC_H_

#include "codegen/cpu/kernels/lanes.h"

// levels/<level>.h, set by the build: struct qk::Level.
#include QK_LEVEL

namespace qk {

inline constexpr int kLanes = Level::kLanes;  // f32 lanes of a register
inline constexpr int kParts = 16 / kLanes;    // registers per group of 16 weight rows

template <int N>
QK_INLINE F32<N> loadf(const float* p) {
  return load<F32<N>>(p);
}

template <int N>
QK_INLINE F32<N> splat(float v) {
  return F32<N>(v);
}
template <int N>
QK_INLINE F32<N> to_float(I32<N> v) {
  return __builtin_convertvector(v, F32<N>);
}
// a * b + c: one rounding where the level has FMA, two where it has not.
template <int N>
QK_INLINE F32<N> fma(F32<N> a, F32<N> b, F32<N> c) {
  return Level::fma(a, b, c);
}
QK_INLINE float fma1(float a, float b, float c) {
  return Level::fma(a, b, c);
}
template <int N>
QK_INLINE F32<N> max(F32<N> a, F32<N> b) {
  return a > b ? a : b;
}
template <int N>
QK_INLINE F32<N> min(F32<N> a, F32<N> b) {
  return a < b ? a : b;
}
template <int N>
QK_INLINE F32<N> abs(F32<N> a) {
  return __builtin_elementwise_abs(a);
}

// sum + the products of the two 16-bit halves of a's and b's lanes.
template <int N>
QK_INLINE I32<N> add_pairs(I32<N> sum, I32<N> a, I32<N> b) {
  if constexpr (N == kLanes) {
    return Level::add_pairs(sum, a, b);
  } else {
    static_assert(N == 4);
    return add_pairs_sse2(sum, a, b);
  }
}

// Nearest integer, ties to even, |v| < 2^22; as float, exactly.
template <int N>
QK_INLINE F32<N> round_even(F32<N> v) {
  const F32<N> magic = splat<N>(12582912.f);  // 1.5 * 2^23: the sum's unit is 1
  return (v + magic) - magic;
}

// Sum of all lanes, in one fixed tree.
QK_INLINE float reduce_add(F32<4> v) {
  const F32<2> a = v.lo + v.hi;
  return a.x + a.y;
}
QK_INLINE float reduce_add(F32<8> v) {
  return reduce_add(v.lo + v.hi);
}
QK_INLINE float reduce_add(F32<16> v) {
  return reduce_add(v.lo + v.hi);
}
QK_INLINE float reduce_max(F32<4> v) {
  const float a = v.x > v.z ? v.x : v.z, b = v.y > v.w ? v.y : v.w;
  return a > b ? a : b;
}
QK_INLINE float reduce_max(F32<8> v) {
  return reduce_max(max<4>(v.lo, v.hi));
}
QK_INLINE float reduce_max(F32<16> v) {
  return reduce_max(max<8>(v.lo, v.hi));
}

// IEEE binary16 <-> f32, exact / nearest even, subnormals included.
template <int N>
QK_INLINE F32<N> half_to_float(U16<N> h) {
  return Level::half_to_float<N>(h);
}
template <int N>
QK_INLINE U16<N> float_to_half(F32<N> v) {
  return Level::float_to_half<N>(v);
}
template <int N>
QK_INLINE F32<N> bf16_to_float(U16<N> h) {
  return __builtin_bit_cast(F32<N>, __builtin_convertvector(h, I32<N>) << 16);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_VEC_H_
