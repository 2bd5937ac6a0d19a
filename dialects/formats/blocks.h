// Blocks as GGUF stores them <-> blocks taken apart, by description. Not for other rooms: they go through
// formats.h. Templates over the row of kDescriptions, so that the places of bits are constants.
#ifndef QCC_DIALECTS_FORMATS_BLOCKS_H_
#define QCC_DIALECTS_FORMATS_BLOCKS_H_

#include <bit>
#include <cstdint>

#include "dialects/formats/codecs.h"
#include "dialects/formats/descriptions.h"

namespace qcc::codecs {

constexpr int kSignGroup = 8;  // weights that share a sign field

// Fields of BlockLayout::base that one base scale is cut into.
constexpr int base_pieces(const FormatDescription& d) {
  return 8 * d.plain.base_bytes() / d.layout.base.bits;
}

// The first code whose value is positive, of a table of pairs -v, +v.
constexpr int first_positive(const PlainForm& p) {
  return p.table_size / 2;
}

// Bytes of a block: up to the last one that the description names.
constexpr int block_bytes(const FormatDescription& d) {
  const PlainForm& p = d.plain;
  const BlockLayout& l = d.layout;
  int end = l.base.bits == 0 ? 0 : l.base.end(p.bases() * base_pieces(d));
  const auto reach = [&end](int to) { end = to > end ? to : end; };
  if (l.minimum >= 0) reach(l.minimum + 2);
  reach(l.scale.end(p.scales()));
  reach(l.min.end(p.scales()));
  reach(l.code.end(p.block));
  for (const Trits& t : l.trits) reach(t.run == 0 ? 0 : t.first + t.run);
  if (l.book.width != 0) reach(l.index.end(p.block / l.book.width));
  reach(l.sign.end(p.block / kSignGroup));
  if (l.columns_per_delta != 0) reach(l.delta.end(p.block / l.columns_per_delta));
  return end;
}

// Base scale `b` as its bits.
template <int kRow>
uint16_t take_base(const uint8_t* block, int b) {
  constexpr const BitField& base = kDescriptions[kRow].layout.base;
  constexpr int kPieces = base_pieces(kDescriptions[kRow]);
  uint32_t bits = 0;
  for (int k = 0; k < kPieces; ++k) bits |= base.get(block, b * kPieces + k) << (k * base.bits);
  return static_cast<uint16_t>(bits);
}

// All base scales, minima and group scales. With everything inlined, fields have constant places (not inlined
// they were a tenth of what golden values take).
template <int kRow>
[[gnu::flatten]] void take_scales(const uint8_t* block, PlainBlock& out) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr const BlockLayout& l = kDescriptions[kRow].layout;
  for (int b = 0; b < p.bases(); ++b) out.base[b] = take_base<kRow>(block, b);
  if constexpr (p.minimum != Minimum::kNone) out.minimum = load_u16(block + l.minimum);
  for (int g = 0; g < p.scales(); ++g) {
    const int stored = static_cast<int>(l.scale.get(block, g));
    out.scale[g] = static_cast<uint8_t>(stored * l.scale_times + l.scale_plus);
    if constexpr (p.minimum == Minimum::kScaled) out.min[g] = static_cast<uint8_t>(l.min.get(block, g));
  }
}

// The lower or the upper bits of the codes; the lower ones come first and overwrite.
template <int kRow, bool kHigh>
void take_plane(const uint8_t* block, uint8_t* code) {
  constexpr const Number& number = kDescriptions[kRow].layout.code;
  constexpr BitField f = kHigh ? number.high : number.low;
  constexpr int kAt = kHigh ? number.low.bits : 0;
  for (int e = 0; e < kDescriptions[kRow].plain.block; e += f.run) {
    const uint8_t* p = block + f.byte_of(e);
    const int shift = f.bit_of(e);
    for (int i = 0; i < f.run; ++i) {
      const uint32_t bits = ((p[i] >> shift) & f.mask()) << kAt;
      code[e + i] = static_cast<uint8_t>(kHigh ? code[e + i] | bits : bits);
    }
  }
}

template <int kRow>
void take_bits(const uint8_t* block, uint8_t* code) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  take_plane<kRow, false>(block, code);
  if constexpr (d.layout.code.high.bits != 0) take_plane<kRow, true>(block, code);
  if constexpr (d.layout.code_bits == CodeBits::kTwosComplement) {
    for (int i = 0; i < d.plain.block; ++i) code[i] ^= 128;
  }
  if constexpr (d.layout.code_bits == CodeBits::kSignMagnitude) {
    constexpr int kZero = first_positive(d.plain);  // the table has an odd size: its middle
    for (int i = 0; i < d.plain.block; ++i) {
      code[i] = static_cast<uint8_t>((code[i] & 8) != 0 ? kZero - (code[i] & 7) : kZero + code[i]);
    }
  }
}

template <int kRow>
void take_trits(const uint8_t* block, uint8_t* code) {
  for (const Trits& t : kDescriptions[kRow].layout.trits) {
    int power = 1;
    for (int n = 0; n < t.digits; ++n, power *= 3) {
      for (int i = 0; i < t.run; ++i) {
        *code++ = static_cast<uint8_t>(((block[t.first + i] * power & 255) * 3) >> 8);
      }
    }
  }
}

