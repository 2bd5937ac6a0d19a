// Tiles of weights times f32 activations: weights decoded to exactly the values that the format defines, two
// partial sums (even and odd columns) per output. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_F32_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_F32_H_

#include "codegen/cpu/kernels/linear.h"

namespace qk {

// Parts of the group that one walk over the columns keeps: two partial sums per row and part, in 8 registers.
template <int M>
inline constexpr int kWalkParts = 8 / (2 * M) < 1        ? 1
                                  : 8 / (2 * M) < kParts ? 8 / (2 * M)
                                                         : kParts;

template <int M>
struct Partial {
  Float v[M][kWalkParts<M>][2];
};

template <int M, class Rows>
QK_INLINE void add_column(Partial<M>& a, int part, int odd, Float w, Rows rows, int64_t column) {
  unroll<M>([&](int m) QK_LAMBDA {
    Float& v = a.v[m][part][odd];
    v = fma<kLanes>(w, Float(rows(m)[column]), v);
  });
}

template <Format F>
struct BlockSource {
  typedef BlockFormat<F> B;
  static constexpr Tile T = B::kTile;
  QK_INLINE int64_t group_bytes(int64_t k) { return B::group_bytes(k); }

  template <int M, class Rows>
  QK_INLINE void walk(const uint8_t* w, Rows rows, int64_t k, int part0, Partial<M>& a) {
    for_each_tile<F>(w, k / T.block, [&](int64_t b, TileHeader header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < T.block / 32; ++j) {
        const int64_t col = b * T.block + j * 32;
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA {
          const Scales<kLanes> s = read_scales<F>(PartFields{part0 + p}, header, j);
          for_each_word<F, false>(body + j * T.chunk, part0 + p, [&](int, int word, Words codes) QK_LAMBDA {
            unroll<4>([&](int c) QK_LAMBDA {
              const Words q = ((codes >> (8 * c)) & 0xff) + B::kLow;
              Float v = s.scale[word >> 2] * to_float<kLanes>(q);
              if constexpr (B::kHasMinimum) v = v + s.shift[word >> 2];
              add_column<M>(a, p, c & 1, v, rows, col + word * 4 + c);
            });
          });
        });
      }
    });
  }
};

template <Format F>
struct PlainSource {
  static constexpr int kBytes = kColumnBytes<F>;
  QK_INLINE int64_t group_bytes(int64_t k) { return k * kBytes; }

  template <int M, class Rows>
  QK_INLINE void walk(const uint8_t* w, Rows rows, int64_t k, int part0, Partial<M>& a) {
    int64_t c = 0;
    const auto column = [&](int odd) QK_LAMBDA {
      unroll<kWalkParts<M>>([&](int p) QK_LAMBDA {
        add_column<M>(a, p, odd, plain_column<F>(w + (c + odd) * kBytes, part0 + p), rows, c + odd);
      });
    };
    for (; c + 2 <= k; c += 2) {
      column(0);
      column(1);
    }
    if (c < k) column(0);
  }
};

template <class S>
struct F32Linear {
  typedef const float* Columns;
  // Rows of the tiles that take rows from anywhere. Few sizes: they take long to compile.
  static constexpr int kMostGathered = kTileRows < 4 ? 1 : 4, kSomeGathered = 1;
  static constexpr int kStreams = 1;  // as of Int8Linear
  int64_t k, row_bytes, group_bytes;

  // Columns [first, first + k) of a row.
  __attribute__((always_inline)) const float* columns(const uint8_t* row, int64_t first) const {
    return reinterpret_cast<const float*>(row) + first;
  }

  template <int M, class Rows>
  __attribute__((always_inline)) Acc<M> tile(const uint8_t* w, Rows rows) const {
    Acc<M> acc;
    QK_UNROLL
    for (int part0 = 0; part0 < kParts; part0 += kWalkParts<M>) {
      Partial<M> a;
      unroll<M>([&](int m) QK_LAMBDA {
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA { a.v[m][p][0] = a.v[m][p][1] = Float(0.f); });
      });
      S::template walk<M>(w, rows, k, part0, a);
      unroll<M>([&](int m) QK_LAMBDA {
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA { acc.v[m][part0 + p] = a.v[m][p][0] + a.v[m][p][1]; });
      });
    }
    return acc;
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_F32_H_
