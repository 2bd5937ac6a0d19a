// Attention over a cache of integers (runtime/abi/integer_row.h): keys, values, queries and weights as
// integers of 16 bits with a power of two as scale for each vector, so that a processor's widest exact
// product does the work, two multiplications a lane. Integer sums have one value in any order: a row's bits
// depend on its query and position only. Kernels only.
//
//   score_j = (q . k_j) * sq * sk_j        q, k_j integers, their product's sum below 2^31
//   out     = sum over tiles of (w . v) * sw     w_j = exp(score_j - top) * sv_j / sw, integers, in a tile
//
// An integer has 11 to 14 bits, counted from its vector's largest exponent.
#ifndef QCC_CODEGEN_CPU_KERNELS_ATTENTION_INT16_H_
#define QCC_CODEGEN_CPU_KERNELS_ATTENTION_INT16_H_

#include "codegen/cpu/kernels/attention_rows.h"
#include "codegen/cpu/kernels/integer_rows.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {

using qcc::cpu::Int16AttentionScratch;

// Rows and columns change places. Rows i and i + H exchange the columns whose number has bit H, from the
// highest bit to the lowest.
template <int N, int H, int... L>
QK_INLINE void exchange(I32<N>& a, I32<N>& b, Sequence<int, L...>) {
  const I32<N> low = __builtin_shufflevector(a, b, ((L & H) != 0 ? N + L - H : L)...);
  b = __builtin_shufflevector(a, b, ((L & H) != 0 ? N + L : L + H)...);
  a = low;
}
template <int N, int H = N / 2>
QK_INLINE void transpose(I32<N> (&r)[N]) {
  unroll<N>([&](int i) QK_LAMBDA {
    if ((i & H) == 0) exchange<N, H>(r[i], r[i + H], __make_integer_seq<Sequence, int, N>());
  });
  if constexpr (H > 1) transpose<N, H / 2>(r);
}

// Each of N columns of two rows as a pair.
template <int N, int... L>
QK_INLINE I32<N> pair_columns(I16<N> low, I16<N> high, Sequence<int, L...>) {
  return __builtin_bit_cast(I32<N>, __builtin_shufflevector(low, high, (L / 2 + L % 2 * N)...));
}
// Of 2 N columns, the pieces of four whose number is even (H = 0) or odd: one instruction's work.
template <int N, int H, int... L>
QK_INLINE I32<N> pair_pieces(I16<2 * N> low, I16<2 * N> high, Sequence<int, L...>) {
  return __builtin_bit_cast(
      I32<N>, __builtin_shufflevector(low, high, (L / 8 * 8 + 4 * H + L % 8 / 2 + L % 2 * 2 * N)...));
}
// What pair_pieces took apart, in the order of columns: half H of it.
template <int N, int H, class T, int... L>
QK_INLINE T join_pieces(T even, T odd, Sequence<int, L...>) {
  return __builtin_shufflevector(
      even, odd, ((H * N + L) / 8 * 4 + (H * N + L) % 4 + ((H * N + L) / 4 % 2 != 0 ? N : 0))...);
}

struct Int16Attention {
  typedef Int16AttentionScratch S;
  static constexpr int kTile = IntegerRow::kTile, kPairs = kTile / 2;
  static constexpr ProductBits kWeighted = ProductBits::Of(kTile);   // values and weights
  static constexpr int M = Level::kPairRows, V = Level::kPairParts;  // queries, registers of columns
  static constexpr int kColumns = V * kLanes;
  static constexpr int kFill = 7;  // queries of zeros behind the others, which fill up the last registers
  static_assert(S::kColumns % kColumns == 0 && S::kQueriesTogether % M == 0 && kTile % kColumns == 0);

