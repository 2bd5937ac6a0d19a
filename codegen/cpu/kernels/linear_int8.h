// Tiles of weights times int8 activations: exact integer dot products of 16 or 32 columns, combined in f32 in
// column order. Those of a row's two terms join as integers first. Kernels only.
//
// Where the chunks of a tile share their base (kOneBase), a chunk's sums with their integer scales as factors
// are one number, `whole`: exact in f32 for rows of one term, so that a level may make it in integers or in
// f32 as it likes; of rows of two terms f(dot 0) f 0 is rounded, then fma(f(dot 1), f 1, that). A tile gives
// base * sum over chunks of x's scale * whole, and then its minima in column order.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_INT8_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_INT8_H_

#include "codegen/cpu/kernels/linear.h"
#include "codegen/cpu/kernels/row_ops.h"

namespace qk {

QK_INLINE int32_t load32(const void* p) {
  return load<int32_t>(p);
}

// Where the codes of some columns of an int8 row begin, and what goes with 32 and with 16 of them.
struct Int8Columns {
  const uint8_t *codes, *scales, *sums, *weighted;
};

template <Format F>
struct Int8Linear {
  typedef BlockFormat<F> B;
  typedef Level::Dot<B::kHigh> Dot;
  static constexpr Tile T = B::kTile;
  static constexpr int kSums = B::kSums;  // integer sums per 32 columns
  // What is left to add per unit of x's sum because codes are taken above the lowest value.
  static constexpr int kLow = Dot::kSigned ? 0 : B::kLow;
  typedef Int8Columns Columns;
  // Rows of the tiles that take rows from anywhere. The level with the fewest gains least and compiles
  // longest.
  static constexpr int kMostGathered = kTileRows < 4 ? 1 : kTileRows, kSomeGathered = (kMostGathered + 1) / 2;
  // Groups that a single row takes together: streams, of which processors read several faster than one. (Two
  // streams of 2 rows are as fast as one on a Zen 5, of 4 rows slower: Q4_K 0.91x, Q6_K 0.88x.)
  static constexpr int kStreams = Level::kStreams;
  // Columns of the matrix; terms of an activation, one or two, k columns apart; columns of an int8 row: more
  // than k where it holds several rows or terms.
  int64_t k, terms, row_columns;
  int64_t row_bytes, group_bytes;
  int64_t read_ahead;  // of the step

  // Columns [first, first + k) of an int8 row. first: a multiple of 32.
  __attribute__((always_inline)) Int8Columns columns(const uint8_t* row, int64_t first) const {
    return {row + first, row + Int8ScalesAt(row_columns) + first / 8,
            row + Int8SumsAt(row_columns) + first / 4, row + Int8WeightedAt(row_columns) + first / 8};
  }

  static constexpr int kChunkBytes = T.bytes() * 32 / T.block;  // of a chunk and its share of the header
  // Whether M rows are multiplied faster than the first-level cache, which waits for 24 lines, gets weights:
  // they are asked for into the second (8 rows, two threads of a Zen 4: Q8_0 34 GB/s, not 30; Q6_K 1.06x,
  // Q4_K 0.95x).
  template <int M>
  static constexpr bool kFar = M > 4 && kChunkBytes >= 400;

  // Where those weights begin that are asked for while `weights` are read, as if they were read from the
  // first byte to the last. Where headers and bodies of many columns take turns, prefetchers do not follow
  // well, and the distance is the step's. A format with a header for each 32 columns is one stream, which
  // they follow if they are not kept from it (Q8_0, one row, two threads of a Zen 5, where four plain streams
  // a thread read 72 GB/s: 69 at 512 bytes, 64 without, 53 to 59 at 1024 to 12288); where chunks are shorter,
  // the step's distance is better (large pages, vectors of 512 bits, 4096 bytes over 512: Q4_0 1.04x, IQ4_NL
  // 1.06x, Q5_0 1.07x, MXFP4 1.13x, Q8_0 0.96x). Of few rows the processor
  // has several chunks in hand anyway, of many one (8 rows, Zen 4: 25 GB/s at 2048, 12 at 384). Past the last
  // weight this touches no memory.
  template <int M>
  __attribute__((always_inline)) const uint8_t* ahead(const uint8_t* weights) const {
    constexpr int64_t kLeast = M <= 2 ? 0 : M <= 4 ? 1280 : kFar<M> ? 6144 : 2048;
    constexpr bool kFollowed = T.block == 32 && (kLanes < 16 || kChunkBytes >= 400);
    constexpr int64_t kMost = M <= 2 && kFollowed ? 512 : int64_t{1} << 20;
    const int64_t bytes = read_ahead < kMost ? read_ahead : kMost;
    return weights + (bytes < kLeast ? kLeast : bytes);
  }

