// Blocks built field by field, independently of the library's own packing code.
#ifndef QCC_TESTS_UNIT_FORMATS_HANDMADE_H_
#define QCC_TESTS_UNIT_FORMATS_HANDMADE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dialects/formats/formats.h"

namespace qcc::testing {

inline constexpr uint16_t kHalf2 = 0x4000;       // 2.0
inline constexpr uint16_t kHalfMinus3 = 0xc200;  // -3.0
inline constexpr uint16_t kHalfTenth = 0x2e66;   // 0.0999755859375

inline void Put16(std::vector<uint8_t>& b, size_t at, uint32_t v) {
  b[at] = static_cast<uint8_t>(v & 255);
  b[at + 1] = static_cast<uint8_t>(v >> 8 & 255);
}
inline void Put32(std::vector<uint8_t>& b, size_t at, uint32_t v) {
  Put16(b, at, v & 0xffff);
  Put16(b, at + 2, v >> 16);
}

inline std::vector<float> Decode(Format f, const std::vector<uint8_t>& block) {
  const FormatInfo& info = format_info(f);
  EXPECT_EQ(block.size(), static_cast<size_t>(info.block_bytes));
  std::vector<float> out(static_cast<size_t>(info.block_elems), -12345.0f);
  info.decode_block(block.data(), out.data());
  return out;
}

}  // namespace qcc::testing

#endif  // QCC_TESTS_UNIT_FORMATS_HANDMADE_H_