// The sign bits of 8 weights; of a 7-bit field the eighth makes the number of minus signs even.
constexpr uint32_t all_signs(const BitField& f, uint32_t stored) {
  return f.bits == 8 ? stored : stored | static_cast<uint32_t>(std::popcount(stored) & 1) << 7;
}

template <int kRow>
void take_points(const uint8_t* block, uint8_t* code) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  constexpr const BlockLayout& l = d.layout;
  constexpr const Codebook& book = l.book;
  constexpr int kPositive = first_positive(d.plain);
  for (int g = 0; g < d.plain.block / book.width; ++g) {
    const int at = g * book.width;
    int point = book.points[l.index.get(block, g)];
    uint32_t signs = 0;
    if constexpr (l.sign.bits != 0) {
      signs = all_signs(l.sign, l.sign.get(block, at / kSignGroup)) >> (at % kSignGroup);
    }
    int up = 0;
    if constexpr (l.delta.bits != 0) up = l.delta.get(block, at / l.columns_per_delta) == 0;
    for (int i = 0; i < book.width; ++i, point /= book.levels) {
      const int level = point % book.levels;
      if constexpr (l.delta.bits != 0) {
        code[at + i] = static_cast<uint8_t>(2 * level + up);  // pairs 8 * level - 1, 8 * level + 1
      } else {
        code[at + i] =
            static_cast<uint8_t>((signs >> i & 1) != 0 ? kPositive - 1 - level : kPositive + level);
      }
    }
  }
}

template <int kRow>
void take_apart_block(const uint8_t* block, PlainBlock& out) {
  constexpr const BlockLayout& l = kDescriptions[kRow].layout;
  take_scales<kRow>(block, out);
  if constexpr (l.book.count != 0) {
    take_points<kRow>(block, out.code);
  } else if constexpr (l.trits[0].run != 0) {
    take_trits<kRow>(block, out.code);
  } else {
    take_bits<kRow>(block, out.code);
  }
}

// The inverse of take_scales; the block was zeroed before.
template <int kRow>
void put_scales(const PlainBlock& in, uint8_t* block) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr const BlockLayout& l = kDescriptions[kRow].layout;
  constexpr int kPieces = base_pieces(kDescriptions[kRow]);
  for (int b = 0; b < p.bases(); ++b) {
    for (int k = 0; k < kPieces; ++k) l.base.put(in.base[b] >> (k * l.base.bits), block, b * kPieces + k);
  }
  if constexpr (p.minimum != Minimum::kNone) store_u16(in.minimum, block + l.minimum);
  for (int g = 0; g < p.scales(); ++g) {
    const int scale = p.scale == GroupScale::kI8 ? static_cast<int8_t>(in.scale[g]) : in.scale[g];
    l.scale.put(static_cast<uint32_t>((scale - l.scale_plus) / l.scale_times), block, g);
    if constexpr (p.minimum == Minimum::kScaled) l.min.put(in.min[g], block, g);
  }
}

template <int kRow, bool kHigh>
void put_plane(const uint8_t* stored, uint8_t* block) {
  constexpr const Number& number = kDescriptions[kRow].layout.code;
  constexpr BitField f = kHigh ? number.high : number.low;
  constexpr int kAt = kHigh ? number.low.bits : 0;
  for (int e = 0; e < kDescriptions[kRow].plain.block; e += f.run) {
    uint8_t* p = block + f.byte_of(e);
    const int shift = f.bit_of(e);
    for (int i = 0; i < f.run; ++i) {
      p[i] = static_cast<uint8_t>(p[i] | ((static_cast<uint32_t>(stored[e + i]) >> kAt) & f.mask()) << shift);
    }
  }
}

// The inverse of take_bits; the block was zeroed before.
template <int kRow>
void put_bits(const uint8_t* code, uint8_t* block) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  constexpr int kZero = first_positive(d.plain);
  uint8_t stored[d.plain.block];
  for (int i = 0; i < d.plain.block; ++i) {
    stored[i] = code[i];
    if constexpr (d.layout.code_bits == CodeBits::kTwosComplement) stored[i] ^= 128;
    if constexpr (d.layout.code_bits == CodeBits::kSignMagnitude) {
      stored[i] = static_cast<uint8_t>(code[i] >= kZero ? code[i] - kZero : 8 + kZero - code[i]);
    }
  }
  put_plane<kRow, false>(stored, block);
  if constexpr (d.layout.code.high.bits != 0) put_plane<kRow, true>(stored, block);
}

// The inverse of take_trits: the fraction rounded up is what take_trits needs to find every digit again.
template <int kRow>
void put_trits(const uint8_t* code, uint8_t* block) {
  for (const Trits& t : kDescriptions[kRow].layout.trits) {
    for (int i = 0; i < t.run; ++i) {
      int fraction = 0;  // in 1 / 243
      for (int n = 0; n < 5; ++n) fraction = 3 * fraction + (n < t.digits ? code[n * t.run + i] : 0);
      block[t.first + i] = static_cast<uint8_t>((fraction * 256 + 242) / 243);
    }
    code += t.run * t.digits;
  }
}

}  // namespace qcc::codecs

#endif  // QCC_DIALECTS_FORMATS_BLOCKS_H_
