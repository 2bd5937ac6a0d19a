// The delta rule on a few tokens of one value head, where they lie: keys and writes of the block's earlier
// tokens are read in the sequence's state, each once. The same operations in the same order as delta_block.h
// has for them, which says what they compute: the same bits. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_DELTA_TOKENS_H_
#define QCC_CODEGEN_CPU_KERNELS_DELTA_TOKENS_H_

#include "codegen/cpu/kernels/delta_block.h"

namespace qk {

// The most tokens: with more of them a read is bound by arithmetic.
constexpr int kFewTokens = 4;

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

// `count` tokens from place `place` of the block on, at most T, for which sums are computed: where there are
// fewer, the last one again.
template <int T>
struct DeltaTokens {
  int64_t place, count, key_dim;
  DeltaRead<T> read;  // its o are the outputs
  const float* v[T];  // [value_dim] each
  const float* beta;  // of each, beta_row floats apart
  int64_t beta_row;
  const float *kk, *kq;  // [T][16]: k_i.k of each token for i before it, k_i.q for i up to it
  int64_t entry;         // of the block's tokens, in the state: each that many floats behind the one before,
  const float* keys;     //   their keys [key_dim],
  float* u;              //   what they wrote [value_dim]; the tokens' own goes there,
  const float* d;        //   their decays, the tokens' own among them
  float* weighed;        // [16][value_dim]: room for the end of a block
};

// NV vectors of N value columns from `column` on, of keys [first, end).
template <int N, int NV, int T>
QK_INLINE void tokens_read(const DeltaRead<T>& x, const float* s, int64_t column, int64_t first,
                           int64_t end) {
  // Of the keys' rows as many floats, one after the other, as of this and earlier parts are read.
  const float* ahead = s + first * x.value_dim + column * (end - first) + kReadAhead;
  delta_read<N, NV>(x, s, column, first, end, [&](int64_t i, int n) QK_LAMBDA {
    if (n * N % 16 == 0) ask_for_state(ahead + (i - first) * NV * N + n * N);
  });
}

// The tokens, T at most, on state s, each row of which is read once: memory sets the pace. With the last
// token of the block, the next block's state goes to `next`, which may be `s`.
template <int T>
QK_INLINE void delta_tokens(const DeltaTokens<T>& x, const float* s, float* next) {
  const int64_t n = x.read.value_dim;
  // 16 sums in registers where there are 32, 8 where there are 16.
  constexpr int kWide = (kLanes >= 16 ? 8 : 4) / T, kAcross = kWide > 0 ? kWide : 1;
  const int64_t keys = n == kAcross * kLanes ? x.key_dim : kKeysAtOnce;
  for (int64_t i = 0; i < x.key_dim; i += keys) {
    const int64_t end = i + keys < x.key_dim ? i + keys : x.key_dim;
    delta_tiles<kAcross>(
        n, [&](int64_t column) QK_LAMBDA { tokens_read<kLanes, kAcross>(x.read, s, column, i, end); },
        [&](int64_t column) QK_LAMBDA { tokens_read<8, 1>(x.read, s, column, i, end); });
  }
  F32<kBlock> g = F32<kBlock>(0.f);
  float p = 1.f;
  const auto decay = [&](int64_t i) QK_LAMBDA {
    p = p * x.d[i * x.entry];
    g = g * x.d[i * x.entry];
    g[i] = 1.f;
  };
  for (int64_t i = 0; i < x.place; ++i) decay(i);
  for (int64_t t = 0; t < x.count; ++t) {
    constexpr int kSolved = kLanes >= 16 ? 8 : 4;
    decay(x.place + t);
    alignas(64) float a[kBlock], c[kBlock];
    store<F32<kBlock>>(a, g * loadf<kBlock>(x.kk + t * kBlock));
    store<F32<kBlock>>(c, g * loadf<kBlock>(x.kq + t * kBlock));
    const DeltaToken token = {.place = x.place + t,
                              .decay = p,
                              .beta = x.beta[t * x.beta_row],
                              .a = a,
                              .c = c,
                              .v = x.v[t],
                              .r = x.read.r + t * n,
                              .o = x.read.o + t * n,
                              .u = x.u,
                              .u_row = x.entry};
    delta_tiles<kSolved>(
        n, [&](int64_t column) QK_LAMBDA { delta_solve<kLanes, kSolved>(token, column); },
        [&](int64_t column) QK_LAMBDA { delta_solve<8, 1>(token, column); });
  }
  if (x.place + x.count < kBlock) return;
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
              .value_dim = n},
             s, next);
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_DELTA_TOKENS_H_
