// Attention in f32: online softmax over tiles of the cache at absolute positions, so
// that a row's result depends on its own query and position only. Query heads of one kv head are taken up to
// kMostTogether at a time: each piece of the cache that is loaded serves them all. Where several rows of a
// sequence share tiles, an f16 tile is converted once into scratch; the arithmetic is the same either way.
// Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_ATTENTION_F32_H_
#define QCC_CODEGEN_CPU_KERNELS_ATTENTION_F32_H_

#include "codegen/cpu/kernels/attention_rows.h"

namespace qk {

using qcc::cpu::F32AttentionScratch;

// Elements of the cache. kAhead: read from memory, so worth asking for early.
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

struct F32Attention {
  static constexpr int kTile = F32AttentionScratch::kTile;
  // Of 16 lanes there are registers for eight (Zen 5, two threads, 16 heads over 2 of 32768 positions: 44
  // GB/s, four at a time 40).
  static constexpr int kMostTogether = kLanes == 16 ? 8 : 4;

  // What is indexed lies apart, so that what is constant is known to be.
  struct Sums {
    alignas(64) float score[kMostTogether][kTile];
    float keep[kMostTogether];
    float top[F32AttentionScratch::kQueries];  // largest score so far, of a part
    float sum[F32AttentionScratch::kQueries];  // of exp(score - top)
    float total_top[F32AttentionScratch::kQueries], total_sum[F32AttentionScratch::kQueries];
  };

  const AttentionRows rows;
  Sums& x;
  const int64_t head_dim;
  float *const query, *const acc, *const total;  // [.][head_dim]
  float *const k, *const v;                      // [kTile][head_dim]

  QK_INLINE F32Attention make(const AttentionRows& r, Sums& x) {
    const F32AttentionScratch at(r.a.head_dim, r.group);
    float* scratch = reinterpret_cast<float*>(r.a.scratch);
    return {r,
            x,
            r.a.head_dim,
            scratch + at.query / 4,
            scratch + at.acc / 4,
            scratch + at.total / 4,
            scratch + at.k / 4,
            scratch + at.v / 4};
  }

  // x.score[i][j] for Q queries and positions j < count of the tile at k, N at a time; scores up to the next
  // multiple of N / Q may be written with anything. Asks for keys behind these, as many as are read.
  template <class E, int N, int Q>
  __attribute__((always_inline)) void dots(const float* q, const uint8_t* keys, int64_t count) const {
    constexpr int kAtOnce = N / Q;
    const int64_t row = head_dim * E::kBytes;
    for (int64_t j0 = 0; j0 < count; j0 += kAtOnce) {
      const uint8_t* at[kAtOnce];
      QK_UNROLL
      for (int j = 0; j < kAtOnce; ++j) at[j] = keys + (j0 + j < count ? j0 + j : count - 1) * row;
      F32<N> a[N];
      QK_UNROLL
      for (int i = 0; i < N; ++i) a[i] = F32<N>(0.f);
      for (int64_t c = 0; c < head_dim; c += N) {
        F32<N> qs[Q];
        QK_UNROLL
        for (int i = 0; i < Q; ++i) qs[i] = loadf<N>(q + i * head_dim + c);
        QK_UNROLL
        for (int j = 0; j < kAtOnce; ++j) {
          if (E::kAhead && c * E::kBytes % 64 == 0)
            prefetch_near(keys + kKeysAhead + j0 * row + c * E::kBytes * kAtOnce + 64 * j);
          const F32<N> key = E::template get<N>(at[j] + c * E::kBytes);
          QK_UNROLL
          for (int i = 0; i < Q; ++i) a[i * kAtOnce + j] = fma<N>(qs[i], key, a[i * kAtOnce + j]);
        }
      }
      alignas(64) float r[N];
      store<F32<N>>(r, reduce_each_of<float>(a));
      QK_UNROLL
      for (int i = 0; i < Q; ++i) {
        QK_UNROLL
        for (int j = 0; j < kAtOnce; ++j) x.score[i][j0 + j] = r[i * kAtOnce + j];
      }
    }
  }

  // to[i] = to[i] * x.keep[i] + sum over j < count, in order, of x.score[i][j] * v[j], V vectors of N columns
  // of Q queries. `next`: as many bytes as are read here, asked for one behind the other.
  template <class E, int N, int Q, int V>
  __attribute__((always_inline)) void add_values(float* to, const uint8_t* values, const uint8_t* next,
                                                 int64_t count) const {
    F32<N> a[Q][V];
    QK_UNROLL
    for (int i = 0; i < Q; ++i) {
      QK_UNROLL
      for (int c = 0; c < V; ++c) a[i][c] = loadf<N>(to + i * head_dim + c * N) * x.keep[i];
    }
    for (int64_t j = 0; j < count; ++j) {
      QK_UNROLL
      for (int c = 0; c < V; ++c) {
        const int64_t at = (j * head_dim + c * N) * E::kBytes;
        if (E::kAhead && c * N * E::kBytes % 64 == 0) prefetch_near(next + (j * V + c) * N * E::kBytes);
        const F32<N> value = E::template get<N>(values + at);
        QK_UNROLL
        for (int i = 0; i < Q; ++i) a[i][c] = fma<N>(F32<N>(x.score[i][j]), value, a[i][c]);
      }
    }
    QK_UNROLL
    for (int i = 0; i < Q; ++i) {
      QK_UNROLL
      for (int c = 0; c < V; ++c) store<F32<N>>(to + i * head_dim + c * N, a[i][c]);
    }
  }

