#include "dialects/formats/formats.h"

#include <bit>
#include <cstring>

#include "dialects/formats/codecs.h"

namespace qcc {
namespace {

using EncodeFn = void (*)(const float*, uint8_t*, EncodeEffort);

constexpr FormatInfo kFormats[] = {
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) \
  {Format::id,                                           \
   name,                                                 \
   ggml_id,                                              \
   elems,                                                \
   bytes,                                                \
   FormatClass::cls,                                     \
   &codecs::decode_##id,                                 \
   [](const float* src, uint8_t* dst) { codecs::encode_##id(src, dst, EncodeEffort::kBest); }},
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
};

constexpr EncodeFn kEncoders[] = {
#define QCC_FORMAT(id, ...) &codecs::encode_##id,
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
};

struct TypeName {
  uint32_t id;
  std::string_view name;
};

// Type ids in GGUF files that have no row in formats.def. Where a removed id was taken over by a fork both
// names are given: the reader of a message cannot tell the writers apart either.
constexpr TypeName kTypeNames[] = {
    {4, "Q4_2 (removed from ggml)"},
    {5, "Q4_3 (removed from ggml)"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {31, "Q4_0_4_4 (removed from ggml)"},
    {32, "Q4_0_4_8 (removed from ggml)"},
    {33, "Q4_0_8_8 (removed from ggml)"},
    {36, "I2_S (ik_llama.cpp) or IQ4_NL_4_4 (removed from ggml)"},
    {37, "IQ4_NL_4_8 (removed from ggml)"},
    {38, "IQ4_NL_8_8 (removed from ggml)"},
    {43, "F8_E4M3 (OxiBonsai)"},
    {44, "F8_E5M2 (OxiBonsai)"},
    {133, "Q6_0 (ik_llama.cpp)"},
    {134, "IQ1_BN (ik_llama.cpp)"},
    {135, "IQ2_BN (ik_llama.cpp)"},
    {137, "IQ2_K (ik_llama.cpp)"},
    {138, "IQ3_K (ik_llama.cpp)"},
    {139, "IQ4_K (ik_llama.cpp)"},
    {140, "IQ5_K (ik_llama.cpp)"},
    {141, "IQ6_K (ik_llama.cpp)"},
    {142, "PQ2_0 (PrismML) or IQ2_TN (ik_llama.cpp)"},
    {143, "PTQ1_0 (PrismML), G8_0 (mortar.cpp) or IQ1_TN (ik_llama.cpp)"},
    {144, "IQ4_KS (ik_llama.cpp)"},
    {145, "IQ2_KS (ik_llama.cpp)"},
    {146, "IQ4_KSS (ik_llama.cpp)"},
    {152, "IQ5_KS (ik_llama.cpp)"},
    {153, "IQ2_KT (ik_llama.cpp)"},
    {154, "IQ3_KT (ik_llama.cpp)"},
    {155, "IQ4_KT (ik_llama.cpp)"},
    {156, "IQ3_KS (ik_llama.cpp)"},
    {157, "IQ2_KL (ik_llama.cpp)"},
    {158, "IQ1_KT (ik_llama.cpp)"},
};

}  // namespace

const FormatInfo& format_info(Format f) {
  return kFormats[static_cast<int>(f)];
}

std::optional<Format> format_from_ggml_id(uint32_t ggml_id) {
  for (const FormatInfo& info : kFormats) {
    if (info.ggml_id == ggml_id) return info.id;
  }
  return std::nullopt;
}

std::optional<Format> next_format_of_same_id(Format f) {
  for (int i = static_cast<int>(f) + 1; i < kFormatCount; ++i) {
    if (kFormats[i].ggml_id == format_info(f).ggml_id) return kFormats[i].id;
  }
  return std::nullopt;
}

std::optional<Format> format_from_name(std::string_view name) {
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) return info.id;
  }
  return std::nullopt;
}

std::string_view ggml_type_name(uint32_t ggml_id) {
  if (std::optional<Format> format = format_from_ggml_id(ggml_id)) return format_info(*format).name;
  for (const TypeName& t : kTypeNames) {
    if (t.id == ggml_id) return t.name;
  }
  if (ggml_id >= 202 && ggml_id <= 399) return "row-interleaved type (ik_llama.cpp)";
  return "unknown";
}

int64_t row_bytes(Format f, int64_t n) {
  const FormatInfo& info = format_info(f);
  return n / info.block_elems * info.block_bytes;
}

void decode_row(Format f, const uint8_t* src, int64_t n, float* dst) {
  const FormatInfo& info = format_info(f);
  for (int64_t i = 0; i < n; i += info.block_elems, src += info.block_bytes) info.decode_block(src, dst + i);
}

void encode_row(Format f, const float* src, int64_t n, uint8_t* dst, EncodeEffort effort) {
  const FormatInfo& info = format_info(f);
  EncodeFn encode = kEncoders[static_cast<int>(f)];
  for (int64_t i = 0; i < n; i += info.block_elems, dst += info.block_bytes) encode(src + i, dst, effort);
}

float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t exp = (h >> 10) & 0x1fu;
  uint32_t man = h & 0x3ffu;
  if (exp == 0) {
    // Zero or subnormal: man * 2^-24 is exact in f32.
    float v = static_cast<float>(man) * 0x1p-24f;
    return sign != 0 ? -v : v;
  }
  if (exp == 31) return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
  return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
}

uint16_t float_to_half(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x1ffu));
  if (mag >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and up round to infinity
  if (mag < 0x38800000u) {
    // Below 2^-14: adding 0.5 puts the rounded subnormal significand (units of 2^-24) into the low bits.
    uint32_t r = std::bit_cast<uint32_t>(std::bit_cast<float>(mag) + 0.5f) - 0x3f000000u;
    return static_cast<uint16_t>(sign | r);
  }
  uint32_t odd = (mag >> 13) & 1u;
  uint32_t r = mag - (112u << 23) + 0xfffu + odd;
  return static_cast<uint16_t>(sign | (r >> 13));
}

float bf16_to_float(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

uint16_t float_to_bf16(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  uint32_t odd = (bits >> 16) & 1u;
  return static_cast<uint16_t>((bits + 0x7fffu + odd) >> 16);
}

}  // namespace qcc
