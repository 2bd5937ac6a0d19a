// Attention over a cache of f16: keys, values, queries and weights as integers of 16 bits with a power of two
// as scale for each vector, so that a processor's widest exact product does the work, two multiplications a
// lane. Integer sums have one value in any order: a row's bits depend on its query and position only. Kernels
// only.
//
//   score_j = (q . k_j) * sq * sk_j        q, k_j integers, their product's sum below 2^31
//   out     = sum over tiles of (w . v) * sw     w_j = exp(score_j - top) * sv_j / sw, integers, in a tile
//
// An integer has 11 to 14 bits, counted from its vector's largest exponent: values of the cache with that
// exponent are exact, with smaller ones as far as the bits reach (f16 itself rounds each value to 11 bits).
#ifndef QCC_CODEGEN_CPU_KERNELS_ATTENTION_INT16_H_
#define QCC_CODEGEN_CPU_KERNELS_ATTENTION_INT16_H_

#include "codegen/cpu/kernels/attention_rows.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {

using qcc::cpu::Int16AttentionScratch;

// Bits of the integers of a product of vectors, besides the sign: |left| < 2^left, |right| <= 2^right, so
// that a sum of `terms` products stays below 2^31.
struct ProductBits {
  int32_t left, right;
  static constexpr ProductBits of(int64_t terms) {
    int32_t sum = 31;
    while (int64_t{1} << (31 - sum) < terms) --sum;
    return {(sum + 1) / 2, sum / 2};
  }
};

// 2^e, -126 <= e <= 127.
QK_INLINE float power_of_two(int32_t e) {
  return bits_to_float(static_cast<uint32_t>(127 + e) << 23);
}

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

// v in units of a power of two, rounded to the nearest integers, ties to even, in the low halves of the
// lanes; the high ones are anything. |v| < 2^15 units. round: 1.5 * 2^23 units.
template <int N>
QK_INLINE I32<N> to_low_half(F32<N> v, float round) {
  return __builtin_bit_cast(I32<N>, v + F32<N>(round));
}
QK_INLINE float rounding_to(float unit) {
  return 12582912.f * unit;
}
// Lanes with the low half of `low` below that of `high`.
template <int N>
QK_INLINE I32<N> pair_of(I32<N> low, I32<N> high) {
  return (low & 0xffff) | (high << 16);
}

// The low (H = 0) or high halves of the pieces of 8 lanes, U lanes of a and of b in turns.
template <int U, int H, int N, int... L>
QK_INLINE I16<N> interleave(I16<N> a, I16<N> b, Sequence<int, L...>) {
  return __builtin_shufflevector(a, b, (L / U % 2 * N + L / 8 * 8 + 4 * H + L % 8 / (2 * U) * U + L % U)...);
}
template <int U, int N>
QK_INLINE I16<N> max_of_halves(I16<N> a, I16<N> b) {
  const auto lanes = __make_integer_seq<Sequence, int, N>();
  return __builtin_elementwise_max(interleave<U, 0, N>(a, b, lanes), interleave<U, 1, N>(a, b, lanes));
}
template <int N>
QK_INLINE I16<8> fold_max(I16<N> v) {
  if constexpr (N == 8) {
    return v;
  } else {
    return fold_max<N / 2>(__builtin_elementwise_max(v.lo, v.hi));
  }
}
// Lane i: the highest lane of a[i].
template <int N>
QK_INLINE I16<8> reduce_max_each(const I16<N> (&a)[8]) {
  I16<N> b[4], c[2];
  unroll<4>([&](int i) QK_LAMBDA { b[i] = max_of_halves<1, N>(a[2 * i], a[2 * i + 1]); });
  unroll<2>([&](int i) QK_LAMBDA { c[i] = max_of_halves<2, N>(b[2 * i], b[2 * i + 1]); });
  return fold_max<N>(max_of_halves<4, N>(c[0], c[1]));
}
// The units in which vectors of n values of f16, `row` bytes apart, have integers of `bits` >= 11 bits, of
// eight vectors from number j on; NaN: of one with a value that is no number. 0 from vector `held` on.
template <int N>
QK_INLINE F32<8> units_of(const uint8_t* halves, int64_t row, int64_t n, int32_t bits, int64_t j,
                          int64_t held) {
  I16<N> top[8];
  unroll<8>([&](int i) QK_LAMBDA {
    const uint8_t* from = halves + (j + i < held ? j + i : held - 1) * row;
    const auto at = [&](int64_t c) QK_LAMBDA { return load<I16<N>>(from + 2 * c) & int16_t{0x7fff}; };
    I16<N> high = at(0);
    int64_t c = N;
    for (; c + 4 * N <= n; c += 4 * N) {
      const I16<N> a = __builtin_elementwise_max(at(c), at(c + N));
      const I16<N> b = __builtin_elementwise_max(at(c + 2 * N), at(c + 3 * N));
      high = __builtin_elementwise_max(high, __builtin_elementwise_max(a, b));
    }
    for (; c < n; c += N) high = __builtin_elementwise_max(high, at(c));
    top[i] = high;
  });
  const I32<8> lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const I32<8> field = __builtin_convertvector(reduce_max_each<N>(top), I32<8>) >> 10;
  const I32<8> exponent = __builtin_elementwise_max(field, I32<8>(1)) - 15;
  const I32<8> unit = field == 31 ? I32<8>(0x7fc00000) : (127 + 1 - bits + exponent) << 23;
  return __builtin_bit_cast(F32<8>,
                            lane + static_cast<int32_t>(j) < static_cast<int32_t>(held) ? unit : I32<8>(0));
}

