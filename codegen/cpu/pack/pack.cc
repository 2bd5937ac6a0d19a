#include "codegen/cpu/pack/pack.h"

#include <algorithm>
#include <cstring>

#include "dialects/plan/tile_layout.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::cpu {
namespace {

using plan::code_byte;
using plan::code_shift;
using plan::high_byte;
using plan::high_shift;
using plan::kTileQ4_0;
using plan::kTileQ4_1;
using plan::kTileQ4_K;
using plan::kTileQ5_K;
using plan::kTileQ6_K;
using plan::kTileQ8_0;
using plan::tile_place;
using plan::TileLayout;
using plan::TilePlace;

using plan::kGroupRows;

// The x16 layout of a block format; null for plain formats.
const TileLayout* tile_layout(Format f) {
  switch (f) {
    case Format::Q4_0:
      return &kTileQ4_0;
    case Format::Q4_1:
      return &kTileQ4_1;
    case Format::Q8_0:
      return &kTileQ8_0;
    case Format::Q4_K:
      return &kTileQ4_K;
    case Format::Q5_K:
      return &kTileQ5_K;
    case Format::Q6_K:
      return &kTileQ6_K;
    case Format::F32:
    case Format::F16:
    case Format::BF16:
      return nullptr;
  }
  return nullptr;
}

// One GGUF block taken apart: stored codes (with their offset) and scale bytes in column order.
struct Block {
  uint16_t d = 0, m = 0;   // halves; m: Q4_1's minimum, dmin of the K formats
  uint8_t scale[16] = {};  // per 32 columns (Q4_K, Q5_K) or 16 columns (Q6_K, signed)
  uint8_t min[8] = {};
  uint8_t code[256];
};

uint16_t read16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}

void read_nibbles(const uint8_t* qs, Block& b) {
  for (int i = 0; i < 16; ++i) {
    b.code[i] = qs[i] & 15;
    b.code[i + 16] = qs[i] >> 4;
  }
}

// Six-bit scales and minima of Q4_K and Q5_K.
void read_scales(const uint8_t* s, Block& b) {
  for (int j = 0; j < 4; ++j) {
    b.scale[j] = s[j] & 63;
    b.min[j] = s[j + 4] & 63;
    b.scale[j + 4] = static_cast<uint8_t>((s[j + 8] & 15) | (s[j] >> 6) << 4);
    b.min[j + 4] = static_cast<uint8_t>(s[j + 8] >> 4 | (s[j + 4] >> 6) << 4);
  }
}

void read_block(Format f, const uint8_t* p, Block& b) {
  switch (f) {
    case Format::Q4_0:
      b.d = read16(p);
      read_nibbles(p + 2, b);
      return;
    case Format::Q4_1:
      b.d = read16(p);
      b.m = read16(p + 2);
      read_nibbles(p + 4, b);
      return;
    case Format::Q8_0:
      b.d = read16(p);
      for (int i = 0; i < 32; ++i) b.code[i] = static_cast<uint8_t>(p[2 + i] ^ 0x80);
      return;
    case Format::Q4_K:
    case Format::Q5_K: {
      b.d = read16(p);
      b.m = read16(p + 2);
      read_scales(p + 4, b);
      const uint8_t* high = p + 16;
      const uint8_t* qs = f == Format::Q5_K ? p + 48 : p + 16;
      for (int j = 0; j < 8; ++j) {
        for (int i = 0; i < 32; ++i) {
          int q = qs[j / 2 * 32 + i] >> (j & 1 ? 4 : 0) & 15;
          if (f == Format::Q5_K) q |= (high[i] >> j & 1) << 4;
          b.code[j * 32 + i] = static_cast<uint8_t>(q);
        }
      }
      return;
    }
    case Format::Q6_K: {
      std::memcpy(b.scale, p + 192, 16);
      b.d = read16(p + 208);
      for (int h = 0; h < 2; ++h) {
        const uint8_t *low = p + h * 64, *high = p + 128 + h * 32;
        for (int i = 0; i < 128; ++i) {
          const int nibble = low[i % 64] >> (i < 64 ? 0 : 4) & 15;
          b.code[h * 128 + i] = static_cast<uint8_t>(nibble | (high[i % 32] >> (i / 32 * 2) & 3) << 4);
        }
      }
      return;
    }
    case Format::F32:
    case Format::F16:
    case Format::BF16:
      return;  // no blocks
  }
}