  // Q queries of one row, from number `i`, over one tile of which the row may see `count` positions.
  template <class E, int N, int Q>
  __attribute__((always_inline)) void tile_queries(int64_t i, const uint8_t* keys, const uint8_t* values,
                                                   int64_t count) const {
    constexpr int kVectors = (N == 16 ? 16 : 8) / Q;
    dots<E, N, Q>(query + i * head_dim, keys, count);
    const uint8_t* next = values + kTile * head_dim * E::kBytes;
    QK_UNROLL
    for (int j = 0; j < Q; ++j)
      x.keep[j] = softmax_step<kTile / 16>(x.score[j], count, x.top[i + j], x.sum[i + j]);
    float* to = acc + i * head_dim;
    int64_t c = 0;
    for (; c + kVectors * N <= head_dim; c += kVectors * N)
      add_values<E, N, Q, kVectors>(to + c, values + c * E::kBytes, next + c * kTile * E::kBytes, count);
    for (; c < head_dim; c += N)
      add_values<E, N, Q, 1>(to + c, values + c * E::kBytes, next + c * kTile * E::kBytes, count);
  }

  template <class E, int N>
  __attribute__((always_inline)) void tile_row(int64_t i, const uint8_t* keys, const uint8_t* values,
                                               int64_t count) const {
    const int64_t end = i + rows.group;
    if constexpr (kMostTogether == 8 && N >= 8) {
      for (; i + 8 <= end; i += 8) tile_queries<E, N, 8>(i, keys, values, count);
    }
    for (; i + 4 <= end; i += 4) tile_queries<E, N, 4>(i, keys, values, count);
    if (i + 2 <= end) {
      tile_queries<E, N, 2>(i, keys, values, count);
      i += 2;
    }
    if (i < end) tile_queries<E, N, 1>(i, keys, values, count);
  }

  QK_INLINE void convert_tile(const uint8_t* src, int64_t values, float* __restrict dst) {
    for (int64_t i = 0; i < values; i += 8) store<F32<8>>(dst + i, Half::get<8>(src + i * 2));
  }

  template <int N>
  __attribute__((always_inline)) void tile(int64_t t0) const {
    const int64_t group = rows.group, count = rows.queries();
    const bool f16 = rows.a.kv == QK_KvElement_F16, convert = f16 && rows.n > 1;
    const int64_t element = f16 ? 2 : 4;
    const uint8_t* keys = rows.k + t0 * head_dim * element;
    const uint8_t* values = rows.v + t0 * head_dim * element;
    if (convert) {
      const int64_t held = rows.to - t0 < kTile ? rows.to - t0 : kTile;
      convert_tile(keys, held * head_dim, k);
      convert_tile(values, held * head_dim, v);
      keys = reinterpret_cast<const uint8_t*>(k);
      values = reinterpret_cast<const uint8_t*>(v);
    }
    for (int64_t i = 0; i < count; i += group) {
      const int64_t seen = rows.seen(i, t0), sees = seen < kTile ? seen : kTile;
      if (seen <= 0) continue;
      if (convert) {
        tile_row<Converted, N>(i, keys, values, sees);
      } else if (f16) {
        tile_row<Half, N>(i, keys, values, sees);
      } else {
        tile_row<Single, N>(i, keys, values, sees);
      }
    }
  }

  // N lanes are part of the arithmetic: they depend on head_dim alone.
  template <int N>
  __attribute__((always_inline)) void run() const {
    const int64_t count = rows.queries();
    for (int64_t i = 0; i < count; ++i) {
      const float* q = rows.query(i);
      for (int64_t c = 0; c < head_dim; c += 8)
        store<F32<8>>(query + i * head_dim + c, loadf<8>(q + c) * rows.a.scale);
    }
    for (int64_t begin = rows.from; begin < rows.to; begin += rows.part) {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t c = 0; c < head_dim; c += 8) store<F32<8>>(acc + i * head_dim + c, F32<8>(0.f));
        x.top[i] = -__builtin_inff();
        x.sum[i] = 0.f;
      }
      const int64_t end = rows.end_of_part(begin);
      for (int64_t t0 = begin; t0 < end; t0 += kTile) tile<N>(t0);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = i * head_dim;
        rows.finish_part<N>(i, begin, {acc + at, x.top[i], x.sum[i]},
                            {total + at, x.total_top[i], x.total_sum[i]});
      }
    }
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_ATTENTION_F32_H_
