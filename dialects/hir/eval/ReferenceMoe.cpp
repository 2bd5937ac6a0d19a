// Reference meaning of routing and experts. An expert's matrices are decoded a row at a time, once for all
// rows that use it, and not at all where none does.
#include <algorithm>

#include "dialects/hir/eval/ReferenceMath.h"

using namespace mlir;

namespace qcc::hir {
namespace {

/// Gate values of one row, `logits`: [experts].
template <class T>
std::vector<T> gateValues(const T* logits, int64_t experts, Gating gating) {
  std::vector<T> gates(logits, logits + experts);
  if (gating == Gating::Sigmoid) {
    for (T& gate : gates) gate = sigmoid(gate);
    return gates;
  }
  T largest = *std::max_element(gates.begin(), gates.end()), sum = 0;
  for (T& gate : gates) sum += gate = std::exp(gate - largest);
  for (T& gate : gates) gate /= sum;
  return gates;
}

/// The `count` experts of the largest logits, of equal ones that with the lower id; ascending.
template <class T>
std::vector<int32_t> largestOf(const T* logits, int64_t experts, int64_t count) {
  std::vector<int32_t> ids;
  std::vector<bool> used(experts);
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e)
      if (!used[e] && (best < 0 || logits[e] > logits[best])) best = e;
    used[best] = true;
  }
  for (int64_t e = 0; e < experts; ++e)
    if (used[e]) ids.push_back(static_cast<int32_t>(e));
  return ids;
}

/// A use of an expert: its row, and which of the row's weights is the expert's.
struct Use {
  int64_t row, slot;
};

/// Who uses each expert, by row.
FailureOr<std::vector<std::vector<Use>>> usesOfExperts(MoeExpertsOp op, const std::vector<int32_t>& ids,
                                                       int64_t rows) {
  int64_t experts = op.getExperts(), used = op.getIds().getType().getDimSize(1);
  if (static_cast<int64_t>(ids.size()) != rows * used)
    return op.emitOpError() << "ids are " << ids.size() << " in this evaluation, expected " << rows << " x "
                            << used;
  std::vector<std::vector<Use>> uses(experts);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t slot = 0; slot < used; ++slot) {
      int32_t id = ids[row * used + slot];
      if (id < 0 || id >= experts)
        return op.emitOpError() << "row " << row << " uses expert " << id << " of " << experts;
      if (slot > 0 && id <= ids[row * used + slot - 1])
        return op.emitOpError() << "ids of row " << row << " do not ascend: " << id << " follows "
                                << ids[row * used + slot - 1];
      uses[id].push_back({row, slot});
    }
  return uses;
}

/// A matrix of each expert, [experts][rows][columns], and its scales.
template <class T>
class ExpertMatrix {
 public:
  ExpertMatrix(const Evaluator& ev, Value weight, Value scale) : weight(ev.weight(weight)) {
    if (scale) scales = decodeWeight<T>(ev.weight(scale));
  }
  int64_t rows() const { return weight.type.getShape()[1]; }
  int64_t columns() const { return weight.type.getShape()[2]; }

  /// y[i][r] = scale * (row r of the expert's matrix) . x[i]; x: [columns] each, y: [rows] each.
  void apply(int64_t expert, const std::vector<const T*>& x, const std::vector<T*>& y) const {
    T scale = scales.empty() ? T(1) : scales[scales.size() == 1 ? 0 : expert];
    inParts(rows(), [&](int64_t begin, int64_t end) {
      DecodedRows<T> matrix(weight);
      for (int64_t r = begin; r < end; r += matrix.size()) {
        matrix.decode(expert * rows() + r, expert * rows() + end);
        for (size_t i = 0; i < x.size(); ++i) {
          dots(x[i], matrix.rows(), columns(), y[i] + r);
          if (scales.empty()) continue;
          for (int64_t at = 0; at < matrix.size(); ++at) y[i][r + at] *= scale;
        }
      }
    });
  }

 private:
  const WeightHandle& weight;
  std::vector<T> scales;
};