  // Asks for chunk j of the tile at `tile`. Not with the hint that the line is read once (prefetchnta),
  // though it is: on Intel's servers such lines get few places of the first-level cache, none below it, and
  // are gone before they are read (model 167, two threads, one row: Q4_K 12.4 GB/s with it and 30.7 so, from
  // the second-level cache 14 and 118; a Zen 5 does not tell them apart).
  template <int M>
  QK_INLINE void prefetch(const uint8_t* tile, int j) {
    QK_UNROLL
    for (int i = 0; i < kChunkBytes; i += 64) {
      const uint8_t* line = tile + j * kChunkBytes + i;
      if constexpr (kFar<M>) {
        prefetch_far(line);
      } else {
        prefetch_near(line);
      }
    }
  }

  // Sums of x's codes over the columns that share scale g of a chunk.
  QK_INLINE int32_t term_sum(const uint8_t* sums, int g) {
    return kSums == 2 ? load32(sums + 4 * g) : load32(sums) + load32(sums + 4);
  }
  // What is in units of a row's last term: sums of the first one move up to join those of the second.
  __attribute__((always_inline)) int64_t last_term(int64_t col) const { return col + (terms - 1) * k; }
  __attribute__((always_inline)) int32_t x_sum(const Int8Columns& row, int64_t col, int g) const {
    const int32_t first = term_sum(row.sums + col / 4, g);
    return terms == 1 ? first : (first << kTermBits) + term_sum(row.sums + last_term(col) / 4, g);
  }
  __attribute__((always_inline)) float x_scale(const Int8Columns& row, int64_t col) const {
    const int64_t at = last_term(col);
    __builtin_assume(at >= 0);  // divided by shifting
    return load<float>(row.scales + at / 8);
  }
  // What the minimum that goes with scale g is multiplied by.
  __attribute__((always_inline)) float x_weighted(const Int8Columns& row, int64_t col, int g) const {
    if (kSums == 1 && terms == 1) return load<float>(row.weighted + col / 8);
    return x_scale(row, col) * static_cast<float>(x_sum(row, col, g));
  }

  // Part p of a chunk's 32 columns, activations from column `col`; `chunk` and `header` are the weights'.
  template <int M, class Rows>
  __attribute__((always_inline)) void part(int p, TileHeader header, const uint8_t* chunk, int j, Rows rows,
                                           int64_t col, Acc<M>& acc) const {
    Dot dot[M][kSums];
    const auto add_term = [&](int64_t at) QK_LAMBDA {
      for_each_word<F, Dot::kSigned>(chunk, p, [&](int n, int word, Words codes) QK_LAMBDA {
        unroll<M>([&](int m) QK_LAMBDA {
          const int32_t xm = load32(rows(m).codes + at + word * 4);
          if constexpr (kSums == 2) {
            Dot::add(dot[m][word >> 2], word & 3, 4, codes, xm);
          } else {
            Dot::add(dot[m][0], n, 8, codes, xm);
          }
        });
      });
    };
    const auto each = [&](auto fn) QK_LAMBDA {
      unroll<M * kSums>([&](int i) QK_LAMBDA { fn(i / kSums, i % kSums, dot[i / kSums][i % kSums]); });
    };
    const auto start = [&](int m, int g)
                           QK_LAMBDA { return Words(kLow != 0 ? kLow * x_sum(rows(m), col, g) : 0); };
    if (terms == 2) {
      each([&](int, int, Dot& d) QK_LAMBDA { Dot::begin(d, Words(0)); });
      add_term(col);
      each([&](int m, int g, Dot& d) QK_LAMBDA { Dot::begin(d, (Dot::end(d) << kTermBits) + start(m, g)); });
    } else {
      each([&](int m, int g, Dot& d) QK_LAMBDA { Dot::begin(d, start(m, g)); });
    }
    add_term(last_term(col));
    Words factors[2];
    Float scales[2];
    unroll<kSums>([&](int g) QK_LAMBDA {
      if constexpr (!B::kOneBase) {
        scales[g] = read_scale<F>(PartFields{p}, header, j, g);
      } else if constexpr (B::kHasScale) {
        factors[g] = read_factors<F>(PartFields{p}, header, j, g);
        scales[g] = to_float<kLanes>(factors[g]);
      }
    });
    unroll<M>([&](int m) QK_LAMBDA {
      const auto sum = [&](int g) QK_LAMBDA { return Dot::end(dot[m][g]); };
      const auto number = [&](int g) QK_LAMBDA { return to_float<kLanes>(sum(g)); };
      const float xs = x_scale(rows(m), col);
      Float& a = acc.v[m][p];
      if constexpr (!B::kOneBase) {
        unroll<kSums>([&](int g) QK_LAMBDA { a = fma<kLanes>(scales[g] * xs, number(g), a); });
      } else {
        Float whole;
        if constexpr (B::kFolds) {
          whole = to_float<kLanes>(sum(0) * factors[0] + sum(1) * factors[1]);
        } else {
          whole = B::kHasScale ? number(0) * scales[0] : number(0);
          if constexpr (kSums == 2) whole = fma<kLanes>(number(1), scales[1], whole);
        }
        a = fma<kLanes>(Float(xs), whole, a);
      }
    });
  }

