#include "codegen/gpu/kernels/weights.h"

#include "codegen/gpu/kernels/math.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::gpu {

const plan::TileLayout* FindTileLayout(Format format) {
  switch (format) {
    case Format::Q4_0:
      return &plan::kTileQ4_0;
    case Format::Q4_1:
      return &plan::kTileQ4_1;
    case Format::Q8_0:
      return &plan::kTileQ8_0;
    case Format::Q4_K:
      return &plan::kTileQ4_K;
    case Format::Q5_K:
      return &plan::kTileQ5_K;
    case Format::Q6_K:
      return &plan::kTileQ6_K;
    default:
      return nullptr;
  }
}

int64_t GroupBytes(Format format, int64_t k) {
  return plan::x16_bytes(format, plan::kGroupRows, k);
}

PackedRow::PackedRow(Builder& builder, Format format, int64_t k, Val base, Val group, Val row)
    : b_(builder), format_(format), layout_(FindTileLayout(format)), k_(k), base_(base), group_(group) {
  word_at_ = row << 2;
  half_at_ = ShrU(row, 1) << 2;
  half_shift_ = (row & 1) << 4;
  byte_at_ = row & 12;
  byte_shift_ = (row & 3) << 3;
}

PackedRow::Chunk PackedRow::At(Val chunk) const {
  if (!layout_) {
    return {Val(), group_ + chunk * (kChunkColumns * GroupBytes(format_, 1)), b_.I32(0)};
  }
  const plan::TileLayout& l = *layout_;
  const int64_t blocks = k_ / l.block;
  const int chunks = l.block / kChunkColumns;
  const Val tile = chunks == 1 ? chunk : DivU(chunk, chunks);
  const Val index = chunks == 1 ? b_.I32(0) : RemU(chunk, chunks);
  Chunk at{Val(), Val(), index};
  if (l.paired) {
    // Tiles 2p and 2p + 1: header, header, body, body; a last one alone: header, body.
    const Val odd = tile & 1;
    const Val pair = group_ + (tile - odd) * l.bytes();
    at.header = pair + odd * l.header;
    Val headers = b_.I32(2 * l.header);
    if (blocks % 2) headers = Select(Eq(tile, static_cast<double>(blocks - 1)), b_.I32(l.header), headers);
    at.body = pair + headers + odd * l.body;
  } else {
    at.header = group_ + tile * l.bytes();
    at.body = at.header + l.header;
  }
  if (chunks > 1) at.body = at.body + index * l.chunk;
  return at;
}

Val PackedRow::Half(Val offset) const {
  return HalfToF32(b_.Binary(Builder::Op::kShrU, Word(offset + half_at_), half_shift_));
}

Val PackedRow::ByteWord(Val offset) const {
  return b_.Binary(Builder::Op::kShrU, Word(offset + byte_at_), byte_shift_);
}

PackedRow::Scales PackedRow::ReadScales(const Chunk& chunk) const {
  const Val d = Half(chunk.header);
  const auto scaled = [&](Val factor, Val offset) { return factor * b_.ToF32(ByteU(ByteWord(offset), 0)); };
  switch (format_) {
    case Format::Q4_1:
      return {{d, d}, Half(chunk.header + 32)};
    case Format::Q4_K:
    case Format::Q5_K: {
      const Val at = chunk.header + chunk.index * 16;
      const Val scale = scaled(d, at + 64);
      const Val min = scaled(Half(chunk.header + 32), at + 192);
      return {{scale, scale}, b_.Call(Builder::Fn::kNeg, min)};
    }
    case Format::Q6_K: {
      const Val at = chunk.header + chunk.index * 32;
      return {{d * b_.ToF32(ByteS(ByteWord(at + 32), 0)), d * b_.ToF32(ByteS(ByteWord(at + 48), 0))}, Val()};
    }
    default:
      return {{d, d}, Val()};
  }
}

std::vector<Val> PackedRow::ReadCodes(const Chunk& chunk) const {
  const Val at = chunk.body + word_at_;
  std::vector<Val> codes(8);
  if (layout_->bits == 8) {
    for (int t = 0; t < 8; ++t) codes[t] = Word(at + 64 * t) ^ 0x80808080;
    return codes;
  }
  Val high[2];
  if (layout_->bits >= 5) high[0] = high[1] = Word(at + 256);
  if (layout_->bits == 6) high[1] = Word(at + 320);
  const auto moved = [](Val v, int left) { return left < 0 ? ShrU(v, -left) : left ? v << left : v; };
  for (int i = 0; i < 4; ++i) {
    const Val v = Word(at + 64 * i);
    codes[i] = v & 0x0f0f0f0f;
    codes[i + 4] = ShrU(v, 4) & 0x0f0f0f0f;
    if (layout_->bits == 5) {
      // Bits i and i + 4 to bit 4; shifts stay inside the byte after the mask.
      codes[i] = codes[i] | (moved(high[0], 4 - i) & 0x10101010);
      codes[i + 4] = codes[i + 4] | (moved(high[0], -i) & 0x10101010);
    } else if (layout_->bits == 6) {
      const int left = i & 1 ? 2 : 4;
      codes[i] = codes[i] | (moved(high[i >> 1], left) & 0x30303030);
      codes[i + 4] = codes[i + 4] | (moved(high[i >> 1], left - 4) & 0x30303030);
    }
  }
  return codes;
}

