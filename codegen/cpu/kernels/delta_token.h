// The delta rule on one token of one value head, where it lies: keys and writes of the block's earlier tokens
// are read in the sequence's state, each once. The same operations in the same order as delta_block.h has
// for it, which says what they compute: the same bits. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_DELTA_TOKEN_H_
#define QCC_CODEGEN_CPU_KERNELS_DELTA_TOKEN_H_

#include "codegen/cpu/kernels/delta_block.h"

namespace qk {

// Keys whose rows of the state are read to their end before the next ones: memory is read in its order even
// where registers hold the sums of a part of a row (level v3, Zen 4, states in memory: 0.9x of the time of
// all keys for each part).
constexpr int64_t kKeysAtOnce = 8;

// How far ahead the state is asked for, whose heads lie one after the other, in floats: a page, or as much as
// the first-level cache keeps until it is read.
constexpr int64_t kReadAhead = kLanes >= 16 ? 1024 : 768;

// Asks for the line at p of what a sequence keeps. Into the first-level cache where level v3 was measured
// (two threads of a Zen 3, 8 sequences, with the order of heads in gated_delta.cc: the delta rule of Q4_K_M
// takes 1 / 1.10, of Q8_0 1 / 1.25 of the time with the second-level cache, two pages ahead).
QK_INLINE void ask_for_state(const float* p) {
  if constexpr (kLanes >= 16) {
    prefetch_far(p);
  } else {
    prefetch_near(p);
  }
}

struct DeltaToken {
  int64_t place, key_dim, value_dim;
  const float *q, *k;    // [key_dim]
  const float* v;        // [value_dim]
  const float *kk, *kq;  // [16]: k_i.k for i < place, k_i.q for i <= place
  float beta;
  int64_t entry;      // of the block's tokens, in the state: each that many floats behind the one before,
  const float* keys;  //   their keys [key_dim],
  float* u;           //   what they wrote [value_dim]; the token's own goes there,
  const float* d;     //   their decays, the token's own among them
  float *r, *o;       // [value_dim]
  float* weighed;     // [16][value_dim]: room for the end of a block
};

// r, o = S^T k, S^T q for NV vectors of N value columns from `column` on: the terms of keys [first, end),
// behind those of earlier keys.
template <int N, int NV>
QK_INLINE void token_read(const DeltaToken& x, const float* __restrict s, int64_t column, int64_t first,
                          int64_t end) {
  F32<N> by_k[NV], by_q[NV];
  unroll<NV>([&](int n) QK_LAMBDA {
    by_k[n] = first == 0 ? F32<N>(0.f) : loadf<N>(x.r + column + n * N);
    by_q[n] = first == 0 ? F32<N>(0.f) : loadf<N>(x.o + column + n * N);
  });
  for (int64_t i = first; i < end; ++i) {
    const F32<N> key = F32<N>(x.k[i]), query = F32<N>(x.q[i]);
    unroll<NV>([&](int n) QK_LAMBDA {
      const F32<N> row = loadf<N>(s + i * x.value_dim + column + n * N);
      // Of the keys' rows as many floats, one after the other, as of this and earlier parts are read.
      if (n * N % 16 == 0)
        ask_for_state(s + first * x.value_dim + column * (end - first) + (i - first) * NV * N + n * N +
                      kReadAhead);
      by_k[n] = fma<N>(row, key, by_k[n]);
      by_q[n] = fma<N>(row, query, by_q[n]);
    });
  }
  unroll<NV>([&](int n) QK_LAMBDA {
    store<F32<N>>(x.r + column + n * N, by_k[n]);
    store<F32<N>>(x.o + column + n * N, by_q[n]);
  });
}

// u, which goes to its entry, and o from r and o = S^T k, S^T q. p, a, c: as in DeltaBlock, of this token.
template <int N, int NV>
QK_INLINE void token_solve(const DeltaToken& x, float p, const float* a, const float* c, int64_t column) {
  float* u = x.u + column;
  F32<N> r[NV], o[NV];
  unroll<NV>([&](int n) QK_LAMBDA {
    r[n] = loadf<N>(x.r + column + n * N) * p;
    o[n] = loadf<N>(x.o + column + n * N) * p;
  });
  for (int64_t i = 0; i < x.place; ++i, u += x.entry) {
    const F32<N> by_key = F32<N>(a[i]), by_query = F32<N>(c[i]);
    unroll<NV>([&](int n) QK_LAMBDA {
      const F32<N> write = loadf<N>(u + n * N);
      r[n] = fma<N>(write, by_key, r[n]);
      o[n] = fma<N>(write, by_query, o[n]);
    });
  }
  unroll<NV>([&](int n) QK_LAMBDA {
    const F32<N> write = (loadf<N>(x.v + column + n * N) - r[n]) * x.beta;
    store<F32<N>>(u + n * N, write);
    store<F32<N>>(x.o + column + n * N, fma<N>(write, F32<N>(c[x.place]), o[n]));
  });
}

// The token on state s, whose rows are each read once: memory sets the pace. With the last token of the
// block, the next block's state goes to `next`, which may be `s`.
QK_INLINE void delta_token(const DeltaToken& x, const float* s, float* next) {
  constexpr int kWide = kLanes >= 16 ? 8 : 4;
  F32<kBlock> g = F32<kBlock>(0.f);
  float p = 1.f;
  for (int64_t i = 0; i <= x.place; ++i) {
    const float decay = x.d[i * x.entry];
    p = p * decay;
    g = g * decay;
    g[i] = 1.f;
  }
  alignas(64) float a[kBlock], c[kBlock];
  store<F32<kBlock>>(a, g * loadf<kBlock>(x.kk));
  store<F32<kBlock>>(c, g * loadf<kBlock>(x.kq));
  const int64_t keys = x.value_dim == kWide * kLanes ? x.key_dim : kKeysAtOnce;
  for (int64_t i = 0; i < x.key_dim; i += keys) {
    const int64_t end = i + keys < x.key_dim ? i + keys : x.key_dim;
    delta_tiles<kWide>(
        x.value_dim, [&](int64_t column) QK_LAMBDA { token_read<kLanes, kWide>(x, s, column, i, end); },
        [&](int64_t column) QK_LAMBDA { token_read<8, 1>(x, s, column, i, end); });
  }
  delta_tiles<kWide>(
      x.value_dim, [&](int64_t column) QK_LAMBDA { token_solve<kLanes, kWide>(x, p, a, c, column); },
      [&](int64_t column) QK_LAMBDA { token_solve<8, 1>(x, p, a, c, column); });
  if (x.place + 1 < kBlock) return;
  alignas(64) float behind[kBlock];
  store<F32<kBlock>>(behind, g);
  delta_next({.decay = p,
              .behind = behind,
              .u = x.u,
              .u_row = x.entry,
              .k = x.keys,
              .k_row = x.entry,
              .v = x.weighed,
              .key_dim = x.key_dim,
              .value_dim = x.value_dim},
             s, next);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_DELTA_TOKEN_H_