/// The experts' sum. Experts are gone through by ascending id, which is the order of every row's terms.
template <class T>
class ExpertSum {
 public:
  ExpertSum(MoeExpertsOp op, const Evaluator& ev)
      : gate(ev, op.getGate(), op.getGateScale()),
        up(ev, op.getUp(), op.getUpScale()),
        down(ev, op.getDown(), op.getDownScale()),
        hiddenBlock(op.getHiddenBlock()) {}

  int64_t outputs() const { return down.rows(); }

  /// Adds what `expert` gives to the rows of y that use it; x: [rows, in], weights: [rows, k].
  void add(int64_t expert, const std::vector<Use>& uses, const Tensor<T>& x, const Tensor<T>& weights,
           Tensor<T>& y) {
    int64_t width = gate.rows();
    std::vector<T> g(uses.size() * width), u(uses.size() * width), out(uses.size() * outputs());
    std::vector<const T*> from, hidden;
    std::vector<T*> gates, ups, outs;
    for (size_t i = 0; i < uses.size(); ++i) {
      from.push_back(x.row(uses[i].row));
      gates.push_back(g.data() + i * width);
      ups.push_back(u.data() + i * width);
      outs.push_back(out.data() + i * outputs());
      hidden.push_back(gates.back());
    }
    gate.apply(expert, from, gates);
    up.apply(expert, from, ups);
    for (size_t i = 0; i < g.size(); ++i) g[i] = silu(g[i]) * u[i];
    if (hiddenBlock > 0)
      for (size_t at = 0; at < g.size(); at += hiddenBlock) roundToInt8(g.data() + at, hiddenBlock);
    down.apply(expert, hidden, outs);
    for (size_t i = 0; i < uses.size(); ++i) {
      T weight = weights.row(uses[i].row)[uses[i].slot];
      for (int64_t o = 0; o < outputs(); ++o) y.row(uses[i].row)[o] += weight * outs[i][o];
    }
  }

 private:
  ExpertMatrix<T> gate, up, down;
  int64_t hiddenBlock;
};

}  // namespace

LogicalResult MoeRouteOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& logits = ev.tensor<T>(getLogits());
    int64_t experts = logits.shape[1], count = getTopK();
    T floor = getNormFloor().convertToFloat(), scale = getScale().convertToFloat();
    std::vector<int32_t> ids;
    Tensor<T> weights{{logits.rows(), count}, {}};
    for (int64_t r = 0; r < logits.rows(); ++r) {
      std::vector<T> gates = gateValues(logits.row(r), experts, getGating());
      std::vector<int32_t> used = largestOf(logits.row(r), experts, count);
      T sum = 0;
      for (int32_t id : used) sum += gates[id];
      T divisor = getNormalise() ? std::max(sum, floor) : T(1);
      for (int32_t id : used) weights.data.push_back(gates[id] / divisor * scale);
      ids.insert(ids.end(), used.begin(), used.end());
    }
    ev.set(getIds(), idsValue(std::move(ids)));
    ev.setTensor(getWeights(), std::move(weights));
    return success();
  });
}

LogicalResult MoeExpertsOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& x = ev.tensor<T>(getX());
    const Tensor<T>& weights = ev.tensor<T>(getWeights());
    if (failed(checkRowCount(*this, "weights", weights.rows(), x.rows()))) return failure();
    FailureOr<std::vector<std::vector<Use>>> uses = usesOfExperts(*this, ev.ids(getIds()), x.rows());
    if (failed(uses)) return failure();
    ExpertSum<T> sum(*this, ev);
    Tensor<T> y{{x.rows(), sum.outputs()}, std::vector<T>(x.rows() * sum.outputs())};
    for (size_t expert = 0; expert < uses->size(); ++expert)
      if (!(*uses)[expert].empty()) sum.add(expert, (*uses)[expert], x, weights, y);
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult ScaleRowsOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    const Tensor<T>& factors = ev.tensor<T>(getFactors());
    if (failed(checkRowCount(*this, "factors", factors.rows(), y.rows()))) return failure();
    for (int64_t r = 0; r < y.rows(); ++r)
      for (int64_t i = 0; i < y.rowSize(); ++i) y.row(r)[i] *= factors.data[r];
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

}  // namespace qcc::hir
