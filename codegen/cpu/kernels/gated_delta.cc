// gated_delta: causal convolution, silu, l2 norm, gates, delta rule and gated norm of one key head and its
// value heads, in blocks of 16 tokens by position. A block that a step has only a part of goes on from what
// earlier steps left in the sequence's state; delta_block.h says why that gives the same bits. Steps of a few
// tokens take their own way, for several heads together.
#include "codegen/cpu/kernels/delta_block.h"
#include "codegen/cpu/kernels/delta_tokens.h"
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"
#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

using qcc::cpu::DeltaScratch;
using qcc::cpu::kMaxConvTaps;
using qcc::layouts::DeltaEntry;

// The most rows of a sequence that are taken a few at a time (0.8b shape, Zen 5, 30 layers of states, over
// blocks: 2 to 4 rows 0.74 to 0.78 of the time, 5 and 6 0.8 to 0.9, 8 as much).
constexpr int64_t kFewRows = 2 * kFewTokens;

template <int N>
struct Lanes {
  static constexpr int kN = N;
};
// Calls fn(Lanes<N>(), c) for columns [c, c + N) of n, a multiple of 8: what is done with each alone, an
// operation of several registers at a time. Those of one wait for each other (silu of a vector in the
// first-level cache, Zen 5: 12.1 cycles alone, 9.3 of four together).
template <class Fn>
QK_INLINE void for_each_lanes(int64_t n, Fn fn) {
  constexpr int kMost = kLanes >= 16 ? 4 * kLanes : 2 * kLanes;
  int64_t c = 0;
  for (; c + kMost <= n; c += kMost) fn(Lanes<kMost>(), c);
  for (; c < n; c += 8) fn(Lanes<8>(), c);
}

// Asks for the lines of N floats at p.
template <int N>
QK_INLINE void ask_for_lines(const float* p) {
  unroll<(N + 15) / 16>([&](int i) QK_LAMBDA { prefetch_near(p + 16 * i); });
}

// The layer's state where the block of token `position` has it.
QK_INLINE float* state_at(const qrt_seq& seq, int64_t offset, int64_t position) {
  return reinterpret_cast<float*>(seq.state + (position / kBlock % 2) * seq.odd_offset + offset);
}

// One sequence's inputs of the convolution: rows of the step, before them what the state keeps.
struct Conv {
  const qrt_seq* seq;
  const float* rows;  // row 0 of the sequence
  const float* w;
  int64_t state_offset, channels, taps;

  // The inputs `at` rows behind the step's first one; before the sequence's first token there are zeros.
  __attribute__((always_inline)) float* kept(int64_t at) const {
    const int64_t position =
        seq->past + at + 2 * kBlock;  // not negative, of the same block's parity and place
    return state_at(*seq, state_offset, position) + position % kBlock * channels;
  }
};

// out[t * n] = silu(convolution) of N channels, of the usual number of taps, at rows t in [0, rows): weights
// stay in registers. input: the rows ahead of row 0, oldest first, and then these, at the channels, as w,
// whose taps lie `channels` apart. Of rows_ahead rows those of the next block are asked for: a head's columns
// lie a row apart, where no prefetcher looks for them.
template <int N, int Taps>
QK_INLINE void conv_columns(const float* const* input, int64_t c, const float* w, int64_t channels,
                            int64_t rows, int64_t rows_ahead, int64_t n, float* __restrict out) {
  F32<N> weight[Taps];
  unroll<Taps>([&](int i) QK_LAMBDA { weight[i] = loadf<N>(w + i * channels); });
  for (int64_t t = 0; t < rows; ++t) {
    if (t < rows_ahead) ask_for_lines<N>(input[Taps - 1 + t] + c + kBlock * channels);
    F32<N> a = weight[0] * loadf<N>(input[t] + c);
    unroll<Taps - 1>([&](int i) QK_LAMBDA { a = fma<N>(weight[i + 1], loadf<N>(input[t + i + 1] + c), a); });
    store<F32<N>>(out + t * n, silu<N>(a));
  }
}