std::vector<Val> PackedRow::ReadCodePair(const Chunk& chunk, Val word) const {
  const Val at = chunk.body + word_at_;
  const Val v = Word(at + (word << 6));
  if (layout_->bits == 8) return {v ^ 0x80808080, Word(at + 256 + (word << 6)) ^ 0x80808080};
  std::vector<Val> codes{v & 0x0f0f0f0f, ShrU(v, 4) & 0x0f0f0f0f};
  // High bits of the second word are four above the first's, where they belong.
  if (layout_->bits == 5) {
    const Val high = b_.Binary(Builder::Op::kShrU, Word(at + 256), word);
    codes[0] = codes[0] | ((high & 0x01010101) << 4);
    codes[1] = codes[1] | (high & 0x10101010);
  } else if (layout_->bits == 6) {
    const Val pair = Word(at + 256 + (ShrU(word, 1) << 6));
    const Val high = b_.Binary(Builder::Op::kShrU, pair, (word & 1) << 1);
    codes[0] = codes[0] | ((high & 0x03030303) << 4);
    codes[1] = codes[1] | (high & 0x30303030);
  }
  return codes;
}

Val PackedRow::CodeWord(const Chunk& chunk, Val word) const {
  const auto shifted = [&](Val v, Val by) { return b_.Binary(Builder::Op::kShrU, v, by); };
  const Val at = chunk.body + word_at_;
  if (layout_->bits == 8) return Word(at + (word << 6)) ^ 0x80808080;
  const Val upper = ShrU(word, 2);
  Val codes = shifted(Word(at + ((word & 3) << 6)), upper << 2) & 0x0f0f0f0f;
  if (layout_->bits == 5) {
    codes = codes | ((shifted(Word(at + 256), word) & 0x01010101) << 4);
  } else if (layout_->bits == 6) {
    const Val vector = ShrU(word, 1) & 1;
    const Val field = (word & 1) + upper * 2;
    codes = codes | ((shifted(Word(at + 256 + (vector << 6)), field << 1) & 0x03030303) << 4);
  }
  return codes;
}

std::vector<Val> PackedRow::Decode(Val codes, Val scale, Val shift) const {
  std::vector<Val> values(4);
  for (int c = 0; c < 4; ++c) {
    Val code = layout_->bits == 8 ? ByteS(codes, c) : ByteU(codes, c);
    if (code_offset()) code = code - code_offset();
    values[c] = scale * b_.ToF32(code);
    if (shift) values[c] = values[c] + shift;
  }
  return values;
}

Val PackedRow::PlainValue(Val column) const {
  if (format_ == Format::F32) return b_.Load(Type::kF32, base_, column + word_at_);
  if (format_ == Format::F16) return Half(column);
  return Bf16ToF32(b_.Binary(Builder::Op::kShrU, Word(column + half_at_), half_shift_));
}

std::vector<Val> PackedRow::ReadValues(const Chunk& chunk) const {
  std::vector<Val> values;
  if (!layout_) {
    for (int t = 0; t < 8; ++t) {
      for (Val v : ReadValues(chunk, b_.I32(t))) values.push_back(v);
    }
    return values;
  }
  const Scales scales = ReadScales(chunk);
  const std::vector<Val> codes = ReadCodes(chunk);
  for (int t = 0; t < 8; ++t) {
    for (Val v : Decode(codes[t], scales.scale[t / 4], scales.shift)) values.push_back(v);
  }
  return values;
}

std::vector<Val> PackedRow::ReadValues(const Chunk& chunk, Val word) const {
  if (!layout_) {
    const int64_t bytes = GroupBytes(format_, 1);
    const Val at = chunk.body + word * (4 * bytes);
    std::vector<Val> values;
    for (int c = 0; c < 4; ++c) values.push_back(PlainValue(at + static_cast<double>(c * bytes)));
    return values;
  }
  const Scales scales = ReadScales(chunk);
  const Val scale = columns_per_scale() == 16 ? Select(LtS(word, b_.I32(4)), scales.scale[0], scales.scale[1])
                                              : scales.scale[0];
  return Decode(CodeWord(chunk, word), scale, scales.shift);
}

}  // namespace qcc::gpu
