// What a block format is once its bits are taken apart: one code for each weight, scales for groups of
// weights. This is what packers, CPU kernels and GPU kernels see of a format; where the bits lie in a GGUF
// block is block_layout.h. Stand-alone and constexpr: kernels see no library.
//
//   weight = (base * factor * scale) * value  [+ minimum]
//   value  = table[code], or code - offset where there is no table
//   minimum, if the format has one: kHalf: + m; kScaled: - (dmin * min)
//
// Products are exact in f32 for every format (a half has 11 bits, a scale at most 8, a value at most 8), so
// their order does not matter; the sum with the minimum rounds once.
#ifndef QCC_DIALECTS_FORMATS_PLAIN_FORM_H_
#define QCC_DIALECTS_FORMATS_PLAIN_FORM_H_

#include <stdint.h>

namespace qcc {

// What a format without codes stores for each weight; of the others nothing.
enum class Scalar : uint8_t { kNone, kF32, kF16, kBF16 };
// The float that a group of columns_per_base weights shares, as its bytes lie in the GGUF block.
enum class BaseScale : uint8_t {
  kHalf,   // IEEE half, 2 bytes
  kE8m0,   // one byte e: 2^(e - 127), 2^-127 where e = 0
  kUe4m3,  // one byte, unsigned, bias 7: e = 0: man * 2^-9; 0x7f counts as 0
};
// The integer that multiplies it, one for each columns_per_scale weights; biases are already applied.
enum class GroupScale : uint8_t { kNone, kU8, kI8 };
// One for each columns_per_scale weights (kScaled) or for the block (kHalf).
enum class Minimum : uint8_t { kNone, kHalf, kScaled };

struct PlainForm {
  Scalar scalar = Scalar::kNone;  // else nothing below has a meaning, and block is 0
  int32_t block = 0;              // weights
  int32_t bits = 0;               // of a code: 1, 2, 3, 4, 5, 6 or 8
  int32_t offset = 0;             // what a code is above its value; 0 with a table
  int32_t table_size = 0;         // 0: no table
  int8_t table[16] = {};          // rising
  BaseScale base = BaseScale::kHalf;
  int32_t columns_per_base = 0;  // a multiple of 16
  GroupScale scale = GroupScale::kNone;
  int32_t columns_per_scale = 0;  // 16 or a multiple of 32: columns that share base * scale
  float factor = 1;               // a power of two
  Minimum minimum = Minimum::kNone;

  // Smallest and largest value of a code.
  constexpr int32_t low() const { return table_size ? table[0] : -offset; }
  constexpr int32_t high() const { return table_size ? table[table_size - 1] : (1 << bits) - 1 - offset; }
  // From the value of a code to that of the next; 0: not the same for all.
  constexpr int32_t step() const {
    if (table_size == 0) return 1;
    for (int32_t i = 2; i < table_size; ++i) {
      if (table[i] - table[i - 1] != table[1] - table[0]) return 0;
    }
    return table[1] - table[0];
  }
  constexpr int32_t scalar_bytes() const {
    return scalar == Scalar::kNone ? 0 : scalar == Scalar::kF32 ? 4 : 2;
  }
  constexpr int32_t bases() const { return block / columns_per_base; }
  constexpr int32_t base_bytes() const { return base == BaseScale::kHalf ? 2 : 1; }  // of one
  constexpr int32_t scales() const { return scale == GroupScale::kNone ? 0 : block / columns_per_scale; }
};

// One GGUF block taken apart, in column order.
struct PlainBlock {
  uint16_t base[16];  // bases(): half bits, or the byte of kE8m0 and kUe4m3
  uint16_t minimum;   // half bits: m (kHalf) or dmin (kScaled)
  uint8_t scale[16];  // scales(): kU8, or the bits of kI8
  uint8_t min[16];    // scales(), kScaled only
  uint8_t code[256];  // block
};

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_PLAIN_FORM_H_
