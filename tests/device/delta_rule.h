// What gated_delta means: the rule as it is written down, token by token, in double.
#ifndef TESTS_DEVICE_DELTA_RULE_H_
#define TESTS_DEVICE_DELTA_RULE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dialects/layouts/sequence_state.h"

namespace qcc {

struct DeltaShape {
  int64_t key_heads, value_heads, key_dim, value_dim, taps;
  bool grouped = false;  // spec heads = "grouped"
  int64_t key_head(int64_t value_head) const {
    return grouped ? value_head / (value_heads / key_heads) : value_head % key_heads;
  }
  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  int64_t conv_values() const { return (taps - 1) * channels(); }
  int64_t delta_values() const { return value_heads * key_dim * value_dim; }
  std::string name() const {
    return std::to_string(key_heads) + "/" + std::to_string(value_heads) + " heads, " +
           std::to_string(key_dim) + " x " + std::to_string(value_dim) + ", " + std::to_string(taps) +
           " taps" + (grouped ? ", grouped" : "");
  }
};

// One sequence and the weights, as the kernels see them.
struct DeltaProblem {
  DeltaShape shape;
  bool l2_max;
  float l2_eps, norm_eps;
  const float* conv_w;  // [taps][channels]
  const float* a;
  const float* dt;
  const float* norm;
  int64_t tokens;
  const float* qkv;
  const float* z;
  const float* alpha;  // [tokens][ld], as beta
  const float* beta;
  int64_t ld;
  // Before the first token: columns of the convolution, then states of the value heads; null: zeros.
  const float* start = nullptr;
};

// The problem of a test's sequence with its weights, whose members have these names.
template <class Weights, class Sequence>
DeltaProblem DeltaProblemOf(const DeltaShape& shape, bool l2_max, float l2_eps, float norm_eps,
                            const Weights& w, const Sequence& x, int64_t tokens, int64_t ld) {
  return {shape,         l2_max, l2_eps,       norm_eps,   w.conv.data(),  w.a.data(),    w.dt.data(),
          w.norm.data(), tokens, x.qkv.data(), x.z.data(), x.alpha.data(), x.beta.data(), ld};
}

struct DeltaAnswer {
  std::vector<double> out, state;  // state: [value_heads][key_dim][value_dim]
  // What one relative rounding of every term can move: each output, and the states of each value head.
  std::vector<double> out_size, state_size;
  double least_decay = 1, most_decay = 0;
};

inline double DeltaSilu(double v) {
  return v / (1 + std::exp(-v));
}

// Queries and keys, of length 1, and values of token t.
inline std::vector<double> DeltaColumns(const DeltaProblem& p, int64_t t) {
  const DeltaShape& s = p.shape;
  const int64_t channels = s.channels();
  std::vector<double> c(static_cast<size_t>(channels));
  for (int64_t i = 0; i < channels; ++i) {
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      const int64_t at = t - (s.taps - 1) + tap;
      if (at < 0 && p.start == nullptr) continue;
      const float column = at >= 0 ? p.qkv[at * channels + i] : p.start[(at + s.taps - 1) * channels + i];
      c[i] += static_cast<double>(p.conv_w[tap * channels + i]) * column;
    }
    c[i] = DeltaSilu(c[i]);
  }
  for (int64_t h = 0; h < 2 * s.key_heads; ++h) {
    double* v = c.data() + h * s.key_dim;
    double sum = 0;
    for (int64_t i = 0; i < s.key_dim; ++i) sum += v[i] * v[i];
    const double norm = p.l2_max ? std::max<double>(std::sqrt(sum), p.l2_eps) : std::sqrt(sum + p.l2_eps);
    for (int64_t i = 0; i < s.key_dim; ++i) v[i] /= norm;
  }
  return c;
}

