// Reading weights in the x16 layouts (dialects/plan/tile_layout.h) in kernels: codes as words of four
// columns for integer dot products, and f32 values that equal the formats' reference decoder bit for bit.
#ifndef QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_
#define QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "dialects/plan/tile_layout.h"
#include "codegen/gpu/kernels/builder.h"
#include "dialects/formats/formats.h"

namespace qcc::gpu {

// Columns that kernels take at a time.
inline constexpr int kChunkColumns = 32;

// Null for plain formats.
const plan::TileLayout* FindTileLayout(Format format);
// Bytes of a group: 16 rows of k columns.
int64_t GroupBytes(Format format, int64_t k);

// One row of a packed group. `group` (i32): byte offset of the group from `base`; `row` (i32): 0..15; k
// columns.
class PackedRow {
 public:
  PackedRow(Builder& builder, Format format, int64_t k, Val base, Val group, Val row);

  // 32 columns from chunk * 32 on.
  struct Chunk {
    Val header, body;  // byte offsets from base; plain formats: body only
    Val index;         // of the chunk in its tile
  };
  Chunk At(Val chunk) const;

  // ---- block formats: value = scale * (code - code_offset) + shift ----

  struct Scales {
    Val scale[2];  // columns 0..15, 16..31; the same value unless columns_per_scale is 16
    Val shift;     // null if the format has none
  };
  Scales ReadScales(const Chunk& chunk) const;
  // Eight words of four signed codes each, word t for columns 4t..4t+3.
  std::vector<Val> ReadCodes(const Chunk& chunk) const;
  // Words `word` and `word + 4` of them; `word` (i32) < 4.
  std::vector<Val> ReadCodePair(const Chunk& chunk, Val word) const;
  // What a signed code is above its value: 0 for 8-bit codes, which are turned into two's complement.
  int code_offset() const { return layout_->bits == 8 ? 0 : layout_->offset; }
  int columns_per_scale() const { return layout_->columns_per_scale; }

  // ---- all formats ----

  // f32 values of the 32 columns.
  std::vector<Val> ReadValues(const Chunk& chunk) const;
  // Of columns 4 * word .. 4 * word + 3; `word` (i32) < 8.
  std::vector<Val> ReadValues(const Chunk& chunk, Val word) const;

 private:
  Val Word(Val offset) const { return b_.Load(Type::kI32, base_, offset); }
  Val Half(Val offset) const;        // of 16 consecutive ones
  Val ByteWord(Val offset) const;    // of 16 consecutive bytes, row's in the low 8 bits
  Val PlainValue(Val column) const;  // byte offset of the column's first row
  Val CodeWord(const Chunk& chunk, Val word) const;
  std::vector<Val> Decode(Val codes, Val scale, Val shift) const;

  Builder& b_;
  Format format_;
  const plan::TileLayout* layout_;
  int64_t k_;
  Val base_, group_;
  // Byte offsets of the row within 16 rows of words, halves, bytes, and shifts within the word there.
  Val word_at_, half_at_, half_shift_, byte_at_, byte_shift_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_
