// Products of a chunk of unpacked weights and int8 rows on a level's matrix unit. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_

#include "codegen/cpu/kernels/matrix_rows.h"

namespace qk {

// A scale's columns are what the unit adds up at once: a sum has no other operations than with vectors, and
// integer sums are exact in any order. kSums: of a chunk.
template <int kSums, class Unit>
struct MatrixProducts {
  static constexpr int kColumns = 32 / kSums;  // of a sum
  static constexpr int kVector = 64;           // bytes of four columns of a group, and of a row of sums
  static constexpr int kBytes = 4 * qcc::cpu::LinearScratch::kProducts;
  static constexpr int kRowBytes = 32;

  // Tiles of products, then two each of rows and of weights.
  static constexpr int kTiles = 4, kRowTile = kTiles, kWeightTile = kRowTile + 2;
  static constexpr typename Unit::Shapes make_shapes() {
    typename Unit::Shapes shapes{};
    shapes.palette = 1;
    const auto tile = [&](int i, int rows, int row_bytes) {
      shapes.rows[i] = static_cast<uint8_t>(rows);
      shapes.row_bytes[i] = static_cast<uint16_t>(row_bytes);
    };
    for (int i = 0; i < kTiles; ++i) tile(i, Unit::kRows, kVector);
    for (int i = 0; i < 2; ++i) {
      tile(kRowTile + i, Unit::kRows, kColumns);
      tile(kWeightTile + i, kColumns / 4, kVector);
    }
    return shapes;
  }
  static constexpr typename Unit::Shapes kShapes = make_shapes();

  QK_INLINE void begin() { Unit::begin(kShapes); }
  QK_INLINE void end() { Unit::end(); }

  // Sum kSum of 32 columns of weights and rows.
  template <int kTile, int kSum>
  QK_INLINE void multiply(const uint8_t* chunk, const uint8_t* codes) {
    constexpr int kOther = kTile % 2;
    Unit::template clear<kTile>();
    Unit::template load<kRowTile + kOther>(codes + kSum * kColumns, kRowBytes);
    Unit::template load<kWeightTile + kOther>(chunk + kSum * kColumns / 4 * kVector, kVector);
    Unit::template add_products<kTile, kRowTile + kOther, kWeightTile + kOther>();
  }
  // to: [rows][16].
  template <int kTile>
  QK_INLINE void store(uint8_t* to) {
    Unit::template store<kTile>(to, kVector);
  }
};

// What the unit of P, which are Panels, multiplies next: of each panel the columns of each tile of rows, in
// the order in which products are used, by turns of as many chunks as have kTiles products, some turns
// earlier. A product leaves its tile kTiles - 1 products later: stored sooner, the unit stands still
// meanwhile (v4amx.h). What was stored can be read when it has left the processor's queue of stores, behind
// all that came before it. kWhole: all turns have all of their chunks. Nothing branches between these, as the
// compiler would move what a chunk's products go into to where the next one's begin, and keep all of them
// meanwhile.
template <class P, int kTerms, bool kWhole>
struct MatrixAhead {
  typedef typename P::Part Part;
  typedef typename P::Unit Unit;
  static constexpr bool kAllChunks = kWhole || kTerms * P::kDots == Unit::kTiles;
  static constexpr int kTiles = Unit::kTiles, kEach = kTerms * P::kDots;              // of a chunk
  static constexpr int kChunks = kTiles / kEach;                                      // of a turn
  static constexpr int kTurns = kEach == 1 ? 1 : 2;                                   // ahead
  static constexpr int kRing = qcc::cpu::LinearScratch::ProductRing(kEach) / kTiles;  // turns
  static_assert(kTurns <= kRing);

  const uint8_t *codes, *chunk;  // the next turn's columns of the tile's rows, the panel's
  int64_t tile, tiles;           // of rows
  int64_t panel, panels;
  int64_t left;        // chunks of the tile
  int64_t made, used;  // turns

  __attribute__((always_inline)) void begin(const P& p, int64_t row_tiles, bool both, const Part& part) {
    *this = {nullptr, nullptr, 0, row_tiles, 0, both ? 2 : 1, 0, 0, 0};
    begin_tile(p, part);
    unroll<kChunks>([&](int c) QK_LAMBDA { multiply<true>(p, c); });
    next_turn(p, part);
    for (int i = 1; i < kTurns; ++i) {
      unroll<kChunks>([&](int c) QK_LAMBDA { multiply<false>(p, c); });
      next_turn(p, part);
    }
  }

  // Chunk c's products of a turn: [terms][sums][rows][16].
  __attribute__((always_inline)) const uint8_t* products(const P& p, int c) const {
    return place(p, used) + c * kEach * Unit::kBytes;
  }
  __attribute__((always_inline)) void end_turn(const P& p, const Part& part) {
    ++used;
    next_turn(p, part);
  }