  // Of a tile's keys or values.
  struct Units {
    alignas(64) float unit[kTile];  // 0: of positions that no row sees
    int64_t first_bad;              // whose vector holds what is no number; none: kTile
  };
  // What is indexed lies apart, so that what is constant is known to be.
  struct Scales {
    Units key, value[2];  // value: of tiles in turns, where the next one's are found early
    float query[S::kMostQueries], top[S::kMostQueries], sum[S::kMostQueries];  // the last two of a part
    float total_top[S::kQueries], total_sum[S::kQueries];
  };

  const AttentionRows rows;
  Scales& x;
  const int64_t head_dim, width;  // width: head_dim, up to whole registers
  // Pairs of integers: queries i32 [.][head_dim / 2]; keys [kTile / kColumns][head_dim / 2][kColumns] and
  // values [width / kColumns][kPairs][kColumns], so that a product reads one piece of memory. acc f32
  // [.][width], total f32 [.][head_dim].
  int32_t *const keys, *const values, *const queries;
  float *const acc, *const total;

  QK_INLINE Int16Attention make(const AttentionRows& r, Scales& x) {
    const S at(r.a.head_dim, r.group);
    const auto ints = [&](int64_t offset)
                          QK_LAMBDA { return reinterpret_cast<int32_t*>(r.a.scratch + offset); };
    return {r,
            x,
            r.a.head_dim,
            at.width,
            ints(at.keys),
            ints(at.values),
            ints(at.queries),
            reinterpret_cast<float*>(r.a.scratch + at.acc),
            reinterpret_cast<float*>(r.a.scratch + at.total)};
  }

  template <int N>
  __attribute__((always_inline)) void take_query(int64_t i) const {
    const float* q = rows.query(i);
    I32<8> largest = I32<8>(0);
    for (int64_t c = 0; c < head_dim; c += 8) {
      const I32<8> bits = __builtin_bit_cast(I32<8>, loadf<8>(q + c) * rows.a.scale) & 0x7fffffff;
      largest = bits > largest ? bits : largest;
    }
    const int32_t field = __builtin_reduce_max(largest) >> 23;
    const int32_t e = (field < 27                       ? 27
                       : field > IntegerRow::kMostField ? IntegerRow::kMostField
                                                        : field) -
                      127;
    x.query[i] = power_of_two(e + 1 - ProductBits::Of(head_dim).right);
    const float round = rounding_to(x.query[i]);
    // What such a number's integers would be is anybody's guess.
    if (field > IntegerRow::kMostField) x.query[i] = __builtin_nanf("");
    int16_t* to = reinterpret_cast<int16_t*>(queries + i * (head_dim / 2));
    for (int64_t c = 0; c < head_dim; c += N) {
      const I32<N> low = to_low_half<N>(loadf<N>(q + c) * rows.a.scale, round);
      store<I16<N>>(to + c, __builtin_convertvector(low, I16<N>));
    }
  }

  // Of vectors of the tile, from position j on; a tile's begin with j = 0.
  static constexpr int64_t kUnitsTogether = 8;
  __attribute__((always_inline)) void take_units(const uint8_t* from, int64_t j, int64_t held,
                                                 Units& to) const {
    const F32<8> u = units_of(from, 2 * head_dim, j, held);
    if (j == 0) to.first_bad = kTile;
    store<F32<8>>(to.unit + j, u);
    if (__builtin_reduce_or(u != u) != 0) {
      for (int64_t i = j; i < j + 8; ++i) {
        if (to.unit[i] != to.unit[i] && i < to.first_bad) to.first_bad = i;
      }
    }
  }
  __attribute__((always_inline)) void take_all_units(const uint8_t* from, int64_t held, Units& to) const {
    for (int64_t j = 0; j < kTile; j += kUnitsTogether) take_units(from, j, held, to);
  }

