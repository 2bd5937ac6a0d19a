// Vectors of the kernels: clang's portable vector types, plus the few operations that each ISA level must
// spell itself. Kernels only. All arithmetic is IEEE with no contraction; fused multiply-add happens exactly
// where fma() is called.
#ifndef QCC_CODEGEN_CPU_KERNELS_VEC_H_
#define QCC_CODEGEN_CPU_KERNELS_VEC_H_

#include <immintrin.h>
#include <stdint.h>

// always_inline on the kernels themselves lets the code generator inline them with constant arguments.
#define QK_INLINE static inline __attribute__((always_inline, unused))
#define QK_LAMBDA __attribute__((always_inline))
#define QK_EXPORT extern "C" __attribute__((always_inline))
#define QK_UNROLL _Pragma("clang loop unroll(full)")

namespace qk {

template <int N>
using F32 = float __attribute__((ext_vector_type(N)));
template <int N>
using I32 = int32_t __attribute__((ext_vector_type(N)));
template <int N>
using U16 = uint16_t __attribute__((ext_vector_type(N)));
template <int N>
using U8 = uint8_t __attribute__((ext_vector_type(N)));
template <int N>
using I8 = int8_t __attribute__((ext_vector_type(N)));

// f32 lanes of a register.
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
inline constexpr int kParts = 16 / kLanes;  // registers per group of 16 weight rows

template <class V>
QK_INLINE V load(const void* p) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  return static_cast<const Unaligned*>(p)->v;
}
template <class V>
QK_INLINE void store(void* p, V v) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  static_cast<Unaligned*>(p)->v = v;
}
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
QK_INLINE float bits_to_float(uint32_t b) {
  return __builtin_bit_cast(float, b);
}

// a * b + c: one rounding where the level has FMA, two where it has not.
template <int N>
QK_INLINE F32<N> fma(F32<N> a, F32<N> b, F32<N> c) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}
QK_INLINE float fma1(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
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
#if defined(__F16C__)
  typedef _Float16 H __attribute__((ext_vector_type(N)));
  return __builtin_convertvector(__builtin_bit_cast(H, h), F32<N>);
#else
  const I32<N> u = __builtin_convertvector(h, I32<N>);
  const I32<N> em = (u & 0x7fff) << 13, sign = (u & 0x8000) << 16;
  const I32<N> normal = em + (112 << 23);
  // exponent 0: put the mantissa under the exponent of 2^-14, then take 2^-14 away.
  const F32<N> tiny = __builtin_bit_cast(F32<N>, em + (113 << 23)) - splat<N>(bits_to_float(113u << 23));
  I32<N> r = em < (1 << 23) ? __builtin_bit_cast(I32<N>, tiny) : normal;
  r = em >= (31 << 23) ? normal + (112 << 23) : r;
  return __builtin_bit_cast(F32<N>, r | sign);
#endif
}
template <int N>
QK_INLINE U16<N> float_to_half(F32<N> v) {
#if defined(__F16C__)
  if constexpr (N == 4) {
    return __builtin_bit_cast(U16<8>, _mm_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)).lo;
  } else if constexpr (N == 8) {
    return __builtin_bit_cast(U16<8>, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  } else {
#if defined(__AVX512F__)
    return __builtin_bit_cast(U16<16>, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
    U16<16> r;
    r.lo = float_to_half<8>(v.lo);
    r.hi = float_to_half<8>(v.hi);
    return r;
#endif
  }
#else
  const I32<N> u = __builtin_bit_cast(I32<N>, v);
  const I32<N> a = u & 0x7fffffff, sign = (u >> 16) & 0x8000;
  const I32<N> normal = (a + 0xfff + ((a >> 13) & 1) - (112 << 23)) >> 13;
  // Below 2^-14 the f32 adder rounds: the sum with 0.5 has the unit of a half's subnormals.
  const F32<N> shifted = __builtin_bit_cast(F32<N>, a) + splat<N>(0.5f);
  I32<N> r = a < (113 << 23) ? __builtin_bit_cast(I32<N>, shifted) - (126 << 23) : normal;
  r = a >= (143 << 23) ? I32<N>(0x7c00) : r;
  r = a > (255 << 23) ? I32<N>(0x7e00) : r;
  return __builtin_convertvector(r | sign, U16<N>);
#endif
}
template <int N>
QK_INLINE F32<N> bf16_to_float(U16<N> h) {
  return __builtin_bit_cast(F32<N>, __builtin_convertvector(h, I32<N>) << 16);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_VEC_H_