  __attribute__((always_inline)) uint8_t* place(const P& p, int64_t turn) const {
    __builtin_assume(turn >= 0);
    return p.products + turn % kRing * (kTiles * Unit::kBytes);
  }
  __attribute__((always_inline)) void begin_tile(const P& p, const Part& part) {
    codes = p.matrix_rows.tile(tile, part.columns);
    chunk = p.panel + panel * p.place.pair;
    left = part.columns / 32;
  }
  // Chunk c of the next turn, or of the very first. Behind the last one its products are made once more.
  template <bool kFirst>
  __attribute__((always_inline)) void multiply(const P& p, int c) const {
    const uint8_t *rows = codes + c * p.matrix_rows.chunk.bytes, *weights = chunk + c * p.place.chunk;
    unroll<kEach>([&](int i) QK_LAMBDA {
      const auto with = [&](auto tile)
                            QK_LAMBDA { multiply_into<decltype(tile)::value, kFirst>(p, rows, weights, c); };
      switch (c * kEach + i) {
        case 0:
          return with(Index<0>{});
        case 1:
          return with(Index<1>{});
        case 2:
          return with(Index<2>{});
        default:
          return with(Index<3>{});
      }
    });
  }
  template <int kValue>
  struct Index {
    static constexpr int value = kValue;
  };
  template <int kTile, bool kFirst>
  __attribute__((always_inline)) void multiply_into(const P& p, const uint8_t* rows, const uint8_t* weights,
                                                    int c) const {
    constexpr int kProduct = kTile % kEach, kLast = kTiles - 1;
    if (kAllChunks || left > c) {
      Unit::template multiply<kTile, kProduct % P::kDots>(
          weights, rows + kProduct / P::kDots * qcc::cpu::MatrixRowChunk::kCodes);
    }
    if constexpr (kTile == kLast) {
      Unit::template store<0>(place(p, made));
    } else if constexpr (!kFirst) {
      Unit::template store<kTile + 1>(place(p, made - 1) + (kTile + 1) * Unit::kBytes);
    }
  }
  __attribute__((always_inline)) void next_turn(const P& p, const Part& part) {
    ++made;
    if (left > kChunks) {
      left -= kChunks;
      codes += kChunks * p.matrix_rows.chunk.bytes;
      chunk += kChunks * p.place.chunk;
    } else if (panel + 1 < panels || tile + 1 < tiles) {
      panel = panel + 1 < panels ? panel + 1 : 0;
      if (panel == 0) ++tile;
      begin_tile(p, part);
    }
  }
};

// An integer of less than 2^22 in place of the last bits of kOnes, whose last bit is 1: their sum, as f32.
inline constexpr float kOnes = 12582912.f;  // 2^23 + 2^22
QK_INLINE F32<kLanes> above_ones(I32<kLanes> v) {
  return __builtin_bit_cast(F32<kLanes>, v + __builtin_bit_cast(int32_t, kOnes));
}

// What panels give for a tile of rows by way of the unit, with the operations of P::tile.
template <class P>
struct MatrixTiles {
  typedef typename P::B B;
  typedef typename P::Part Part;
  typedef typename P::Sums Sums;
  typedef typename P::Coming Coming;
  typedef typename P::Unit Unit;
  static constexpr int M = P::M, kDots = P::kDots;

  const P& p;