  template <int N>
  __attribute__((always_inline)) void take_keys(const uint8_t* k, int64_t held) const {
    const int64_t row = 2 * head_dim;
    for (int64_t j = 0; j < held; j += N) {
      for (int64_t c = 0; c < head_dim; c += 2 * N) {
        I32<N> pairs[N];
        unroll<N>([&](int i) QK_LAMBDA {
          if (2 * c % 64 == 0) prefetch_far(k + (kTile + j + i) * row + 2 * c);
          pairs[i] = load<I32<N>>(k + (j + i < held ? j + i : held - 1) * row + 2 * c);
        });
        transpose<N>(pairs);
        unroll<N>([&](int i) QK_LAMBDA {
          store<I32<N>>(keys_at(j) + (c / 2 + i) * kColumns + j % kColumns, pairs[i]);
        });
      }
    }
  }

  // The values of a pair of positions, one behind the other.
  struct ValueRows {
    const uint8_t *low, *high;
  };
  QK_INLINE ValueRows value_rows(const uint8_t* v, int64_t pair, int64_t held, int64_t row) {
    const int64_t low = 2 * pair, high = low + 1;
    return {v + (low < held ? low : held - 1) * row, v + (high < held ? high : held - 1) * row};
  }
  template <int N>
  __attribute__((always_inline)) void take_values(const uint8_t* v, int64_t held) const {
    const auto lanes = __make_integer_seq<Sequence, int, 2 * N>();
    for (int64_t p = 0; p < pairs_of(held); ++p) {
      const ValueRows from = value_rows(v, p, held, 2 * head_dim);
      const uint8_t* next = v + (kTile + 2 * p) * head_dim * 2;
      for (int64_t c = 0; c < head_dim; c += N) {
        if (2 * c % 64 == 0) {
          prefetch_far(next + 2 * c);
          prefetch_far(next + head_dim * 2 + 2 * c);
        }
        store<I32<N>>(
            values_at(c) + p * kColumns + c % kColumns,
            pair_columns<N>(load<I16<N>>(from.low + 2 * c), load<I16<N>>(from.high + 2 * c), lanes));
      }
    }
  }
  // Where the keys of positions, and the columns of values, from the multiple of kColumns before it lie.
  __attribute__((always_inline)) int32_t* keys_at(int64_t position) const {
    return keys + position / kColumns * (head_dim / 2 * kColumns);
  }
  __attribute__((always_inline)) int32_t* values_at(int64_t column) const {
    return values + column / kColumns * (kPairs * kColumns);
  }
  // Of pairs of positions, those with one of the first `held`.
  QK_INLINE int64_t pairs_of(int64_t held) { return (held + 31) / 32 * 16; }

  // c[m] = sum over pairs p of a[m][p] . b[p][column], for kColumns columns.
  template <int R>
  QK_INLINE void multiply(const int32_t* a, int64_t lda, const int32_t* b, int64_t pairs, Words (&c)[R][V]) {
    unroll<R * V>([&](int i) QK_LAMBDA { c[i / V][i % V] = Words(0); });
    for (int64_t p = 0; p < pairs; ++p) {
      Words words[V];
      unroll<V>([&](int v) QK_LAMBDA { words[v] = load<Words>(b + p * kColumns + v * kLanes); });
      unroll<R>([&](int m) QK_LAMBDA {
        const int32_t pair = a[m * lda + p];
        unroll<V>([&](int v) QK_LAMBDA { c[m][v] = Level::add_pairs(c[m][v], words[v], Words(pair)); });
      });
    }
  }

  // score [kTile] become integers with sw as scale, in pairs of positions that follow each other.
  QK_INLINE float weigh(const float* score, const float* value_scale, int32_t* weights) {
    F32<16> w[kTile / 16], high = F32<16>(0.f);
    unroll<kTile / 16>([&](int b) QK_LAMBDA {
      w[b] = loadf<16>(score + 16 * b) * loadf<16>(value_scale + 16 * b);
      // In this order a weight that is no number (0 times a unit of none, which this query does not see) is
      // passed over.
      high = max<16>(w[b], high);
    });
    const int32_t field = __builtin_bit_cast(int32_t, reduce_max(high)) >> 23;
    // Below 2^-100 nothing adds to a sum of which the top is 1.
    const int32_t e = (field < 27                       ? 27
                       : field > IntegerRow::kMostField ? IntegerRow::kMostField
                                                        : field) -
                      127;
    const float unit = power_of_two(e + 1 - kWeighted.right), round = rounding_to(unit);
    unroll<kTile / 16>([&](int b) QK_LAMBDA {
      store<I16<16>>(weights + 8 * b, __builtin_convertvector(to_low_half<16>(w[b], round), I16<16>));
    });
    return unit;
  }

