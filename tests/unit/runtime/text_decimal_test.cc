// Floats as decimals, beside what the standard library makes of them.
#include "runtime/text/decimal.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using qrt::text::DecimalText;
using qrt::text::ShortestText;

std::string Standard(double value, std::chars_format style) {
  std::array<char, 64> text;
  return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value, style).ptr);
}
std::string Standard(double value, std::chars_format style, int precision) {
  std::array<char, 1400> text;
  return std::string(text.data(),
                     std::to_chars(text.data(), text.data() + text.size(), value, style, precision).ptr);
}

// Numbers of every exponent and those next to powers of two, where as much is read as them below as half of
// what is above; short decimals; subnormal ones.
std::vector<double> Numbers() {
  std::vector<double> numbers = {0, -0., 1, 0.1, 1e16, 123456789, 5e-324, 1e22, 9007199254740993., 0.5, 100};
  for (int e = -1074; e <= 1023; ++e) {
    const double power = std::ldexp(1., e);
    for (const double x : {power, std::nextafter(power, 0.), std::nextafter(power, 1e308)}) {
      numbers.push_back(x);
      numbers.push_back(-x);
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 30000; ++i) {
    const double any = std::bit_cast<double>(random());
    if (std::isfinite(any)) numbers.push_back(any);
    numbers.push_back(std::bit_cast<double>(random() >> (12 + random() % 50)));  // subnormal
    numbers.push_back(static_cast<double>(random() % 100000) / 1000);
    numbers.push_back(static_cast<double>(random() >> (random() % 64)));
  }
  return numbers;
}

TEST(Decimal, ShortestIsThatOfTheStandardLibrary) {
  for (const double value : Numbers()) {
    ASSERT_EQ(ShortestText(value), Standard(value, std::chars_format::scientific)) << std::hexfloat << value;
  }
}

TEST(Decimal, StylesAreThoseOfTheStandardLibraryWhateverTheRoundingIs) {
  const std::vector<double> numbers = Numbers();
  for (size_t i = 0; i < numbers.size(); i += 97) {
    for (const int precision : {0, 1, 6, 17, 400, 1000}) {
      const double value = numbers[i];
      const std::string e = Standard(value, std::chars_format::scientific, precision),
                        f = Standard(value, std::chars_format::fixed, precision),
                        g = Standard(value, std::chars_format::general, precision);
      for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO}) {
        std::fesetround(rounding);
        const std::string found[] = {DecimalText(value, 'e', precision), DecimalText(value, 'f', precision),
                                     DecimalText(value, 'g', precision)};
        const int after = std::fegetround();
        std::fesetround(FE_TONEAREST);
        ASSERT_EQ(found[0], e) << std::hexfloat << value << ", rounding " << rounding;
        ASSERT_EQ(found[1], f) << std::hexfloat << value << ", rounding " << rounding;
        ASSERT_EQ(found[2], g) << std::hexfloat << value << ", rounding " << rounding;
        ASSERT_EQ(after, rounding) << "the host's rounding is another";
      }
    }
  }
}

TEST(Decimal, ShortestWhateverTheRoundingIs) {
  for (const double value : {0.1, 1 / 3., 9007199254740993., 5e-324, std::numeric_limits<double>::max()}) {
    const std::string expected = Standard(value, std::chars_format::scientific);
    std::fesetround(FE_UPWARD);
    const std::string found = ShortestText(value);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
