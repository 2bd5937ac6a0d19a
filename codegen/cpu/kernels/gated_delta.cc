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

// out[0..n) = silu(convolution at time t) of channels [channel, channel + n).
QK_INLINE void conv_silu(const Conv& conv, int64_t t, int64_t channel, int64_t n, float* __restrict out) {
  const float* src[kMaxConvTaps];
  for (int64_t i = 0; i < conv.taps; ++i) {
    const int64_t at = t - (conv.taps - 1) + i;
    src[i] = (at >= 0 ? conv.rows + at * conv.channels : conv.kept(at)) + channel;
  }
  const float* w = conv.w + channel;
  for (int64_t c = 0; c < n; c += 8) {
    F32<8> a = loadf<8>(w + c) * loadf<8>(src[0] + c);
    for (int64_t i = 1; i < conv.taps; ++i)
      a = fma<8>(loadf<8>(w + i * conv.channels + c), loadf<8>(src[i] + c), a);
    store<F32<8>>(out + c, silu<8>(a));
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
  for (int64_t c = 0; c < n; c += 8) store<F32<8>>(to + c, loadf<8>(from + c));
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
    const float norm = rms_scale(o, n, a.norm_eps);
    for (int64_t c = 0; c < n; c += 8) {
      store<F32<8>>(a.out + at + c,
                    ((loadf<8>(o + c) * norm) * loadf<8>(a.norm_w + c)) * silu<8>(loadf<8>(a.z + at + c)));
    }
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
