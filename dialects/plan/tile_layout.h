// Where every weight lies in the x16 pack layouts: the one description that the packer and all targets'
// kernels share. Stand-alone (the kernels see no library). Sizes agree with pack_layouts.def; a test checks
// it.
//
// A group is 16 matrix rows; it is the tiles of its row of GGUF blocks, left to right. A tile is a header
// (scales) and a body (codes). Where a tile is not a multiple of a cache line (paired), the tiles 2p and 2p+1
// of a group share their place: header, header, body, body; a last odd tile is header, body.
//
// In a body, 32 columns follow 32 columns. Their codes are eight 4-column words; a word holds byte [16
// rows][4 columns], which is what one dot-product instruction takes. Word t is columns 4t .. 4t + 3.
//   8 bit  words 0..7, 64 bytes each (Q8_0: q + 128)
//   4 bit  4 x 64 bytes; vector i: low nibbles are word i, high nibbles word i + 4
//   5 bit  the same, then 64 bytes of high bits: bit t of byte [row][c] belongs to column 4t + c
//   6 bit  the same, then 2 x 64 bytes of high bit pairs: pair f of vector u belongs to word 2u + (f & 1) + 4
//   (f >> 1)
// Headers, 16 rows each: f16 d[16]; Q4_1: f16 m[16]; Q4_K, Q5_K: f16 dmin[16], u8 scale[8][16], u8 min[8][16]
// (block of 32 columns, row); Q6_K: i8 scale[16][16] (16 columns, row). Plain formats: one tile is 16 rows of
// one column.
#ifndef QCC_DIALECTS_PLAN_TILE_LAYOUT_H_
#define QCC_DIALECTS_PLAN_TILE_LAYOUT_H_

#include <stdint.h>

namespace qcc::plan {

struct TileLayout {
  int32_t block;   // columns
  int32_t header;  // bytes
  int32_t body;    // bytes
  int32_t chunk;   // bytes of 32 columns of the body
  int32_t bits;    // of a code
  int32_t offset;  // what a stored code is above its value
  int32_t columns_per_scale;
  bool paired;
  constexpr int32_t bytes() const { return header + body; }
};

inline constexpr TileLayout kTileQ4_0{32, 32, 256, 256, 4, 8, 32, true};
inline constexpr TileLayout kTileQ4_1{32, 64, 256, 256, 4, 0, 32, false};
inline constexpr TileLayout kTileQ8_0{32, 32, 512, 512, 8, 128, 32, true};
inline constexpr TileLayout kTileQ4_K{256, 320, 2048, 256, 4, 0, 32, false};
inline constexpr TileLayout kTileQ5_K{256, 320, 2560, 320, 5, 0, 32, false};
inline constexpr TileLayout kTileQ6_K{256, 288, 3072, 384, 6, 32, 16, true};

struct TilePlace {
  int64_t header;  // byte offsets from the group's first byte
  int64_t body;
};

// Tile `b` of the `blocks` tiles of a group.
constexpr TilePlace tile_place(const TileLayout& l, int64_t b, int64_t blocks) {
  const int64_t first = b & ~int64_t{1};
  if (l.paired && first + 1 < blocks) {
    const int64_t base = first * l.bytes(), odd = b & 1;
    return {base + odd * l.header, base + 2 * l.header + odd * l.body};
  }
  return {b * l.bytes(), b * l.bytes() + l.header};
}

// Byte of a code's low (or only) bits, and its shift, within the 32-column chunk. column < 32, row < 16.
constexpr int32_t code_byte(const TileLayout& l, int32_t row, int32_t column) {
  const int32_t word = column / 4;
  const int32_t vector = l.bits == 8 ? word : word & 3;
  return vector * 64 + row * 4 + column % 4;
}
constexpr int32_t code_shift(const TileLayout& l, int32_t column) {
  return l.bits == 8 || column < 16 ? 0 : 4;
}
// The same of its high bits (5- and 6-bit codes); they are worth 16.
constexpr int32_t high_byte(const TileLayout& l, int32_t row, int32_t column) {
  const int32_t vector = l.bits == 6 ? (column / 4 & 3) >> 1 : 0;
  return 256 + vector * 64 + row * 4 + column % 4;
}
constexpr int32_t high_shift(const TileLayout& l, int32_t column) {
  const int32_t word = column / 4;
  return l.bits == 6 ? 2 * ((word & 1) + 2 * (word >> 2)) : word;
}

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_TILE_LAYOUT_H_