// out[t * n + c] = silu(convolution at row `row` + t of the step) of channels [channel, channel + n), for t
// in [first, end).
QK_INLINE void conv_silu(const Conv& conv, int64_t row, int64_t first, int64_t end, int64_t channel,
                         int64_t n, float* __restrict out) {
  constexpr int kUsual = 4;
  const auto input = [&](int64_t at) QK_LAMBDA {
    return (at >= 0 ? conv.rows + at * conv.channels : conv.kept(at)) + channel;
  };
  const float* w = conv.w + channel;
  if (conv.taps == kUsual) {
    const int64_t begin = row + first, behind = conv.seq->row_count - begin - kBlock;
    const float* rows[kUsual - 1 + kBlock];
    for (int64_t t = 0; t < kUsual - 1 + end - first; ++t) rows[t] = input(begin - (kUsual - 1) + t);
    for_each_lanes(n, [&](auto lanes, int64_t c) QK_LAMBDA {
      conv_columns<decltype(lanes)::kN, kUsual>(rows, c, w + c, conv.channels, end - first, behind, n,
                                                out + first * n + c);
    });
    return;
  }
  for (int64_t t = first; t < end; ++t) {
    const float* x[kMaxConvTaps];
    for (int64_t i = 0; i < conv.taps; ++i) x[i] = input(row + t - (conv.taps - 1) + i);
    for_each_lanes(n, [&](auto lanes, int64_t c) QK_LAMBDA {
      constexpr int N = decltype(lanes)::kN;
      F32<N> a = loadf<N>(w + c) * loadf<N>(x[0] + c);
      for (int64_t i = 1; i < conv.taps; ++i)
        a = fma<N>(loadf<N>(w + i * conv.channels + c), loadf<N>(x[i] + c), a);
      store<F32<N>>(out + t * n + c, silu<N>(a));
    });
  }
}

// Keeps the last inputs of channels [channel, channel + n), as many as the state has room for.
QK_INLINE void conv_keep(const Conv& conv, int64_t channel, int64_t n) {
  const int64_t rows = conv.seq->row_count, room = conv.seq->odd_offset != 0 ? 2 * kBlock : kBlock;
  for (int64_t t = rows > room ? rows - room : 0; t < rows; ++t) {
    const float* from = conv.rows + t * conv.channels + channel;
    float* to = conv.kept(t) + channel;
    for (int64_t c = 0; c < n; c += 8) store<F32<8>>(to + c, loadf<8>(from + c));
  }
}

// kk, kq[0..4) = products of four rows of n floats with a token's key and query, of T tokens: many sums at
// once, for one waits for each of its additions. A sum has eight lanes, of key and query together.
template <int T>
QK_INLINE void products(const float* const (&rows)[4], const float* const* key, const float* const* query,
                        int64_t n, float* kk, float* kq) {
  F32<16> sums[T][4];
  unroll<4 * T>([&](int i) QK_LAMBDA { sums[i / 4][i % 4] = F32<16>(0.f); });
  const auto join = [](F32<8> a, F32<8> b) QK_LAMBDA {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  };
  for (int64_t c = 0; c < n; c += 8) {
    F32<16> both[T];
    unroll<T>([&](int t) QK_LAMBDA { both[t] = join(loadf<8>(key[t] + c), loadf<8>(query[t] + c)); });
    unroll<4>([&](int i) QK_LAMBDA {
      const F32<8> row = loadf<8>(rows[i] + c);
      unroll<T>([&](int t) QK_LAMBDA { sums[t][i] = fma<16>(join(row, row), both[t], sums[t][i]); });
    });
  }
  unroll<T>([&](int t) QK_LAMBDA {
    F32<8> by_key[4], by_query[4];
    unroll<4>([&](int i) QK_LAMBDA {
      by_key[i] = sums[t][i].lo;
      by_query[i] = sums[t][i].hi;
    });
    const auto sum = [](auto a, auto b) QK_LAMBDA { return a + b; };
    store<F32<4>>(kk + t * kBlock, join_lanes(by_key, sum));
    store<F32<4>>(kq + t * kBlock, join_lanes(by_query, sum));
  });
}

