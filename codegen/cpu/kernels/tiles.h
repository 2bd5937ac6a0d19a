// The formats as the linear and embed kernels see them: words of codes and scales out of packed tiles, for
// any PlainForm. Kernels only. `part` is a part of the group: rows [part * kLanes, (part + 1) * kLanes).
#ifndef QCC_CODEGEN_CPU_KERNELS_TILES_H_
#define QCC_CODEGEN_CPU_KERNELS_TILES_H_

#include "codegen/cpu/kernels/vec.h"
#include "dialects/layouts/x16.h"

namespace qk {

using qcc::BaseScale;
using qcc::Format;
using qcc::GroupScale;
using qcc::Minimum;
using qcc::PlainForm;
using qcc::Scalar;
using qcc::layouts::Tile;
typedef F32<kLanes> Float;
typedef I32<kLanes> Words;  // per lane (row): four codes of four columns

// How far left codes go to become value - low: log2 of the step between values. -1: the steps differ, or are
// no small power of two: codes are looked up.
constexpr int code_shift(const PlainForm& form) {
  for (int shift = 0; shift < 4; ++shift) {
    if (form.step() == 1 << shift) return shift;
  }
  return -1;
}

template <Format F>
struct BlockFormat {
  static constexpr const PlainForm& kForm = qcc::description(F).plain;
  static constexpr Tile kTile = qcc::layouts::kTile<F>;
  static constexpr int kLow = kForm.low();
  static constexpr int kHigh = kForm.high() - kForm.low();  // largest value - low
  static constexpr int kShift = code_shift(kForm);
  static constexpr bool kLookup = kShift < 0;
  static constexpr int kSums = kForm.columns_per_scale == 16 ? 2 : 1;  // scales per 32 columns
  static constexpr bool kHasMinimum = kForm.minimum != Minimum::kNone;
  // Codes times the scales of 16 columns that still are small codes, of columns that share a base: sums of 32
  // columns join as integers, one way or the other.
  static constexpr int kFoldedHigh = kHigh * qcc::description(F).layout.most_scale();
  static constexpr bool kFolds = kSums == 2 && kForm.scale == GroupScale::kU8 &&
                                 kForm.columns_per_base % 32 == 0 && kLow == 0 && kFoldedHigh <= 127;
  // The chunks of a tile share their base: it multiplies their sum, in which the integer scales are factors.
  static constexpr bool kOneBase = kForm.bases() == 1 && kForm.block > 32;
  static constexpr bool kHasScale = kForm.scale != GroupScale::kNone;
  // The most that 32 products of codes, int8 activations and integer scales add up to.
  static constexpr int64_t kMostValue = -kLow > kForm.high() ? -kLow : kForm.high();
  static constexpr int64_t kMostScale =
      kForm.scale == GroupScale::kI8 ? 128 : qcc::description(F).layout.most_scale();
  static constexpr int64_t kMostWhole = 32 * 127 * kMostValue * kMostScale;
  QK_INLINE int64_t group_bytes(int64_t k) { return k / kTile.block * kTile.bytes(); }
};

// What code i stands for: the value as i8 or, not kSigned, value - low as u8.
struct TableBytes {
  uint8_t v[16];
};
template <Format F, bool kSigned>
struct Table {
  static constexpr int kSize = BlockFormat<F>::kForm.table_size;
  static constexpr TableBytes make() {
    TableBytes bytes{};
    for (int i = 0; i < kSize; ++i) {
      bytes.v[i] =
          static_cast<uint8_t>(BlockFormat<F>::kForm.table[i] - (kSigned ? 0 : BlockFormat<F>::kLow));
    }
    return bytes;
  }
  static constexpr TableBytes kBytes = make();
};

// The bits of word `word` in a plane, moved to bit `to` of their bytes. Shifts stay inside the byte after the
// mask.
template <int kWidth>
QK_INLINE Words plane_word(const uint8_t* plane, int part, int word, int to) {
  const Words v = load<Words>(plane + qcc::layouts::VectorOfWord(kWidth, word) * 64 + part * kLanes * 4);
  if constexpr (kWidth == 8) {
    return v;
  } else {
    const int right = qcc::layouts::ShiftOfWord(kWidth, word) - to;
    const int32_t mask = ((1 << kWidth) - 1) << to;
    return (right < 0 ? v << -right : v >> right) & (mask * 0x01010101);
  }
}

// Word `word` of a chunk: the values as i8 or, not kSigned, value - low as u8.
template <Format F, bool kSigned>
QK_INLINE Words value_word(const uint8_t* chunk, int part, int word) {
  typedef BlockFormat<F> B;
  constexpr Tile t = B::kTile;
  constexpr int to = B::kLookup ? 0 : B::kShift;
  Words v = plane_word<t.low_bits>(chunk, part, word, to);
  if constexpr (t.high_bits > 0) {
    v |= plane_word<t.high_bits>(chunk + t.high_at(), part, word, to + t.low_bits);
  }
  if constexpr (B::kLookup) return Level::lookup<Table<F, kSigned>>(v);
  if constexpr (kSigned) return (Words)((I8<4 * kLanes>)v + static_cast<int8_t>(B::kLow));
  return v;
}

// The nth word of a chunk in the order of for_each_word: words that share a vector follow each other.
constexpr int nth_word(int width, int n) {
  int seen = 0;
  for (int vector = 0; vector < width; ++vector) {
    for (int word = 0; word < 8; ++word) {
      if (qcc::layouts::VectorOfWord(width, word) == vector && seen++ == n) return word;
    }
  }
  return -1;
}
struct WordOrder {
  int8_t word[8];
};
template <int kWidth>
inline constexpr WordOrder kWordOrder = {nth_word(kWidth, 0), nth_word(kWidth, 1), nth_word(kWidth, 2),
                                         nth_word(kWidth, 3), nth_word(kWidth, 4), nth_word(kWidth, 5),
                                         nth_word(kWidth, 6), nth_word(kWidth, 7)};

// Calls fn(n, word, codes) for the eight words of a chunk, n = 0 .. 7.
template <Format F, bool kSigned, class Fn>
QK_INLINE void for_each_word(const uint8_t* chunk, int part, Fn fn) {
  unroll<8>([&](int n) QK_LAMBDA {
    const int word = kWordOrder<BlockFormat<F>::kTile.low_bits>.word[n];
    fn(n, word, value_word<F, kSigned>(chunk, part, word));
  });
}

// Where the base scales and the fields of a tile begin.
struct TileHeader {
  const uint8_t *bases, *fields;
  // That of the tile `bytes` behind.
  __attribute__((always_inline)) TileHeader behind(int64_t bytes) const {
    return {bases + bytes, fields + bytes};
  }
};

// Header fields for the rows of a part.
struct PartFields {
  static constexpr int kN = kLanes;
  int part;
  __attribute__((always_inline)) U16<kN> halves(const uint8_t* p) const {
    return load<U16<kN>>(p + part * kN * 2);
  }
  __attribute__((always_inline)) U8<kN> bytes(const uint8_t* p) const { return load<U8<kN>>(p + part * kN); }
};

// Base scales as the block has them to f32, exactly.
template <BaseScale kBase, class Bits>
QK_INLINE auto base_value(Bits bits) {
  constexpr int N = sizeof(Bits) / sizeof(bits[0]);
  if constexpr (kBase == BaseScale::kHalf) {
    return half_to_float<N>(bits);
  } else {
    const I32<N> u = __builtin_convertvector(bits, I32<N>);
    if constexpr (kBase == BaseScale::kE8m0) {
      return __builtin_bit_cast(F32<N>, u == 0 ? I32<N>(1 << 22) : u << 23);
    } else {
      const I32<N> exponent = u & 0x78;
      const F32<N> tiny = to_float<N>(u & 7) * splat<N>(1.f / 512);
      const F32<N> normal = __builtin_bit_cast(F32<N>, ((u & 0x7f) << 20) + (120 << 23));
      const F32<N> v = exponent == 0 ? tiny : normal;
      return u == 0x7f ? splat<N>(0.f) : v;
    }
  }
}

// Of the 32-column chunk j of a tile: value = scale[g] * (code's value) + shift[g], the products exact in
// f32. g: columns 0..15, 16..31 (equal unless the format scales 16 columns). shift: only if kHasMinimum.
template <int N>
struct Scales {
  F32<N> scale[2], shift[2];
};

// Base and factor of a column.
template <Format F, class Reader>
QK_INLINE F32<Reader::kN> read_base(const Reader& reader, TileHeader header, int column) {
  constexpr const PlainForm& form = BlockFormat<F>::kForm;
  constexpr Tile t = BlockFormat<F>::kTile;
  constexpr int N = Reader::kN;
  const uint8_t* base =
      header.bases + (form.bases() == 1 ? 0 : column / form.columns_per_base * 16 * t.base_bytes);
  F32<N> d;
  if constexpr (t.base_bytes == 2) {
    d = base_value<form.base>(reader.halves(base));
  } else {
    d = base_value<form.base>(reader.bytes(base));
  }
  if constexpr (form.factor != 1) d = d * splat<N>(form.factor);
  return d;
}

// The integers that codes of half g of chunk j are multiplied by, of formats that have them.
template <Format F, class Reader>
QK_INLINE I32<Reader::kN> read_factors(const Reader& reader, TileHeader header, int j, int g) {
  constexpr const PlainForm& form = BlockFormat<F>::kForm;
  constexpr int N = Reader::kN;
  const int at_group = (j * 32 + g * 16) / form.columns_per_scale * 16;
  const U8<N> bytes = reader.bytes(header.fields + BlockFormat<F>::kTile.scale_at + at_group);
  if constexpr (form.scale == GroupScale::kI8) {
    return __builtin_convertvector(__builtin_bit_cast(I8<N>, bytes), I32<N>);
  } else {
    return __builtin_convertvector(bytes, I32<N>);
  }
}

template <Format F, class Reader>
QK_INLINE F32<Reader::kN> read_scale(const Reader& reader, TileHeader header, int j, int g) {
  const F32<Reader::kN> base = read_base<F>(reader, header, j * 32 + g * 16);
  if constexpr (BlockFormat<F>::kHasScale) {
    return base * to_float<Reader::kN>(read_factors<F>(reader, header, j, g));
  } else {
    return base;
  }
}

// Only of formats with minima.
template <Format F, class Reader>
QK_INLINE F32<Reader::kN> read_shift(const Reader& reader, TileHeader header, int j, int g) {
  constexpr const PlainForm& form = BlockFormat<F>::kForm;
  constexpr Tile t = BlockFormat<F>::kTile;
  constexpr int N = Reader::kN;
  const F32<N> minimum = half_to_float<N>(reader.halves(header.fields + t.minimum_at));
  if constexpr (form.minimum == Minimum::kScaled) {
    const int at_group = (j * 32 + g * 16) / form.columns_per_scale * 16;
    const U8<N> bytes = reader.bytes(header.fields + t.min_at + at_group);
    return -(minimum * to_float<N>(__builtin_convertvector(bytes, I32<N>)));
  } else {
    return minimum;
  }
}

template <Format F, class Reader>
QK_INLINE Scales<Reader::kN> read_scales(const Reader& reader, TileHeader header, int j) {
  Scales<Reader::kN> s;
  unroll<2>([&](int g) QK_LAMBDA {
    if (g == BlockFormat<F>::kSums) {
      s.scale[g] = s.scale[0];
      s.shift[g] = s.shift[0];
      return;
    }
    s.scale[g] = read_scale<F>(reader, header, j, g);
    if constexpr (BlockFormat<F>::kHasMinimum) s.shift[g] = read_shift<F>(reader, header, j, g);
  });
  return s;
}

// Calls fn(tile, header, body) for the tiles of a group in order.
template <Format F, class Fn>
QK_INLINE void for_each_tile(const uint8_t* group, int64_t count, Fn fn) {
  constexpr Tile t = BlockFormat<F>::kTile;
  for (int64_t first = 0; first < count; first += t.run) {
    const int64_t together = t.run > 1 && count - first < t.run ? count - first : t.run;
    const uint8_t* bases = group + first * t.bytes();
    const uint8_t* fields = bases + together * t.bases;
    for (int64_t i = 0; i < together; ++i, fields += t.fields + t.body)
      fn(first + i, TileHeader{bases + i * t.bases, fields}, fields + t.fields);
  }
}

// Plain formats: f32 lanes of one column.
template <Scalar S>
struct ScalarLanes;
template <>
struct ScalarLanes<Scalar::kF32> {
  typedef float Element;
  template <int N>
  QK_INLINE F32<N> values(F32<N> v) {
    return v;
  }
};
template <>
struct ScalarLanes<Scalar::kF16> {
  typedef uint16_t Element;
  template <int N>
  QK_INLINE F32<N> values(U16<N> v) {
    return half_to_float<N>(v);
  }
};
template <>
struct ScalarLanes<Scalar::kBF16> {
  typedef uint16_t Element;
  template <int N>
  QK_INLINE F32<N> values(U16<N> v) {
    return bf16_to_float<N>(v);
  }
};
template <Format F>
using PlainFormat = ScalarLanes<qcc::description(F).plain.scalar>;
template <Format F>
inline constexpr int kColumnBytes = 16 * sizeof(typename PlainFormat<F>::Element);
template <Format F>
QK_INLINE Float plain_column(const uint8_t* p, int part) {
  typedef typename PlainFormat<F>::Element Element;
  typedef Element Lanes __attribute__((ext_vector_type(kLanes)));
  return PlainFormat<F>::template values<kLanes>(load<Lanes>(p + part * kLanes * sizeof(Element)));
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_TILES_H_
