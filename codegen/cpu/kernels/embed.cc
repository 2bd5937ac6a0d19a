// embed: decodes single rows out of the 16-row tiles.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {
namespace {

// Header fields of one row, in every lane of the narrowest vectors that halves are converted in.
struct RowFields {
  static constexpr int kN = 4;
  int row;
  __attribute__((always_inline)) U16<4> halves(const uint8_t* p) const {
    return U16<4>(load<uint16_t>(p + row * 2));
  }
  __attribute__((always_inline)) U8<4> bytes(const uint8_t* p) const { return U8<4>(p[row]); }
};

// Bits of four columns' codes from a plane, one column a byte, at the bottom of their bytes.
template <int kWidth>
QK_INLINE uint32_t plane_codes(const uint8_t* plane, int row, int word) {
  const uint32_t v = load<uint32_t>(plane + qcc::layouts::VectorOfWord(kWidth, word) * 64 + row * 4);
  return v >> qcc::layouts::ShiftOfWord(kWidth, word) & ((1u << kWidth) - 1) * 0x01010101u;
}

// value - low of the columns 4 * word .. 4 * word + 3 of a chunk, one a byte.
template <Format F>
QK_INLINE uint32_t row_word(const uint8_t* chunk, int row, int word) {
  typedef BlockFormat<F> B;
  constexpr Tile t = B::kTile;
  uint32_t codes = plane_codes<t.low_bits>(chunk, row, word);
  if constexpr (t.high_bits > 0) {
    codes |= plane_codes<t.high_bits>(chunk + t.high_at(), row, word) << t.low_bits;
  }
  if constexpr (B::kLookup) {
    return static_cast<uint32_t>(Level::lookup<Table<F, false>>(Words(static_cast<int32_t>(codes))).x);
  } else {
    return codes << B::kShift;
  }
}

template <Format F>
struct BlockRow {
  QK_INLINE void decode(const uint8_t* table, int64_t id, int64_t cols, float* out) {
    typedef BlockFormat<F> B;
    constexpr Tile t = B::kTile;
    const uint8_t* group = table + (id >> 4) * B::group_bytes(cols);
    const int row = static_cast<int>(id & 15);
    for_each_tile<F>(group, cols / t.block, [&](int64_t b, TileHeader header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < t.block / 32; ++j) {
        const Scales<4> s = read_scales<F>(RowFields{row}, header, j);
        float* to = out + b * t.block + j * 32;
        unroll<8>([&](int word) QK_LAMBDA {
          const uint32_t values = row_word<F>(body + j * t.chunk, row, word);
          unroll<4>([&](int c) QK_LAMBDA {
            const int value = static_cast<int>(values >> (8 * c) & 0xff) + B::kLow;
            float v = s.scale[word >> 2].x * static_cast<float>(value);
            if constexpr (B::kHasMinimum) v = v + s.shift[word >> 2].x;
            to[word * 4 + c] = v;
          });
        });
      }
    });
  }
};

template <Format F>
struct PlainRow {
  QK_INLINE void decode(const uint8_t* table, int64_t id, int64_t cols, float* out) {
    typedef typename PlainFormat<F>::Element Element;
    typedef Element Lanes __attribute__((ext_vector_type(4)));
    const uint8_t* p = table + (id >> 4) * cols * kColumnBytes<F> + (id & 15) * sizeof(Element);
    for (int64_t c = 0; c < cols; ++c, p += kColumnBytes<F>) {
      out[c] = PlainFormat<F>::template values<4>(Lanes(load<Element>(p))).x;
    }
  }
};

}  // namespace
}  // namespace qk

#define QK_EMBED(source, id, name)                                                           \
  QK_SIGNATURE_AS(qk_embed_##id, "qk_embed_" name, embed)                                    \
  QK_EXPORT void qk_embed_##id(const embed_args* args) {                                     \
    const embed_args a = *args;                                                              \
    for (int64_t r = a.begin; r < a.end; ++r) {                                              \
      qk::source<qcc::Format::id>::decode(a.table, a.tokens[r], a.cols, a.out + r * a.cols); \
    }                                                                                        \
  }
#define QK_BLOCK_FORMAT(id, name) QK_EMBED(BlockRow, id, name)
#define QK_PLAIN_FORMAT(id, name) QK_EMBED(PlainRow, id, name)
#include "codegen/cpu/kernels/kernels.def"
