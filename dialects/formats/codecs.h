// The codec functions behind the format table, one pair per row of formats.def. Other rooms go through
// formats.h.
#ifndef QCC_DIALECTS_FORMATS_CODECS_H_
#define QCC_DIALECTS_FORMATS_CODECS_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dialects/formats/formats.h"

namespace qcc::codecs {

#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) \
  void decode_##id(const uint8_t* src, float* dst);      \
  void encode_##id(const float* src, uint8_t* dst, EncodeEffort effort);
#include "dialects/formats/formats.def"
#undef QCC_FORMAT

// Little-endian 16-bit fields of a block.
inline uint16_t load_u16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | (p[1] << 8));
}
inline void store_u16(uint16_t v, uint8_t* p) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
}

inline float load_half(const uint8_t* p) {
  return half_to_float(load_u16(p));
}

// A scale as the block will hold it: rounded to half, never infinite.
inline float store_scale(float v, uint8_t* p) {
  constexpr float kMax = 65504.0f;
  uint16_t h = float_to_half(v > kMax ? kMax : (v < -kMax ? -kMax : v));
  store_u16(h, p);
  return half_to_float(h);
}

// Nearest integer to x clamped to [lo, hi], ties to even; lo and hi must lie within +-2^20. Adding 1.5 * 2^23
// leaves the integer in the low mantissa bits, which compilers turn into plain vector code (lrintf they do
// not).
inline int nearest_clamped(float x, int lo, int hi) {
  float flo = static_cast<float>(lo), fhi = static_cast<float>(hi);
  float c = x > flo ? x : flo;  // a NaN (0 * infinity from a subnormal scale) becomes lo
  c = c < fhi ? c : fhi;
  return std::bit_cast<int32_t>(c + 12582912.0f) - 0x4b400000;
}

// Copies `n` weights with NaN and infinities replaced, so that the arithmetic of an encoder stays finite.
inline void copy_finite(const float* src, int n, float* dst) {
  // Sums of 256 squares are taken in f64, so any finite f32 is safe.
  constexpr float kMax = std::numeric_limits<float>::max();
  for (int i = 0; i < n; ++i) {
    float v = src[i] == src[i] ? src[i] : 0.0f;
    v = v > kMax ? kMax : v;
    dst[i] = v < -kMax ? -kMax : v;
  }
}

}  // namespace qcc::codecs

#endif  // QCC_DIALECTS_FORMATS_CODECS_H_