  // The ith tile of rows with the panel at `chunk`.
  template <class Ahead>
  __attribute__((always_inline)) Sums tile(const uint8_t* chunk, int64_t i, const Part& part, Sums acc,
                                           Coming& coming, Ahead& ahead) const {
    constexpr int kTile = P::kTileChunks, kTogether = kTile > Ahead::kChunks ? kTile : Ahead::kChunks;
    static_assert(kTogether % kTile == 0 && kTogether % Ahead::kChunks == 0);
    const int64_t chunk_bytes = p.place.chunk, row_bytes = p.matrix_rows.chunk.bytes;
    const uint8_t *base = chunk + p.place.base_at, *rows = p.matrix_rows.tile(i, part.columns);
    Sums sums;
    Sums& to = B::kOneBase ? sums : acc;
    // Of the tile of weights that ends behind chunk j.
    const auto base_and_minima = [&](int j) QK_LAMBDA {
      if constexpr (B::kOneBase) {
        const Float scale = load<Float>(base);
        unroll<M>([&](int m) QK_LAMBDA { acc.v[m][0] = fma<kLanes>(scale, sums.v[m][0], acc.v[m][0]); });
        base += 64;
        P::clear_sums(sums);
      }
      if constexpr (B::kHasMinimum) {
        for (int at = j + 1 - kTile; at <= j; ++at) {
          const uint8_t* of = rows + at * row_bytes;
          p.add_minima(
              chunk + at * chunk_bytes + p.place.shift_at, 0,
              [&](int m, int g) QK_LAMBDA { return p.matrix_rows.weighted(of, g, m); }, acc);
        }
      }
    };
    P::clear_sums(sums);
    for (int64_t left = part.columns / 32; left > 0; left -= kTogether) {
      for (int turn = 0; turn < kTogether; turn += Ahead::kChunks) {
        unroll<Ahead::kChunks>([&](int c) QK_LAMBDA {
          const int j = turn + c;
          ahead.template multiply<false>(p, c);
          if (!Ahead::kAllChunks && left <= j) return;
          add_products<Ahead>(chunk + j * chunk_bytes + p.place.scale_at, rows + j * row_bytes,
                              ahead.products(p, c), to);
          // Here, not at the end of the turn, where the compiler would have all products at once (Q6_K:
          // 0.75x).
          unroll<M>([&](int m) QK_LAMBDA { asm volatile("" : "+v"(to.v[m][0])); });
          if (kTile < Ahead::kChunks && (c + 1) % kTile == 0) base_and_minima(j);
        });
        for (int c = 0; c < Ahead::kChunks; ++c) Coming::ask(coming);
        ahead.end_turn(p, part);
      }
      if (kTile >= Ahead::kChunks) base_and_minima(kTogether - 1);
      chunk += kTogether * chunk_bytes;
      rows += kTogether * row_bytes;
    }
    return acc;
  }
  // What a chunk's products give, whose weights' scales and whose rows are these.
  template <class Ahead>
  __attribute__((always_inline)) void add_products(const uint8_t* scales, const uint8_t* rows,
                                                   const uint8_t* products, Sums& sums) const {
    const auto dot = [&](int m, int g, int term) QK_LAMBDA {
      return load<Words>(products + (term * kDots + g) * Unit::kBytes + m * 64);
    };
    const auto x_scale = [&](int m) QK_LAMBDA { return p.matrix_rows.scale(rows, m); };
    constexpr bool kOneTerm = Ahead::kEach == kDots;
    if constexpr (kAddsExact && kOneTerm) {
      add_exact(scales, x_scale, dot, sums);
    } else {
      Sums whole;
      unroll<kDots>([&](int g) QK_LAMBDA {
        const auto number = [&](int m, int) QK_LAMBDA {
          if constexpr (kOneTerm) return above_ones(dot(m, g, 0)) - kOnes;
          return to_float<kLanes>((dot(m, g, 0) << kTermBits) + dot(m, g, 1));
        };
        p.add_scaled(scales + g * 64, 0, x_scale, g, number, whole, sums);
      });
    }
  }
  // Sums times their integer scales, and what two of these add up to, are exact: how they are made is free.
  // While its tiles are in use a processor multiplies 16 floats a cycle and adds 32 (v4amx.h): a sum becomes
  // a float, and that times its scale, by an addition of integers and one fma (Q6_K, a prompt: 1.18x).
  static constexpr bool kAddsExact = P::kFactors && B::kOneBase && B::kMostWhole < 1 << 24;
  template <class Scale, class DotOf>
  __attribute__((always_inline)) void add_exact(const uint8_t* scales, Scale x_scale, DotOf dot,
                                                Sums& sums) const {
    Float scale[2], ones[2];
    unroll<kDots>([&](int g) QK_LAMBDA {
      scale[g] = load<Float>(scales + g * 64);
      ones[g] = scale[g] * -kOnes;
    });
    unroll<M>([&](int m) QK_LAMBDA {
      const auto scaled = [&](int g)
                              QK_LAMBDA { return fma<kLanes>(above_ones(dot(m, g, 0)), scale[g], ones[g]); };
      Float whole = scaled(0);
      if constexpr (kDots == 2) whole += scaled(1);
      Float& sum = sums.v[m][0];
      sum = fma<kLanes>(Float(x_scale(m)), whole, sum);
    });
  }

  // Rows [begin, end) as P::rows does them.
  template <class Ahead, class Leave>
  __attribute__((always_inline)) void run(int64_t first, int64_t begin, int64_t end, bool both,
                                          const Part& part, Coming& coming, Leave leave) const {
    Ahead ahead;
    ahead.begin(p, (end - begin + M - 1) / M, both, part);
    for (int64_t r = begin; r < end; r += M) {
      const int64_t at = r + M <= end ? r : end - M;
      typename P::Products products;
      for (int64_t j = 0; j < (both ? 2 : 1); ++j) {
        const Sums sums = tile(p.panel + j * p.place.pair, (r - begin) / M, part,
                               p.before(part, j, false, 0, at - first), coming, ahead);
        unroll<M>([&](int m) QK_LAMBDA { products.sums[j][m][0] = sums.v[m][0]; });
      }
      leave(0, r, at, products);
    }
  }
};

template <class P, class Leave>
__attribute__((always_inline)) void matrix_rows_of(const P& p, int64_t first, int64_t begin, int64_t end,
                                                   bool both, const typename P::Part& part,
                                                   typename P::Coming& coming, Leave leave) {
  const MatrixTiles<P> tiles = {p};
  // A part's columns are as many turns as all are.
  const bool whole = P::kTileChunks % P::Unit::kTiles == 0 || p.t.k % (32 * P::Unit::kTiles) == 0;
  const auto run = [&](auto ahead) QK_LAMBDA {
    tiles.template run<decltype(ahead)>(first, begin, end, both, part, coming, leave);
  };
  if (p.t.terms == 1 && whole) {
    run(MatrixAhead<P, 1, true>());
  } else if (p.t.terms == 1) {
    run(MatrixAhead<P, 1, false>());
  } else if (whole) {
    run(MatrixAhead<P, 2, true>());
  } else {
    run(MatrixAhead<P, 2, false>());
  }
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_
