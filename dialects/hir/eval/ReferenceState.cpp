// Reference meaning of the ops around per-sequence state.
#include <algorithm>

#include "dialects/hir/eval/ReferenceMath.h"

using namespace mlir;

namespace qcc::hir {

namespace {

/// The gated delta rule, a token of a head at a time.
template <class T>
class DeltaRule {
 public:
  DeltaRule(int64_t keyDim, int64_t valueDim, T scale)
      : keyDim(keyDim), valueDim(valueDim), scale(scale), r(valueDim), u(valueDim) {}

  /// `q`, `k`: [keyDim]; `v`: [valueDim]; `s`, the head's state: [keyDim, valueDim]. Adds to `o`: [valueDim],
  /// zero before.
  void step(const T* q, const T* k, const T* v, T decay, T beta, T* s, T* o) {
    std::fill(r.begin(), r.end(), T(0));
    for (int64_t a = 0; a < keyDim; ++a)
      for (int64_t b = 0; b < valueDim; ++b) {
        s[a * valueDim + b] *= decay;
        r[b] += s[a * valueDim + b] * k[a];
      }
    for (int64_t b = 0; b < valueDim; ++b) u[b] = beta * (v[b] - r[b]);
    for (int64_t a = 0; a < keyDim; ++a)
      for (int64_t b = 0; b < valueDim; ++b) {
        s[a * valueDim + b] += k[a] * u[b];
        o[b] += s[a * valueDim + b] * q[a];
      }
    for (int64_t b = 0; b < valueDim; ++b) o[b] *= scale;
  }

 private:
  int64_t keyDim, valueDim;
  T scale;
  std::vector<T> r, u;
};

/// What one head of one token sees: keys and values of its head in the cache, `stride` elements from token to
/// token.
template <class T>
struct SeenTokens {
  const T *keys, *values;
  int64_t count, stride;
};

/// Softmax attention of `q`, [headDim]. Adds to `o`: [headDim], zero before.
template <class T>
void attend(const T* q, const SeenTokens<T>& seen, int64_t headDim, T scale, T* o) {
  std::vector<T> weights(seen.count);
  for (int64_t i = 0; i < seen.count; ++i) weights[i] = scale * dot(q, seen.keys + i * seen.stride, headDim);
  T largest = *std::max_element(weights.begin(), weights.end()), sum = 0;
  for (T& weight : weights) sum += weight = std::exp(weight - largest);
  for (int64_t i = 0; i < seen.count; ++i) {
    const T* v = seen.values + i * seen.stride;
    for (int64_t d = 0; d < headDim; ++d) o[d] += weights[i] * v[d];
  }
  for (int64_t d = 0; d < headDim; ++d) o[d] /= sum;
}

}  // namespace

LogicalResult CausalConv1dOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& x = ev.tensor<T>(getX());
    const StepRows& rows = ev.rows(getRows());
    if (failed(checkRowCount(*this, "x", x.rows(), rows.size()))) return failure();
    std::vector<T> weight = decodeWeight<T>(ev.weight(getWeight()));
    int64_t channels = x.shape[1], taps = getWeight().getType().getShape()[1], history = taps - 1;
    Tensor<T> y{x.shape, std::vector<T>(x.data.size())};
    for (const StepRows::Sequence& sequence : rows.sequences) {
      StateData<T>* state = ev.beginState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      // The state's rows, then this step's.
      std::vector<T> line = std::move(state->values);
      line.insert(line.end(), x.row(sequence.first), x.row(sequence.first) + sequence.count * channels);
      for (int64_t t = 0; t < sequence.count; ++t)
        for (int64_t c = 0; c < channels; ++c) {
          T sum = 0;
          for (int64_t i = 0; i < taps; ++i) sum += weight[c * taps + i] * line[(t + i) * channels + c];
          y.row(sequence.first + t)[c] = sum;
        }
      state->values.assign(line.end() - history * channels, line.end());
      state->tokens = sequence.past + sequence.count;
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult GatedDeltaOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>&q = ev.tensor<T>(getQ()), &k = ev.tensor<T>(getK()), &v = ev.tensor<T>(getV());
    const Tensor<T>&g = ev.tensor<T>(getG()), &beta = ev.tensor<T>(getBeta());
    const StepRows& rows = ev.rows(getRows());
    for (auto [name, tensor] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v),
                                std::pair("g", &g), std::pair("beta", &beta)})
      if (failed(checkRowCount(*this, name, tensor->rows(), rows.size()))) return failure();
    int64_t keyHeads = q.shape[1], keyDim = q.shape[2], valueHeads = v.shape[1], valueDim = v.shape[2];
    DeltaRule<T> rule(keyDim, valueDim, getScale().convertToFloat());
    bool grouped = getHeads() == HeadOrder::Grouped;
    Tensor<T> y{v.shape, std::vector<T>(v.data.size())};
    for (const StepRows::Sequence& sequence : rows.sequences) {
      StateData<T>* state = ev.beginState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      for (int64_t row = sequence.first; row < sequence.first + sequence.count; ++row)
        for (int64_t j = 0; j < valueHeads; ++j) {
          int64_t keyHead = grouped ? j / (valueHeads / keyHeads) : j % keyHeads;
          rule.step(q.row(row) + keyHead * keyDim, k.row(row) + keyHead * keyDim, v.row(row) + j * valueDim,
                    std::exp(g.row(row)[j]), beta.row(row)[j], state->values.data() + j * keyDim * valueDim,
                    y.row(row) + j * valueDim);
        }
      state->tokens = sequence.past + sequence.count;
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult KvStoreOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>&k = ev.tensor<T>(getK()), &v = ev.tensor<T>(getV());
    const StepRows& rows = ev.rows(getRows());
    if (failed(checkRowCount(*this, "k", k.rows(), rows.size())) ||
        failed(checkRowCount(*this, "v", v.rows(), rows.size())))
      return failure();
    bool half = getState().getType().getElementType().isF16();
    auto append = [&](std::vector<T>& cache, const T* from, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        cache.push_back(half ? T(half_to_float(float_to_half(static_cast<float>(from[i])))) : from[i]);
    };
    for (const StepRows::Sequence& sequence : rows.sequences) {
      StateData<T>* state = ev.beginState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      append(state->values, k.row(sequence.first), sequence.count * k.rowSize());
      append(state->second, v.row(sequence.first), sequence.count * v.rowSize());
      state->tokens = sequence.past + sequence.count;
    }
    return success();
  });
}

