// The 32-weight blocks: Q4_0, Q4_1, Q8_0. Nibble j of a block holds weight j (low) and weight j + 16 (high).
#include <cmath>

#include "dialects/formats/codecs.h"
#include "dialects/formats/fit.h"

namespace qcc::codecs {
namespace {

constexpr int kBlock = 32;

void store_nibbles(const int* q, uint8_t* dst) {
  for (int j = 0; j < 16; ++j) dst[j] = static_cast<uint8_t>(q[j] | (q[j + 16] << 4));
}

}  // namespace

// half d; u8 qs[16]. y = d * (q - 8).
void decode_Q4_0(const uint8_t* src, float* dst) {
  float d = load_half(src);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * static_cast<float>((src[2 + j] & 15) - 8);
    dst[j + 16] = d * static_cast<float>((src[2 + j] >> 4) - 8);
  }
}

void encode_Q4_0(const float* src, uint8_t* dst, EncodeEffort effort) {
  float x[kBlock];
  copy_finite(src, kBlock, x);
  float d = store_scale(fit_symmetric<kBlock>(x, 8, effort), dst);
  float inv = d != 0 ? 1.0f / d : 0.0f;
  int q[kBlock];
  for (int i = 0; i < kBlock; ++i) q[i] = nearest_clamped(x[i] * inv, -8, 7) + 8;
  store_nibbles(q, dst + 2);
}

// half d; half m; u8 qs[16]. y = d * q + m.
void decode_Q4_1(const uint8_t* src, float* dst) {
  float d = load_half(src);
  float m = load_half(src + 2);
  for (int j = 0; j < 16; ++j) {
    dst[j] = d * static_cast<float>(src[4 + j] & 15) + m;
    dst[j + 16] = d * static_cast<float>(src[4 + j] >> 4) + m;
  }
}

void encode_Q4_1(const float* src, uint8_t* dst, EncodeEffort effort) {
  float x[kBlock];
  copy_finite(src, kBlock, x);
  Line line = fit_affine<kBlock>(x, 15, /*offset_at_most_zero=*/false, effort);
  float d = store_scale(line.scale, dst);
  float m = store_scale(line.offset, dst + 2);
  float inv = d != 0 ? 1.0f / d : 0.0f;
  int q[kBlock];
  for (int i = 0; i < kBlock; ++i) q[i] = nearest_clamped((x[i] - m) * inv, 0, 15);
  store_nibbles(q, dst + 4);
}

// half d; i8 qs[32]. y = d * q.
void decode_Q8_0(const uint8_t* src, float* dst) {
  float d = load_half(src);
  for (int i = 0; i < kBlock; ++i) dst[i] = d * static_cast<float>(static_cast<int8_t>(src[2 + i]));
}

void encode_Q8_0(const float* src, uint8_t* dst, EncodeEffort) {
  float x[kBlock];
  copy_finite(src, kBlock, x);
  float amax = 0;
  for (int i = 0; i < kBlock; ++i) amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
  float d = store_scale(amax / 127.0f, dst);
  float inv = d != 0 ? 1.0f / d : 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    dst[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(nearest_clamped(x[i] * inv, -127, 127)));
  }
}

}  // namespace qcc::codecs
