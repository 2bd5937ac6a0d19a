// The integers that a token is chosen with: fixed points of logits, and weights (runtime/abi/sampling.h).
#ifndef RUNTIME_ENGINE_SAMPLING_FIXED_H_
#define RUNTIME_ENGINE_SAMPLING_FIXED_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/abi/sampling.h"

namespace qrt::sampling {

inline constexpr uint32_t kMantissa = 1u << 23;
// The highest fixed point.
inline constexpr uint64_t kHuge = uint64_t{2 * kMantissa - 1} << QRT_SAMPLING_MAX_SHIFT;

inline uint64_t HighProduct(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

// Keys are in the order of the logits, whose bits they come from; 0 is none. -0 is 0.
inline uint32_t KeyOf(uint32_t bits) {
  if (bits == 0x80000000) bits = 0;
  const auto negative = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
  return bits ^ (negative | 0x80000000);
}
inline uint32_t KeyOf(float logit) {
  return KeyOf(std::bit_cast<uint32_t>(logit));
}
inline uint32_t BitsOf(uint32_t key) {
  return key >> 31 ? key ^ 0x80000000 : ~key;
}
inline float LogitOf(uint32_t key) {
  return std::bit_cast<float>(BitsOf(key));
}

inline bool IsNumber(uint32_t bits) {
  return (bits & 0x7F800000) != 0x7F800000;
}

inline int64_t FixedOf(uint32_t bits) {
  const uint32_t exponent = bits >> 23 & 255;
  uint32_t mantissa = bits & (kMantissa - 1);
  if (exponent != 0) mantissa |= kMantissa;
  const int shift = static_cast<int>(exponent) - 150 + QRT_SAMPLING_POINT;
  uint64_t fixed = kHuge;
  if (shift <= QRT_SAMPLING_MAX_SHIFT) {
    fixed = shift >= 0 ? uint64_t{mantissa} << shift : mantissa >> std::min(-shift, 31);
  }
  return bits >> 31 ? -static_cast<int64_t>(fixed) : static_cast<int64_t>(fixed);
}
inline int64_t FixedOfKey(uint32_t key) {
  return FixedOf(BitsOf(key));
}

// The bits of the float that `fixed` is, rounded towards zero.
inline uint32_t BitsOfFixed(int64_t fixed) {
  const uint64_t size = static_cast<uint64_t>(fixed < 0 ? -fixed : fixed);
  if (size == 0) return 0;
  const int zeros = std::countl_zero(size);
  const uint32_t mantissa = static_cast<uint32_t>(size << zeros >> 40);
  const uint32_t exponent = static_cast<uint32_t>(63 - zeros - 23 + 150 - QRT_SAMPLING_POINT);
  return (fixed < 0 ? 0x80000000 : 0) + ((exponent - 1) << 23) + mantissa;
}

// 2^-(distance * scale) * 2^QRT_SAMPLING_WEIGHT_BITS, rounded down.
inline uint64_t Weight(int64_t distance, uint64_t scale) {
  const uint64_t fraction = static_cast<uint64_t>(distance) * scale;
  const uint64_t halvings = HighProduct(static_cast<uint64_t>(distance), scale);
  if (halvings > QRT_SAMPLING_WEIGHT_BITS) return 0;
  uint64_t sum = qrt_sampling_terms[QRT_SAMPLING_TERMS - 1];
  for (size_t i = QRT_SAMPLING_TERMS - 1; i-- > 0;) sum = qrt_sampling_terms[i] - HighProduct(sum, fraction);
  return sum >> (62 - QRT_SAMPLING_WEIGHT_BITS + halvings);
}

}  // namespace qrt::sampling

#endif  // RUNTIME_ENGINE_SAMPLING_FIXED_H_
