#include "tests/unit/models/oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace qcc::models::testing {

namespace {

using Vec = std::vector<double>;

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double Silu(double x) {
  return x * Sigmoid(x);
}
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

class Oracle {
 public:
  Oracle(const gguf::File& file, const OracleMutation& mutation)
      : file_(file), mutation_(mutation), arch_(*file.GetString("general.architecture")) {
    layers_ = integer("block_count") - (has("nextn_predict_layers") ? integer("nextn_predict_layers") : 0);
    hidden_ = integer("embedding_length");
    heads_ = integer("attention.head_count");
    kv_heads_ = integer("attention.head_count_kv");
    head_dim_ = integer("attention.key_length");
    rope_dims_ = has("rope.dimension_count") ? integer("rope.dimension_count") : head_dim_;
    base_ = *file.GetFloat(key("rope.freq_base"));
    eps_ = *file.GetFloat(key("attention.layer_norm_rms_epsilon"));
    hybrid_ = arch_ != "qwen3" && arch_ != "qwen3moe";
    by_key_head_ = arch_ == "qwen3next" || file.FindTensor("blk.0.ssm_ba.weight") != nullptr;
    constexpr const char* kTiled = "ssm.v_head_reordered";
    if (has(kTiled)) by_key_head_ = !*file.GetBool(key(kTiled));
    if (has("expert_used_count")) experts_used_ = integer("expert_used_count");
    if (!hybrid_) return;
    interval_ = integer("full_attention_interval");
    taps_ = integer("ssm.conv_kernel");
    key_dim_ = integer("ssm.state_size");
    key_heads_ = integer("ssm.group_count");
    value_heads_ = integer("ssm.time_step_rank");
    value_dim_ = integer("ssm.inner_size") / value_heads_;
  }

  Vec Run(std::span<const int32_t> ids) {
    const Vec embedding = load("token_embd.weight");
    const Vec head = file_.FindTensor("output.weight") ? load("output.weight") : embedding;
    std::vector<Vec> x;  // residual stream, one row per token
    for (int32_t id : ids)
      x.emplace_back(embedding.begin() + id * hidden_, embedding.begin() + (id + 1) * hidden_);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      block_ = "blk." + std::to_string(layer) + ".";
      if (hybrid_ && (layer + 1) % interval_ != 0)
        DeltaNet(x);
      else
        Attention(x);
      FeedForward(x);
    }
    const Vec norm = load("output_norm.weight");
    Vec logits;
    for (const Vec& row : x) {
      const Vec out = MatMul(head, Norm(row, norm));
      logits.insert(logits.end(), out.begin(), out.end());
    }
    return logits;
  }

 private:
  std::string key(const char* suffix) const { return arch_ + "." + suffix; }
  bool has(const char* suffix) const { return file_.Has(key(suffix)); }
  int64_t integer(const char* suffix) const { return *file_.GetInt(key(suffix)); }

