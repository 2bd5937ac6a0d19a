// Row-wise pieces shared by several kernels. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_ROW_OPS_H_
#define QCC_CODEGEN_CPU_KERNELS_ROW_OPS_H_

#include "codegen/cpu/kernels/vec.h"
#include "dialects/layouts/int8_row.h"

namespace qk {

// Sum of products: four partial sums of 16 lanes over steps of 64, the rest in the first, then one tree.
QK_INLINE float dot_product(const float* x, const float* y, int64_t n) {
  F32<16> a[4];
  QK_UNROLL
  for (int i = 0; i < 4; ++i) a[i] = F32<16>(0.f);
  int64_t c = 0;
  for (; c + 64 <= n; c += 64) {
    QK_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = fma<16>(loadf<16>(x + c + 16 * i), loadf<16>(y + c + 16 * i), a[i]);
  }
  for (; c + 16 <= n; c += 16) a[0] = fma<16>(loadf<16>(x + c), loadf<16>(y + c), a[0]);
  float sum = reduce_add((a[0] + a[1]) + (a[2] + a[3]));
  for (; c < n; ++c) sum = fma1(x[c], y[c], sum);
  return sum;
}
QK_INLINE float sum_of_squares(const float* x, int64_t n) {
  return dot_product(x, x, n);
}

// 1 / sqrt(sum_of_squares / n + eps).
QK_INLINE float rms_scale(const float* x, int64_t n, float eps) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  return 1.f / __builtin_elementwise_sqrt(mean + eps);
}

using qcc::layouts::Int8RowBytes;
using qcc::layouts::Int8ScalesAt;
using qcc::layouts::Int8SumsAt;
using qcc::layouts::Int8WeightedAt;
using qcc::layouts::kTermBits;
using qcc::layouts::kTermRatio;

// What rounding leaves of 32 values.
struct Rest {
  F32<16> v0, v1;
};

// The scale of 32 values: their largest is code 127. No number where one of them is none, which no code is.
QK_INLINE float scale32(F32<16> v0, F32<16> v1) {
  const F32<16> both = v0 + v1;
  const float d = reduce_max(max<16>(abs<16>(v0), abs<16>(v1))) / 127.f;
  return __builtin_reduce_or(both != both) != 0 ? __builtin_nanf("") : d;
}

// The int8 row of 32 columns at column c of a row of k: codes, scale d, sums. v: the values, 16 lanes each.
QK_INLINE Rest quantize32(F32<16> v0, F32<16> v1, float d, uint8_t* row, int64_t k, int64_t c) {
  const F32<16> divisor = splat<16>(d == 0.f ? 1.f : d), limit = splat<16>(127.f);
  // A d that is subnormal may be too small by its rounding: keep the codes in range. d == 0: all codes 0.
  const F32<16> top = d == 0.f ? splat<16>(0.f) : limit;
  const F32<16> q0 = round_even<16>(max<16>(min<16>(v0 / divisor, top), -top));
  const F32<16> q1 = round_even<16>(max<16>(min<16>(v1 / divisor, top), -top));
  store<I8<16>>(row + c, __builtin_convertvector(__builtin_convertvector(q0, I32<16>), I8<16>));
  store<I8<16>>(row + c + 16, __builtin_convertvector(__builtin_convertvector(q1, I32<16>), I8<16>));
  store<float>(row + Int8ScalesAt(k) + c / 8, d);
  // Sums of at most 16 * 127: exact in f32.
  const float sum0 = reduce_add(q0), sum1 = reduce_add(q1);
  store<int32_t>(row + Int8SumsAt(k) + c / 4, static_cast<int32_t>(sum0));
  store<int32_t>(row + Int8SumsAt(k) + c / 4 + 4, static_cast<int32_t>(sum1));
  store<float>(row + Int8WeightedAt(k) + c / 8, d * (sum0 + sum1));
  return {v0 - q0 * d, v1 - q1 * d};
}

QK_INLINE void quantize32(F32<16> v0, F32<16> v1, uint8_t* row, int64_t k, int64_t c) {
  quantize32(v0, v1, scale32(v0, v1), row, k, c);
}

