// gated_delta: causal convolution, silu, l2 norm, gates, delta rule and gated norm of one key head and its
// value heads.
//
// Per value head with state S [key][value], token t: d = exp(ssm_a softplus(alpha + dt_bias)), b =
// sigmoid(beta),
//   u = b (v - d S^T k);  o = d S^T q + (k.q) u;  S = d S + k u^T
// which is the rule "decay, read, write, read out" with both reads taken before the write. Tokens go one by
// one; the pass that writes S for token t also reads it for token t + 1. Blocks of tokens only bound the
// scratch: every value is computed by the same operations in the same order wherever a block or a step ends.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"
#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

using qcc::cpu::DeltaScratch;
using qcc::cpu::kMaxConvTaps;

constexpr int kBlock = DeltaScratch::kBlock;
constexpr int kTileVectors =
    2;  // of value columns: their part of S stays in the first-level cache for a block
static_assert(kTileVectors * kLanes <= DeltaScratch::kColumns);

struct Scratch {
  float *q, *k, *v, *o, *s;  // of the thread
  float kq[kBlock], decay[kBlock], beta[kBlock];
};

// One sequence's columns of the convolution: `state` holds the taps - 1 columns before its first row.
struct Conv {
  const float* rows;  // row 0 of the sequence
  float* state;
  const float* w;
  int64_t channels, taps;
};

// out[0..n) = silu(convolution at time t) of channels [channel, channel + n).
QK_INLINE void conv_silu(const Conv& conv, int64_t t, int64_t channel, int64_t n, float* __restrict out) {
  const float* src[kMaxConvTaps];
  for (int64_t i = 0; i < conv.taps; ++i) {
    const int64_t at = t - (conv.taps - 1) + i;
    src[i] = (at >= 0 ? conv.rows + at * conv.channels : conv.state + (at + conv.taps - 1) * conv.channels) +
             channel;
  }
  const float* w = conv.w + channel;
  for (int64_t c = 0; c < n; c += 8) {
    F32<8> a = loadf<8>(w + c) * loadf<8>(src[0] + c);
    for (int64_t i = 1; i < conv.taps; ++i)
      a = fma<8>(loadf<8>(w + i * conv.channels + c), loadf<8>(src[i] + c), a);
    store<F32<8>>(out + c, silu<8>(a));
  }
}

