// A row of a KV cache of 16 bits as the CPU has it: integers in units of a power of two, which is the row's
// own, so that attention multiplies what it reads. A row takes the bytes that f16 would. Stand-alone C++.
//
//   value i = element i * 2^(e - 127)     e: bit b of it is the lowest bit of element b, b < 8
//
// The elements that carry a bit are the nearest integers that have it; the others are the nearest ones. e =
// 0: all elements are 0. e = 255: a value of the row is no number, or one beyond 2^101, with which products
// would leave their range; the elements mean nothing.
//
// How many bits an element has follows from the sums of products that it goes into, which stay below 2^31: a
// key's over all values of a head, a value's over the positions of a tile.
#ifndef QRT_ABI_INTEGER_ROW_H_
#define QRT_ABI_INTEGER_ROW_H_

#include <stdint.h>

namespace qrt {

// Bits of the integers of a product of vectors, besides the sign: |left| < 2^left, |right| <= 2^right, so
// that a sum of `terms` products stays below 2^31.
struct ProductBits {
  int32_t left, right;
  static constexpr ProductBits Of(int64_t terms) {
    int32_t sum = 31;
    while (int64_t{1} << (31 - sum) < terms) --sum;
    return {(sum + 1) / 2, sum / 2};
  }
};

struct IntegerRow {
  static constexpr int32_t kUnitBits = 8;  // e's; a row has at least as many elements
  static constexpr int64_t kMostValues = 4096;
  static constexpr int64_t kTile = 64;        // positions whose values are summed as integers
  static constexpr int32_t kNoNumber = 255;   // e of a row with a value that is none
  static constexpr int32_t kMostField = 227;  // exponent field of the largest f32 of a row that is one
  static constexpr int32_t KeyBits(int64_t head_dim) { return ProductBits::Of(head_dim).left; }
  static constexpr int32_t kValueBits = ProductBits::Of(kTile).left;
};

}  // namespace qrt

#endif  // QRT_ABI_INTEGER_ROW_H_