// 2 N values of f16 as N pairs: elements i and i + N, so that no register needs a shuffle.
template <int N>
QK_INLINE I32<N> pairs_from(const uint8_t* halves, float round) {
  return pair_of<N>(to_low_half<N>(half_to_float<N>(load<U16<N>>(halves)), round),
                    to_low_half<N>(half_to_float<N>(load<U16<N>>(halves + 2 * N)), round));
}
// N values of each of two vectors as pairs.
template <int N>
QK_INLINE I32<N> pairs_from(const uint8_t* low, float low_round, const uint8_t* high, float high_round) {
  return pair_of<N>(to_low_half<N>(half_to_float<N>(load<U16<N>>(low)), low_round),
                    to_low_half<N>(half_to_float<N>(load<U16<N>>(high)), high_round));
}

struct Int16Attention {
  typedef Int16AttentionScratch S;
  static constexpr int kTile = S::kTile, kPairs = kTile / 2;
  static constexpr ProductBits kWeighted = ProductBits::of(kTile);   // values and weights
  static constexpr int M = Level::kPairRows, V = Level::kPairParts;  // queries, registers of columns
  static constexpr int kColumns = V * kLanes;
  static constexpr int kFill = 4;  // queries of zeros behind the others, which fill up the last registers
  static_assert(S::kColumns % kColumns == 0 && S::kQueriesTogether % M == 0 && kTile % kColumns == 0);

  // Of a tile's keys or values.
  struct Units {
    alignas(64) float unit[kTile], round[kTile];  // unit 0: of positions that no row sees
    int64_t first_bad;                            // whose vector holds what is no number; none: kTile
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
    const int32_t e = (field < 27 ? 27 : field > 227 ? 227 : field) - 127;
    x.query[i] = power_of_two(e + 1 - ProductBits::of(head_dim).right);
    const float round = rounding_to(x.query[i]);
    // What such a number's integers would be is anybody's guess.
    if (field > 227) x.query[i] = __builtin_nanf("");
    for (int64_t c = 0; c < head_dim; c += 2 * N) {
      const auto part = [&](int64_t at)
                            QK_LAMBDA { return to_low_half<N>(loadf<N>(q + at) * rows.a.scale, round); };
      store<I32<N>>(queries + i * (head_dim / 2) + c / 2, pair_of<N>(part(c), part(c + N)));
    }
  }

