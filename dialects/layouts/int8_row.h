// One row of k activations as int8 blocks, k % 32 == 0: i8 code[k]; f32 scale[k / 32]; i32 sum[k / 16], each
// of the codes of 16 columns; f32 weighted[k / 32], each scale times the sum of its 32 codes, which is what a
// weight's minimum is multiplied by. Stand-alone and constexpr: kernels see no library.
#ifndef QCC_DIALECTS_LAYOUTS_INT8_ROW_H_
#define QCC_DIALECTS_LAYOUTS_INT8_ROW_H_

#include <stdint.h>

namespace qcc::layouts {

// Values that are rounded under one scale: the columns of the smallest block format, so that one scale per
// block serves every format's integer dot product.
inline constexpr int64_t kInt8Block = 32;

// Of a row of two terms the second's scale is 1 / kTermRatio of the first's, whatever the first leaves, so
// that sums of both may join as integers.
inline constexpr int32_t kTermBits = 8;
inline constexpr float kTermRatio = 1 << kTermBits;

// Byte offsets in the row; the codes are at 0.
constexpr int64_t Int8ScalesAt(int64_t k) {
  return k;
}
constexpr int64_t Int8SumsAt(int64_t k) {
  return k + k * 4 / kInt8Block;
}
constexpr int64_t Int8WeightedAt(int64_t k) {
  return Int8SumsAt(k) + k / 4;
}
// Bytes with something in them, and from one row to the next.
constexpr int64_t Int8UsedBytes(int64_t k) {
  return Int8WeightedAt(k) + k * 4 / kInt8Block;
}
constexpr int64_t Int8RowBytes(int64_t k) {
  return (Int8UsedBytes(k) + 63) / 64 * 64;
}

}  // namespace qcc::layouts

#endif  // QCC_DIALECTS_LAYOUTS_INT8_ROW_H_