// x *= factor / sqrt(sum x^2 + eps); with `max`, x *= factor / max(sqrt(sum x^2), eps).
QK_INLINE void l2_norm(float* x, int64_t n, float eps, bool max, float factor) {
  const float sum = sum_of_squares(x, n), norm = __builtin_elementwise_sqrt(max ? sum : sum + eps);
  const float scale = factor / (max && norm < eps ? eps : norm);
  for (int64_t c = 0; c < n; c += 8) store<F32<8>>(x + c, loadf<8>(x + c) * scale);
}

QK_INLINE void copy(float* __restrict to, const float* __restrict from, int64_t n) {
  for_each_lanes(n, [&](auto lanes, int64_t c) QK_LAMBDA {
    constexpr int N = decltype(lanes)::kN;
    store<F32<N>>(to + c, loadf<N>(from + c));
  });
}

// The layer, and the numbers that follow from its shape.
struct Layer {
  const gated_delta_args& a;
  const int64_t keys = a.key_heads * a.key_dim, values = a.value_heads * a.value_dim;
  const int64_t heads_each = a.value_heads / a.key_heads;
  const DeltaEntry entry{a.key_heads, a.value_heads, a.key_dim, a.value_dim};
  const int64_t entries = qcc::layouts::DeltaSlotFloats(a.value_heads, a.key_dim, a.value_dim);

  __attribute__((always_inline)) Conv conv(const qrt_seq& seq) const {
    const int64_t channels = 2 * keys + values;
    return {&seq, a.qkv + seq.row_begin * channels, a.conv_w, a.conv_state_offset, channels, a.taps};
  }
  // Value head i of key head h.
  __attribute__((always_inline)) int64_t value_head(int64_t h, int64_t i) const {
    return a.heads == QK_HeadOrder_Grouped ? h * heads_each + i : h + i * a.key_heads;
  }
};

// Calls fn(channel, n) for each run of the convolution's channels that a key head has with its value heads.
template <class Fn>
QK_INLINE void for_each_run(const Layer& l, int64_t head, Fn fn) {
  const int64_t key_dim = l.a.key_dim, value_dim = l.a.value_dim;
  fn(head * key_dim, key_dim);
  fn(l.keys + head * key_dim, key_dim);
  for (int64_t i = 0; i < l.heads_each; ++i) fn(2 * l.keys + l.value_head(head, i) * value_dim, value_dim);
}

// Queries and keys of a block's tokens, and the products of each two of them. `entries`: of the block. Row t
// of the step is at place t - row of it.
QK_INLINE void load_keys(const Layer& l, const Conv& conv, int64_t head, int64_t row, float* entries,
                         DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t n = a.key_dim;
  const bool l2_max = a.l2_form == QK_L2Form_Max;
  const auto kept = [&](int64_t t) QK_LAMBDA { return entries + t * l.entry.floats + l.entry.k + head * n; };
  for (int64_t t = 0; t < x.first; ++t) copy(x.k + t * n, kept(t), n);
  conv_silu(conv, row, x.first, x.end, head * n, n, x.q);
  conv_silu(conv, row, x.first, x.end, l.keys + head * n, n, x.k);
  for (int64_t t = x.first; t < x.end; ++t) {
    float *q = x.q + t * n, *k = x.k + t * n;
    l2_norm(q, n, a.l2_eps, l2_max, a.scale);
    l2_norm(k, n, a.l2_eps, l2_max, 1.f);
    copy(kept(t), k, n);
  }
  // Up to three rows behind the last token's own come along; nothing reads their products.
  const auto each = [&](auto tokens, int64_t t) QK_LAMBDA {
    constexpr int T = decltype(tokens)::kN;
    const float *keys[T], *queries[T];
    unroll<T>([&](int at) QK_LAMBDA {
      keys[at] = x.k + (t + at) * n;
      queries[at] = x.q + (t + at) * n;
    });
    for (int64_t i = 0; i < t + T; i += 4) {
      const float* const rows[4] = {x.k + i * n, x.k + (i + 1) * n, x.k + (i + 2) * n, x.k + (i + 3) * n};
      products<T>(rows, keys, queries, n, x.kk + t * kBlock + i, x.kq + t * kBlock + i);
    }
  };
  int64_t t = x.first;
  if constexpr (kLanes >= 16) {
    for (; t + 4 <= x.end; t += 4) each(Lanes<4>(), t);
  }
  for (; t < x.end; ++t) each(Lanes<1>(), t);
}

