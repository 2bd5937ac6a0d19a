// gated_delta: causal convolution, silu, l2 norm, gates, delta rule and gated norm of one key head and its
// value heads, in blocks of 16 tokens by position. A block that a step has only a part of goes on from what
// earlier steps left in the sequence's state; delta_block.h says why that gives the same bits.
#include "codegen/cpu/kernels/delta_block.h"
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

template <int N>
struct Lanes {
  static constexpr int kN = N;
};
// Calls fn(Lanes<N>(), c) for columns [c, c + N) of n, a multiple of 8: what is done with each alone, at the
// level's width.
template <class Fn>
QK_INLINE void for_each_lanes(int64_t n, Fn fn) {
  int64_t c = 0;
  if constexpr (kLanes > 8) {
    for (; c + kLanes <= n; c += kLanes) fn(Lanes<kLanes>(), c);
  }
  for (; c < n; c += 8) fn(Lanes<8>(), c);
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

// Asks for n floats at p, which a later block of tokens reads: a head's columns lie a row apart, where no
// prefetcher looks for them (Zen 4, prefill of the 0.8b shape: 27.6 to 26.8 us a token).
QK_INLINE void prefetch(const float* p, int64_t n) {
  for (int64_t c = 0; c < n; c += 16) __builtin_prefetch(p + c, 0, 2);
}

// out[0..n) = silu(convolution) of n channels from the columns at `src`, oldest first. Taps: their number
// where it is the usual one, so that they stay in registers; else 0.
template <int Taps>
QK_INLINE void conv_channels(const float* const* src, const float* w, const Conv& conv, int64_t n,
                             float* __restrict out) {
  const auto columns = [&](auto lanes, int64_t c) QK_LAMBDA {
    constexpr int N = decltype(lanes)::kN;
    F32<N> a = loadf<N>(w + c) * loadf<N>(src[0] + c);
    if constexpr (Taps != 0) {
      unroll<Taps - 1>([&](int i) QK_LAMBDA {
        a = fma<N>(loadf<N>(w + (i + 1) * conv.channels + c), loadf<N>(src[i + 1] + c), a);
      });
    } else {
      for (int64_t i = 1; i < conv.taps; ++i)
        a = fma<N>(loadf<N>(w + i * conv.channels + c), loadf<N>(src[i] + c), a);
    }
    store<F32<N>>(out + c, silu<N>(a));
  };
  for_each_lanes(n, columns);
}

// out[0..n) = silu(convolution at row t of the step) of channels [channel, channel + n).
QK_INLINE void conv_silu(const Conv& conv, int64_t t, int64_t channel, int64_t n, float* __restrict out) {
  if (t + kBlock < conv.seq->row_count) prefetch(conv.rows + (t + kBlock) * conv.channels + channel, n);
  const float* src[kMaxConvTaps];
  const auto column = [&](int64_t i) QK_LAMBDA {
    const int64_t at = t - (conv.taps - 1) + i;
    src[i] = (at >= 0 ? conv.rows + at * conv.channels : conv.kept(at)) + channel;
  };
  constexpr int kUsual = 4;
  if (conv.taps == kUsual) {
    unroll<kUsual>(column);
    conv_channels<kUsual>(src, conv.w + channel, conv, n, out);
  } else {
    for (int64_t i = 0; i < conv.taps; ++i) column(i);
    conv_channels<0>(src, conv.w + channel, conv, n, out);
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

QK_INLINE float dot(const float* a, const float* b, int64_t n) {
  F32<8> s = F32<8>(0.f);
  for (int64_t c = 0; c < n; c += 8) s = fma<8>(loadf<8>(a + c), loadf<8>(b + c), s);
  return reduce_add(s);
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

  // Value head i of key head h.
  __attribute__((always_inline)) int64_t value_head(int64_t h, int64_t i) const {
    return a.heads == QK_HeadOrder_Grouped ? h * heads_each + i : h + i * a.key_heads;
  }
};

// Queries and keys of a block's tokens, and the products of each two of them. `entries`: of the block. Row t
// of the step is at place t - row of it.
QK_INLINE void load_keys(const Layer& l, const Conv& conv, int64_t head, int64_t row, float* entries,
                         DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t n = a.key_dim;
  const bool l2_max = a.l2_form == QK_L2Form_Max;
  for (int64_t t = 0; t < x.end; ++t) {
    float *q = x.q + t * n, *k = x.k + t * n, *kept = entries + t * l.entry.floats + l.entry.k + head * n;
    if (t < x.first) {
      copy(k, kept, n);
      continue;
    }
    conv_silu(conv, row + t, head * n, n, q);
    conv_silu(conv, row + t, l.keys + head * n, n, k);
    l2_norm(q, n, a.l2_eps, l2_max, a.scale);
    l2_norm(k, n, a.l2_eps, l2_max, 1.f);
    copy(kept, k, n);
    for (int64_t i = 0; i <= t; ++i) {
      x.kk[t * kBlock + i] = dot(x.k + i * n, k, n);
      x.kq[t * kBlock + i] = dot(x.k + i * n, q, n);
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
  for (int64_t t = x.first; t < x.end; ++t) {
    const int64_t at = (conv.seq->row_begin + row + t) * a.ld_ab + vh;
    conv_silu(conv, row + t, 2 * l.keys + vh * n, n, x.v + t * n);
    const double rate = static_cast<double>(a.ssm_a[vh]) *
                        softplus64(static_cast<double>(a.alpha[at]) + static_cast<double>(a.dt_bias[vh]));
    x.d[t] = static_cast<float>(exp64(rate));
    x.beta[t] = static_cast<float>(sigmoid64(static_cast<double>(a.beta[at])));
  }
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
    const float* o = x.o + t * n;
    const int64_t at = (conv.seq->row_begin + row + t) * l.values + vh * n;
    if (row + t + kBlock < conv.seq->row_count) prefetch(a.z + at + kBlock * l.values, n);
    const float norm = rms_scale(o, n, a.norm_eps);
    for_each_lanes(n, [&](auto lanes, int64_t c) QK_LAMBDA {
      constexpr int N = decltype(lanes)::kN;
      store<F32<N>>(a.out + at + c,
                    ((loadf<N>(o + c) * norm) * loadf<N>(a.norm_w + c)) * silu<N>(loadf<N>(a.z + at + c)));
    });
  }
}

// A key head of one sequence.
QK_INLINE void head_of_sequence(const Layer& l, const qrt_seq& seq, int64_t head, DeltaBlock& x) {
  const gated_delta_args& a = l.a;
  const int64_t channels = 2 * l.keys + l.values, slot = a.key_dim * a.value_dim;
  const Conv conv{&seq, a.qkv + seq.row_begin * channels, a.conv_w, a.conv_state_offset, channels, a.taps};
  for (int64_t done = 0; done < seq.row_count;) {
    const int64_t position = seq.past + done, left = seq.row_count - done;
    x.first = position % kBlock;
    x.end = left < kBlock - x.first ? x.first + left : kBlock;
    const int64_t row = done - x.first;
    float* state = state_at(seq, a.delta_state_offset, position);
    float* next = state_at(seq, a.delta_state_offset, position + kBlock);
    load_keys(l, conv, head, row, state + l.entries, x);
    for (int64_t i = 0; i < l.heads_each; ++i) {
      const int64_t vh = l.value_head(head, i);
      load_values(l, conv, vh, row, state + l.entries, x);
      delta_block(x, state + vh * slot, next + vh * slot);
      leave_values(l, conv, vh, row, state + l.entries, x);
    }
    done += x.end - x.first;
  }
  conv_keep(conv, head * a.key_dim, a.key_dim);
  conv_keep(conv, l.keys + head * a.key_dim, a.key_dim);
  for (int64_t i = 0; i < l.heads_each; ++i) {
    conv_keep(conv, 2 * l.keys + l.value_head(head, i) * a.value_dim, a.value_dim);
  }
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
  for (int64_t head = a.begin; head < a.end; ++head) {
    for (int64_t i = 0; i < a.n_seqs; ++i) head_of_sequence(layer, a.seqs[i], head, x);
  }
}
