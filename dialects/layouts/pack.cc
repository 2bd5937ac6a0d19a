#include "dialects/layouts/pack.h"

#include <algorithm>
#include <cstring>

namespace qcc::layouts {
namespace {

void Put16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
}
uint16_t Get16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}

// A format's form and what follows from it, worked out once.
struct Shape {
  explicit Shape(Format format)
      : form(description(format).plain), tile(TileOf(form)), bases(form.bases()), scales(form.scales()) {}
  const PlainForm& form;
  Tile tile;
  int bases, scales;  // of a block
};

void WriteScales(const Shape& shape, const PlainBlock& block, int row, uint8_t* bases, uint8_t* fields) {
  const Tile& tile = shape.tile;
  for (int i = 0; i < shape.bases; ++i) {
    uint8_t* base = bases + (i * kGroupRows + row) * tile.base_bytes;
    if (tile.base_bytes == 2) {
      Put16(base, block.base[i]);
    } else {
      *base = static_cast<uint8_t>(block.base[i]);
    }
  }
  if (shape.form.minimum != Minimum::kNone) Put16(fields + tile.minimum_at + row * 2, block.minimum);
  for (int i = 0; i < shape.scales; ++i) {
    fields[tile.scale_at + i * kGroupRows + row] = block.scale[i];
    if (shape.form.minimum == Minimum::kScaled) fields[tile.min_at + i * kGroupRows + row] = block.min[i];
  }
}

// Each bit of `bits` set in all four bytes of a word.
constexpr uint32_t EveryByte(uint32_t bits) {
  return bits * 0x01010101u;
}

// One plane of one row of a chunk. code: 32 codes; kFrom: how far left the plane's bits are in a code.
template <int kWidth, int kFrom>
void WritePlane(const uint32_t* words, int row, uint8_t* plane) {
  for (int vector = 0; vector < kWidth; ++vector) {
    uint32_t bytes = 0;
    for (int t = 0; t < 8; ++t) {
      if (VectorOfWord(kWidth, t) != vector) continue;
      bytes |= (words[t] >> kFrom & EveryByte((1u << kWidth) - 1)) << ShiftOfWord(kWidth, t);
    }
    std::memcpy(plane + vector * kVectorBytes + row * 4, &bytes, 4);
  }
}

// A template, so that places are constants of unrolled loops.
template <int kBits>
void WriteCodes(const uint8_t* code, int columns, int row, uint8_t* body) {
  constexpr int kLow = LowBits(kBits), kHigh = kBits - kLow;
  for (int c = 0; c < columns; c += kChunkColumns, body += kBits * kVectorBytes) {
    uint32_t words[8];
    std::memcpy(words, code + c, sizeof words);
    WritePlane<kLow, 0>(words, row, body);
    if constexpr (kHigh > 0) WritePlane<kHigh, kLow>(words, row, body + kLow * kVectorBytes);
  }
}

using WriteCodesFn = void(const uint8_t* code, int columns, int row, uint8_t* body);

// Null for widths that no PlainForm has.
constexpr WriteCodesFn* kWriteCodes[] = {nullptr,       WriteCodes<1>, WriteCodes<2>,
                                         WriteCodes<3>, WriteCodes<4>, WriteCodes<5>,
                                         WriteCodes<6>, nullptr,       WriteCodes<8>};

// The block of rows past the last: all values 0, also where a base scale of zero bits is not 0 (e8m0).
PlainBlock ZeroBlock(const PlainForm& form) {
  PlainBlock zero{};
  if (form.base != BaseScale::kE8m0) return zero;
  int code = form.table_size ? 0 : form.offset;
  while (form.table_size && code + 1 < form.table_size && form.table[code] != 0) ++code;
  std::memset(zero.code, code, sizeof zero.code);
  return zero;
}

// Null src: the row is past the last.
void WriteRow(Format format, const uint8_t* src, int64_t cols, int row, uint8_t* group) {
  const Shape shape(format);
  const Tile& tile = shape.tile;
  const int64_t count = cols / tile.block, bytes = format_info(format).block_bytes;
  WriteCodesFn* const write_codes = kWriteCodes[shape.form.bits];
  PlainBlock block = ZeroBlock(shape.form);
  for (int64_t i = 0; i < count; ++i) {
    const TilePlace at = PlaceOfTile(tile, i, count);
    if (src) take_apart(format, src + i * bytes, block);
    WriteScales(shape, block, row, group + at.bases, group + at.fields);
    write_codes(block.code, tile.block, row, group + at.body);
  }
}

// 16 rows of `given` of the cols columns; null: the row is past the last. T: as wide as a value.
template <typename T>
void WriteScalars(const uint8_t* const (&rows)[kGroupRows], int64_t given, int64_t cols, uint8_t* group) {
  constexpr int64_t kColumns = 128;  // at a time, so that what all rows write stays in the first-level cache
  for (int64_t begin = 0; begin < cols; begin += kColumns) {
    const int64_t end = std::min(begin + kColumns, cols);
    for (int row = 0; row < kGroupRows; ++row) {
      uint8_t* dst = group + static_cast<size_t>(row) * sizeof(T);
      const int64_t held = rows[row] ? std::clamp(given, begin, end) : begin;
      for (int64_t c = begin; c < held; ++c)
        std::memcpy(dst + c * kGroupRows * sizeof(T), rows[row] + c * sizeof(T), sizeof(T));
      for (int64_t c = held; c < end; ++c) std::memset(dst + c * kGroupRows * sizeof(T), 0, sizeof(T));
    }
  }
}