void put16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v);
  p[1] = static_cast<uint8_t>(v >> 8);
}

void write_header(Format f, const Block& b, int row, uint8_t* header) {
  put16(header + row * 2, b.d);
  if (f == Format::Q4_1 || f == Format::Q4_K || f == Format::Q5_K) put16(header + 32 + row * 2, b.m);
  if (f == Format::Q4_K || f == Format::Q5_K) {
    for (int j = 0; j < 8; ++j) {
      header[64 + j * 16 + row] = b.scale[j];
      header[192 + j * 16 + row] = b.min[j];
    }
  } else if (f == Format::Q6_K) {
    for (int g = 0; g < 16; ++g) header[32 + g * 16 + row] = b.scale[g];
  }
}

// The body starts as zeros: nibbles are or-ed in. A template, so that places are constants of the unrolled
// loop.
template <const TileLayout& L>
void write_codes(const Block& b, int row, uint8_t* body) {
  for (int j = 0; j < L.block / 32; ++j) {
    uint8_t* chunk = body + j * L.chunk;
    const uint8_t* code = b.code + j * 32;
    if constexpr (L.bits == 8) {
      for (int c = 0; c < 32; ++c) chunk[code_byte(L, row, c)] = code[c];
    } else {
      for (int c = 0; c < 16; ++c) {
        chunk[code_byte(L, row, c)] = static_cast<uint8_t>((code[c] & 15) | (code[c + 16] & 15) << 4);
      }
      if constexpr (L.bits > 4) {
        for (int c = 0; c < 32; ++c) {
          chunk[high_byte(L, row, c)] |= static_cast<uint8_t>(code[c] >> 4 << high_shift(L, c));
        }
      }
    }
  }
}

// The blocks of one matrix row.
template <const TileLayout& L>
void write_row(Format format, const uint8_t* src, int64_t cols, int row, uint8_t* group) {
  const int64_t blocks = cols / L.block, bytes = format_info(format).block_bytes;
  Block block;
  for (int64_t b = 0; b < blocks; ++b) {
    const TilePlace at = tile_place(L, b, blocks);
    read_block(format, src + b * bytes, block);
    write_header(format, block, row, group + at.header);
    write_codes<L>(block, row, group + at.body);
  }
}

void write_row(Format format, const uint8_t* src, int64_t cols, int row, uint8_t* group) {
  switch (format) {
    case Format::Q4_0:
      return write_row<kTileQ4_0>(format, src, cols, row, group);
    case Format::Q4_1:
      return write_row<kTileQ4_1>(format, src, cols, row, group);
    case Format::Q8_0:
      return write_row<kTileQ8_0>(format, src, cols, row, group);
    case Format::Q4_K:
      return write_row<kTileQ4_K>(format, src, cols, row, group);
    case Format::Q5_K:
      return write_row<kTileQ5_K>(format, src, cols, row, group);
    case Format::Q6_K:
      return write_row<kTileQ6_K>(format, src, cols, row, group);
    case Format::F32:
    case Format::F16:
    case Format::BF16: {
      const int64_t n = format_info(format).block_bytes;
      for (int64_t c = 0; c < cols; ++c) {
        std::memcpy(group + (c * kGroupRows + row) * n, src + c * n, static_cast<size_t>(n));
      }
      return;
    }
  }
}

// GGUF bytes of matrix row `row`, or null past the end.
const uint8_t* row_data(std::span<const MatrixPart> parts, int64_t row, int64_t bytes) {
  for (const MatrixPart& p : parts) {
    if (row < p.rows) return p.data + row * bytes;
    row -= p.rows;
  }
  return nullptr;
}

