// Reading weights in the x16 layouts (dialects/layouts/x16.h) in kernels: codes as words of four
// columns for integer dot products, and f32 values that equal the formats' reference decoder bit for bit.
#ifndef QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_
#define QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/packed_codes.h"
#include "dialects/formats/descriptions.h"
#include "dialects/formats/formats.h"
#include "dialects/layouts/x16.h"

namespace qcc::gpu {

// Columns that kernels take at a time.
inline constexpr int kChunkColumns = layouts::kChunkColumns;

// Columns of a weight matrix come in multiples of it: whole chunks of whole blocks.
inline int64_t WholeColumns(Format format) {
  return std::max<int64_t>(kChunkColumns, format_info(format).block_elems);
}

// Formats of codes and scales; the others are plain ones, a float for each weight.
constexpr bool IsBlockFormat(Format format) {
  return description(format).plain.block != 0;
}
// Bytes of a group: 16 rows of k columns, k a multiple of the format's block.
int64_t GroupBytes(Format format, int64_t k);

// One row of a packed group. `group` (i32): byte offset of the group from `base`; `row` (i32): 0..15; k
// columns.
class PackedRow {
 public:
  PackedRow(Builder& builder, Format format, int64_t k, Val base, Val group, Val row);

  // 32 columns from chunk * 32 on.
  struct Chunk {
    Val bases, fields, body;  // byte offsets from base; plain formats: body only
    Val index;                // of the chunk in its tile
  };
  Chunk At(Val chunk) const;

  // ---- block formats: value = scale * (code - code_offset) [* rest] [+ shift] ----

  // Of columns 0..15 and 16..31; the same values unless two_scales.
  struct Scales {
    Val scale[2];
    // Null unless scales range wider than f32: then a scale is in two factors, normal numbers both, so that
    // nothing depends on how a target treats subnormals but what is one itself.
    Val rest[2];
    Val shift[2];  // null if the format has no minimum
  };
  Scales ReadScales(const Chunk& chunk) const { return ReadScales(LoadScales(chunk)); }
  // The same in two steps: the words in which the row's fields lie, and the scales of them. Null: the format
  // has no such field, or the other columns' serves.
  struct ScaleWords {
    Val base[2], minimum, scale[2], min[2];
  };
  ScaleWords LoadScales(const Chunk& chunk) const;
  Scales ReadScales(const ScaleWords& words) const;
  // Words of four signed codes, in the same two steps: PackedCodes.
  std::vector<Val> LoadCodes(const Chunk& chunk) const { return Codes(chunk).LoadAll(); }
  std::vector<Val> ReadCodes(const std::vector<Val>& loaded) const {
    return PackedCodes(form_, base_, Val()).All(loaded);
  }
  std::vector<Val> LoadCodePair(const Chunk& chunk, Val word) const { return Codes(chunk).LoadPair(word); }
  std::vector<Val> ReadCodePair(const std::vector<Val>& loaded, Val word) const {
    return PackedCodes(form_, base_, Val()).Pair(loaded, word);
  }
  int code_offset() const { return CodeOffset(form_); }
  bool two_scales() const { return form_.columns_per_scale < kChunkColumns; }
  bool has_rest() const { return form_.base == BaseScale::kE8m0; }
  bool has_shift() const { return form_.minimum != Minimum::kNone; }
  // f32 values of columns 4 * word .. 4 * word + 3, from the word's codes and the chunk's scales.
  std::vector<Val> ValuesOf(Val codes, const Scales& scales, size_t word) const {
    const size_t s = word / 4;
    return Decode(codes, scales.scale[s], scales.rest[s], scales.shift[s]);
  }

  // ---- all formats ----

  // f32 values of columns 4 * word .. 4 * word + 3; `word` (i32) < 8.
  std::vector<Val> ReadValues(const Chunk& chunk, Val word) const;

 private:
  // Of 16 consecutive halves or bytes, `more` bytes behind: the word that has the row's, and that; a byte in
  // the low 8 bits.
  Val HalfWord(Val offset, int32_t more = 0) const { return Word(offset + half_at_, more); }
  Val ByteWord(Val offset, int32_t more = 0) const { return Word(offset + byte_at_, more); }
  Val Word(Val offset, int32_t more) const { return b_.Load(Type::kI32, base_, offset, more); }
  Val HalfOf(Val word) const;
  Val ByteOf(Val word) const { return b_.Binary(Builder::Op::kShrU, word, byte_shift_); }
  Val PlainValue(Val column) const;  // byte offset of the column's first row
  PackedCodes Codes(const Chunk& chunk) const { return {form_, base_, chunk.body + word_at_}; }
  // Byte offset among scales of `bytes` (of 16 rows) for each `columns` columns: of those that the chunk
  // begins.
  Val FieldAt(const Chunk& chunk, int columns, int bytes) const;
  Val BaseWord(Val at, int32_t more) const {
    return form_.base == BaseScale::kHalf ? HalfWord(at, more) : ByteWord(at, more);
  }
  void ReadBase(Val word, Val* base, Val* rest) const;
  std::vector<Val> Decode(Val codes, Val scale, Val rest, Val shift) const;

  Builder& b_;
  const Format format_;
  const PlainForm& form_;
  const layouts::Tile tile_;
  int64_t k_;
  Val base_, group_;
  // Byte offsets of the row within 16 rows of words, halves, bytes, and shifts within the word there.
  Val word_at_, half_at_, half_shift_, byte_at_, byte_shift_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_WEIGHTS_H_