  // What a tile's minima add; activations from column `first`.
  template <int M, class Rows>
  __attribute__((always_inline)) void minima(TileHeader header, Rows rows, int64_t first, Acc<M>& acc) const {
    for (int j = 0; j < T.block / 32; ++j) {
      unroll<kParts * kSums>([&](int i) QK_LAMBDA {
        const int p = i / kSums, g = i % kSums;
        const Float shift = read_shift<F>(PartFields{p}, header, j, g);
        unroll<M>([&](int m) QK_LAMBDA {
          acc.v[m][p] = fma<kLanes>(shift, Float(x_weighted(rows(m), first + j * 32, g)), acc.v[m][p]);
        });
      });
    }
  }

  // The group at w and those that lie `apart` bytes behind each other, together: a chunk of each in turn.
  template <int M, int N, class Rows>
  __attribute__((always_inline)) void tiles(const uint8_t* w, int64_t apart, Rows rows,
                                            Acc<M> (&acc)[N]) const {
    unroll<N>([&](int i) QK_LAMBDA { clear(acc[i]); });
    const uint8_t* next = ahead<M>(w);
    for_each_tile<F>(w, k / T.block, [&](int64_t b, TileHeader header, const uint8_t* body) QK_LAMBDA {
      Acc<M> sums[N];
      unroll<N>([&](int i) QK_LAMBDA { clear(sums[i]); });
      for (int j = 0; j < T.block / 32; ++j) {
        unroll<N>([&](int i) QK_LAMBDA {
          const int64_t at = i * apart;
          prefetch<M>(next + at + b * T.bytes(), j);
          unroll<kParts>([&](int p) QK_LAMBDA {
            part<M>(p, header.behind(at), body + at + j * T.chunk, j, rows, b * T.block + j * 32,
                    B::kOneBase ? sums[i] : acc[i]);
          });
        });
      }
      unroll<N>([&](int i) QK_LAMBDA {
        if constexpr (B::kOneBase) {
          unroll<kParts>([&](int p) QK_LAMBDA {
            const Float base = read_base<F>(PartFields{p}, header.behind(i * apart), 0);
            unroll<M>([&](int m)
                          QK_LAMBDA { acc[i].v[m][p] = fma<kLanes>(base, sums[i].v[m][p], acc[i].v[m][p]); });
          });
        }
        if constexpr (B::kHasMinimum) minima<M>(header.behind(i * apart), rows, b * T.block, acc[i]);
      });
    });
  }

  template <int M, class Rows>
  __attribute__((always_inline)) Acc<M> tile(const uint8_t* w, Rows rows) const {
    Acc<M> acc[1];
    tiles<M>(w, 0, rows, acc);
    return acc[0];
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_INT8_H_
