// attention: online softmax over tiles of the cache at absolute positions, so that a row's result depends on
// its own query and position only. Query heads of one kv head are taken up to four at a time: each piece of
// the cache that is loaded serves them all. Where several rows of a sequence share tiles, an f16 tile is
// converted once into scratch; the arithmetic is the same either way.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

using qcc::cpu::AttentionScratch;

constexpr int kTile = AttentionScratch::kTile;

struct Scratch {
  float *k, *v, *query, *acc;  // of the thread
  alignas(64) float score[4][kTile];
  float keep[4];
  float top[AttentionScratch::kQueries];  // largest score so far
  float sum[AttentionScratch::kQueries];  // of exp(score - top)
};

// Elements of the cache. kAhead: read from memory, so worth asking for early: values while scores are
// computed, the next tile's keys while values are added.
struct Half {
  static constexpr int kBytes = 2;
  static constexpr bool kAhead = true;
  template <int N>
  QK_INLINE F32<N> get(const uint8_t* p) {
    return half_to_float<N>(load<U16<N>>(p));
  }
};
struct Single {
  static constexpr int kBytes = 4;
  static constexpr bool kAhead = true;
  template <int N>
  QK_INLINE F32<N> get(const uint8_t* p) {
    return load<F32<N>>(p);
  }
};

struct Converted : Single {
  static constexpr bool kAhead = false;
};

QK_INLINE void convert_tile(const uint8_t* src, int64_t values, float* __restrict dst) {
  for (int64_t i = 0; i < values; i += 8) store<F32<8>>(dst + i, Half::get<8>(src + i * 2));
}