void pack_group(Format format, std::span<const MatrixPart> parts, int64_t cols, int64_t group, uint8_t* dst) {
  const int64_t bytes = row_bytes(format, cols);
  const int64_t group_bytes = plan::x16_bytes(format, kGroupRows, cols);
  std::memset(dst, 0, static_cast<size_t>(group_bytes));
  for (int row = 0; row < kGroupRows; ++row) {
    if (const uint8_t* src = row_data(parts, group * kGroupRows + row, bytes))
      write_row(format, src, cols, row, dst);
  }
}

int read_code(const TileLayout& l, const uint8_t* chunk, int row, int column) {
  int q = chunk[code_byte(l, row, column)];
  if (l.bits == 8) return q;
  q = q >> code_shift(l, column) & 15;
  if (l.bits > 4)
    q |= (chunk[high_byte(l, row, column)] >> high_shift(l, column) & ((1 << (l.bits - 4)) - 1)) << 4;
  return q;
}

}  // namespace

void pack_x16(Format format, std::span<const MatrixPart> parts, int64_t cols, int64_t group_begin,
              int64_t group_end, uint8_t* dst) {
  const int64_t bytes = plan::x16_bytes(format, kGroupRows, cols);
  for (int64_t g = group_begin; g < group_end; ++g, dst += bytes) pack_group(format, parts, cols, g, dst);
}

void pack_x16_pair(Format format, std::span<const MatrixPart> gate, std::span<const MatrixPart> up,
                   int64_t cols, int64_t pair_begin, int64_t pair_end, uint8_t* dst) {
  const int64_t bytes = plan::x16_bytes(format, kGroupRows, cols);
  for (int64_t g = pair_begin; g < pair_end; ++g, dst += 2 * bytes) {
    pack_group(format, gate, cols, g, dst);
    pack_group(format, up, cols, g, dst + bytes);
  }
}

void pack_f32(Format format, const uint8_t* src, int64_t n, float* dst) {
  decode_row(format, src, n, dst);
}

void pack_conv_taps(Format format, const uint8_t* src, int64_t channels, int64_t taps, int64_t channel_begin,
                    int64_t channel_end, float* dst) {
  const FormatInfo& info = format_info(format);
  for (int64_t c = channel_begin; c < channel_end; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      info.decode_block(src + (c * taps + t) * info.block_bytes, dst + t * channels + c);
    }
  }
}

void unpack_x16_row(Format format, const uint8_t* group, int64_t cols, int row, float* dst) {
  const TileLayout* l = tile_layout(format);
  if (!l) {
    const FormatInfo& info = format_info(format);
    for (int64_t c = 0; c < cols; ++c) {
      info.decode_block(group + (c * kGroupRows + row) * info.block_bytes, dst + c);
    }
    return;
  }
  const int64_t blocks = cols / l->block;
  for (int64_t b = 0; b < blocks; ++b) {
    const TilePlace at = tile_place(*l, b, blocks);
    const uint8_t *header = group + at.header, *body = group + at.body;
    const float d = half_to_float(read16(header + row * 2));
    for (int c = 0; c < l->block; ++c) {
      const float q = static_cast<float>(read_code(*l, body + c / 32 * l->chunk, row, c % 32) - l->offset);
      float& out = dst[b * l->block + c];
      if (format == Format::Q4_K || format == Format::Q5_K) {
        const float scale = d * header[64 + c / 32 * 16 + row];
        const float min = half_to_float(read16(header + 32 + row * 2)) * header[192 + c / 32 * 16 + row];
        const float product = scale * q;
        out = product - min;
      } else if (format == Format::Q6_K) {
        out = d * static_cast<int8_t>(header[32 + c / 16 * 16 + row]) * q;
      } else if (format == Format::Q4_1) {
        const float product = d * q;
        out = product + half_to_float(read16(header + 32 + row * 2));
      } else {
        out = d * q;
      }
    }
  }
}

}  // namespace qcc::cpu
