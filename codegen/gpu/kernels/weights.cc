#include "codegen/gpu/kernels/weights.h"

#include <cmath>

#include "codegen/gpu/kernels/math.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

// The value of an unsigned E4M3 byte (i32).
Val Ue4m3ToF32(Val byte) {
  Builder& b = *byte.builder();
  const Val magnitude = (byte & 0x7f) << 20;
  // Exponent 0: put the mantissa under the exponent of 2^-6, then take 2^-6 away.
  const Val tiny = b.AsF32(magnitude + (121 << 23)) - b.AsF32(b.I32(121 << 23));
  const Val value = Select(LtS(magnitude, b.I32(1 << 23)), tiny, b.AsF32(magnitude + (120 << 23)));
  return Select(Eq(byte, 0x7f), b.F32(0.f), value);
}

}  // namespace

int64_t GroupBytes(Format format, int64_t k) {
  return layouts::X16Bytes(format, layouts::kGroupRows, k);
}

PackedRow::PackedRow(Builder& builder, Format format, int64_t k, Val base, Val group, Val row)
    : b_(builder),
      format_(format),
      form_(description(format).plain),
      tile_(layouts::TileOf(form_)),
      k_(k),
      base_(base),
      group_(group) {
  word_at_ = row << 2;
  half_at_ = ShrU(row, 1) << 2;
  half_shift_ = (row & 1) << 4;
  byte_at_ = row & 12;
  byte_shift_ = (row & 3) << 3;
}

PackedRow::Chunk PackedRow::At(Val chunk) const {
  if (!IsBlockFormat(format_)) {
    return {Val(), Val(), group_ + chunk * (kChunkColumns * GroupBytes(format_, 1)), b_.I32(0)};
  }
  const int64_t tiles = k_ / tile_.block;
  const int chunks = tile_.block / kChunkColumns;
  const Val tile = chunks == 1 ? chunk : DivU(chunk, chunks);
  const Val index = chunks == 1 ? b_.I32(0) : RemU(chunk, chunks);
  Chunk at{Val(), Val(), Val(), index};
  if (tile_.run > 1) {
    // The base scales of a run, then what else its tiles have; the group's last run may be shorter.
    const Val in_run = tile & (tile_.run - 1);
    const Val run = group_ + (tile - in_run) * tile_.bytes();
    at.bases = run + in_run * tile_.bases;
    Val bases = b_.I32(tile_.run * tile_.bases);
    if (const int64_t left = tiles % tile_.run) {
      const int32_t of_last = static_cast<int32_t>(left * tile_.bases);
      const Val first = left == 1 ? tile : tile - in_run;
      bases = Select(Eq(first, tiles - left), b_.I32(of_last), bases);
    }
    at.fields = run + bases + in_run * (tile_.fields + tile_.body);
  } else {
    at.bases = group_ + tile * tile_.bytes();
    at.fields = at.bases + tile_.bases;
  }
  at.body = tile_.fields ? at.fields + tile_.fields : at.fields;
  if (chunks > 1) at.body = at.body + index * tile_.chunk;
  return at;
}

Val PackedRow::HalfOf(Val word) const {
  return b_.HalfToF32(b_.Binary(Builder::Op::kShrU, word, half_shift_));
}

Val PackedRow::FieldAt(const Chunk& chunk, int columns, int bytes) const {
  const int each = columns / kChunkColumns;
  if (each <= 1) return chunk.index * (kChunkColumns / columns * bytes);
  return DivU(chunk.index, each) * bytes;
}

void PackedRow::ReadBase(Val word, Val* base, Val* rest) const {
  switch (form_.base) {
    case BaseScale::kHalf:
      *base = HalfOf(word);
      break;
    case BaseScale::kUe4m3:
      *base = Ue4m3ToF32(ByteU(ByteOf(word), 0));
      break;
    case BaseScale::kE8m0: {
      // 2^(e - 127) times the factor, as exponents of two numbers.
      const Val e = ByteU(ByteOf(word), 0), half = ShrU(e, 1);
      *base = b_.AsF32((half + 63) << 23);
      *rest = b_.AsF32((e - half + (64 + std::ilogb(form_.factor))) << 23);
      return;
    }
  }
  if (form_.factor != 1) *base = *base * form_.factor;
}

