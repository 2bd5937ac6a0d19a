// The delta rule on tokens of one block of one value head. Kernels only.
//
// With S the state before the block's first token B, k, u, d what its tokens wrote
// (dialects/layouts/sequence_state.h), and for token t
//   P_t = d_B ... d_t,  g_i = d_(i+1) ... d_t, each multiplied up one token at a time,
//   r_t = P_t (S^T k_t) + sum over i < t of (g_i k_i.k_t) u_i,  u_t = beta_t (v_t - r_t),
//   o_t = P_t (S^T q_t) + sum over i <= t of (g_i k_i.q_t) u_i
// which is "decay, read, write, read out" of all tokens, one after the other, with the writes kept apart from
// S. Sums over tokens and over keys ascend, a term at a time: a value is made by the same operations in the
// same order wherever steps end, so one token and sixteen give the same bits. Products of decays are never
// divided: a decay may be 0.
#ifndef QCC_CODEGEN_CPU_KERNELS_DELTA_BLOCK_H_
#define QCC_CODEGEN_CPU_KERNELS_DELTA_BLOCK_H_

#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/kernels/vec.h"
#include "dialects/layouts/sequence_state.h"

namespace qk {

constexpr int kBlock = static_cast<int>(qcc::layouts::kStateBlock);

// A block's arrays in the thread's scratch, by place in the block where not said otherwise; `first` to `end`
// are the places of this step's tokens, those before them are of earlier steps.
struct DeltaBlock {
  int64_t first, end, key_dim, value_dim;
  float *q, *k;          // [16][key_dim]; q: of this step's tokens
  float *v, *r, *o, *u;  // [16][value_dim]; of u also earlier ones
  float *kk, *kq;        // [16][16]: k_i.k_t for i < t, k_i.q_t for i <= t, at t * 16 + i
  float *a, *c;          // [16][16]: the same times g_i
  float *d, *beta, *p;   // [16]; d also of earlier tokens; p: products of the decays since the block's begin
  float* g;              // [16]: products of the decays behind each token up to the last one
};

// The coefficients of every token: p, a, c, g from d, kk, kq.
QK_INLINE void delta_coefficients(DeltaBlock& x) {
  float product = 1.f;
  for (int i = 0; i < kBlock; ++i) x.g[i] = 0.f;
  for (int64_t t = 0; t < x.end; ++t) {
    const float decay = x.d[t];
    product = product * decay;
    for (int i = 0; i < kBlock; ++i) x.g[i] *= decay;
    x.g[t] = 1.f;
    x.p[t] = product;
    if (t < x.first) continue;
    for (int i = 0; i < kBlock; ++i) {
      x.a[t * kBlock + i] = x.g[i] * x.kk[t * kBlock + i];
      x.c[t * kBlock + i] = x.g[i] * x.kq[t * kBlock + i];
    }
  }
}

// T tokens whose sums r, o = S^T k, S^T q are made.
template <int T>
struct DeltaRead {
  const float *q[T], *k[T];  // [key_dim]
  float *r, *o;              // [T][value_dim]
  int64_t value_dim;
};

// For NV vectors of N value columns from `column` on: the terms of keys [first, end), behind those of earlier
// keys. ask(i, n): before vector n of key i's row is read.
template <int N, int NV, int T, class Ask>
QK_INLINE void delta_read(const DeltaRead<T>& x, const float* __restrict s, int64_t column, int64_t first,
                          int64_t end, Ask ask) {
  F32<N> by_k[T][NV], by_q[T][NV];
  const auto at = [&](int i) QK_LAMBDA { return i / NV * x.value_dim + column + i % NV * N; };
  unroll<T * NV>([&](int i) QK_LAMBDA {
    by_k[i / NV][i % NV] = first == 0 ? F32<N>(0.f) : loadf<N>(x.r + at(i));
    by_q[i / NV][i % NV] = first == 0 ? F32<N>(0.f) : loadf<N>(x.o + at(i));
  });
  for (int64_t i = first; i < end; ++i) {
    F32<N> row[NV];
    unroll<NV>([&](int n) QK_LAMBDA {
      row[n] = loadf<N>(s + i * x.value_dim + column + n * N);
      ask(i, n);
    });
    unroll<T>([&](int t) QK_LAMBDA {
      const F32<N> key = F32<N>(x.k[t][i]), query = F32<N>(x.q[t][i]);
      unroll<NV>([&](int n) QK_LAMBDA {
        by_k[t][n] = fma<N>(row[n], key, by_k[t][n]);
        by_q[t][n] = fma<N>(row[n], query, by_q[t][n]);
      });
    });
  }
  unroll<T * NV>([&](int i) QK_LAMBDA {
    store<F32<N>>(x.r + at(i), by_k[i / NV][i % NV]);
    store<F32<N>>(x.o + at(i), by_q[i / NV][i % NV]);
  });
}

// r, o of T tokens of a block from place t on.
template <int N, int NV, int T>
QK_INLINE void delta_read_at(const DeltaBlock& x, const float* s, int64_t t, int64_t column) {
  DeltaRead<T> read = {
      .q = {}, .k = {}, .r = x.r + t * x.value_dim, .o = x.o + t * x.value_dim, .value_dim = x.value_dim};
  unroll<T>([&](int i) QK_LAMBDA {
    read.q[i] = x.q + (t + i) * x.key_dim;
    read.k[i] = x.k + (t + i) * x.key_dim;
  });
  delta_read<N, NV>(read, s, column, 0, x.key_dim, [](int64_t, int) QK_LAMBDA {});
}

// A token whose u and o are made from r and o = S^T k, S^T q.
struct DeltaToken {
  int64_t place;       // in the block
  float decay, beta;   // decay: product of the decays since the block's begin
  const float *a, *c;  // [16]: of earlier tokens' u, for r and o; c also of its own
  const float *v, *r;  // [value_dim]
  float *o, *u;        // [value_dim]; u: of the block's first token, each u_row floats behind the one before
  int64_t u_row;
};

template <int N, int NV>
QK_INLINE void delta_solve(const DeltaToken& x, int64_t column) {
  float* u = x.u + column;
  F32<N> r[NV], o[NV];
  unroll<NV>([&](int n) QK_LAMBDA {
    r[n] = loadf<N>(x.r + column + n * N) * x.decay;
    o[n] = loadf<N>(x.o + column + n * N) * x.decay;
  });
  for (int64_t i = 0; i < x.place; ++i, u += x.u_row) {
    const F32<N> by_key = F32<N>(x.a[i]), by_query = F32<N>(x.c[i]);
    unroll<NV>([&](int n) QK_LAMBDA {
      const F32<N> write = loadf<N>(u + n * N);
      r[n] = fma<N>(write, by_key, r[n]);
      o[n] = fma<N>(write, by_query, o[n]);
    });
  }
  unroll<NV>([&](int n) QK_LAMBDA {
    const F32<N> write = (loadf<N>(x.v + column + n * N) - r[n]) * x.beta;
    store<F32<N>>(u + n * N, write);
    store<F32<N>>(x.o + column + n * N, fma<N>(write, F32<N>(x.c[x.place]), o[n]));
  });
}

// u and o of this step's tokens.
template <int N, int NV>
QK_INLINE void delta_solve_all(const DeltaBlock& x, int64_t column) {
  for (int64_t t = x.first; t < x.end; ++t) {
    delta_solve<N, NV>({.place = t,
                        .decay = x.p[t],
                        .beta = x.beta[t],
                        .a = x.a + t * kBlock,
                        .c = x.c + t * kBlock,
                        .v = x.v + t * x.value_dim,
                        .r = x.r + t * x.value_dim,
                        .o = x.o + t * x.value_dim,
                        .u = x.u,
                        .u_row = x.value_dim},
                       column);
  }
}

// The end of a block.
struct DeltaFold {
  float decay;          // the product of all its decays
  const float* behind;  // [16]: products of those behind each token
  const float* u;       // what its tokens wrote [value_dim], u_row floats apart
  int64_t u_row;
  const float* k;  // their keys [key_dim], k_row floats apart
  int64_t k_row;
  float* v;  // [16][value_dim]: room for g u
  int64_t key_dim, value_dim;
};

// What is added of each token when the block ends: v = g u.
QK_INLINE void delta_weigh(const DeltaFold& x) {
  for (int64_t t = 0; t < kBlock; ++t) {
    for (int64_t c = 0; c < x.value_dim; c += 8) {
      store<F32<8>>(x.v + t * x.value_dim + c, loadf<8>(x.u + t * x.u_row + c) * x.behind[t]);
    }
  }
}

// The next block's state: next = P S + sum of v k^T, D keys at a time. `next` may be `s`.
template <int N, int NV, int D>
QK_INLINE void delta_fold(const DeltaFold& x, const float* s, float* next, int64_t column) {
  for (int64_t key = 0; key < x.key_dim; key += D) {
    F32<N> sum[D][NV];
    unroll<D * NV>([&](int at) QK_LAMBDA {
      sum[at / NV][at % NV] = loadf<N>(s + (key + at / NV) * x.value_dim + column + at % NV * N) * x.decay;
    });
    for (int64_t i = 0; i < kBlock; ++i) {
      F32<N> v[NV];
      unroll<NV>([&](int n) QK_LAMBDA { v[n] = loadf<N>(x.v + i * x.value_dim + column + n * N); });
      unroll<D>([&](int d) QK_LAMBDA {
        const F32<N> k = F32<N>(x.k[i * x.k_row + key + d]);
        unroll<NV>([&](int n) QK_LAMBDA { sum[d][n] = fma<N>(v[n], k, sum[d][n]); });
      });
    }
    unroll<D * NV>([&](int at) QK_LAMBDA {
      store<F32<N>>(next + (key + at / NV) * x.value_dim + column + at % NV * N, sum[at / NV][at % NV]);
    });
  }
}

// NV vectors of N value columns from `column` on: outputs o and writes u of the tokens, and with the block's
// last token the next block's state. T: tokens that are read at once, as many as the registers hold; the rest
// goes one by one, and a single token in tiles of its own: those bounds change no value.
template <int N, int NV, int T>
QK_INLINE void delta_read_all(const DeltaBlock& x, const float* s, int64_t column) {
  int64_t t = x.first;
  for (; t + T <= x.end; t += T) delta_read_at<N, NV, T>(x, s, t, column);
  if constexpr (T > 1) {
    for (; t < x.end; ++t) delta_read_at<N, NV, 1>(x, s, t, column);
  }
}

// Calls tile(vectors of N columns, column) over all value columns: NV vectors of kLanes while they last, then
// of 8.
template <int NV, class Tile, class Rest>
QK_INLINE void delta_tiles(int64_t value_dim, Tile tile, Rest rest) {
  int64_t column = 0;
  for (; column + NV * kLanes <= value_dim; column += NV * kLanes) tile(column);
  if constexpr (NV * kLanes > 8) {
    for (; column < value_dim; column += 8) rest(column);
  }
}

// The next block's state from state s to `next`, which may be `s`.
QK_INLINE void delta_next(const DeltaFold& x, const float* s, float* next) {
  constexpr int kVectors = kLanes >= 16 ? 4 : 2, kKeys = 4;
  delta_weigh(x);
  delta_tiles<kVectors>(
      x.value_dim, [&](int64_t column) QK_LAMBDA { delta_fold<kLanes, kVectors, kKeys>(x, s, next, column); },
      [&](int64_t column) QK_LAMBDA { delta_fold<8, 1, kKeys>(x, s, next, column); });
}

// The block's tokens `first` to `end` - 1 on state s. With the last token of the block, the next block's
// state goes to `next`, which may be `s`.
QK_INLINE void delta_block(DeltaBlock& x, const float* s, float* next) {
  // 16 sums in registers where there are 32, 8 where there are 16.
  constexpr int kTokens = kLanes >= 16 ? 4 : 2, kVectors = 2;
  delta_coefficients(x);
  delta_tiles<kVectors>(
      x.value_dim, [&](int64_t column) QK_LAMBDA { delta_read_all<kLanes, kVectors, kTokens>(x, s, column); },
      [&](int64_t column) QK_LAMBDA { delta_read_all<8, 1, kTokens>(x, s, column); });
  delta_tiles<4>(
      x.value_dim, [&](int64_t column) QK_LAMBDA { delta_solve_all<kLanes, 4>(x, column); },
      [&](int64_t column) QK_LAMBDA { delta_solve_all<8, 1>(x, column); });
  if (x.end < kBlock) return;
  delta_next({.decay = x.p[kBlock - 1],
              .behind = x.g,
              .u = x.u,
              .u_row = x.value_dim,
              .k = x.k,
              .k_row = x.key_dim,
              .v = x.v,
              .key_dim = x.key_dim,
              .value_dim = x.value_dim},
             s, next);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_DELTA_BLOCK_H_