// Decay and beta of N values of alpha and beta, of heads with these rates and biases.
template <int N>
QK_INLINE void gates(F64<N> alpha, F64<N> beta, F64<N> rate, F64<N> bias, float* to_decay, float* to_beta) {
  const F64<N> decay = exp64<N>(rate * softplus64<N>(alpha + bias));
  store<F32<N>>(to_decay, __builtin_convertvector(decay, F32<N>));
  store<F32<N>>(to_beta, __builtin_convertvector(sigmoid64<N>(beta), F32<N>));
}

// Of value head vh at N rows, the first at place `at` of the gates.
template <int N>
QK_INLINE void gates_of_rows(const gated_delta_args& a, int64_t at, int64_t vh, float* decay, float* beta) {
  F64<N> alpha, b;
  unroll<N>([&](int t) QK_LAMBDA {
    alpha[t] = static_cast<double>(a.alpha[at + t * a.ld_ab]);
    b[t] = static_cast<double>(a.beta[at + t * a.ld_ab]);
  });
  gates<N>(alpha, b, F64<N>(static_cast<double>(a.ssm_a[vh])), F64<N>(static_cast<double>(a.dt_bias[vh])),
           decay, beta);
}

// Of `heads` value heads from vh on at one row.
QK_INLINE void gates_of_heads(const gated_delta_args& a, int64_t row, int64_t vh, int64_t heads, float* decay,
                              float* beta) {
  constexpr int N = 8;
  for (int64_t h = 0; h < heads; h += N) {
    const int64_t n = heads - h < N ? heads - h : N;
    F64<N> alpha, b, rate, bias;
    unroll<N>([&](int i) QK_LAMBDA {
      const int64_t at = vh + h + (i < n ? i : n - 1);
      alpha[i] = static_cast<double>(a.alpha[row * a.ld_ab + at]);
      b[i] = static_cast<double>(a.beta[row * a.ld_ab + at]);
      rate[i] = static_cast<double>(a.ssm_a[at]);
      bias[i] = static_cast<double>(a.dt_bias[at]);
    });
    float decays[N], betas[N];
    gates<N>(alpha, b, rate, bias, decays, betas);
    for (int64_t i = 0; i < n; ++i) {
      decay[h + i] = decays[i];
      beta[h + i] = betas[i];
    }
  }
}

// Values and gates of a block's tokens for value head vh, and what earlier tokens wrote.
QK_INLINE void load_values(const Layer& l, const Conv& conv, int64_t vh, int64_t row, const float* entries,
                           DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t n = a.value_dim;
  for (int64_t t = 0; t < x.first; ++t) {
    const float* entry = entries + t * l.entry.floats;
    copy(x.u + t * n, entry + l.entry.u + vh * n, n);
    x.d[t] = entry[l.entry.d + vh];
  }
  conv_silu(conv, row, x.first, x.end, 2 * l.keys + vh * n, n, x.v);
  int64_t t = x.first;
  const int64_t at = (conv.seq->row_begin + row) * a.ld_ab + vh;
  for (; t + 8 <= x.end; t += 8) gates_of_rows<8>(a, at + t * a.ld_ab, vh, x.d + t, x.beta + t);
  for (; t < x.end; ++t) gates_of_rows<1>(a, at + t * a.ld_ab, vh, x.d + t, x.beta + t);
}

// The gated norm of o, of a value head's output at place `at` of the gates z and of `out`. Where more rows
// come, gates of the next block are asked for.
QK_INLINE void gated_norm(const Layer& l, const float* o, int64_t at, bool more) {
  const gated_delta_args& a = l.a;
  const float norm = rms_scale(o, a.value_dim, a.norm_eps);
  for_each_lanes(a.value_dim, [&](auto lanes, int64_t c) QK_LAMBDA {
    constexpr int N = decltype(lanes)::kN;
    if (more) ask_for_lines<N>(a.z + at + kBlock * l.values + c);
    store<F32<N>>(a.out + at + c,
                  ((loadf<N>(o + c) * norm) * loadf<N>(a.norm_w + c)) * silu<N>(loadf<N>(a.z + at + c)));
  });
}