LogicalResult TraceOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& x = ev.tensor<T>(getX());
    const StepRows& rows = ev.rows(getRows());
    if (failed(checkRowCount(*this, "x", x.rows(), rows.size()))) return failure();
    for (const StepRows::Sequence& sequence : rows.sequences) {
      StateData<T>* state = ev.beginState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      const T* last = x.row(sequence.first + sequence.count - 1);
      state->values.assign(last, last + x.rowSize());
      state->tokens = sequence.past + sequence.count;
    }
    return success();
  });
}

LogicalResult AttentionOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& q = ev.tensor<T>(getQ());
    const StepRows& rows = ev.rows(getRows());
    if (failed(checkRowCount(*this, "q", q.rows(), rows.size()))) return failure();
    int64_t heads = q.shape[1], headDim = q.shape[2], kvHeads = getState().getType().getShape()[0];
    int64_t group = heads / kvHeads, tokenSize = kvHeads * headDim;
    T scale = getScale().convertToFloat();
    Tensor<T> y{q.shape, std::vector<T>(q.data.size())};
    for (const StepRows::Sequence& sequence : rows.sequences) {
      const StateData<T>* state = ev.currentState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      for (int64_t t = 0; t < sequence.count; ++t)
        for (int64_t h = 0; h < heads; ++h) {
          int64_t at = h / group * headDim;
          SeenTokens<T> seen{state->values.data() + at, state->second.data() + at, sequence.past + t + 1,
                             tokenSize};
          attend(q.row(sequence.first + t) + h * headDim, seen, headDim, scale,
                 y.row(sequence.first + t) + h * headDim);
        }
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

}  // namespace qcc::hir
