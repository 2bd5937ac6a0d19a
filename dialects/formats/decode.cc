// Reference decode of every format: a block is taken apart by its description, and its weights are computed
// as plain_form.h says.
#include <algorithm>
#include <bit>
#include <iterator>

#include "dialects/formats/blocks.h"
#include "dialects/formats/codecs.h"

namespace qcc {
namespace codecs {
namespace {

// Templates over the row pass a constant form; inlined, its branches fold.
[[gnu::always_inline]] inline void values_of(const PlainForm& p, const PlainBlock& b, float* dst) {
  for (int c = 0; c < p.block; c += p.columns_per_scale) {
    const int g = c / p.columns_per_scale;
    float s = base_value(p.base, b.base[c / p.columns_per_base]) * p.factor;
    if (p.scale == GroupScale::kU8) s *= static_cast<float>(b.scale[g]);
    if (p.scale == GroupScale::kI8) s *= static_cast<float>(static_cast<int8_t>(b.scale[g]));
    float m = 0;
    if (p.minimum == Minimum::kHalf) m = half_to_float(b.minimum);
    if (p.minimum == Minimum::kScaled) m = half_to_float(b.minimum) * static_cast<float>(b.min[g]);
    for (int i = c; i < c + p.columns_per_scale; ++i) {
      const int value = p.table_size != 0 ? p.table[b.code[i]] : b.code[i] - p.offset;
      const float product = s * static_cast<float>(value);
      if (p.minimum == Minimum::kNone) dst[i] = product;
      if (p.minimum == Minimum::kHalf) dst[i] = product + m;
      if (p.minimum == Minimum::kScaled) dst[i] = product - m;
    }
  }
}

// Every index is that of a point, and the value table has the levels of the points: with both signs, or with
// both deltas.
constexpr bool book_fits(const FormatDescription& d) {
  const Codebook& book = d.layout.book;
  if (book.count == 0) return true;
  if (book.count != 1 << d.layout.index.bits() || d.plain.table_size != 2 * book.levels) return false;
  const bool has_delta = d.layout.delta.bits != 0;
  for (int i = 0; i < book.levels; ++i) {
    const int level = book.level[i];
    const int lower = d.plain.table[has_delta ? 2 * i : book.levels - 1 - i];
    const int upper = d.plain.table[has_delta ? 2 * i + 1 : book.levels + i];
    if (lower != (has_delta ? 8 * level - 1 : -level)) return false;
    if (upper != (has_delta ? 8 * level + 1 : level)) return false;
  }
  return true;
}

// Packers and kernels lay out codes of no other sizes.
constexpr bool code_fits(const FormatDescription& d) {
  const int bits = d.plain.bits;
  return d.plain.scalar != Scalar::kNone || (bits >= 1 && bits <= 6) || bits == 8;
}

// The sizes in formats.def are the identity that other rooms read; each description must come to the same.
template <int kRow>
constexpr bool adds_up(FormatClass cls, int elems, int bytes) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  if (d.id != static_cast<Format>(kRow)) return false;
  if (cls == FormatClass::kPlain) {
    return d.plain.block == 0 && elems == 1 && d.plain.scalar_bytes() == bytes;
  }
  return d.plain.scalar == Scalar::kNone && d.plain.block == elems && block_bytes(d) == bytes;
}
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls)                               \
  static_assert(adds_up<static_cast<int>(Format::id)>(FormatClass::cls, elems, bytes), \
                name ": the description comes to another block than formats.def says");
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
static_assert(std::all_of(std::begin(kDescriptions), std::end(kDescriptions), book_fits),
              "a codebook has other points or levels than its format's description");
static_assert(std::all_of(std::begin(kDescriptions), std::end(kDescriptions), code_fits),
              "a code has 1 to 6, or 8 bits");
static_assert(sizeof kDescriptions / sizeof kDescriptions[0] == kFormatCount);

template <int kRow>
void take_apart_as(const uint8_t* src, PlainBlock& out) {
  if constexpr (kDescriptions[kRow].plain.block != 0) take_apart_block<kRow>(src, out);
}

constexpr void (*kTakeApart[])(const uint8_t*, PlainBlock&) = {
#define QCC_FORMAT(id, ...) &take_apart_as<static_cast<int>(Format::id)>,
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
};

template <int kRow>
void decode_as(const uint8_t* src, float* dst) {
  PlainBlock block;
  take_apart_block<kRow>(src, block);
  values_of(kDescriptions[kRow].plain, block, dst);
}

}  // namespace

#define QCC_DECODE_kPlain(id)
#define QCC_DECODE_kBlock(id)                          \
  void decode_##id(const uint8_t* src, float* dst) {   \
    decode_as<static_cast<int>(Format::id)>(src, dst); \
  }
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) QCC_DECODE_##cls(id)
#include "dialects/formats/formats.def"
#undef QCC_FORMAT

}  // namespace codecs

void take_apart(Format f, const uint8_t* block, PlainBlock& out) {
  codecs::kTakeApart[static_cast<int>(f)](block, out);
}

void plain_values(const PlainForm& form, const PlainBlock& block, float* dst) {
  codecs::values_of(form, block, dst);
}

float base_value(BaseScale kind, uint16_t bits) {
  switch (kind) {
    case BaseScale::kHalf:
      return half_to_float(bits);
    case BaseScale::kE8m0:  // 2^-127 is subnormal in f32
      return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23);
    case BaseScale::kUe4m3:
      break;
  }
  if (bits == 0x7f) return 0;
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(static_cast<uint32_t>((exponent + 120) << 23 | mantissa << 20));
}

}  // namespace qcc