  // What a tile does to a query's sums: they times `keep`, and its own times `scale`.
  struct Step {
    float keep, scale;
  };
  __attribute__((always_inline)) Step softmax(float* score, int64_t i, int64_t t0, int64_t held,
                                              const Units& value, int32_t* weights) const {
    const int64_t seen = rows.seen(i, t0);
    const int64_t count = seen < held ? seen : held;
    const float keep = softmax_step<kTile / 16>(score, count, x.top[i], x.sum[i]);
    if (count > x.key.first_bad || count > value.first_bad) x.sum[i] = __builtin_nanf("");
    return {keep, weigh(score, value.unit, weights)};
  }
  template <int N>
  QK_INLINE F32<N> add_tile(F32<N> sum, I32<N> dots, const Step& step) {
    return fma<N>(to_float<N>(dots), F32<N>(step.scale), sum * step.keep);
  }

  // Queries [i, i + R) over the tile of `held` positions at t0.
  template <int R>
  __attribute__((always_inline)) void tile(int64_t i, int64_t t0, int64_t held) const {
    alignas(64) float score[R][kTile];
    alignas(64) int32_t weights[R][kPairs];
    Step step[R];
    for (int64_t c = 0; c < held; c += kColumns) {
      Words dots[R][V];
      multiply<R>(queries + i * (head_dim / 2), head_dim / 2, keys_at(c), head_dim / 2, dots);
      unroll<R * V>([&](int j) QK_LAMBDA {
        const int m = j / V, at = j % V * kLanes;
        const Float s =
            to_float<kLanes>(dots[m][j % V]) * (load<Float>(x.key.unit + c + at) * x.query[i + m]);
        store<Float>(&score[m][c + at], s);
      });
    }
    for (int m = 0; m < R; ++m) step[m] = softmax(score[m], i + m, t0, held, x.value[0], weights[m]);
    for (int64_t c = 0; c < width; c += kColumns) {
      Words dots[R][V];
      multiply<R>(&weights[0][0], kPairs, values_at(c), pairs_of(held), dots);
      unroll<R * V>([&](int j) QK_LAMBDA {
        const int m = j / V;
        float* to = acc + (i + m) * width + c + j % V * kLanes;
        store<Float>(to, add_tile<kLanes>(load<Float>(to), dots[m][j % V], step[m]));
      });
    }
  }

  // p[0 .. A) again and again.
  template <int N, int A, int... L>
  QK_INLINE F32<N> repeat(const float* p, Sequence<int, L...>) {
    const F32<A> once = loadf<A>(p);
    return __builtin_shufflevector(once, once, (L % A)...);
  }

