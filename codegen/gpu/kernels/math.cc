#include "codegen/gpu/kernels/math.h"

#include <initializer_list>

namespace qcc::gpu {
namespace {

// c[0] x^n + c[1] x^(n-1) + ..., by Horner.
Val Polynomial(Val x, std::initializer_list<double> coefficients) {
  Val p;
  for (double c : coefficients) p = p ? Fma(p, x, Const(x, c)) : Const(x, c);
  return p;
}

Val LtSigned(Val a, int32_t b) {
  return LtS(a, a.builder()->I32(b));
}

// The lesser of 88 and x, and NaN of NaN. By bits: MinF may take the number of a number and a NaN, and
// drivers make one of a comparison of floats that selects among its sides.
Val AtMost88(Val x) {
  Builder& b = *x.builder();
  constexpr int32_t k88 = 0x42b00000, kInfinity = 0x7f800000;
  // Of bits from 88's to infinity's, as unsigned numbers from 0 on.
  return Select(LtU(b.AsI32(x) - k88, b.I32(kInfinity - k88 + 1)), b.F32(88.f), x);
}

}  // namespace

Val RoundEvenToI32(Val x) {
  return x.builder()->AsI32(x + kFloatBias) - kFloatBiasBits;
}

Val Exp(Val x) {
  Builder& b = *x.builder();
  // What lies below the range is not looked at in the end.
  const Val c = AtMost88(x);
  const Val shifted = c * 1.44269504089 + kFloatBias;
  const Val n = shifted - kFloatBias;
  // ln 2 in two parts; n * hi is exact (|n| < 128, hi has 9 bits).
  Val r = Fma(n, b.F32(-0.693359375f), c);
  r = Fma(n, b.F32(2.12194440054690583e-4f), r);
  // Taylor terms to r^7 / 5040: the rest is below 6e-9 for |r| <= ln 2 / 2.
  const Val p = Polynomial(r, {1. / 5040., 1. / 720., 1. / 120., 1. / 24., 1. / 6., 0.5});
  const Val y = Fma(p * r, r, r) + 1.0;
  // 2^n as a number, and a product with it, exact: a sum of bits could make one of a NaN.
  const Val power = b.AsF32((b.AsI32(shifted) - (kFloatBiasBits - 127)) << 23);
  return Select(LtF(x, b.F32(-87.f)), b.F32(0.f), y * power);
}

Val Sigmoid(Val x) {
  Builder& b = *x.builder();
  return DivF(b.F32(1.f), Exp(b.Call(Builder::Fn::kNeg, x)) + 1.0);
}

Val Silu(Val x) {
  return DivF(x, Exp(x.builder()->Call(Builder::Fn::kNeg, x)) + 1.0);
}

Val Log1p(Val x) {
  // 2 atanh(s), s = x / (2 + x) <= 1/3.
  const Val divisor = x + 2.0;
  Val s = DivF(x, divisor);
  // One step of Newton: the quotient of some targets is 2.5 ulp off.
  s = s + DivF(Fma(x.builder()->Call(Builder::Fn::kNeg, s), divisor, x), divisor);
  const Val z = s * s;
  // The next term, z^8 / 17, is below 2e-9.
  const Val p = Polynomial(z, {1. / 15., 1. / 13., 1. / 11., 1. / 9., 1. / 7., 1. / 5., 1. / 3.});
  const Val twice = s + s;
  return Fma(twice * z, p, twice);
}

Val Softplus(Val x) {
  Builder& b = *x.builder();
  const Val magnitude = b.Call(Builder::Fn::kAbs, x);
  return MaxF(x, b.F32(0.f)) + Log1p(Exp(b.Call(Builder::Fn::kNeg, magnitude)));
}

CosSin CosSinOfTurn(Val turn) {
  Builder& b = *turn.builder();
  // Nearest quarter, and the rest as a signed number of 2^-32 turns, |rest| <= 2^29: up to pi / 4.
  const Val shifted = turn + (1 << 29);
  const Val quarter = ShrU(shifted, 30);
  const Val rest = (shifted & 0x3fffffff) - (1 << 29);
  const Val r = b.ToF32(rest) * 1.4629180792671596e-9;  // 2 pi / 2^32
  const Val z = r * r;
  // Taylor terms to r^9 and r^10: the rest is below 2e-9.
  const Val sine = Fma(r * z, Polynomial(z, {1. / 362880., -1. / 5040., 1. / 120., -1. / 6.}), r);
  const Val cosine = Fma(z * z, Polynomial(z, {-1. / 3628800., 1. / 40320., -1. / 720., 1. / 24.}),
                         Fma(z, b.F32(-0.5f), b.F32(1.f)));
  const Val odd = Eq(quarter & 1, 1);
  const Val s = Select(odd, cosine, sine), c = Select(odd, sine, cosine);
  // Signs as bits: sin is negative in quarters 2 and 3, cos in 1 and 2.
  const Val sin_sign = (quarter & 2) << 30, cos_sign = ((quarter + 1) & 2) << 30;
  return {b.AsF32(b.AsI32(c) ^ cos_sign), b.AsF32(b.AsI32(s) ^ sin_sign)};
}

Val F32ToHalf(Val x) {
  Builder& b = *x.builder();
  const Val bits = b.AsI32(x);
  const Val a = bits & 0x7fffffff;
  const Val sign = ShrU(bits, 16) & 0x8000;
  const Val normal = ShrU(a + 0xfff + (ShrU(a, 13) & 1) - (112 << 23), 13);
  // Below 2^-14 the f32 adder rounds: the sum with 0.5 has the unit of a half's subnormals.
  const Val small = b.AsI32(b.AsF32(a) + 0.5) - (126 << 23);
  Val r = Select(LtSigned(a, 113 << 23), small, normal);
  r = Select(LtSigned(a, 143 << 23), r, b.I32(0x7c00));
  r = Select(LtS(b.I32(255 << 23), a), b.I32(0x7e00), r);
  return r | sign;
}

Val Bf16ToF32(Val bits) {
  return bits.builder()->AsF32(bits << 16);
}

Val AtLeast(Val x, Val floor) {
  Builder& b = *x.builder();
  return b.AsF32(MaxS(b.AsI32(x) & 0x7fffffff, b.AsI32(floor)));
}

Val IsNoNumber(Val x) {
  Builder& b = *x.builder();
  return LeS(b.I32(0x7f800000), b.AsI32(x) & 0x7fffffff);
}

Val ByteU(Val word, int index) {
  return index == 3 ? ShrU(word, 24) : (index == 0 ? word : ShrU(word, 8 * index)) & 0xff;
}

Val ByteS(Val word, int index) {
  return ShrS(index == 3 ? word : word << (24 - 8 * index), 24);
}

}  // namespace qcc::gpu
