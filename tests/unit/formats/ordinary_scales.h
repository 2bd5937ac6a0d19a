// Blocks of arbitrary bytes for the tests of kernels: all codes occur, at scales that let every one of them
// count.
#ifndef QCC_TESTS_UNIT_FORMATS_ORDINARY_SCALES_H_
#define QCC_TESTS_UNIT_FORMATS_ORDINARY_SCALES_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "dialects/formats/descriptions.h"

namespace qcc {

// Overwrites number `e` of a field of a block of `d`; BitField::put adds bits to what is there.
inline void ReplaceNumber(const FormatDescription& d, const BitField& field, uint32_t value, uint8_t* block,
                          int32_t e) {
  std::vector<uint8_t> ones(static_cast<size_t>(format_info(d.id).block_bytes), 0);
  field.put(field.mask(), ones.data(), e);
  for (size_t i = 0; i < ones.size(); ++i) block[i] = static_cast<uint8_t>(block[i] & ~ones[i]);
  field.put(value, block, e);
}

// Gives a block of arbitrary bytes base scales and minima of ordinary size, so that no block hides the others
// of its row and products stay well inside f32: halves near 0.01, powers of two from 2^-17 to 2^-2 and one in
// 16 that is subnormal as f32, any E4M3. `normal()`: near normal, sigma 1; `bits()`: uniform, 8 of them at
// least.
template <class Normal, class Bits>
void SetOrdinaryScales(const FormatDescription& d, uint8_t* block, Normal normal, Bits bits) {
  const auto half = [&] { return float_to_half(normal() * 0.01f); };
  const int32_t pieces = (d.plain.base == BaseScale::kHalf ? 16 : 8) / d.layout.base.bits;
  for (int32_t b = 0; b < d.plain.bases(); ++b) {
    uint32_t base = 0;
    if (d.plain.base == BaseScale::kHalf) base = half();
    if (d.plain.base == BaseScale::kE8m0) base = bits() % 16 ? 110 + bits() % 16 : bits() % 2;
    if (d.plain.base == BaseScale::kUe4m3) base = bits() % 256;
    for (int32_t k = 0; k < pieces; ++k) {
      ReplaceNumber(d, d.layout.base, base >> (k * d.layout.base.bits), block, b * pieces + k);
    }
  }
  if (d.plain.minimum == Minimum::kNone) return;
  const uint16_t minimum = half();
  std::memcpy(block + d.layout.minimum, &minimum, 2);
}

}  // namespace qcc

#endif  // QCC_TESTS_UNIT_FORMATS_ORDINARY_SCALES_H_