  // Queries [q0, q0 + Q) over the tile at t0, whose keys and values are multiplied where they lie: to bring
  // them into order first pays for more queries only (has_few). `left`: positions from t0 on.
  //
  // Memory never rests, and gives its lines in the order in which they lie: while keys are multiplied those
  // some KiB behind them are asked for, while values are, those of the next tile, of which the units are
  // found meanwhile. A line at a time: many at once wait for each other and hold up what is read now.
  static constexpr int64_t kValuesAhead = 8192;  // bytes, of the next tile
  // The loops are faster than memory, and a processor that waits for as many lines as it can drops what else
  // it is asked for: half the way to its use a line is asked for again. (Zen 5, one thread, 8192 positions,
  // groups of two: 27.7 GB/s once, 32.3 twice.)
  QK_INLINE void ask_twice(const uint8_t* p, int64_t ahead) {
    prefetch_near(p + ahead);
    prefetch_near(p + ahead / 2);
  }
  template <int N, int Q>
  __attribute__((always_inline)) void few(int64_t q0, const uint8_t* k, const uint8_t* v, int64_t t0,
                                          int64_t left) const {
    alignas(64) float score[Q][kTile];
    alignas(64) int32_t weights[Q][kPairs];
    const int64_t held = left < kTile ? left : kTile;
    few_scores<N, Q>(q0, k, held, score);
    const Units& value = x.value[t0 / kTile % 2];
    Step step[Q];
    for (int m = 0; m < Q; ++m) step[m] = softmax(score[m], q0 + m, t0, held, value, weights[m]);
    const FewValues values = {acc + q0 * width, &weights[0][0], v, held, step, x.value[(t0 / kTile + 1) % 2],
                              left - kTile};
    // As many columns together as there are registers for: pieces of a line come one after the other.
    constexpr int kMost = (kLanes == 16 ? 16 : 8) / Q;
    // The first queries find the next tile's units.
    int64_t next = left > kTile && q0 == 0 ? 0 : kTile, c = 0;
    for (; c + kMost * N <= head_dim; c += kMost * N) next = few_columns<N, Q, kMost>(values, c, next);
    constexpr int kLeast = kMost % 2 == 0 ? 2 : 1;
    for (; c < head_dim; c += kLeast * N) next = few_columns<N, Q, kLeast>(values, c, next);
  }
  template <int N, int Q>
  __attribute__((always_inline)) void few_scores(int64_t q0, const uint8_t* k, int64_t held,
                                                 float (&score)[Q][kTile]) const {
    constexpr int kAtOnce = N / Q;  // positions
    static_assert(kUnitsTogether % kAtOnce == 0);
    const int64_t row = 2 * head_dim;
    F32<N> query;  // of each dot
    unroll<N>([&](int i) QK_LAMBDA { query[i] = x.query[q0 + i / kAtOnce]; });
    take_units(k, 0, held, x.key);
    for (int64_t j = 0; j < held; j += kAtOnce) {
      // Ahead of their use, so that no key waits for its own.
      const int64_t next = j + kUnitsTogether;
      if (j % kUnitsTogether == 0 && next < kTile) take_units(k, next, held, x.key);
      const uint8_t* from[kAtOnce];
      unroll<kAtOnce>([&](int i) QK_LAMBDA { from[i] = k + (j + i < held ? j + i : held - 1) * row; });
      I32<N> dots[N];
      unroll<N>([&](int i) QK_LAMBDA { dots[i] = I32<N>(0); });
      const auto multiply = [&](int i, int64_t c) QK_LAMBDA {
        const I32<N> key = load<I32<N>>(from[i] + 2 * c);
        unroll<Q>([&](int m) QK_LAMBDA {
          I32<N>& dot = dots[m * kAtOnce + i];
          dot = add_pairs<N>(dot, key, load<I32<N>>(queries + (q0 + m) * (head_dim / 2) + c / 2));
        });
      };
      // A key behind the other is read faster from memory, keys in turns, with which a query's integers are
      // loaded once for all, from a cache. (Zen 5, one thread, groups of two and four: 16 lanes 32.3 and 37.4
      // GB/s from memory, in turns 31.1 and 36.1; 8 lanes 33.2 and 31.2, 34.5 and 32.2.)
      if constexpr (N == 16) {
        unroll<kAtOnce>([&](int i) QK_LAMBDA {
          for (int64_t c = 0; c < head_dim; c += 2 * N) {
            ask_twice(k + (j + i) * row + 2 * c, kKeysAhead);
            multiply(i, c);
          }
        });
      } else {
        for (int64_t c = 0; c < head_dim; c += 2 * N) {
          unroll<kAtOnce>([&](int i) QK_LAMBDA {
            // As many lines as are read here, one behind the other.
            if (2 * c % 64 == 0) ask_twice(k + j * row + 2 * c * kAtOnce + 64 * i, kKeysAhead);
            multiply(i, c);
          });
        }
      }
      const F32<N> unit = repeat<N, kAtOnce>(x.key.unit + j, __make_integer_seq<Sequence, int, N>()) * query;
      alignas(64) float all[N];
      store<F32<N>>(all, to_float<N>(reduce_each_of<int32_t>(dots)) * unit);
      unroll<Q>([&](int m) QK_LAMBDA { store(score[m] + j, loadf<kAtOnce>(all + m * kAtOnce)); });
    }
  }
  struct FewValues {
    float* acc;              // [.][width]
    const int32_t* weights;  // [.][kPairs]
    const uint8_t* v;
    int64_t held;
    const Step* step;
    Units& next;        // of the next tile's
    int64_t next_held;  // may be more than a tile has
  };
  // Columns [c, c + C * N). next: the position of the next tile whose units, and those behind it, are to be
  // found; returned, too.
  template <int N, int Q, int C>
  __attribute__((always_inline)) int64_t few_columns(const FewValues& of, int64_t c, int64_t next) const {
    const int64_t row = 2 * head_dim;
    const uint8_t* next_v = of.v + kTile * row;
    const auto lanes = __make_integer_seq<Sequence, int, N>();
    const auto halves = __make_integer_seq<Sequence, int, 2 * N>();
    I32<N> dots[Q * C];
    unroll<Q * C>([&](int i) QK_LAMBDA { dots[i] = I32<N>(0); });
    for (int64_t p = 0; p < pairs_of(of.held); ++p) {
      // As many bytes as are read here, one behind the other.
      const int64_t begin = 4 * (c * kPairs + p * C * N);
      for (int64_t at = 0; at < 4 * C * N; at += 64) ask_twice(next_v + begin + at, kValuesAhead);
      // Bytes of eight rows, 16 head_dim, are a multiple of what is read here: none is passed over.
      if (begin == next * row) {
        take_units(next_v, next, of.next_held, of.next);
        next += kUnitsTogether;
      }
      const ValueRows from = value_rows(of.v, p, of.held, row);
      I32<N> pairs[C];
      if constexpr (C % 2 == 0) {
        unroll<C / 2>([&](int n) QK_LAMBDA {
          const I16<2 * N> low = load<I16<2 * N>>(from.low + 2 * (c + 2 * n * N));
          const I16<2 * N> high = load<I16<2 * N>>(from.high + 2 * (c + 2 * n * N));
          pairs[2 * n] = pair_pieces<N, 0>(low, high, halves);
          pairs[2 * n + 1] = pair_pieces<N, 1>(low, high, halves);
        });
      } else {
        static_assert(C == 1);
        pairs[0] = pair_columns<N>(load<I16<N>>(from.low + 2 * c), load<I16<N>>(from.high + 2 * c), halves);
      }
      unroll<C>([&](int n) QK_LAMBDA {
        unroll<Q>([&](int m) QK_LAMBDA {
          I32<N>& dot = dots[m * C + n];
          dot = add_pairs<N>(dot, pairs[n], I32<N>(of.weights[m * kPairs + p]));
        });
      });
    }
    if constexpr (C % 2 == 0) {
      unroll<Q * C / 2>([&](int i) QK_LAMBDA {
        const I32<N> even = dots[2 * i], odd = dots[2 * i + 1];
        dots[2 * i] = join_pieces<N, 0>(even, odd, lanes);
        dots[2 * i + 1] = join_pieces<N, 1>(even, odd, lanes);
      });
    }
    unroll<Q * C>([&](int i) QK_LAMBDA {
      float* to = of.acc + i / C * width + c + i % C * N;
      store<F32<N>>(to, add_tile<N>(load<F32<N>>(to), dots[i], of.step[i / C]));
    });
    return next;
  }

