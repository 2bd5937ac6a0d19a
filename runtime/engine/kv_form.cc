#include "runtime/engine/kv_form.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/abi/integer_row.h"
#include "runtime/base/float_environment.h"

namespace qrt {
namespace {

// 2^exponent, of the normal numbers.
float PowerOfTwo(int32_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

float FromHalf(uint16_t half) {
  const uint32_t size = half & 0x7fffu, sign = uint32_t{half & 0x8000u} << 16;
  uint32_t bits = (size << 13) + (112u << 23);
  if (size < 0x400) bits = std::bit_cast<uint32_t>(static_cast<float>(size) * 0x1p-24f);
  if (size >= 0x7c00) bits = 0x7f800000u | size << 13;
  return std::bit_cast<float>(bits | sign);
}

// The nearest, ties to even; no number: one NaN.
uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  uint32_t half = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10);
  // Below the least normal number the adder rounds: a sum with 0.5 has the unit of subnormal halves.
  if (size < 0x38800000u) half = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
  if (size >= 0x477ff000u) half = 0x7c00;  // 65520
  if (size > 0x7f800000u) return 0x7e00;
  return static_cast<uint16_t>(half | sign);
}

// To the nearest integer, ties to even, of less than 2^22: the sum has the unit 1.
float Nearest(float x) {
  constexpr float kMagic = 0x1.8p23f;
  return (x + kMagic) - kMagic;
}

}  // namespace

void IntegersFromHalves(std::span<uint16_t> rows, uint64_t values, int32_t bits) {
  const FloatEnvironment nearest;
  for (; !rows.empty(); rows = rows.subspan(values)) {
    const std::span<uint16_t> row = rows.first(values);
    uint32_t largest = 0;  // as bits, whose order is that of the numbers
    for (const uint16_t half : row) largest = std::max(largest, half & 0x7fffu);
    const bool numbers = largest < 0x7c00;
    const int32_t e =
        !numbers       ? IntegerRow::kNoNumber
        : largest == 0 ? 0
                       : std::max(127 + std::ilogb(FromHalf(static_cast<uint16_t>(largest))) + 1 - bits, 1);
    // Exact: a half is at least 2^-24, so the power is at most 2^(24 + bits).
    const float per_unit = numbers && e != 0 ? PowerOfTwo(127 - e) : 0.f;
    const auto most = static_cast<float>((1 << bits) - 1);
    for (uint64_t i = 0; i < values; ++i) {
      const bool tells = i < IntegerRow::kUnitBits;
      const float limit = tells ? most - 1 : most;
      const float units = numbers ? std::clamp(FromHalf(row[i]) * per_unit, -limit, limit) : 0.f;
      const auto bit = static_cast<float>(tells ? e >> i & 1 : 0);
      const float integer = tells ? Nearest((units - bit) / 2.f) * 2.f + bit : Nearest(units);
      row[i] = std::bit_cast<uint16_t>(static_cast<int16_t>(integer));
    }
  }
}

void HalvesFromIntegers(std::span<uint16_t> rows, uint64_t values) {
  const FloatEnvironment nearest;
  for (; !rows.empty(); rows = rows.subspan(values)) {
    const std::span<uint16_t> row = rows.first(values);
    int32_t e = 0;
    for (int32_t b = 0; b < IntegerRow::kUnitBits; ++b) e |= (row[b] & 1) << b;
    const bool number = e != IntegerRow::kNoNumber;
    const float unit = number && e != 0 ? PowerOfTwo(e - 127) : 0.f;
    for (uint16_t& element : row) {
      element =
          number ? ToHalf(static_cast<float>(std::bit_cast<int16_t>(element)) * unit) : uint16_t{0x7e00};
    }
  }
}

}  // namespace qrt
