// Vector types of the kernels and what every ISA level (levels/) may use of them. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LANES_H_
#define QCC_CODEGEN_CPU_KERNELS_LANES_H_

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
using F64 = double __attribute__((ext_vector_type(N)));
template <int N>
using I64 = int64_t __attribute__((ext_vector_type(N)));
template <int N>
using U16 = uint16_t __attribute__((ext_vector_type(N)));
template <int N>
using I16 = int16_t __attribute__((ext_vector_type(N)));
template <int N>
using U8 = uint8_t __attribute__((ext_vector_type(N)));
template <int N>
using I8 = int8_t __attribute__((ext_vector_type(N)));

// What a level multiplies together of unpacked weights (linear_panel.h), by whether the format has minima:
// rows, vectors of outputs, and how many panels these lie in.
struct PanelShape {
  int rows, vectors, panels;
};

// Of a level without a unit that multiplies matrices of bytes: see v4amx.h.
struct NoMatrixUnit {
  static constexpr int kRows = 0;
};

// fn(0), fn(1), ... fn(N - 1), written out: loops that the optimiser need not unroll first. fn is a
// QK_LAMBDA.
template <class T, T... I>
struct Sequence {};
template <class Fn, int... I>
QK_INLINE void unroll_sequence(Fn fn, Sequence<int, I...>) {
  (fn(I), ...);
}
template <int N, class Fn>
QK_INLINE void unroll(Fn fn) {
  unroll_sequence(fn, __make_integer_seq<Sequence, int, N>());
}

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
// Asks for the line at p, into the first-level cache or, where more than that holds comes between, the
// second.
QK_INLINE void prefetch_near(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
QK_INLINE void prefetch_far(const void* p) {
  __builtin_prefetch(p, 0, 2);
}
// For the compiler v may be anything from here on: what it is made of stays in the order that the source has.
template <class V>
QK_INLINE void keep_order(V& v) {
  asm("" : "+x"(v));
}
QK_INLINE I32<4> add_pairs_sse2(I32<4> sum, I32<4> a, I32<4> b) {
  sum += (I32<4>)_mm_madd_epi16((__m128i)a, (__m128i)b);
  keep_order(sum);
  return sum;
}
QK_INLINE float bits_to_float(uint32_t b) {
  return __builtin_bit_cast(float, b);
}

// What all lanes are, spelled for any level: IEEE binary16 to f32 and back, exact and nearest even,
// subnormals included, without instructions for it.
template <int N>
QK_INLINE F32<N> half_bits_to_float(U16<N> h) {
  const I32<N> u = __builtin_convertvector(h, I32<N>);
  const I32<N> em = (u & 0x7fff) << 13, sign = (u & 0x8000) << 16;
  const I32<N> normal = em + (112 << 23);
  // exponent 0: put the mantissa under the exponent of 2^-14, then take 2^-14 away.
  const F32<N> tiny = __builtin_bit_cast(F32<N>, em + (113 << 23)) - F32<N>(bits_to_float(113u << 23));
  I32<N> r = em < (1 << 23) ? __builtin_bit_cast(I32<N>, tiny) : normal;
  r = em >= (31 << 23) ? normal + (112 << 23) : r;
  return __builtin_bit_cast(F32<N>, r | sign);
}
template <int N>
QK_INLINE U16<N> float_to_half_bits(F32<N> v) {
  const I32<N> u = __builtin_bit_cast(I32<N>, v);
  const I32<N> a = u & 0x7fffffff, sign = (u >> 16) & 0x8000;
  const I32<N> normal = (a + 0xfff + ((a >> 13) & 1) - (112 << 23)) >> 13;
  // Below 2^-14 the f32 adder rounds: the sum with 0.5 has the unit of a half's subnormals.
  const F32<N> shifted = __builtin_bit_cast(F32<N>, a) + F32<N>(0.5f);
  I32<N> r = a < (113 << 23) ? __builtin_bit_cast(I32<N>, shifted) - (126 << 23) : normal;
  r = a >= (143 << 23) ? I32<N>(0x7c00) : r;
  r = a > (255 << 23) ? I32<N>(0x7e00) : r;
  return __builtin_convertvector(r | sign, U16<N>);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LANES_H_