  // Of vectors of the tile, from position j on; a tile's begin with j = 0.
  static constexpr int64_t kUnitsTogether = 8;
  __attribute__((always_inline)) void take_units(const uint8_t* halves, int32_t bits, int64_t j, int64_t held,
                                                 Units& to) const {
    const int64_t row = 2 * head_dim;
    const F32<8> u = head_dim % (2 * kLanes) == 0 ? units_of<2 * kLanes>(halves, row, head_dim, bits, j, held)
                                                  : units_of<8>(halves, row, head_dim, bits, j, held);
    if (j == 0) to.first_bad = kTile;
    store<F32<8>>(to.unit + j, u);
    if (__builtin_reduce_or(u != u) != 0) {
      for (int64_t i = j; i < j + 8; ++i) {
        if (to.unit[i] != to.unit[i] && i < to.first_bad) to.first_bad = i;
      }
    }
    store<F32<8>>(to.round + j, u * rounding_to(1.f));
  }
  __attribute__((always_inline)) void take_key_units(const uint8_t* k, int64_t j, int64_t held) const {
    take_units(k, ProductBits::of(head_dim).left, j, held, x.key);
  }
  __attribute__((always_inline)) void take_value_units(const uint8_t* v, int64_t held, Units& to) const {
    for (int64_t j = 0; j < kTile; j += kUnitsTogether) take_units(v, kWeighted.left, j, held, to);
  }

  template <int N>
  __attribute__((always_inline)) void take_keys(const uint8_t* k, int64_t held) const {
    const int64_t row = 2 * head_dim;
    for (int64_t j = 0; j < held; j += N) {
      if (j % kUnitsTogether == 0) {
        for (int64_t i = 0; i < N; i += kUnitsTogether) take_key_units(k, j + i, held);
      }
      for (int64_t c = 0; c < head_dim; c += 2 * N) {
        I32<N> pairs[N];
        unroll<N>([&](int i) QK_LAMBDA {
          if (2 * c % 64 == 0) prefetch_far(k + (kTile + j + i) * row + 2 * c);
          pairs[i] = pairs_from<N>(k + (j + i < held ? j + i : held - 1) * row + 2 * c, x.key.round[j + i]);
        });
        transpose<N>(pairs);
        unroll<N>([&](int i) QK_LAMBDA {
          store<I32<N>>(keys_at(j) + (c / 2 + i) * kColumns + j % kColumns, pairs[i]);
        });
      }
    }
  }

  // The first position of a pair; the second is kApart behind it, as in the pairs of weights.
  static constexpr int64_t kApart = 16;
  QK_INLINE int64_t position_of(int64_t pair) { return pair / kApart * 2 * kApart + pair % kApart; }