// Decay, read, write, read out: one value head at token t with these columns.
inline void DeltaHead(const DeltaProblem& p, const std::vector<double>& c, int64_t t, int64_t head,
                      DeltaAnswer& answer) {
  const DeltaShape& s = p.shape;
  const double *q = c.data() + s.key_head(head) * s.key_dim, *k = q + s.keys();
  const double* v = c.data() + 2 * s.keys() + head * s.value_dim;
  const double a = p.alpha[t * p.ld + head] + static_cast<double>(p.dt[head]);
  const double decay = std::exp(p.a[head] * (a > 0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a))));
  const double beta = 1 / (1 + std::exp(-static_cast<double>(p.beta[t * p.ld + head])));
  const double root = std::sqrt(static_cast<double>(s.key_dim));
  answer.least_decay = std::min(answer.least_decay, decay);
  answer.most_decay = std::max(answer.most_decay, decay);
  double* state = answer.state.data() + head * s.key_dim * s.value_dim;
  double& state_size = answer.state_size[head];
  std::vector<double> o(static_cast<size_t>(s.value_dim));
  double squares = 0, size = 0;  // size: the largest sum of the absolute terms of an o
  for (int64_t j = 0; j < s.value_dim; ++j) {
    double read = 0, read_size = 0, o_size = 0;
    for (int64_t i = 0; i < s.key_dim; ++i) {
      double& kept = state[i * s.value_dim + j];
      kept *= decay;
      read += kept * k[i];
      read_size += std::abs(kept * k[i]);
      o_size += std::abs(kept * q[i]);
      state_size = std::max(state_size, std::abs(kept));
    }
    const double u = beta * (v[j] - read), u_size = beta * (std::abs(v[j]) + read_size);
    for (int64_t i = 0; i < s.key_dim; ++i) {
      o[j] += (state[i * s.value_dim + j] += k[i] * u) * q[i];
      o_size += std::abs(k[i] * q[i]) * u_size;
      state_size = std::max(state_size, std::abs(k[i]) * u_size);
    }
    o[j] /= root;
    squares += o[j] * o[j];
    size = std::max(size, o_size / root);
  }
  const double rms = std::sqrt(squares / static_cast<double>(s.value_dim) + p.norm_eps);
  for (int64_t j = 0; j < s.value_dim; ++j) {
    const int64_t at = (t * s.value_heads + head) * s.value_dim + j;
    const double factor = p.norm[j] * DeltaSilu(p.z[at]);
    answer.out[at] = o[j] / rms * factor;
    answer.out_size[at] = size / rms * std::abs(factor);
  }
}

inline DeltaAnswer DeltaRule(const DeltaProblem& p) {
  const DeltaShape& s = p.shape;
  DeltaAnswer answer;
  answer.out.resize(static_cast<size_t>(p.tokens * s.values()));
  answer.out_size.resize(answer.out.size());
  answer.state.resize(static_cast<size_t>(s.delta_values()));
  answer.state_size.resize(static_cast<size_t>(s.value_heads));
  if (p.start != nullptr) {
    std::copy_n(p.start + s.conv_values(), s.delta_values(), answer.state.begin());
  }
  for (int64_t t = 0; t < p.tokens; ++t) {
    const std::vector<double> c = DeltaColumns(p, t);
    for (int64_t head = 0; head < s.value_heads; ++head) DeltaHead(p, c, t, head, answer);
  }
  return answer;
}

// The states [value_heads][key_dim][value_dim] before the token at `position`. `delta_state`: of that token's
// block, as dialects/layouts/sequence_state.h has it: S, then the entries, of which those of the block's
// tokens before `position` are looked at.
inline std::vector<double> DeltaStateAt(const DeltaShape& s, const float* delta_state, int64_t position) {
  const layouts::DeltaEntry entry(s.key_heads, s.value_heads, s.key_dim, s.value_dim);
  const float* entries = delta_state + layouts::DeltaSlotFloats(s.value_heads, s.key_dim, s.value_dim);
  std::vector<double> state(delta_state, delta_state + s.delta_values());
  for (int64_t i = 0; i < position % layouts::kStateBlock; ++i, entries += entry.floats) {
    for (int64_t head = 0; head < s.value_heads; ++head) {
      const float* k = entries + entry.k + s.key_head(head) * s.key_dim;
      const float* u = entries + entry.u + head * s.value_dim;
      const double decay = entries[entry.d + head];
      double* at = state.data() + head * s.key_dim * s.value_dim;
      for (int64_t row = 0; row < s.key_dim; ++row) {
        for (int64_t column = 0; column < s.value_dim; ++column, ++at) {
          *at = *at * decay + static_cast<double>(k[row]) * u[column];
        }
      }
    }
  }
  return state;
}

// Puts what random rows do not have into those of a sequence that is long enough for it.
inline void AddRareDeltaRows(const DeltaShape& s, int64_t tokens, int64_t ld, std::vector<float>& qkv,
                             std::vector<float>& alpha) {
  if (tokens > 10) {
    alpha[3 * ld] = 90.f;   // forgets everything
    alpha[5 * ld] = -90.f;  // forgets nothing
    std::fill_n(qkv.begin() + 8 * s.channels(), s.channels(), 0.f);
  }
  // Queries and keys of norms about 1e-3, then 1e-8, long enough for every tap: there the l2 forms differ.
  for (int64_t t = 20; t < std::min<int64_t>(tokens, 34); ++t) {
    for (int64_t i = 0; i < 2 * s.keys(); ++i) qkv[t * s.channels() + i] *= t < 27 ? 1e-3f : 1e-8f;
  }
}

}  // namespace qcc

#endif  // TESTS_DEVICE_DELTA_RULE_H_
