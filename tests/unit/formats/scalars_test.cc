// Half and bfloat16 conversions, over every 16-bit pattern and around every rounding boundary.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "dialects/formats/formats.h"

namespace qcc {
namespace {

// binary16 value from its definition, in f64 (exact).
double HalfValue(uint16_t h) {
  int exponent = (h >> 10) & 31;
  int mantissa = h & 1023;
  double sign = (h & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool IsFiniteHalf(int h) {
  return ((h >> 10) & 31) != 31;
}

TEST(Half, EveryPatternDecodesAndComesBack) {
  for (int h = 0; h < 65536; ++h) {
    float f = half_to_float(static_cast<uint16_t>(h));
    if (IsFiniteHalf(h)) {
      ASSERT_EQ(static_cast<double>(f), HalfValue(static_cast<uint16_t>(h))) << "half 0x" << std::hex << h;
      ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0) << "half 0x" << std::hex << h;
    } else if ((h & 1023) == 0) {
      ASSERT_TRUE(std::isinf(f)) << "half 0x" << std::hex << h;
    } else {
      ASSERT_TRUE(std::isnan(f)) << "half 0x" << std::hex << h;
      uint16_t back = float_to_half(f);
      ASSERT_FALSE(IsFiniteHalf(back)) << "half 0x" << std::hex << h;
      ASSERT_EQ(back & 0x83ff, (h & 0x83ff) | 0x200)
          << "a NaN keeps sign and payload, quieted; half 0x" << std::hex << h;
      continue;
    }
    ASSERT_EQ(float_to_half(f), h) << "half 0x" << std::hex << h;
  }
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (int h = 0; h < 0x7bff; ++h) {
    double low = HalfValue(static_cast<uint16_t>(h)), high = HalfValue(static_cast<uint16_t>(h + 1));
    float middle = static_cast<float>((low + high) / 2);  // exact: one more bit than a half
    int even = (h & 1) == 0 ? h : h + 1;
    ASSERT_EQ(float_to_half(middle), even) << "between 0x" << std::hex << h << " and the next";
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 0.0f)), h)
        << "below the middle after 0x" << std::hex << h;
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 1e9f)), h + 1)
        << "above the middle after 0x" << std::hex << h;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << "negative, 0x" << std::hex << h;
  }
}

TEST(Half, OverflowsToInfinityFrom65520) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(std::nextafterf(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
}

TEST(Bf16, EveryPatternDecodesAndComesBack) {
  for (int b = 0; b < 65536; ++b) {
    float f = bf16_to_float(static_cast<uint16_t>(b));
    ASSERT_EQ(std::bit_cast<uint32_t>(f), static_cast<uint32_t>(b) << 16);
    int expected = std::isnan(f) ? (b | 0x40) : b;
    ASSERT_EQ(float_to_bf16(f), expected) << "bf16 0x" << std::hex << b;
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t b : {0x0000u, 0x0001u, 0x3f80u, 0x3f81u, 0x7f7eu, 0xbf80u, 0xc2ffu}) {
    uint32_t bits = b << 16;
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(bits | 0x7fffu)), b) << std::hex << b;
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(bits | 0x8000u)), b + (b & 1)) << std::hex << b;
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(bits | 0x8001u)), b + 1) << std::hex << b;
  }
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose payload sits only in the dropped bits must stay a NaN.
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

}  // namespace
}  // namespace qcc