  // The columns from c on of a pair of positions.
  template <int N>
  __attribute__((always_inline)) I32<N> value_pairs(const uint8_t* v, int64_t p, int64_t c, int64_t held,
                                                    const Units& units) const {
    const int64_t low = position_of(p), high = low + kApart, row = 2 * head_dim;
    return pairs_from<N>(v + (low < held ? low : held - 1) * row + 2 * c, units.round[low],
                         v + (high < held ? high : held - 1) * row + 2 * c, units.round[high]);
  }
  template <int N>
  __attribute__((always_inline)) void take_values(const uint8_t* v, int64_t held) const {
    for (int64_t p = 0; p < pairs_of(held); ++p) {
      const uint8_t* next = v + (kTile + position_of(p)) * head_dim * 2;
      for (int64_t c = 0; c < head_dim; c += N) {
        if (2 * c % 64 == 0) {
          prefetch_far(next + 2 * c);
          prefetch_far(next + kApart * head_dim * 2 + 2 * c);
        }
        store<I32<N>>(values_at(c) + p * kColumns + c % kColumns, value_pairs<N>(v, p, c, held, x.value[0]));
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

  // score [kTile] become integers with sw as scale, in pairs kApart apart.
  QK_INLINE float weigh(const float* score, const float* value_scale, int32_t* weights) {
    F32<16> w[kTile / 16], high = F32<16>(0.f);
    unroll<kTile / 16>([&](int b) QK_LAMBDA {
      w[b] = loadf<16>(score + 16 * b) * loadf<16>(value_scale + 16 * b);
      high = max<16>(high, w[b]);
    });
    const int32_t field = __builtin_bit_cast(int32_t, reduce_max(high)) >> 23;
    // Below 2^-100 nothing adds to a sum of which the top is 1.
    const int32_t e = (field < 27 ? 27 : field > 227 ? 227 : field) - 127;
    const float unit = power_of_two(e + 1 - kWeighted.right), round = rounding_to(unit);
    unroll<kTile / 32>([&](int b) QK_LAMBDA {
      store<I32<16>>(weights + 16 * b,
                     pair_of<16>(to_low_half<16>(w[2 * b], round), to_low_half<16>(w[2 * b + 1], round)));
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

  // The first Q queries over the tile at t0, whose keys and values are brought to integers on the way, and
  // not kept: that pays for more queries only (has_few). `left`: positions from t0 on.
  //
  // Memory never rests, and gives its lines in the order in which they lie: while keys are multiplied those
  // some KiB behind them are asked for, while values are, those of the next tile, of which the units are
  // found meanwhile. A line at a time: many at once wait for each other and hold up what is read now. (Zen 5,
  // 32768 positions, two threads, while plain streams read 51 GB/s: 45; each asked for while the other is
  // multiplied, and units in loops of their own, 41. One thread, 38: 31 and 28.)
  static constexpr int64_t kValuesAhead = 8192;  // bytes, of the next tile
  template <int N, int Q>
  __attribute__((always_inline)) void few(const uint8_t* k, const uint8_t* v, int64_t t0,
                                          int64_t left) const {
    alignas(64) float score[Q][kTile];
    alignas(64) int32_t weights[Q][kPairs];
    const int64_t held = left < kTile ? left : kTile;
    few_scores<N, Q>(k, held, score);
    const Units& value = x.value[t0 / kTile % 2];
    Step step[Q];
    for (int m = 0; m < Q; ++m) step[m] = softmax(score[m], m, t0, held, value, weights[m]);
    const FewValues values = {&weights[0][0], v, held, step, value, x.value[(t0 / kTile + 1) % 2],
                              left - kTile};
    // As many columns together as there are registers for: pieces of a line come one after the other.
    constexpr int kMost = (kLanes == 16 ? 16 : 8) / Q;
    int64_t next = left > kTile ? 0 : kTile, c = 0;
    for (; c + kMost * N <= head_dim; c += kMost * N) next = few_columns<N, Q, kMost>(values, c, next);
    for (; c < head_dim; c += N) next = few_columns<N, Q, 1>(values, c, next);
  }
  template <int N, int Q>
  __attribute__((always_inline)) void few_scores(const uint8_t* k, int64_t held,
                                                 float (&score)[Q][kTile]) const {
    constexpr int kAtOnce = N / Q;  // positions
    static_assert(kUnitsTogether % kAtOnce == 0);
    const int64_t row = 2 * head_dim;
    F32<N> query;  // of each dot
    unroll<N>([&](int i) QK_LAMBDA { query[i] = x.query[i / kAtOnce]; });
    take_key_units(k, 0, held);
    for (int64_t j = 0; j < held; j += kAtOnce) {
      // Ahead of their use, so that no key waits for its own.
      const int64_t next = j + kUnitsTogether;
      if (j % kUnitsTogether == 0 && next < kTile) take_key_units(k, next, held);
      const uint8_t* from[kAtOnce];
      unroll<kAtOnce>([&](int i) QK_LAMBDA { from[i] = k + (j + i < held ? j + i : held - 1) * row; });
      I32<N> dots[N];
      unroll<N>([&](int i) QK_LAMBDA { dots[i] = I32<N>(0); });
      for (int64_t c = 0; c < head_dim; c += 2 * N) {
        unroll<kAtOnce>([&](int i) QK_LAMBDA {
          // As many lines as are read here, one behind the other.
          if (2 * c % 64 == 0) prefetch_near(k + j * row + kKeysAhead + 2 * c * kAtOnce + 64 * i);
          const I32<N> key = pairs_from<N>(from[i] + 2 * c, x.key.round[j + i]);
          unroll<Q>([&](int m) QK_LAMBDA {
            I32<N>& dot = dots[m * kAtOnce + i];
            dot = add_pairs<N>(dot, key, load<I32<N>>(queries + m * (head_dim / 2) + c / 2));
          });
        });
      }
      const F32<N> unit = repeat<N, kAtOnce>(x.key.unit + j, __make_integer_seq<Sequence, int, N>()) * query;
      alignas(64) float all[N];
      store<F32<N>>(all, to_float<N>(reduce_each_of<int32_t>(dots)) * unit);
      unroll<Q>([&](int m) QK_LAMBDA { store(score[m] + j, loadf<kAtOnce>(all + m * kAtOnce)); });
    }
  }
  struct FewValues {
    const int32_t* weights;  // [.][kPairs]
    const uint8_t* v;
    int64_t held;
    const Step* step;
    const Units& units;
    Units& next;        // of the next tile's
    int64_t next_held;  // may be more than a tile has
  };
  // Columns [c, c + C * N). next: the position of the next tile whose units, and those behind it, are to be
  // found; returned, too.
  template <int N, int Q, int C>
  __attribute__((always_inline)) int64_t few_columns(const FewValues& of, int64_t c, int64_t next) const {
    const int64_t row = 2 * head_dim;
    const uint8_t* next_v = of.v + kTile * row;
    I32<N> dots[Q * C];
    unroll<Q * C>([&](int i) QK_LAMBDA { dots[i] = I32<N>(0); });
    for (int64_t p = 0; p < pairs_of(of.held); ++p) {
      // As many bytes as are read here, one behind the other.
      const int64_t begin = 4 * (c * kPairs + p * C * N);
      for (int64_t at = 0; at < 4 * C * N; at += 64) prefetch_near(next_v + kValuesAhead + begin + at);
      // Bytes of eight rows, 16 head_dim, are a multiple of what is read here: none is passed over.
      if (begin == next * row) {
        take_units(next_v, kWeighted.left, next, of.next_held, of.next);
        next += kUnitsTogether;
      }
      unroll<C>([&](int n) QK_LAMBDA {
        const I32<N> pairs = value_pairs<N>(of.v, p, c + n * N, of.held, of.units);
        unroll<Q>([&](int m) QK_LAMBDA {
          I32<N>& dot = dots[m * C + n];
          dot = add_pairs<N>(dot, pairs, I32<N>(of.weights[m * kPairs + p]));
        });
      });
    }
    unroll<Q * C>([&](int i) QK_LAMBDA {
      float* to = acc + i / C * width + c + i % C * N;
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
  // lie in a cache).
  template <int N>
  bool has_few(int64_t t0) const {
    const int64_t count = rows.queries();
    return t0 <= rows.first && count <= kMostFew<N> && (N == 16 || count <= 4 || count > 6);
  }
  // All queries over the tile at t0.
  template <int N>
  __attribute__((always_inline)) void all(int64_t t0) const {
    const int64_t count = rows.queries();
    const int64_t held = rows.to - t0 < kTile ? rows.to - t0 : kTile;
    const uint8_t *k = rows.k + t0 * head_dim * 2, *v = rows.v + t0 * head_dim * 2;
    if (has_few<N>(t0)) {
      const int64_t left = rows.to - t0;
      if (t0 == rows.from) take_value_units(v, left, x.value[t0 / kTile % 2]);
      if (count <= 2) return few<N, 2>(k, v, t0, left);
      if (count <= 4) return few<N, 4>(k, v, t0, left);
      return few<N, kMostFew<N>>(k, v, t0, left);
    }
    take_keys<N>(k, held);
    take_value_units(v, held, x.value[0]);
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
