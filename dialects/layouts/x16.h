// Where every weight of a block format lies in the x16 layouts: the one description that the packer and all
// targets' kernels share, derived from the format's PlainForm. Stand-alone and constexpr (kernels see no
// library).
//
// A group is 16 matrix rows; it is the tiles of its row of GGUF blocks, left to right. A tile is a header,
// which is base scales and other fields, and a body (codes). Where a tile is no multiple of a cache line, as
// many neighbours as make one (`run`: 1, 2 or 4) share their place: the base scales of all, then the fields
// and the body of each; the last tiles of a group that are fewer do the same among themselves. So bodies
// begin cache lines, and what is read together lies together, where processors follow.
//
// A header, 16 rows each: the base scales [bases][16] as the block has them; the fields f16 minimum[16]; u8
// or i8 scale[scales][16]; u8 min[scales][16]; what the format lacks is left out.
//
// In a body, 32 columns (a chunk) follow 32 columns. The columns 4t .. 4t + 3 of a chunk are word t: one byte
// for each of [16 rows][4 columns], which is what one dot-product instruction takes. A code is cut into one
// or two planes of 8, 4, 2 or 1 bits (8 | 4 | 4 + 1 | 4 + 2 | 2 | 2 + 1 | 1); the high one follows the low
// one. A plane of w bits is w vectors of 64 bytes [16 rows][4 columns]; each byte of a vector has 8 / w
// fields, so that shift and mask give a word:
//   8 bits  vector t is word t
//   4 bits  vector i: fields 0 and 1 are words i and i + 4
//   2 bits  vector u: fields 0 .. 3 are words 2u, 2u + 1, 2u + 4, 2u + 5
//   1 bit   field t is word t
// Plain formats have no tiles: 16 rows of one column, column after column.
#ifndef QCC_DIALECTS_LAYOUTS_X16_H_
#define QCC_DIALECTS_LAYOUTS_X16_H_

#include <stdint.h>

#include "dialects/formats/descriptions.h"

namespace qcc::layouts {

inline constexpr int32_t kGroupRows = 16;  // one 512-bit register of i32 or f32
inline constexpr int32_t kChunkColumns = 32;
inline constexpr int32_t kVectorBytes = 64;  // of a plane: a byte for each of 16 rows and 4 columns

// Bits of a code's low plane; the high plane has the rest.
constexpr int32_t LowBits(int32_t bits) {
  return bits >= 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
}

// Where word `word` (0 .. 7) of a chunk lies in a plane of `width` bits: which of its vectors, and how far
// left in each byte.
constexpr int32_t VectorOfWord(int32_t width, int32_t word) {
  return width == 8 ? word : (word & 3) * width / 4;
}
constexpr int32_t ShiftOfWord(int32_t width, int32_t word) {
  if (width == 8) return 0;
  const int32_t near = 4 / width;  // words of the first four that share a vector
  return width * ((word & 3) % near + near * (word >> 2));
}
// Byte of a code's bits within the plane. row < 16, column < 32.
constexpr int32_t CodeByte(int32_t width, int32_t row, int32_t column) {
  return VectorOfWord(width, column / 4) * kVectorBytes + row * 4 + column % 4;
}

struct Tile {
  int32_t block = 0;       // columns; 0: no tiles (plain formats)
  int32_t low_bits = 0;    // of the plane at the chunk's first byte
  int32_t high_bits = 0;   // of the plane behind it; 0: none
  int32_t base_bytes = 0;  // of one base scale
  // Byte offsets in the fields. Meaningless where the format has no such field.
  int32_t minimum_at = 0, scale_at = 0, min_at = 0;
  int32_t bases = 0, fields = 0, body = 0, chunk = 0;  // bytes
  int32_t run = 1;                                     // tiles that share their place
  constexpr int32_t bytes() const { return bases + fields + body; }
  constexpr int32_t high_at() const { return low_bits * kVectorBytes; }  // in a chunk
};

constexpr Tile TileOf(const PlainForm& form) {
  Tile t;
  if (form.block == 0) return t;
  t.block = form.block;
  t.low_bits = LowBits(form.bits);
  t.high_bits = form.bits - t.low_bits;
  t.base_bytes = form.base_bytes();
  t.bases = form.bases() * kGroupRows * t.base_bytes;
  t.scale_at = form.minimum == Minimum::kNone ? 0 : 2 * kGroupRows;
  t.min_at = t.scale_at + form.scales() * kGroupRows;
  t.fields = t.min_at + (form.minimum == Minimum::kScaled ? form.scales() * kGroupRows : 0);
  t.chunk = form.bits * kVectorBytes;
  t.body = form.block / kChunkColumns * t.chunk;
  while (t.bytes() * t.run % 64 != 0) t.run *= 2;
  return t;
}

template <Format F>
inline constexpr Tile kTile = TileOf(description(F).plain);

struct TilePlace {
  int64_t bases, fields, body;  // byte offsets from the group's first byte
};

// Tile `index` of the `count` tiles of a group.
constexpr TilePlace PlaceOfTile(const Tile& t, int64_t index, int64_t count) {
  const int64_t first = index / t.run * t.run, in_run = index - first;
  const int64_t together = count - first < t.run ? count - first : t.run;
  const int64_t at = first * t.bytes();
  const int64_t fields = at + together * t.bases + in_run * (t.fields + t.body);
  return {at + in_run * t.bases, fields, fields + t.fields};
}

}  // namespace qcc::layouts

#endif  // QCC_DIALECTS_LAYOUTS_X16_H_