  Vec load(const std::string& name) const {
    const gguf::Tensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) throw std::runtime_error("the oracle needs tensor " + name);
    std::vector<float> values(tensor->elements());
    decode_row(tensor->format, tensor->data, tensor->elements(), values.data());
    return Vec(values.begin(), values.end());
  }
  Vec weight(const char* name) const { return load(block_ + name); }

  static Vec MatMul(const Vec& w, const Vec& x) {
    Vec y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    return y;
  }

  // RMS norm over chunks of w.size().
  Vec Norm(Vec x, const Vec& w) const {
    for (size_t at = 0; at < x.size(); at += w.size()) {
      double sum = 0;
      for (size_t i = 0; i < w.size(); ++i) sum += x[at + i] * x[at + i];
      const double scale = 1 / std::sqrt(sum / w.size() + eps_);
      for (size_t i = 0; i < w.size(); ++i) x[at + i] *= scale * w[i];
    }
    return x;
  }

  void L2Norm(double* x, int64_t size) const {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += x[i] * x[i];
    const double length = mutation_.l2_max_eps ? std::max(std::sqrt(sum), eps_) : std::sqrt(sum + eps_);
    for (int64_t i = 0; i < size; ++i) x[i] /= length;
  }

  void Rotate(double* head, int64_t position) const {
    for (int64_t i = 0; i < rope_dims_ / 2; ++i) {
      const double angle = position * std::pow(base_, -2.0 * i / rope_dims_);
      double& a = mutation_.interleaved_rope ? head[2 * i] : head[i];
      double& b = mutation_.interleaved_rope ? head[2 * i + 1] : head[i + rope_dims_ / 2];
      const double a0 = a, b0 = b;
      a = a0 * std::cos(angle) - b0 * std::sin(angle);
      b = a0 * std::sin(angle) + b0 * std::cos(angle);
    }
  }

  void Attention(std::vector<Vec>& x) {
    const Vec norm = weight("attn_norm.weight"), wq = weight("attn_q.weight"), wk = weight("attn_k.weight");
    const Vec wv = weight("attn_v.weight"), wo = weight("attn_output.weight");
    const Vec q_norm = weight("attn_q_norm.weight"), k_norm = weight("attn_k_norm.weight");
    const int64_t d = head_dim_;
    std::vector<Vec> keys, values;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vec u = Norm(x[t], norm);
      const Vec rows = MatMul(wq, u);
      Vec q(heads_ * d), gate(heads_ * d);
      for (int64_t h = 0; h < heads_; ++h)
        for (int64_t i = 0; i < d; ++i) {
          if (!hybrid_) {
            q[h * d + i] = rows[h * d + i];
          } else if (mutation_.gate_is_second_half) {
            q[h * d + i] = rows[h * d + i];
            gate[h * d + i] = rows[(heads_ + h) * d + i];
          } else {
            q[h * d + i] = rows[2 * h * d + i];
            gate[h * d + i] = rows[(2 * h + 1) * d + i];
          }
        }
      q = Norm(q, q_norm);
      Vec k = Norm(MatMul(wk, u), k_norm);
      for (int64_t h = 0; h < heads_; ++h) Rotate(&q[h * d], t);
      for (int64_t h = 0; h < kv_heads_; ++h) Rotate(&k[h * d], t);
      keys.push_back(k);
      values.push_back(MatMul(wv, u));
      Vec o(heads_ * d);
      for (int64_t h = 0; h < heads_; ++h) {
        const int64_t kv = h / (heads_ / kv_heads_);
        Vec p(t + 1);
        for (size_t s = 0; s <= t; ++s) {
          for (int64_t i = 0; i < d; ++i) p[s] += q[h * d + i] * keys[s][kv * d + i];
          p[s] /= std::sqrt(static_cast<double>(d));
        }
        const double top = *std::max_element(p.begin(), p.end());
        double sum = 0;
        for (double& value : p) sum += value = std::exp(value - top);
        for (size_t s = 0; s <= t; ++s)
          for (int64_t i = 0; i < d; ++i) o[h * d + i] += p[s] / sum * values[s][kv * d + i];
      }
      if (hybrid_ && !mutation_.gate_always_open)
        for (size_t i = 0; i < o.size(); ++i) o[i] *= Sigmoid(gate[i]);
      const Vec y = MatMul(wo, o);
      for (int64_t i = 0; i < hidden_; ++i) x[t][i] += y[i];
    }
  }

  void DeltaNet(std::vector<Vec>& x) {
    const Vec norm = weight("attn_norm.weight"), wqkv = weight("attn_qkv.weight"),
              wz = weight("attn_gate.weight");
    const auto [wb, wa] = BetaAndAlpha();
    const Vec conv = weight("ssm_conv1d.weight");
    const Vec ssm_a = weight("ssm_a"), dt = weight("ssm_dt.bias"), gated_norm = weight("ssm_norm.weight");
    const Vec wo = weight("ssm_out.weight");
    const int64_t dk = key_dim_, dv = value_dim_, keys = key_heads_ * dk;
    std::vector<Vec> history;                            // rows before the convolution
    std::vector<Vec> state(value_heads_, Vec(dk * dv));  // per value head, [key][value]
    for (size_t t = 0; t < x.size(); ++t) {
      const Vec u = Norm(x[t], norm);
      history.push_back(MatMul(wqkv, u));
      const Vec z = MatMul(wz, u), b = MatMul(wb, u), a = MatMul(wa, u);
      Vec c(history[t].size());
      for (size_t ch = 0; ch < c.size(); ++ch) {
        for (int64_t i = 0; i < taps_; ++i) {
          const int64_t from = static_cast<int64_t>(t) - (taps_ - 1) + i;
          if (from >= 0) c[ch] += conv[ch * taps_ + i] * history[from][ch];
        }
        c[ch] = Silu(c[ch]);
      }
      for (int64_t h = 0; h < 2 * key_heads_; ++h) L2Norm(&c[h * dk], dk);
      Vec o(value_heads_ * dv);
      for (int64_t j = 0; j < value_heads_; ++j) {
        const bool grouped = by_key_head_ != mutation_.other_key_head;
        const int64_t g = grouped ? j / (value_heads_ / key_heads_) : j % key_heads_;
        const double* q = &c[g * dk];
        const double* k = &c[keys + g * dk];
        const double* v = &c[2 * keys + j * dv];
        Vec& s = state[j];
        const double rate = mutation_.exp_ssm_a ? -std::exp(ssm_a[j]) : ssm_a[j];
        const double decay = std::exp(rate * Softplus(a[j] + dt[j]));
        for (double& value : s) value *= decay;
        for (int64_t m = 0; m < dv; ++m) {
          double read = 0;
          for (int64_t i = 0; i < dk; ++i) read += s[i * dv + m] * k[i];
          const double update = Sigmoid(b[j]) * (v[m] - read);
          for (int64_t i = 0; i < dk; ++i) s[i * dv + m] += k[i] * update;
          for (int64_t i = 0; i < dk; ++i) o[j * dv + m] += s[i * dv + m] * q[i] / std::sqrt(double(dk));
        }
      }
      o = Norm(o, gated_norm);
      for (size_t i = 0; i < o.size(); ++i)
        o[i] *= mutation_.sigmoid_for_silu_gate ? Sigmoid(z[i]) : Silu(z[i]);
      const Vec y = MatMul(wo, o);
      for (int64_t i = 0; i < hidden_; ++i) x[t][i] += y[i];
    }
  }

  // W_beta and W_alpha; ssm_ba has, for each key head, the betas of its value heads and then their alphas.
  std::pair<Vec, Vec> BetaAndAlpha() const {
    if (file_.FindTensor(block_ + "ssm_ba.weight") == nullptr)
      return {weight("ssm_beta.weight"), weight("ssm_alpha.weight")};
    const Vec both = weight("ssm_ba.weight");
    const int64_t heads = value_heads_ / key_heads_;
    Vec beta, alpha;
    for (int64_t row = 0; row < 2 * value_heads_; ++row) {
      const bool first = row % (2 * heads) < heads;
      Vec& to = first != mutation_.alphas_first ? beta : alpha;
      to.insert(to.end(), both.begin() + row * hidden_, both.begin() + (row + 1) * hidden_);
    }
    return {beta, alpha};
  }

  static Vec Swiglu(const Vec& gate, const Vec& up, const Vec& down, const Vec& u) {
    Vec h = MatMul(gate, u);
    const Vec other = MatMul(up, u);
    for (size_t i = 0; i < h.size(); ++i) h[i] = Silu(h[i]) * other[i];
    return MatMul(down, h);
  }

  // Matrix e of a stack of them.
  static Vec Expert(const Vec& stack, size_t e, size_t experts) {
    const size_t size = stack.size() / experts;
    return Vec(stack.begin() + e * size, stack.begin() + (e + 1) * size);
  }

  Vec Gates(const Vec& logits) const {
    Vec gates = logits;
    if (has("expert_gating_func") && integer("expert_gating_func") == 2) {
      for (double& gate : gates) gate = Sigmoid(gate);
      return gates;
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double& gate : gates) sum += gate = std::exp(gate - top);
    for (double& gate : gates) gate /= sum;
    return gates;
  }

  void Experts(std::vector<Vec>& x) {
    const Vec norm = weight(hybrid_ ? "post_attention_norm.weight" : "ffn_norm.weight");
    const Vec router = weight("ffn_gate_inp.weight"), gate = weight("ffn_gate_exps.weight");
    const Vec up = weight("ffn_up_exps.weight"), down = weight("ffn_down_exps.weight");
    const bool shared = file_.FindTensor(block_ + "ffn_up_shexp.weight") != nullptr;
    const bool normalise = !has("expert_weights_norm") || *file_.GetBool(key("expert_weights_norm"));
    const double scale = has("expert_weights_scale") ? *file_.GetFloat(key("expert_weights_scale")) : 1;
    for (Vec& row : x) {
      const Vec u = Norm(row, norm), gates = Gates(MatMul(router, u));
      std::vector<size_t> order(gates.size());
      std::iota(order.begin(), order.end(), size_t{0});
      if (!mutation_.first_experts)
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return gates[a] > gates[b]; });
      order.resize(experts_used_);
      double sum = 0;
      for (size_t e : order) sum += gates[e];
      const double divisor = normalise && !mutation_.gates_of_all ? std::max(sum, std::ldexp(1.0, -14)) : 1;
      for (size_t e : order) {
        const size_t n = gates.size();
        const Vec y = Swiglu(Expert(gate, e, n), Expert(up, e, n), Expert(down, e, n), u);
        for (int64_t i = 0; i < hidden_; ++i) row[i] += gates[e] / divisor * scale * y[i];
      }
      if (!shared) continue;
      const Vec y = Swiglu(weight("ffn_gate_shexp.weight"), weight("ffn_up_shexp.weight"),
                           weight("ffn_down_shexp.weight"), u);
      const double open = MatMul(weight("ffn_gate_inp_shexp.weight"), u)[0];
      for (int64_t i = 0; i < hidden_; ++i) row[i] += (mutation_.shared_open ? 1 : Sigmoid(open)) * y[i];
    }
  }

  void FeedForward(std::vector<Vec>& x) {
    if (file_.FindTensor(block_ + "ffn_gate_inp.weight") != nullptr) return Experts(x);
    const Vec norm = weight(hybrid_ ? "post_attention_norm.weight" : "ffn_norm.weight");
    const Vec gate = weight("ffn_gate.weight"), up = weight("ffn_up.weight"),
              down = weight("ffn_down.weight");
    for (Vec& row : x) {
      const Vec y = Swiglu(gate, up, down, Norm(row, norm));
      for (int64_t i = 0; i < hidden_; ++i) row[i] += y[i];
    }
  }

  const gguf::File& file_;
  OracleMutation mutation_;
  std::string arch_, block_;
  bool hybrid_, by_key_head_;
  int64_t layers_, hidden_, heads_, kv_heads_, head_dim_, rope_dims_;
  int64_t experts_used_ = 0;
  int64_t interval_ = 1, taps_ = 0, key_dim_ = 0, key_heads_ = 0, value_heads_ = 0, value_dim_ = 0;
  double base_, eps_;
};

}  // namespace

std::vector<double> OracleLogits(const gguf::File& file, std::span<const int32_t> ids,
                                 const OracleMutation& mutation) {
  return Oracle(file, mutation).Run(ids);
}

}  // namespace qcc::models::testing