PackedRow::ScaleWords PackedRow::LoadScales(const Chunk& chunk) const {
  ScaleWords words;
  const bool one_base = form_.bases() == 1;
  const Val first =
      one_base ? chunk.bases : chunk.bases + FieldAt(chunk, form_.columns_per_base, 16 * tile_.base_bytes);
  words.base[0] = BaseWord(first, 0);
  if (form_.columns_per_base < kChunkColumns) words.base[1] = BaseWord(first, 16 * tile_.base_bytes);
  if (has_shift()) words.minimum = HalfWord(chunk.fields, tile_.minimum_at);
  if (form_.scale == GroupScale::kNone) return words;
  const Val at = chunk.fields + FieldAt(chunk, form_.columns_per_scale, 16);
  for (int s = 0; s < (two_scales() ? 2 : 1); ++s) {
    words.scale[s] = ByteWord(at, tile_.scale_at + 16 * s);
    if (form_.minimum == Minimum::kScaled) words.min[s] = ByteWord(at, tile_.min_at + 16 * s);
  }
  return words;
}

PackedRow::Scales PackedRow::ReadScales(const ScaleWords& words) const {
  Scales scales;
  ReadBase(words.base[0], &scales.scale[0], &scales.rest[0]);
  scales.scale[1] = scales.scale[0];
  scales.rest[1] = scales.rest[0];
  if (words.base[1]) ReadBase(words.base[1], &scales.scale[1], &scales.rest[1]);
  const Val minimum = words.minimum ? HalfOf(words.minimum) : Val();
  if (form_.minimum == Minimum::kHalf) scales.shift[0] = scales.shift[1] = minimum;
  if (form_.scale == GroupScale::kNone) return scales;

  for (int s = 0; s < (two_scales() ? 2 : 1); ++s) {
    const Val scale = ByteOf(words.scale[s]);
    const Val number = form_.scale == GroupScale::kU8 ? ByteU(scale, 0) : ByteS(scale, 0);
    scales.scale[s] = scales.scale[s] * b_.ToF32(number);
    if (form_.minimum != Minimum::kScaled) continue;
    scales.shift[s] = b_.Call(Builder::Fn::kNeg, minimum * b_.ToF32(ByteU(ByteOf(words.min[s]), 0)));
  }
  if (two_scales()) return scales;
  scales.scale[1] = scales.scale[0];
  scales.shift[1] = scales.shift[0];
  return scales;
}

std::vector<Val> PackedRow::Decode(Val codes, Val scale, Val rest, Val shift) const {
  std::vector<Val> values(4);
  for (int c = 0; c < 4; ++c) {
    Val code = ReadsValues(form_) ? ByteS(codes, c) : ByteU(codes, c);
    if (code_offset()) code = code - code_offset();
    values[c] = scale * b_.ToF32(code);
    if (rest) values[c] = values[c] * rest;
    if (shift) values[c] = values[c] + shift;
  }
  return values;
}

Val PackedRow::PlainValue(Val column) const {
  switch (form_.scalar) {
    case Scalar::kNone:
      break;
    case Scalar::kF32:
      return b_.Load(Type::kF32, base_, column + word_at_);
    case Scalar::kF16:
      return HalfOf(HalfWord(column));
    case Scalar::kBF16:
      return Bf16ToF32(b_.Binary(Builder::Op::kShrU, HalfWord(column), half_shift_));
  }
  return {};
}

std::vector<Val> PackedRow::ReadValues(const Chunk& chunk, Val word) const {
  if (!IsBlockFormat(format_)) {
    const int64_t bytes = GroupBytes(format_, 1);
    const Val at = chunk.body + word * (4 * bytes);
    std::vector<Val> values;
    for (int c = 0; c < 4; ++c) values.push_back(PlainValue(at + (c * bytes)));
    return values;
  }
  const Scales scales = ReadScales(chunk);
  const auto of_word = [&](const Val both[2]) {
    return two_scales() && both[0] ? Select(LtS(word, b_.I32(4)), both[0], both[1]) : both[0];
  };
  const Val scale = of_word(scales.scale), rest = of_word(scales.rest), shift = of_word(scales.shift);
  return Decode(Codes(chunk).One(word), scale, rest, shift);
}

}  // namespace qcc::gpu