  // No sums yet of the queries and of those that fill up the last registers.
  __attribute__((always_inline)) void begin_part() const {
    const int64_t count = rows.queries();
    for (int64_t i = 0; i < count + kFill; ++i) {
      for (int64_t c = 0; c < width; c += kColumns) {
        unroll<V>([&](int v) QK_LAMBDA { store<Float>(acc + i * width + c + v * kLanes, Float(0.f)); });
      }
      x.top[i] = -__builtin_inff();
      x.sum[i] = i < count ? x.query[i] * 0.f : 0.f;  // none where the query is
    }
  }

  // Most queries of `few`: each has a lane.
  template <int N>
  static constexpr int kMostFew = N < 8 ? N : 8;
  // Whether `few` has the tile at t0, of which each row must see some. Five queries cost what eight do, which
  // below 16 lanes pays from seven on (level v3 on a Zen 5, six: 0.82x of the other way where the positions
  // lie in a cache). Of 16 lanes a tile is gone over up to four times, for which memory is waited for once
  // (Zen 5, two threads, 32768 positions, 16, 24 and 32 queries: 33.4, 22.5 and 17.2 GB/s, the other
  // way 21.9, 17.6 and 14.9; 256 positions, one thread: 17.8, 11.7 and 8.7, and 16.4, 12.3 and 9.7).
  template <int N>
  bool has_few(int64_t t0) const {
    const int64_t count = rows.queries();
    if (rows.n > 1 && t0 > rows.first) return false;
    return N == 16 ? count <= 4 * kMostFew<N> : count <= 4 || (count > 6 && count <= kMostFew<N>);
  }
  // All queries over the tile at t0.
  template <int N>
  __attribute__((always_inline)) void all(int64_t t0) const {
    const int64_t count = rows.queries();
    const int64_t held = rows.to - t0 < kTile ? rows.to - t0 : kTile;
    const uint8_t *k = rows.k + t0 * head_dim * 2, *v = rows.v + t0 * head_dim * 2;
    if (has_few<N>(t0)) {
      const int64_t left = rows.to - t0;
      if (t0 == rows.from) take_all_units(v, left, x.value[t0 / kTile % 2]);
      if (count <= 2) return few<N, 2>(0, k, v, t0, left);
      if (count <= 4) return few<N, 4>(0, k, v, t0, left);
      for (int64_t i = 0; i < count; i += kMostFew<N>) few<N, kMostFew<N>>(i, k, v, t0, left);
      return;
    }
    take_all_units(k, held, x.key);
    take_all_units(v, held, x.value[0]);
    take_keys<N>(k, held);
    take_values<N>(v, held);
    // Rows before those that see the tile are left alone.
    int64_t i = t0 > rows.first ? (t0 - rows.first) * rows.group : 0;
    for (; count - i > M / 2; i += M) tile<M>(i, t0, held);
    if (i < count) tile<M / 2>(i, t0, held);
  }

  template <int N>
  __attribute__((always_inline)) void run() const {
    const int64_t count = rows.queries();
    for (int64_t i = 0; i < count; ++i) take_query<N>(i);
    // Queries of zeros behind them fill up the last registers.
    for (int64_t i = count; i < count + kFill; ++i) {
      x.query[i] = 0.f;
      for (int64_t p = 0; p < head_dim / 2; ++p) queries[i * (head_dim / 2) + p] = 0;
    }
    constexpr int kPart = N == kLanes ? N : 8;  // of head_dim, a multiple of 2 N or of 8
    for (int64_t begin = rows.from; begin < rows.to; begin += rows.part) {
      begin_part();
      const int64_t end = rows.end_of_part(begin);
      for (int64_t t0 = begin; t0 < end; t0 += kTile) all<N>(t0);
      for (int64_t i = 0; i < count; ++i) {
        rows.finish_part<kPart>(i, begin, {acc + i * width, x.top[i], x.sum[i]},
                                {total + i * head_dim, x.total_top[i], x.total_sum[i]});
      }
    }
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_ATTENTION_INT16_H_
