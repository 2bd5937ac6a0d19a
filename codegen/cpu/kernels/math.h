// Elementary functions of the kernels: own polynomials, the same result in every lane and at every row.
// Kernels only. Source of the reductions: Cody and Waite, Software Manual for the Elementary Functions.
#ifndef QCC_CODEGEN_CPU_KERNELS_MATH_H_
#define QCC_CODEGEN_CPU_KERNELS_MATH_H_

#include "codegen/cpu/kernels/vec.h"

namespace qk {

// exp(x), relative error below 1.5e-7; 0 below -87, exp(88) above 88; NaN of NaN.
template <int N>
QK_INLINE F32<N> exp(F32<N> x) {
  // In this order a NaN, which is neither less nor greater, passes.
  const F32<N> c = max<N>(splat<N>(-87.f), min<N>(splat<N>(88.f), x));
  const F32<N> n = round_even<N>(c * 1.44269504089f);
  // ln 2 in two parts; n * hi is exact (|n| < 128, hi has 9 bits).
  F32<N> r = fma<N>(n, splat<N>(-0.693359375f), c);
  r = fma<N>(n, splat<N>(2.12194440054690583e-4f), r);
  // Taylor terms to r^7 / 5040: the rest is below 6e-9 for |r| <= ln 2 / 2.
  F32<N> p = splat<N>(1.f / 5040.f);
  p = fma<N>(p, r, splat<N>(1.f / 720.f));
  p = fma<N>(p, r, splat<N>(1.f / 120.f));
  p = fma<N>(p, r, splat<N>(1.f / 24.f));
  p = fma<N>(p, r, splat<N>(1.f / 6.f));
  p = fma<N>(p, r, splat<N>(0.5f));
  p = fma<N>(p * r, r, r) + 1.f;
  const I32<N> e = __builtin_convertvector(n, I32<N>) << 23;
  const F32<N> y = __builtin_bit_cast(F32<N>, __builtin_bit_cast(I32<N>, p) + e);
  return x < splat<N>(-87.f) ? splat<N>(0.f) : y;
}

template <int N>
QK_INLINE F32<N> sigmoid(F32<N> x) {
  return 1.f / (1.f + exp<N>(-x));
}
template <int N>
QK_INLINE F32<N> silu(F32<N> x) {
  return x / (1.f + exp<N>(-x));
}

// Double precision, for the few values per token whose error would grow (gates, angles).

// exp(x), relative error below 1e-15; clamped to [-700, 700].
template <int N>
QK_INLINE F64<N> exp64(F64<N> x) {
  x = x < F64<N>(-700.) ? F64<N>(-700.) : x > F64<N>(700.) ? F64<N>(700.) : x;
  const F64<N> magic = F64<N>(6755399441055744.);  // 1.5 * 2^52: the sum's unit is 1
  const F64<N> shifted = x * 1.4426950408889634 + magic, n = shifted - magic;
  const F64<N> r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  // Taylor terms to r^13: the rest is below 1e-17.
  F64<N> p = F64<N>(1. / 6227020800.);
  p = p * r + 1. / 479001600.;
  p = p * r + 1. / 39916800.;
  p = p * r + 1. / 3628800.;
  p = p * r + 1. / 362880.;
  p = p * r + 1. / 40320.;
  p = p * r + 1. / 5040.;
  p = p * r + 1. / 720.;
  p = p * r + 1. / 120.;
  p = p * r + 1. / 24.;
  p = p * r + 1. / 6.;
  p = p * r + 0.5;
  p = (p * r) * r + r + 1.;
  // n is what the magic number's lowest bits became.
  const I64<N> e = __builtin_bit_cast(I64<N>, shifted) << 52;
  return __builtin_bit_cast(F64<N>, __builtin_bit_cast(I64<N>, p) + e);
}

// log(1 + x) for x in [0, 1], relative error below 1e-14: 2 atanh(x / (2 + x)), whose argument is at most
// 1/3.
template <int N>
QK_INLINE F64<N> log1p64(F64<N> x) {
  const F64<N> s = x / (2. + x), z = s * s;
  F64<N> p = F64<N>(0.);
  QK_UNROLL
  for (int k = 33; k >= 3; k -= 2) p = (p + 1. / k) * z;
  return 2. * (s + s * p);
}

// log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|)).
template <int N>
QK_INLINE F64<N> softplus64(F64<N> x) {
  const F64<N> zero = F64<N>(0.), a = x < zero ? x : -x;
  return (x > zero ? x : zero) + log1p64<N>(exp64<N>(a));
}
template <int N>
QK_INLINE F64<N> sigmoid64(F64<N> x) {
  return 1. / (1. + exp64<N>(-x));
}

// sin and cos: quadrant by pi/2 in two parts, the first with 33 bits, so that its product with the quadrant
// number is exact for |x| <= 2^20: there the absolute error is below 1e-10. From there on the product's
// rounding counts: below 2e-7 for |x| <= 2^31, more than any position times a frequency of at most 1.
QK_INLINE void sincos64(double x, double* sin_out, double* cos_out) {
  const double magic = 6755399441055744.;
  const double n = (x * 0.63661977236758134308 + magic) - magic;
  const int64_t quadrant = static_cast<int64_t>(n);
  const double r = (x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
  const double z = r * r;
  // Taylor terms to r^15 and r^16: the rest is below 1e-16 for |r| <= pi/4.
  double s = -1. / 1307674368000.;
  s = s * z + 1. / 6227020800.;
  s = s * z - 1. / 39916800.;
  s = s * z + 1. / 362880.;
  s = s * z - 1. / 5040.;
  s = s * z + 1. / 120.;
  s = s * z - 1. / 6.;
  s = r + (r * z) * s;
  double c = 1. / 20922789888000.;
  c = c * z - 1. / 87178291200.;
  c = c * z + 1. / 479001600.;
  c = c * z - 1. / 3628800.;
  c = c * z + 1. / 40320.;
  c = c * z - 1. / 720.;
  c = c * z + 1. / 24.;
  c = 1. - (0.5 * z - (z * z) * c);
  const double a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
  *sin_out = quadrant & 2 ? -a : a;
  *cos_out = (quadrant + 1) & 2 ? -b : b;
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_MATH_H_