// Keeps what the tokens wrote, and leaves the gated norm of their outputs.
QK_INLINE void leave_values(const Layer& l, const Conv& conv, int64_t vh, int64_t row, float* entries,
                            const DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t n = a.value_dim;
  for (int64_t t = x.first; t < x.end; ++t) {
    float* entry = entries + t * l.entry.floats;
    copy(entry + l.entry.u + vh * n, x.u + t * n, n);
    entry[l.entry.d + vh] = x.d[t];
    const int64_t at = (conv.seq->row_begin + row + t) * l.values + vh * n;
    gated_norm(l, x.o + t * n, at, row + t + kBlock < conv.seq->row_count);
  }
}

// Tokens [begin, begin + count) of a sequence's step, T at most and of one block, of key heads [first, end),
// which have no more than kBlock / T value heads: what all heads do alike is done for all of them at once, in
// the order of memory. In `x` q, k have a row for each token and key head, kk, kq for each key head and
// token, and v, beta for each run of value heads, token and head of it, each in that order.
template <int T>
struct Tokens {
  const Layer& l;
  const qrt_seq& seq;
  int64_t begin, count, first, end;
  DeltaBlock& x;
  const int64_t heads = end - first, place = (seq.past + begin) % kBlock;
  const Conv conv = l.conv(seq);
  float* const entries = state_at(seq, l.a.delta_state_offset, seq.past + begin) + l.entries;

  // Calls fn(first value head, n, row of its first token) for each run of n value heads.
  template <class Fn>
  __attribute__((always_inline)) void for_each_run(Fn fn) const {
    if (l.a.heads == QK_HeadOrder_Grouped) return fn(first * l.heads_each, heads * l.heads_each, 0);
    for (int64_t i = 0; i < l.heads_each; ++i) fn(first + i * l.a.key_heads, heads, i * heads * count);
  }
  // Key head, counted from `first`, of value head i of a run.
  __attribute__((always_inline)) int64_t key_head(int64_t i) const {
    return l.a.heads == QK_HeadOrder_Grouped ? i / l.heads_each : i;
  }
  __attribute__((always_inline)) float* entry(int64_t t) const {
    return entries + (place + t) * l.entry.floats;
  }
  // Asks for the n floats at `at` of each earlier token's entry.
  __attribute__((always_inline)) void ask_for_earlier(int64_t at, int64_t n) const {
    for (int64_t t = 0; t < place; ++t) {
      for (int64_t c = 0; c < n; c += 16) ask_for_state(entries + t * l.entry.floats + at + c);
    }
  }
  // of[t] = row t of rows `run` floats apart, of T tokens: where there are fewer, the last one again.
  __attribute__((always_inline)) void rows(const float* from, int64_t run, const float* (&of)[T]) const {
    unroll<T>([&](int t) QK_LAMBDA { of[t] = from + (t < count ? t : count - 1) * run; });
  }
};