// The lanes of each of four vectors joined, in the tree of reduce_add.
template <class Join>
QK_INLINE F32<4> join_lanes(const F32<8> (&v)[4], Join join) {
  const auto pair = [&](int i) QK_LAMBDA {
    const F32<4> a = join(v[i].lo, v[i].hi), b = join(v[i + 1].lo, v[i + 1].hi);
    return join(__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7));
  };
  const F32<4> a = pair(0), b = pair(2);
  return join(__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7));
}
template <class Join>
QK_INLINE F32<4> join_lanes(const F32<16>* v, Join join) {
  F32<8> halves[4];
  unroll<4>([&](int i) QK_LAMBDA { halves[i] = join(v[i].lo, v[i].hi); });
  return join_lanes(halves, join);
}

// quantize32 of the 128 columns at column c, of which values(column) are 16: an operation of all four blocks
// at a time, for one block's wait for each other (Zen 5, cycles for 32 columns: 40 alone, 25 so; level v3 46,
// 35).
template <class Values>
QK_INLINE void quantize128(Values values, uint8_t* row, int64_t k, int64_t c) {
  F32<16> v[8], tops[4];
  unroll<8>([&](int i) QK_LAMBDA { v[i] = values(c + 16 * i); });
  I32<16> none = 0;
  unroll<4>([&](int i) QK_LAMBDA {
    const F32<16> both = v[2 * i] + v[2 * i + 1];
    none |= both != both;
    tops[i] = max<16>(abs<16>(v[2 * i]), abs<16>(v[2 * i + 1]));
  });
  if (__builtin_reduce_or(none) != 0) {
    unroll<4>([&](int i) QK_LAMBDA { quantize32(v[2 * i], v[2 * i + 1], row, k, c + 32 * i); });
    return;
  }
  const F32<4> d = join_lanes(tops, [](auto a, auto b) QK_LAMBDA { return a > b ? a : b; }) / 127.f;
  const F32<4> divisor = d == 0.f ? F32<4>(1.f) : d, top = d == 0.f ? F32<4>(0.f) : F32<4>(127.f);
  unroll<8>([&](int i) QK_LAMBDA { v[i] = v[i] / F32<16>(divisor[i / 2]); });
  unroll<8>([&](int i) QK_LAMBDA {
    const F32<16> limit = F32<16>(top[i / 2]);
    v[i] = round_even<16>(max<16>(min<16>(v[i], limit), -limit));
    store<I8<16>>(row + c + 16 * i, __builtin_convertvector(__builtin_convertvector(v[i], I32<16>), I8<16>));
  });
  const auto sum = [](auto a, auto b) QK_LAMBDA { return a + b; };
  const F32<4> first = join_lanes(v, sum), second = join_lanes(v + 4, sum);
  store<F32<4>>(row + Int8ScalesAt(k) + c / 8, d);
  store<I32<4>>(row + Int8SumsAt(k) + c / 4, __builtin_convertvector(first, I32<4>));
  store<I32<4>>(row + Int8SumsAt(k) + c / 4 + 16, __builtin_convertvector(second, I32<4>));
  const F32<4> sums =
      __builtin_shufflevector(first, second, 0, 2, 4, 6) + __builtin_shufflevector(first, second, 1, 3, 5, 7);
  store<F32<4>>(row + Int8WeightedAt(k) + c / 8, d * sums);
}

// The int8 row of k columns, of which values(column) are 16.
template <class Values>
QK_INLINE void quantize_row(Values values, uint8_t* row, int64_t k) {
  int64_t c = 0;
  for (; c + 128 <= k; c += 128) quantize128(values, row, k, c);
  for (; c < k; c += 32) quantize32(values(c), values(c + 16), row, k, c);
}

// The same of a row of two terms of k columns each. The second's scale comes first: the ratio is exact where
// it is subnormal too.
QK_INLINE void quantize32_twice(F32<16> v0, F32<16> v1, uint8_t* row, int64_t k, int64_t c) {
  const float second = scale32(v0, v1) * (1.f / kTermRatio);
  const Rest rest = quantize32(v0, v1, second * kTermRatio, row, 2 * k, c);
  quantize32(rest.v0, rest.v1, second, row, 2 * k, k + c);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_ROW_OPS_H_
