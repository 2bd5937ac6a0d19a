// Rows of integers in the KV cache (runtime/abi/integer_row.h), and the integers of other vectors that have a
// power of two as scale. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_INTEGER_ROWS_H_
#define QCC_CODEGEN_CPU_KERNELS_INTEGER_ROWS_H_

#include "codegen/cpu/kernels/vec.h"
#include "runtime/abi/integer_row.h"

namespace qk {

using qrt::IntegerRow;
using qrt::ProductBits;

// 2^e, -126 <= e <= 127.
QK_INLINE float power_of_two(int32_t e) {
  return bits_to_float(static_cast<uint32_t>(127 + e) << 23);
}

// v in units of a power of two, rounded to the nearest integers, ties to even, in the low halves of the
// lanes; the high ones are anything. |v| < 2^15 units. round: 1.5 * 2^23 units.
template <int N>
QK_INLINE I32<N> to_low_half(F32<N> v, float round) {
  return __builtin_bit_cast(I32<N>, v + F32<N>(round));
}
QK_INLINE float rounding_to(float unit) {
  return 12582912.f * unit;
}

// The exponent field of the largest of n values, a multiple of 8; 255: one is no number.
QK_INLINE int32_t largest_exponent(const float* v, int64_t n) {
  I32<8> largest = I32<8>(0);
  for (int64_t c = 0; c < n; c += 8)
    largest = __builtin_elementwise_max(largest, load<I32<8>>(v + c) & 0x7fffffff);
  return __builtin_reduce_max(largest) >> 23;
}

// src as a row of n integers below 2^bits, n a multiple of 8. Less than 2^-126 is nothing.
QK_INLINE void store_integers(const float* src, uint8_t* dst, int64_t n, int32_t bits) {
  static_assert(IntegerRow::kUnitBits == 8);
  const int32_t field = largest_exponent(src, n);
  const bool number = field > 0 && field <= IntegerRow::kMostField;
  const int32_t above = field + 1 - bits;
  const int32_t e = field == 0 ? 0 : !number ? IntegerRow::kNoNumber : above < 1 ? 1 : above;
  // What is no number gets elements all the same, which nobody reads.
  const float per_unit = number ? power_of_two(127 - e) : 0.f;
  // Below 2^bits after rounding, too; one less still leaves room for the lowest bit that is wanted.
  const F32<8> most = F32<8>(static_cast<float>((1 << bits) - 1));
  const auto units = [&](int64_t c, F32<8> limit) QK_LAMBDA {
    const F32<8> v = number ? loadf<8>(src + c) * per_unit : F32<8>(0.f);
    return max<8>(min<8>(v, limit), -limit);
  };
  const I32<8> lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const F32<8> bit = to_float<8>(I32<8>(e) >> lane & 1);
  const F32<8> first = round_even<8>((units(0, most - 1.f) - bit) * 0.5f) * 2.f + bit;
  store<I16<8>>(dst, __builtin_convertvector(__builtin_convertvector(first, I32<8>), I16<8>));
  for (int64_t c = 8; c < n; c += 8) {
    const I32<8> v = to_low_half<8>(units(c, most), rounding_to(1.f));
    store<I16<8>>(dst + 2 * c, __builtin_convertvector(v, I16<8>));
  }
}

// Pairs of lanes of a, then of b, added up.
template <int... L>
QK_INLINE I16<8> add_neighbours(I16<8> a, I16<8> b, Sequence<int, L...>) {
  return __builtin_shufflevector(a, b, (2 * L)...) + __builtin_shufflevector(a, b, (2 * L + 1)...);
}
// The units of eight rows of integers, `row` bytes apart, from number j on; NaN: of one with a value that is
// no number. 0 from row `held` on.
QK_INLINE F32<8> units_of(const uint8_t* rows, int64_t row, int64_t j, int64_t held) {
  const auto lanes = __make_integer_seq<Sequence, int, 8>();
  I16<8> bits[8];
  unroll<8>([&](int i) QK_LAMBDA {
    const I16<8> first = load<I16<8>>(rows + (j + i < held ? j + i : held - 1) * row);
    bits[i] = (first & int16_t{1}) * I16<8>{1, 2, 4, 8, 16, 32, 64, 128};
  });
  unroll<4>([&](int i) QK_LAMBDA { bits[i] = add_neighbours(bits[2 * i], bits[2 * i + 1], lanes); });
  unroll<2>([&](int i) QK_LAMBDA { bits[i] = add_neighbours(bits[2 * i], bits[2 * i + 1], lanes); });
  const I32<8> e = __builtin_convertvector(add_neighbours(bits[0], bits[1], lanes), I32<8>);
  const I32<8> unit = e == IntegerRow::kNoNumber ? I32<8>(0x7fc00000) : e << 23;
  const I32<8> lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return __builtin_bit_cast(F32<8>,
                            lane + static_cast<int32_t>(j) < static_cast<int32_t>(held) ? unit : I32<8>(0));
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_INTEGER_ROWS_H_
