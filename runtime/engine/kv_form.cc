#include "runtime/engine/kv_form.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/abi/integer_row.h"

namespace qrt {
namespace {

float FromHalf(uint16_t half) {
  const int exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
  float value;
  if (exponent == 0x1f) {
    value = mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else {
    value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                          : std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

// The nearest, ties to even (as the processor rounds).
uint16_t ToHalf(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520.f) return sign | 0x7c00;
  // In units of the last place: 2^-24 below the least normal number.
  const int exponent = size == 0.f ? -14 : std::max(std::ilogb(size), -14);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | (units + ((exponent + 14) << 10)));
}

float Unit(int32_t e) {
  return e == 0 ? 0.f : std::ldexp(1.f, e - 127);
}

}  // namespace

void IntegersFromHalves(std::span<uint16_t> rows, uint64_t values, int32_t bits) {
  for (; !rows.empty(); rows = rows.subspan(values)) {
    const std::span<uint16_t> row = rows.first(values);
    float largest = 0.f;
    bool numbers = true;
    for (const uint16_t half : row) {
      const float value = FromHalf(half);
      numbers = numbers && std::isfinite(value);
      largest = std::max(largest, std::abs(value));
    }
    const int32_t e = !numbers         ? IntegerRow::kNoNumber
                      : largest == 0.f ? 0
                                       : std::max(127 + std::ilogb(largest) + 1 - bits, 1);
    const bool some = numbers && e != 0;
    for (uint64_t i = 0; i < values; ++i) {
      const bool tells = i < IntegerRow::kUnitBits;
      const float most = static_cast<float>((1 << bits) - (tells ? 2 : 1));
      const float units = some ? std::clamp(FromHalf(row[i]) / Unit(e), -most, most) : 0.f;
      const auto bit = static_cast<float>(tells ? e >> i & 1 : 0);
      const float nearest = tells ? std::nearbyint((units - bit) / 2.f) * 2.f + bit : std::nearbyint(units);
      row[i] = std::bit_cast<uint16_t>(static_cast<int16_t>(nearest));
    }
  }
}

void HalvesFromIntegers(std::span<uint16_t> rows, uint64_t values) {
  for (; !rows.empty(); rows = rows.subspan(values)) {
    const std::span<uint16_t> row = rows.first(values);
    int32_t e = 0;
    for (int32_t b = 0; b < IntegerRow::kUnitBits; ++b) e |= (row[b] & 1) << b;
    for (uint16_t& element : row) {
      element = e == IntegerRow::kNoNumber
                    ? uint16_t{0x7e00}
                    : ToHalf(static_cast<float>(std::bit_cast<int16_t>(element)) * Unit(e));
    }
  }
}

}  // namespace qrt
