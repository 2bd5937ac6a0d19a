// Reference meaning of the ops around per-sequence state.
#include <algorithm>

#include "dialects/hir/eval/ReferenceMath.h"

using namespace mlir;

namespace qcc::hir {

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
    T scale = getScale().convertToFloat();
    Tensor<T> y{v.shape, std::vector<T>(v.data.size())};
    std::vector<T> r(valueDim), u(valueDim);
    for (const StepRows::Sequence& sequence : rows.sequences) {
      StateData<T>* state = ev.beginState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      for (int64_t row = sequence.first; row < sequence.first + sequence.count; ++row)
        for (int64_t j = 0; j < valueHeads; ++j) {
          const T* kj = k.row(row) + j % keyHeads * keyDim;
          const T* qj = q.row(row) + j % keyHeads * keyDim;
          const T* vj = v.row(row) + j * valueDim;
          T* s = state->values.data() + j * keyDim * valueDim;
          T* o = y.row(row) + j * valueDim;
          T decay = std::exp(g.row(row)[j]);
          std::fill(r.begin(), r.end(), T(0));
          for (int64_t a = 0; a < keyDim; ++a)
            for (int64_t b = 0; b < valueDim; ++b) {
              s[a * valueDim + b] *= decay;
              r[b] += s[a * valueDim + b] * kj[a];
            }
          for (int64_t b = 0; b < valueDim; ++b) u[b] = beta.row(row)[j] * (vj[b] - r[b]);
          for (int64_t a = 0; a < keyDim; ++a)
            for (int64_t b = 0; b < valueDim; ++b) {
              s[a * valueDim + b] += kj[a] * u[b];
              o[b] += s[a * valueDim + b] * qj[a];
            }
          for (int64_t b = 0; b < valueDim; ++b) o[b] *= scale;
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
    std::vector<T> weights;
    for (const StepRows::Sequence& sequence : rows.sequences) {
      const StateData<T>* state = ev.currentState<T>(*this, ev.state(getState()), sequence);
      if (!state) return failure();
      for (int64_t t = 0; t < sequence.count; ++t)
        for (int64_t h = 0; h < heads; ++h) {
          const T* qh = q.row(sequence.first + t) + h * headDim;
          T* o = y.row(sequence.first + t) + h * headDim;
          int64_t seen = sequence.past + t + 1, at = h / group * headDim;
          weights.resize(seen);
          for (int64_t i = 0; i < seen; ++i)
            weights[i] = scale * dot(qh, state->values.data() + i * tokenSize + at, headDim);
          T largest = *std::max_element(weights.begin(), weights.end()), sum = 0;
          for (T& weight : weights) sum += weight = std::exp(weight - largest);
          for (int64_t i = 0; i < seen; ++i) {
            const T* vi = state->second.data() + i * tokenSize + at;
            for (int64_t d = 0; d < headDim; ++d) o[d] += weights[i] * vi[d];
          }
          for (int64_t d = 0; d < headDim; ++d) o[d] /= sum;
        }
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

}  // namespace qcc::hir