// 16 rows of a matrix.
void PackGroup(const Weight& weight, const Source& source, int64_t group, uint8_t* dst) {
  const int64_t given = weight.source_cols ? weight.source_cols : weight.cols;
  const int64_t bytes = row_bytes(weight.format, given);
  const uint8_t* rows[kGroupRows];
  for (int row = 0; row < kGroupRows; ++row) {
    const int64_t at = group * kGroupRows + row;
    rows[row] = at < weight.rows ? source.Row(at, bytes) : nullptr;
  }
  if (description(weight.format).plain.block != 0) {
    for (int row = 0; row < kGroupRows; ++row) WriteRow(weight.format, rows[row], weight.cols, row, dst);
  } else if (format_info(weight.format).block_bytes == sizeof(uint16_t)) {
    WriteScalars<uint16_t>(rows, given, weight.cols, dst);
  } else {
    WriteScalars<float>(rows, given, weight.cols, dst);
  }
}

// GGUF [channels][taps] to f32 [taps][channels].
void PackConvTaps(const Weight& weight, float* dst) {
  const int64_t channels = weight.rows, taps = weight.cols;
  std::vector<float> row(static_cast<size_t>(taps));
  for (int64_t c = 0; c < channels; ++c) {
    decode_row(weight.format, weight.sources[0].Row(c, row_bytes(weight.format, taps)), taps, row.data());
    for (int64_t t = 0; t < taps; ++t) dst[t * channels + c] = row[static_cast<size_t>(t)];
  }
}

int ReadCode(const Tile& tile, const uint8_t* chunk, int row, int column) {
  const auto plane = [&](const uint8_t* p, int width) {
    return p[CodeByte(width, row, column)] >> ShiftOfWord(width, column / 4) & ((1 << width) - 1);
  };
  const int low = plane(chunk, tile.low_bits);
  return tile.high_bits ? low | plane(chunk + tile.high_at(), tile.high_bits) << tile.low_bits : low;
}

// What WriteScales and WriteCodes wrote at `at`.
void ReadBlock(const Shape& shape, const uint8_t* group, const TilePlace& at, int row, PlainBlock& block) {
  const Tile& tile = shape.tile;
  const uint8_t *fields = group + at.fields, *body = group + at.body;
  for (int i = 0; i < shape.bases; ++i) {
    const uint8_t* base = group + at.bases + (i * kGroupRows + row) * tile.base_bytes;
    block.base[i] = tile.base_bytes == 2 ? Get16(base) : *base;
  }
  if (shape.form.minimum != Minimum::kNone) block.minimum = Get16(fields + tile.minimum_at + row * 2);
  for (int i = 0; i < shape.scales; ++i) {
    block.scale[i] = fields[tile.scale_at + i * kGroupRows + row];
    if (shape.form.minimum == Minimum::kScaled) block.min[i] = fields[tile.min_at + i * kGroupRows + row];
  }
  for (int c = 0; c < tile.block; ++c) {
    const int code = ReadCode(tile, body + c / kChunkColumns * tile.chunk, row, c % kChunkColumns);
    block.code[c] = static_cast<uint8_t>(code);
  }
}

}  // namespace

int64_t Weight::pieces() const {
  switch (layout) {
    case Layout::kX16:
    case Layout::kX16Pair:
      return AlignUp(rows, kGroupRows) / kGroupRows;
    case Layout::kF32:
      return rows;
    case Layout::kConvTaps:
      break;
  }
  return 1;
}

int64_t Weight::piece_bytes() const {
  return PackedBytes(layout, format, rows, cols).value_or(0) / pieces();
}

void Pack(const Weight& weight, int64_t begin, int64_t end, uint8_t* dst) {
  switch (weight.layout) {
    case Layout::kX16:
    case Layout::kX16Pair: {
      const int64_t bytes = X16Bytes(weight.format, kGroupRows, weight.cols);
      for (int64_t group = begin; group < end; ++group) {
        for (const Source& source : weight.sources) {
          PackGroup(weight, source, group, dst);
          dst += bytes;
        }
      }
      return;
    }
    case Layout::kF32: {
      const int64_t bytes = row_bytes(weight.format, weight.cols);
      for (int64_t row = begin; row < end; ++row, dst += 4 * weight.cols) {
        decode_row(weight.format, weight.sources[0].Row(row, bytes), weight.cols,
                   reinterpret_cast<float*>(dst));
      }
      return;
    }
    case Layout::kConvTaps:
      if (begin < end) PackConvTaps(weight, reinterpret_cast<float*>(dst));
      return;
  }
}

std::vector<uint8_t> Packed(const Weight& weight) {
  std::vector<uint8_t> bytes(static_cast<size_t>(weight.pieces() * weight.piece_bytes()));
  Pack(weight, 0, weight.pieces(), bytes.data());
  return bytes;
}

void UnpackX16Row(Format format, const uint8_t* group, int64_t cols, int row, float* dst) {
  const Shape shape(format);
  if (shape.tile.block == 0) {
    const FormatInfo& info = format_info(format);
    for (int64_t c = 0; c < cols; ++c) {
      info.decode_block(group + (c * kGroupRows + row) * info.block_bytes, dst + c);
    }
    return;
  }
  const int64_t count = cols / shape.tile.block;
  PlainBlock block{};
  for (int64_t i = 0; i < count; ++i) {
    const TilePlace at = PlaceOfTile(shape.tile, i, count);
    ReadBlock(shape, group, at, row, block);
    plain_values(shape.form, block, dst + i * shape.tile.block);
  }
}

}  // namespace qcc::layouts