// Lane i: the sum of all lanes of a[i]. Neighbours, then pairs, then fours: the same tree for every i.
QK_INLINE F32<4> reduce_each(const F32<4> (&a)[4]) {
  const F32<4> b =
      __builtin_shufflevector(a[0], a[1], 0, 4, 2, 6) + __builtin_shufflevector(a[0], a[1], 1, 5, 3, 7);
  const F32<4> c =
      __builtin_shufflevector(a[2], a[3], 0, 4, 2, 6) + __builtin_shufflevector(a[2], a[3], 1, 5, 3, 7);
  return __builtin_shufflevector(b, c, 0, 1, 4, 5) + __builtin_shufflevector(b, c, 2, 3, 6, 7);
}
QK_INLINE F32<8> reduce_each(const F32<8> (&a)[8]) {
  F32<8> b[4], c[2];
  QK_UNROLL
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  QK_UNROLL
  for (int i = 0; i < 2; ++i) {
    c[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(c[0], c[1], 4, 5, 6, 7, 12, 13, 14, 15);
}
QK_INLINE F32<16> reduce_each(const F32<16> (&a)[16]) {
  F32<8> low[8], high[8];
  QK_UNROLL
  for (int i = 0; i < 8; ++i) {
    low[i] = a[i].lo + a[i].hi;
    high[i] = a[i + 8].lo + a[i + 8].hi;
  }
  F32<16> r;
  r.lo = reduce_each(low);
  r.hi = reduce_each(high);
  return r;
}

// score[i][j] for Q queries and positions j < count of the tile at k, N at a time; scores up to the next
// multiple of N / Q may be written with anything.
template <class E, int N, int Q>
QK_INLINE void dots(Scratch& x, const float* query, const uint8_t* k, const uint8_t* v, int64_t count,
                    int64_t head_dim) {
  constexpr int kAtOnce = N / Q;
  const int64_t row = head_dim * E::kBytes;
  for (int64_t j0 = 0; j0 < count; j0 += kAtOnce) {
    const uint8_t* at[kAtOnce];
    QK_UNROLL
    for (int j = 0; j < kAtOnce; ++j) at[j] = k + (j0 + j < count ? j0 + j : count - 1) * row;
    F32<N> a[N];
    QK_UNROLL
    for (int i = 0; i < N; ++i) a[i] = F32<N>(0.f);
    for (int64_t c = 0; c < head_dim; c += N) {
      F32<N> q[Q];
      QK_UNROLL
      for (int i = 0; i < Q; ++i) q[i] = loadf<N>(query + i * head_dim + c);
      QK_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (E::kAhead && c * E::kBytes % 64 == 0) __builtin_prefetch(v + (j0 + j) * row + c * E::kBytes);
        const F32<N> kv = E::template get<N>(at[j] + c * E::kBytes);
        QK_UNROLL
        for (int i = 0; i < Q; ++i) a[i * kAtOnce + j] = fma<N>(q[i], kv, a[i * kAtOnce + j]);
      }
    }
    alignas(64) float r[N];
    store<F32<N>>(r, reduce_each(a));
    QK_UNROLL
    for (int i = 0; i < Q; ++i) {
      QK_UNROLL
      for (int j = 0; j < kAtOnce; ++j) x.score[i][j0 + j] = r[i * kAtOnce + j];
    }
  }
}

// score[i] becomes exp(score - top); keep[i]: what earlier sums are to be multiplied by.
QK_INLINE void softmax_step(Scratch& x, int i, int64_t query, int64_t count) {
  F32<16> s[2];
  QK_UNROLL
  for (int b = 0; b < 2; ++b) {
    const I32<16> lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    s[b] = lane + 16 * b < I32<16>(static_cast<int32_t>(count)) ? loadf<16>(x.score[i] + 16 * b)
                                                                : F32<16>(-__builtin_inff());
  }
  const float tile_top = reduce_max(max<16>(s[0], s[1]));
  const float top = tile_top > x.top[query] ? tile_top : x.top[query];
  const float keep = exp<4>(F32<4>(x.top[query] - top)).x;
  QK_UNROLL
  for (int b = 0; b < 2; ++b) {
    s[b] = exp<16>(s[b] - top);
    store<F32<16>>(x.score[i] + 16 * b, s[b]);
  }
  x.top[query] = top;
  x.sum[query] = x.sum[query] * keep + reduce_add(s[0] + s[1]);
  x.keep[i] = keep;
}

// acc[i] = acc[i] * keep[i] + sum over j < count, in order, of score[i][j] * v[j], V vectors of N columns of
// Q queries.
template <class E, int N, int Q, int V>
QK_INLINE void add_values(Scratch& x, float* acc, const uint8_t* v, const uint8_t* next_k, int64_t count,
                          int64_t head_dim) {
  F32<N> a[Q][V];
  QK_UNROLL
  for (int i = 0; i < Q; ++i) {
    QK_UNROLL
    for (int c = 0; c < V; ++c) a[i][c] = loadf<N>(acc + i * head_dim + c * N) * x.keep[i];
  }
  for (int64_t j = 0; j < count; ++j) {
    QK_UNROLL
    for (int c = 0; c < V; ++c) {
      const int64_t at = (j * head_dim + c * N) * E::kBytes;
      if (E::kAhead && c * N * E::kBytes % 64 == 0) __builtin_prefetch(next_k + at);
      const F32<N> value = E::template get<N>(v + at);
      QK_UNROLL
      for (int i = 0; i < Q; ++i) a[i][c] = fma<N>(F32<N>(x.score[i][j]), value, a[i][c]);
    }
  }
  QK_UNROLL
  for (int i = 0; i < Q; ++i) {
    QK_UNROLL
    for (int c = 0; c < V; ++c) store<F32<N>>(acc + i * head_dim + c * N, a[i][c]);
  }
}

// Q queries of one row, from number `query`, over one tile of which the row may see `count` positions.
template <class E, int N, int Q>
QK_INLINE void tile_queries(Scratch& x, int64_t query, const uint8_t* k, const uint8_t* v, int64_t count,
                            int64_t head_dim) {
  constexpr int kVectors = (N == 16 ? 16 : 8) / Q;
  dots<E, N, Q>(x, x.query + query * head_dim, k, v, count, head_dim);
  const uint8_t* next_k = k + kTile * head_dim * E::kBytes;
  QK_UNROLL
  for (int i = 0; i < Q; ++i) softmax_step(x, i, query + i, count);
  float* acc = x.acc + query * head_dim;
  int64_t c = 0;
  for (; c + kVectors * N <= head_dim; c += kVectors * N) {
    add_values<E, N, Q, kVectors>(x, acc + c, v + c * E::kBytes, next_k + c * E::kBytes, count, head_dim);
  }
  for (; c < head_dim; c += N)
    add_values<E, N, Q, 1>(x, acc + c, v + c * E::kBytes, next_k + c * E::kBytes, count, head_dim);
}

template <class E, int N>
QK_INLINE void tile_row(Scratch& x, int64_t query, int64_t group, const uint8_t* k, const uint8_t* v,
                        int64_t count, int64_t head_dim) {
  int64_t i = 0;
  for (; i + 4 <= group; i += 4) tile_queries<E, N, 4>(x, query + i, k, v, count, head_dim);
  if (i + 2 <= group) {
    tile_queries<E, N, 2>(x, query + i, k, v, count, head_dim);
    i += 2;
  }
  if (i < group) tile_queries<E, N, 1>(x, query + i, k, v, count, head_dim);
}

template <class E>
QK_INLINE void tile_row_any(Scratch& x, int64_t query, int64_t group, const uint8_t* k, const uint8_t* v,
                            int64_t count, int64_t head_dim) {
  // Lanes are part of the arithmetic: they depend on head_dim alone.
  if (head_dim % kLanes == 0) {
    tile_row<E, kLanes>(x, query, group, k, v, count, head_dim);
  } else {
    tile_row<E, 8>(x, query, group, k, v, count, head_dim);
  }
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_attention, attention)
QK_EXPORT void qk_attention(const attention_args* args) {
  using namespace qk;
  const attention_args a = *args;
  const int64_t q_heads = a.q_heads, kv_heads = a.kv_heads, head_dim = a.head_dim;
  const int64_t rows = a.n_rows, end = a.end;
  const bool kv_f16 = a.kv == QK_KvElement_F16;
  const int64_t group = q_heads / kv_heads, element = kv_f16 ? 2 : 4;
  const AttentionScratch at(head_dim, group);
  const int64_t max_rows = at.rows;
  float* scratch = reinterpret_cast<float*>(a.scratch);
  Scratch x;
  x.k = scratch + at.k / 4;
  x.v = scratch + at.v / 4;
  x.query = scratch + at.query / 4;
  x.acc = scratch + at.acc / 4;

  for (int64_t item = a.begin; item < end;) {
    const int64_t kv_head = item / rows, row0 = item % rows;
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, row0);
    int64_t n = seq.row_begin + seq.row_count - row0;
    if (n > end - item) n = end - item;
    if (n > max_rows) n = max_rows;
    item += n;

    const int64_t first = seq.past + (row0 - seq.row_begin);  // position of row0
    const uint8_t* k_cache =
        seq.kv + a.kv_offset * seq.kv_capacity + kv_head * seq.kv_capacity * head_dim * element;
    const uint8_t* v_cache = k_cache + kv_heads * seq.kv_capacity * head_dim * element;
    for (int64_t i = 0; i < n * group; ++i) {
      const float* src = a.q + ((row0 + i / group) * q_heads + kv_head * group + i % group) * head_dim;
      for (int64_t c = 0; c < head_dim; c += 8) {
        store<F32<8>>(x.query + i * head_dim + c, loadf<8>(src + c) * a.scale);
        store<F32<8>>(x.acc + i * head_dim + c, F32<8>(0.f));
      }
      x.top[i] = -__builtin_inff();
      x.sum[i] = 0.f;
    }

    for (int64_t t0 = 0; t0 < first + n; t0 += kTile) {
      const uint8_t *k = k_cache + t0 * head_dim * element, *v = v_cache + t0 * head_dim * element;
      const bool convert = kv_f16 && n > 1;
      if (convert) {
        const int64_t left = first + n - t0, held = left < kTile ? left : kTile;
        convert_tile(k, held * head_dim, x.k);
        convert_tile(v, held * head_dim, x.v);
      }
      for (int64_t r = 0; r < n; ++r) {
        const int64_t seen = first + r + 1 - t0;  // positions of this tile that the row may see
        if (seen <= 0) continue;
        const int64_t count = seen < kTile ? seen : kTile;
        if (convert) {
          tile_row_any<Converted>(x, r * group, group, reinterpret_cast<const uint8_t*>(x.k),
                                  reinterpret_cast<const uint8_t*>(x.v), count, head_dim);
        } else if (kv_f16) {
          tile_row_any<Half>(x, r * group, group, k, v, count, head_dim);
        } else {
          tile_row_any<Single>(x, r * group, group, k, v, count, head_dim);
        }
      }
    }

    for (int64_t i = 0; i < n * group; ++i) {
      const int64_t head = (row0 + i / group) * q_heads + kv_head * group + i % group;
      const float inverse = 1.f / x.sum[i];
      for (int64_t c = 0; c < head_dim; c += 8) {
        F32<8> o = loadf<8>(x.acc + i * head_dim + c) * inverse;
        if (a.gated) o = o * sigmoid<8>(loadf<8>(a.gate + (head * 2 + 1) * head_dim + c));
        store<F32<8>>(a.out + head * head_dim + c, o);
      }
    }
  }
}