template <int T>
QK_INLINE void load_token_keys(const Tokens<T>& tokens) {
  const Layer& l = tokens.l;
  const DeltaBlock& x = tokens.x;
  const int64_t n = l.a.key_dim, run = tokens.heads * n, last = tokens.place + tokens.count - 1;
  const int64_t at = l.entry.k + tokens.first * n;
  const bool l2_max = l.a.l2_form == QK_L2Form_Max;
  conv_silu(tokens.conv, tokens.begin, 0, tokens.count, tokens.first * n, run, x.q);
  conv_silu(tokens.conv, tokens.begin, 0, tokens.count, l.keys + tokens.first * n, run, x.k);
  for (int64_t h = 0; h < tokens.heads; ++h) {
    if (h + 1 < tokens.heads) tokens.ask_for_earlier(at + (h + 1) * n, n);
    for (int64_t t = 0; t < tokens.count; ++t) {
      float *q = x.q + t * run + h * n, *k = x.k + t * run + h * n;
      l2_norm(q, n, l.a.l2_eps, l2_max, l.a.scale);
      l2_norm(k, n, l.a.l2_eps, l2_max, 1.f);
      copy(tokens.entry(t) + at + h * n, k, n);
    }
    // Behind the last key there is none: that one comes again, and nothing reads the products.
    const float* earlier = tokens.entries + at + h * n;
    const auto row = [&](int64_t t) QK_LAMBDA { return earlier + (t < last ? t : last) * l.entry.floats; };
    const float *keys[T], *queries[T];
    tokens.rows(x.k + h * n, run, keys);
    tokens.rows(x.q + h * n, run, queries);
    for (int64_t i = 0; i <= last; i += 4) {
      const float* const rows[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
      products<T>(rows, keys, queries, n, x.kk + h * T * kBlock + i, x.kq + h * T * kBlock + i);
    }
  }
}

template <int T>
QK_INLINE void load_token_values(const Tokens<T>& tokens) {
  const Layer& l = tokens.l;
  const int64_t n = l.a.value_dim;
  tokens.for_each_run([&](int64_t vh, int64_t heads, int64_t row) QK_LAMBDA {
    conv_silu(tokens.conv, tokens.begin, 0, tokens.count, 2 * l.keys + vh * n, heads * n,
              tokens.x.v + row * n);
    for (int64_t t = 0; t < tokens.count; ++t) {
      gates_of_heads(l.a, tokens.seq.row_begin + tokens.begin + t, vh, heads,
                     tokens.entry(t) + l.entry.d + vh, tokens.x.beta + row + t * heads);
    }
  });
}

template <int T>
QK_INLINE void tokens_of_heads(const Tokens<T>& tokens) {
  const Layer& l = tokens.l;
  const DeltaBlock& x = tokens.x;
  const int64_t n = l.a.value_dim, slot = l.a.key_dim * n, key_run = tokens.heads * l.a.key_dim;
  load_token_values(tokens);
  // What the first head begins with, as later heads find it asked for.
  const float* state = tokens.entries - l.entries;
  float* next = state_at(tokens.seq, l.a.delta_state_offset, tokens.seq.past + tokens.begin + kBlock);
  const int64_t begin = l.value_head(tokens.first, 0);
  tokens.ask_for_earlier(l.entry.u + begin * n, n);
  for (int64_t i = 0; i < kReadAhead; i += 16) ask_for_state(state + begin * slot + i);
  load_token_keys(tokens);
  tokens.for_each_run([&](int64_t run, int64_t heads, int64_t row) QK_LAMBDA {
    for (int64_t i = 0; i < heads; ++i) {
      const int64_t vh = run + i, h = tokens.key_head(i);
      if (i + 1 < heads) tokens.ask_for_earlier(l.entry.u + (vh + 1) * n, n);
      DeltaTokens<T> rule = {.place = tokens.place,
                             .count = tokens.count,
                             .key_dim = l.a.key_dim,
                             .read = {.q = {}, .k = {}, .r = x.r, .o = x.o, .value_dim = n},
                             .v = {},
                             .beta = x.beta + row + i,
                             .beta_row = heads,
                             .kk = x.kk + h * T * kBlock,
                             .kq = x.kq + h * T * kBlock,
                             .entry = l.entry.floats,
                             .keys = tokens.entries + l.entry.k + (tokens.first + h) * l.a.key_dim,
                             .u = tokens.entries + l.entry.u + vh * n,
                             .d = tokens.entries + l.entry.d + vh,
                             .weighed = x.u};
      tokens.rows(x.q + h * l.a.key_dim, key_run, rule.read.q);
      tokens.rows(x.k + h * l.a.key_dim, key_run, rule.read.k);
      tokens.rows(x.v + (row + i) * n, heads * n, rule.v);
      delta_tokens(rule, state + vh * slot, next + vh * slot);
      for (int64_t t = 0; t < tokens.count; ++t) {
        const int64_t at = (tokens.seq.row_begin + tokens.begin + t) * l.values + vh * n;
        gated_norm(l, x.o + t * n, at, false);
      }
    }
  });
}

// A sequence's few tokens, of key heads [first, end).
template <int T>
QK_INLINE void few_tokens(const Layer& l, const qrt_seq& seq, int64_t first, int64_t end, DeltaBlock& x) {
  const int64_t at_once = kBlock / T / l.heads_each;
  for (int64_t done = 0; done < seq.row_count;) {
    const int64_t in_block = kBlock - (seq.past + done) % kBlock, left = seq.row_count - done;
    const int64_t most = in_block < T ? in_block : T, count = left < most ? left : most;
    for (int64_t head = first; head < end; head += at_once) {
      tokens_of_heads(Tokens<T>{l, seq, done, count, head, head + at_once < end ? head + at_once : end, x});
    }
    done += count;
  }
  const Conv conv = l.conv(seq);
  const int64_t key_dim = l.a.key_dim, value_dim = l.a.value_dim, heads = end - first;
  conv_keep(conv, first * key_dim, heads * key_dim);
  conv_keep(conv, l.keys + first * key_dim, heads * key_dim);
  Tokens<T>{l, seq, 0, 0, first, end, x}.for_each_run([&](int64_t vh, int64_t n, int64_t) QK_LAMBDA {
    conv_keep(conv, 2 * l.keys + vh * value_dim, n * value_dim);
  });
}

// A key head of one sequence.
QK_INLINE void head_of_sequence(const Layer& l, const qrt_seq& seq, int64_t head, DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t slot = a.key_dim * a.value_dim;
  const Conv conv = l.conv(seq);
  for (int64_t done = 0; done < seq.row_count;) {
    const int64_t position = seq.past + done, left = seq.row_count - done;
    x.first = position % kBlock;
    x.end = left < kBlock - x.first ? x.first + left : kBlock;
    const int64_t row = done - x.first;
    float* state = state_at(seq, a.delta_state_offset, position);
    float* following = state_at(seq, a.delta_state_offset, position + kBlock);
    load_keys(l, conv, head, row, state + l.entries, x);
    for (int64_t i = 0; i < l.heads_each; ++i) {
      const int64_t vh = l.value_head(head, i);
      load_values(l, conv, vh, row, state + l.entries, x);
      delta_block(x, state + vh * slot, following + vh * slot);
      leave_values(l, conv, vh, row, state + l.entries, x);
    }
    done += x.end - x.first;
  }
  for_each_run(l, head, [&](int64_t channel, int64_t n) QK_LAMBDA { conv_keep(conv, channel, n); });
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_gated_delta, gated_delta)
QK_EXPORT void qk_gated_delta(const gated_delta_args* args) {
  using namespace qk;
  const gated_delta_args a = *args;
  const Layer layer{a};
  const DeltaScratch place(a.key_dim, a.value_dim);
  const auto at = [&](int64_t offset) QK_LAMBDA { return reinterpret_cast<float*>(a.scratch + offset); };
  DeltaBlock x;
  x.key_dim = a.key_dim;
  x.value_dim = a.value_dim;
  x.q = at(place.q);
  x.k = at(place.k);
  x.v = at(place.v);
  x.r = at(place.r);
  x.o = at(place.o);
  x.u = at(place.u);
  x.kk = at(place.pairs);
  x.kq = x.kk + kBlock * kBlock;
  x.a = x.kq + kBlock * kBlock;
  x.c = x.a + kBlock * kBlock;
  x.d = at(place.tokens);
  x.beta = x.d + kBlock;
  x.p = x.beta + kBlock;
  x.g = x.p + kBlock;
  // A sequence's heads one after the other, as they lie in its state.
  for (int64_t i = 0; i < a.n_seqs; ++i) {
    const qrt_seq& seq = a.seqs[i];
    const int64_t rows = a.n_rows == 1 ? 1 : seq.row_count;  // a literal in a program of one
    if (rows == 1 && layer.heads_each <= kBlock) {
      few_tokens<1>(layer, seq, a.begin, a.end, x);
    } else if (rows <= kFewRows && layer.heads_each <= kBlock / kFewTokens) {
      few_tokens<kFewTokens>(layer, seq, a.begin, a.end, x);
    } else {
      for (int64_t head = a.begin; head < a.end; ++head) head_of_sequence(layer, seq, head, x);
    }
  }
}
