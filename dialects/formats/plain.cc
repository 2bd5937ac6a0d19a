// F32, F16, BF16: one scalar per block. Numbers that are not finite pass through unchanged.
#include <bit>

#include "dialects/formats/codecs.h"

namespace qcc::codecs {

void decode_F32(const uint8_t* src, float* dst) {
  uint32_t bits = static_cast<uint32_t>(load_u16(src)) | (static_cast<uint32_t>(load_u16(src + 2)) << 16);
  *dst = std::bit_cast<float>(bits);
}

void encode_F32(const float* src, uint8_t* dst, EncodeEffort) {
  uint32_t bits = std::bit_cast<uint32_t>(*src);
  store_u16(static_cast<uint16_t>(bits), dst);
  store_u16(static_cast<uint16_t>(bits >> 16), dst + 2);
}

void decode_F16(const uint8_t* src, float* dst) {
  *dst = load_half(src);
}
void encode_F16(const float* src, uint8_t* dst, EncodeEffort) {
  store_u16(float_to_half(*src), dst);
}

void decode_BF16(const uint8_t* src, float* dst) {
  *dst = bf16_to_float(load_u16(src));
}
void encode_BF16(const float* src, uint8_t* dst, EncodeEffort) {
  store_u16(float_to_bf16(*src), dst);
}

}  // namespace qcc::codecs
