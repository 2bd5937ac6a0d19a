// GGUF block formats as data: ids, sizes, reference decode and encode. No MLIR, no allocation, no
// dependencies. Layouts: ggml's quantised blocks (little endian). Decode is the definition that every kernel
// is tested against.
#ifndef QCC_DIALECTS_FORMATS_FORMATS_H_
#define QCC_DIALECTS_FORMATS_FORMATS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "dialects/formats/format_id.h"
#include "dialects/formats/plain_form.h"

namespace qcc {

enum class FormatClass : uint8_t { kPlain, kBlock };

// How hard an encoder looks for good scales. kFast only fits the range of each group (several times faster, a
// little worse); kBest also searches neighbouring scales and refines them by least squares. Both are
// deterministic.
enum class EncodeEffort : uint8_t { kFast, kBest };

struct FormatInfo {
  Format id;
  std::string_view name;
  uint32_t ggml_id;
  int32_t block_elems;  // weights per block
  int32_t block_bytes;  // bytes per block
  FormatClass cls;
  // One block: `block_bytes` bytes <-> `block_elems` floats. Decode is exact (f32 holds every decoded value
  // as the format defines it: products in f32, in the order the format documents). Encode is deterministic
  // (kBest) and never stores a scale that is not finite: a NaN counts as 0 and an infinity as the largest f32
  // (the plain formats keep both).
  void (*decode_block)(const uint8_t* src, float* dst);
  void (*encode_block)(const float* src, uint8_t* dst);
};

const FormatInfo& format_info(Format f);
// The first row with this id, and the next one after `f` with the same: layouts that writers gave one id (42)
// are told apart by the bytes that a tensor takes.
std::optional<Format> format_from_ggml_id(uint32_t ggml_id);
std::optional<Format> next_format_of_same_id(Format f);
std::optional<Format> format_from_name(std::string_view name);

// Name that ggml (or a known fork) gives to a type id, also for ids that this table does not support
// ("IQ2_XXS", "MXFP4", ...); "unknown" otherwise. For error messages.
std::string_view ggml_type_name(uint32_t ggml_id);

// A plain format of fewer bits, each of whose values is one of f32.
constexpr bool widens_to_f32(Format f) {
  return f == Format::F16 || f == Format::BF16;
}

// Rows of `n` weights; `n` must be a multiple of block_elems.
int64_t row_bytes(Format f, int64_t n);
void decode_row(Format f, const uint8_t* src, int64_t n, float* dst);
void encode_row(Format f, const float* src, int64_t n, uint8_t* dst,
                EncodeEffort effort = EncodeEffort::kBest);

// One block of a format that has codes (class kBlock), from its GGUF bytes. Fields that the format lacks keep
// what they held.
void take_apart(Format f, const uint8_t* block, PlainBlock& out);
// The weights of a block taken apart; `dst` takes plain.block of them. What decode_block gives, to the bit.
void plain_values(const PlainForm& form, const PlainBlock& block, float* dst);
// The float that the bits of a base scale stand for. kE8m0 255, a NaN in OCP MX, gives infinity here.
float base_value(BaseScale kind, uint16_t bits);

// The first of `blocks` blocks that decodes to a NaN or an infinity somewhere, or null. Reads scales only.
const uint8_t* first_not_finite(Format f, const uint8_t* data, int64_t blocks);

float half_to_float(uint16_t h);
uint16_t float_to_half(
    float f);  // round to nearest even; too large becomes infinity; a NaN stays a (quiet) NaN
float bf16_to_float(uint16_t b);
uint16_t float_to_bf16(float f);  // round to nearest even; a NaN stays a (quiet) NaN

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_FORMATS_H_