// The last taps - 1 columns of old state and new rows become the state. In place: reads are ahead of writes.
QK_INLINE void conv_advance(const Conv& conv, int64_t row_count, int64_t channel, int64_t n) {
  for (int64_t i = 0; i < conv.taps - 1; ++i) {
    const int64_t at = row_count - (conv.taps - 1) + i;
    const float* src =
        (at >= 0 ? conv.rows + at * conv.channels : conv.state + (at + conv.taps - 1) * conv.channels) +
        channel;
    float* dst = conv.state + i * conv.channels + channel;
    for (int64_t c = 0; c < n; c += 8) store<F32<8>>(dst + c, loadf<8>(src + c));
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

// Reads for one token: S^T k and S^T q of NV vectors of N value columns.
template <int N, int NV>
struct Reads {
  F32<N> k[NV], q[NV];
};

template <int N, int NV>
QK_INLINE void read_add(Reads<N, NV>& r, const F32<N>* s, float k, float q) {
  QK_UNROLL
  for (int i = 0; i < NV; ++i) {
    r.k[i] = fma<N>(s[i], F32<N>(k), r.k[i]);
    r.q[i] = fma<N>(s[i], F32<N>(q), r.q[i]);
  }
}

// Value columns [col, col + NV * N) of one value head for `tokens` tokens. state: S + col, row stride
// value_dim.
template <int N, int NV>
QK_INLINE void delta_columns(Scratch& x, float* __restrict state, int64_t col, int64_t tokens,
                             int64_t key_dim, int64_t value_dim) {
  constexpr int kWidth = N * NV;
  const bool copy = tokens > 1;  // S lives in x.s between the first read and the last write
  Reads<N, NV> r;
  QK_UNROLL
  for (int i = 0; i < NV; ++i) r.k[i] = r.q[i] = F32<N>(0.f);
  for (int64_t d = 0; d < key_dim; ++d) {
    F32<N> s[NV];
    QK_UNROLL
    for (int i = 0; i < NV; ++i) {
      s[i] = loadf<N>(state + d * value_dim + i * N);
      if (copy) store<F32<N>>(x.s + d * kWidth + i * N, s[i]);
    }
    read_add<N, NV>(r, s, x.k[d], x.q[d]);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const float decay = x.decay[t], beta = x.beta[t], kq = x.kq[t];
    F32<N> u[NV];
    QK_UNROLL
    for (int i = 0; i < NV; ++i) {
      u[i] = (loadf<N>(x.v + t * value_dim + col + i * N) - r.k[i] * decay) * beta;
      store<F32<N>>(x.o + t * value_dim + col + i * N, fma<N>(u[i], F32<N>(kq), r.q[i] * decay));
      r.k[i] = r.q[i] = F32<N>(0.f);
    }
    const float* k = x.k + t * key_dim;
    if (t + 1 < tokens) {
      const float *next_k = k + key_dim, *next_q = x.q + (t + 1) * key_dim;
      for (int64_t d = 0; d < key_dim; ++d) {
        F32<N> s[NV];
        QK_UNROLL
        for (int i = 0; i < NV; ++i) {
          float* at = x.s + d * kWidth + i * N;
          s[i] = fma<N>(u[i], F32<N>(k[d]), loadf<N>(at) * decay);
          store<F32<N>>(at, s[i]);
        }
        read_add<N, NV>(r, s, next_k[d], next_q[d]);
      }
    } else {
      for (int64_t d = 0; d < key_dim; ++d) {
        QK_UNROLL
        for (int i = 0; i < NV; ++i) {
          float* to = state + d * value_dim + i * N;
          const float* from = copy ? x.s + d * kWidth + i * N : to;
          store<F32<N>>(to, fma<N>(u[i], F32<N>(k[d]), loadf<N>(from) * decay));
        }
      }
    }
  }
}

QK_INLINE void delta_head(Scratch& x, float* state, int64_t tokens, int64_t key_dim, int64_t value_dim) {
  int64_t col = 0;
  for (; col + kTileVectors * kLanes <= value_dim; col += kTileVectors * kLanes) {
    delta_columns<kLanes, kTileVectors>(x, state + col, col, tokens, key_dim, value_dim);
  }
  if constexpr (kTileVectors * kLanes > 8) {
    for (; col < value_dim; col += 8) delta_columns<8, 1>(x, state + col, col, tokens, key_dim, value_dim);
  }
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_gated_delta, gated_delta)
QK_EXPORT void qk_gated_delta(const gated_delta_args* args) {
  using namespace qk;
  const gated_delta_args a = *args;
  const int64_t key_heads = a.key_heads, value_heads = a.value_heads;
  const int64_t key_dim = a.key_dim, value_dim = a.value_dim;
  const bool l2_max = a.l2_form == QK_L2Form_Max;
  // Value heads of key head h: h * head_first, and every head_step-th from there on.
  const bool grouped = a.heads == QK_HeadOrder_Grouped;
  const int64_t heads_each = value_heads / key_heads;
  const int64_t head_first = grouped ? heads_each : 1, head_step = grouped ? 1 : key_heads;
  const int64_t keys = key_heads * key_dim, values = value_heads * value_dim;
  const DeltaScratch place(key_dim, value_dim);
  float* scratch = reinterpret_cast<float*>(a.scratch);
  Scratch x;
  x.q = scratch + place.q / 4;
  x.k = scratch + place.k / 4;
  x.v = scratch + place.v / 4;
  x.o = scratch + place.o / 4;
  x.s = scratch + place.s / 4;
  for (int64_t head = a.begin; head < a.end; ++head) {
    for (int64_t si = 0; si < a.n_seqs; ++si) {
      const qrt_seq& seq = a.seqs[si];
      const Conv conv{a.qkv + seq.row_begin * (2 * keys + values),
                      reinterpret_cast<float*>(seq.state + a.conv_state_offset), a.conv_w, 2 * keys + values,
                      a.taps};
      for (int64_t t0 = 0; t0 < seq.row_count; t0 += kBlock) {
        const int64_t left = seq.row_count - t0, tokens = left < kBlock ? left : kBlock;
        for (int64_t t = 0; t < tokens; ++t) {
          float *q = x.q + t * key_dim, *k = x.k + t * key_dim;
          conv_silu(conv, t0 + t, head * key_dim, key_dim, q);
          conv_silu(conv, t0 + t, keys + head * key_dim, key_dim, k);
          l2_norm(q, key_dim, a.l2_eps, l2_max, a.scale);
          l2_norm(k, key_dim, a.l2_eps, l2_max, 1.f);
          x.kq[t] = dot(k, q, key_dim);
        }
        for (int64_t i = 0; i < heads_each; ++i) {
          const int64_t vh = head * head_first + i * head_step;
          for (int64_t t = 0; t < tokens; ++t) {
            const int64_t at = (seq.row_begin + t0 + t) * a.ld_ab + vh;
            conv_silu(conv, t0 + t, 2 * keys + vh * value_dim, value_dim, x.v + t * value_dim);
            const double rate =
                static_cast<double>(a.ssm_a[vh]) *
                softplus64(static_cast<double>(a.alpha[at]) + static_cast<double>(a.dt_bias[vh]));
            x.decay[t] = static_cast<float>(exp64(rate));
            x.beta[t] = static_cast<float>(sigmoid64(static_cast<double>(a.beta[at])));
          }
          float* state =
              reinterpret_cast<float*>(seq.state + a.delta_state_offset) + vh * key_dim * value_dim;
          delta_head(x, state, tokens, key_dim, value_dim);
          for (int64_t t = 0; t < tokens; ++t) {
            const float* o = x.o + t * value_dim;
            const int64_t at = (seq.row_begin + t0 + t) * values + vh * value_dim;
            const float norm = rms_scale(o, value_dim, a.norm_eps);
            for (int64_t c = 0; c < value_dim; c += 8) {
              store<F32<8>>(a.out + at + c, ((loadf<8>(o + c) * norm) * loadf<8>(a.norm_w + c)) *
                                                silu<8>(loadf<8>(a.z + at + c)));
            }
          }
        }
      }
      if (seq.row_count > 0) {
        conv_advance(conv, seq.row_count, head * key_dim, key_dim);
        conv_advance(conv, seq.row_count, keys + head * key_dim, key_dim);
        for (int64_t i = 0; i < heads_each; ++i) {
          const int64_t vh = head * head_first + i * head_step;
          conv_advance(conv, seq.row_count, 2 * keys + vh * value_dim, value_dim);
        }
      }
    }
  }
}
