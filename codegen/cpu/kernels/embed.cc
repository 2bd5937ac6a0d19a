// embed: decodes single rows out of the 16-row tiles.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {
namespace {

QK_INLINE float half1(const uint8_t* p) {
  return half_to_float<4>(U16<4>(load<uint16_t>(p))).x;
}

// Scale and shift of 16-column group g of chunk j for one row: the scalar twin of F::scales, same products.
struct RowScale {
  float scale, shift;
};
template <class F>
QK_INLINE RowScale row_scale(const uint8_t* header, int row, int j, int g) {
  constexpr const TileLayout& l = F::kLayout;
  const float d = half1(header + 2 * row);
  if constexpr (l.columns_per_scale == 16) {
    return {d * static_cast<float>(static_cast<int8_t>(header[32 + j * 32 + g * 16 + row])), 0.f};
  } else if constexpr (l.block == 256) {
    return {d * static_cast<float>(header[64 + j * 16 + row]),
            -(half1(header + 32 + 2 * row) * static_cast<float>(header[192 + j * 16 + row]))};
  } else if constexpr (F::kHasShift) {
    return {d, half1(header + 32 + 2 * row)};
  } else {
    return {d, 0.f};
  }
}

template <class F>
struct BlockRow {
  QK_INLINE void decode(const uint8_t* table, int64_t id, int64_t cols, float* out) {
    constexpr const TileLayout& l = F::kLayout;
    const int64_t blocks = cols / l.block;
    const uint8_t* group = table + (id >> 4) * blocks * l.bytes();
    const int row = static_cast<int>(id & 15);
    for_each_tile<F>(group, blocks, [&](int64_t b, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < l.block / 32; ++j) {
        const uint8_t* chunk = body + j * l.chunk;
        for (int g = 0; g < 2; ++g) {
          const RowScale s = row_scale<F>(header, row, j, g);
          for (int i = 0; i < 16; ++i) {
            const int col = g * 16 + i;
            int q = chunk[qcc::plan::code_byte(l, row, col)];
            if constexpr (l.bits < 8) q = (q >> qcc::plan::code_shift(l, col)) & 15;
            if constexpr (l.bits == 5 || l.bits == 6) {
              const int high = chunk[qcc::plan::high_byte(l, row, col)] >> qcc::plan::high_shift(l, col);
              q |= (high & ((1 << (l.bits - 4)) - 1)) << 4;
            }
            float v = s.scale * static_cast<float>(q - l.offset);
            if constexpr (F::kHasShift) v = v + s.shift;
            out[b * l.block + j * 32 + col] = v;
          }
        }
      }
    });
  }
};

template <class F>
struct PlainRow {
  QK_INLINE void decode(const uint8_t* table, int64_t id, int64_t cols, float* out) {
    const uint8_t* p = table + (id >> 4) * cols * F::kBytes + (id & 15) * (F::kBytes / 16);
    for (int64_t c = 0; c < cols; ++c, p += F::kBytes) out[c] = F::value(p);
  }
};
struct RowF32 : PlainF32 {
  QK_INLINE float value(const uint8_t* p) { return load<float>(p); }
};
struct RowF16 : PlainF16 {
  QK_INLINE float value(const uint8_t* p) { return half1(p); }
};
struct RowBF16 : PlainBF16 {
  QK_INLINE float value(const uint8_t* p) {
    return bits_to_float(static_cast<uint32_t>(load<uint16_t>(p)) << 16);
  }
};

}  // namespace
}  // namespace qk

#define QK_EMBED(source, suffix)                                                                          \
  QK_EXPORT void qk_embed_##suffix(const uint8_t* table, const int32_t* tokens, float* out, int64_t cols, \
                                   int64_t rows, int64_t begin, int64_t end) {                            \
    for (int64_t r = begin; r < end; ++r) source::decode(table, tokens[r], cols, out + r * cols);         \
  }
#define QK_BLOCK_FORMAT(id, suffix) QK_EMBED(qk::BlockRow<qk::id>, suffix)
#define QK_PLAIN_FORMAT(id, suffix) QK_EMBED(qk::PlainRow<qk::Row##id>, suffix)
#include "codegen/cpu/kernels/kernels.def"
