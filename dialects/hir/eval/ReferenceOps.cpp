// Reference meaning of the ops that keep no state and read no big matrix.
#include <algorithm>

#include "dialects/hir/eval/ReferenceMath.h"

using namespace mlir;

namespace qcc::hir {
namespace {

template <class Op, class Fn>
LogicalResult evaluateUnary(Op op, Evaluator& ev, Fn fn) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(op.getX());
    for (T& value : y.data) value = fn(value);
    ev.setTensor(op.getResult(), std::move(y));
    return success();
  });
}

template <class Op, class Fn>
LogicalResult evaluateBinary(Op op, Evaluator& ev, Value lhs, Value rhs, Fn fn) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(lhs);
    const Tensor<T>& other = ev.tensor<T>(rhs);
    if (failed(checkRowCount(op, "the second operand", other.rows(), y.rows()))) return failure();
    for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = fn(y.data[i], other.data[i]);
    ev.setTensor(op.getResult(), std::move(y));
    return success();
  });
}

}  // namespace

LogicalResult ParamOp::evaluate(Evaluator& ev) {
  std::optional<WeightBytes> found = ev.weights().find(getName());
  WeightType type = getType();
  RowPiecesAttr pieces = getPiecesAttr();
  if (!found) return emitOpError() << "names tensor '" << getName() << "', which the model does not have";
  const bool widens = type.getFormat() == Format::F32 && widens_to_f32(found->format);
  const int64_t columns = type.getShape().back();
  const int64_t rows = pieces ? pieces.getTensorRows() : type.getNumElements() / columns;
  const int64_t bytes = rows * row_bytes(found->format, columns);
  if (found->format != type.getFormat() && !widens)
    return emitOpError() << "tensor '" << getName() << "' is " << StringRef(format_info(found->format).name)
                         << ", expected " << StringRef(format_info(type.getFormat()).name);
  if (static_cast<int64_t>(found->bytes.size()) != bytes)
    return emitOpError() << "tensor '" << getName() << "' has " << found->bytes.size() << " bytes, expected "
                         << bytes;
  ev.set(getResult(), WeightHandle{getName().str(), type, *found, pieces});
  return success();
}

LogicalResult StateOp::evaluate(Evaluator& ev) {
  ev.set(getResult(), StateHandle{getName().str(), getType()});
  return success();
}

LogicalResult RmsNormOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    std::vector<T> weight = decodeWeight<T>(ev.weight(getWeight()));
    int64_t n = weight.size();
    T eps = getEps().convertToFloat();
    for (T* row = y.data.data(); row != y.data.data() + y.data.size(); row += n) {
      T factor = 1 / std::sqrt(dot(row, row, n) / n + eps);
      for (int64_t i = 0; i < n; ++i) row[i] = row[i] * factor * weight[i];
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult L2NormOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    int64_t n = y.shape.back();
    T eps = getEps().convertToFloat();
    bool max = getForm() == L2Form::Max;
    for (T* row = y.data.data(); row != y.data.data() + y.data.size(); row += n) {
      T sum = dot(row, row, n);
      T factor = 1 / (max ? std::max(std::sqrt(sum), eps) : std::sqrt(sum + eps));
      for (int64_t i = 0; i < n; ++i) row[i] *= factor;
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult QuantizeOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    int64_t n = getBlock();
    std::vector<T> rest;
    for (T* block = y.data.data(); block != y.data.data() + y.data.size(); block += n) {
      rest.assign(block, block + n);
      roundToInt8(block, n);
      if (getTerms() == 1) continue;
      for (int64_t i = 0; i < n; ++i) rest[i] -= block[i];
      roundToInt8(rest.data(), n);
      for (int64_t i = 0; i < n; ++i) block[i] += rest[i];
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult AddOp::evaluate(Evaluator& ev) {
  return evaluateBinary(*this, ev, getLhs(), getRhs(), [](auto a, auto b) { return a + b; });
}
LogicalResult MulOp::evaluate(Evaluator& ev) {
  return evaluateBinary(*this, ev, getLhs(), getRhs(), [](auto a, auto b) { return a * b; });
}
LogicalResult SwigluOp::evaluate(Evaluator& ev) {
  return evaluateBinary(*this, ev, getGate(), getUp(), [](auto gate, auto up) { return silu(gate) * up; });
}

LogicalResult ActivationOp::evaluate(Evaluator& ev) {
  switch (getKind()) {
    case ActivationKind::Silu:
      return evaluateUnary(*this, ev, [](auto x) { return silu(x); });
    case ActivationKind::Sigmoid:
      return evaluateUnary(*this, ev, [](auto x) { return sigmoid(x); });
    case ActivationKind::Softplus:
      return evaluateUnary(*this, ev, [](auto x) { return softplus(x); });
  }
  return emitOpError() << "has an unknown kind";
}

LogicalResult ReshapeOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    int64_t rows = y.rows();
    y.shape.assign(getType().getShape().begin(), getType().getShape().end());
    y.shape[0] = rows;
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult SliceOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& x = ev.tensor<T>(getX());
    int64_t extent = x.shape.back(), offset = getOffset(), size = getSize();
    Tensor<T> y{x.shape, {}};
    y.shape.back() = size;
    y.data.reserve(x.data.size() / extent * size);
    for (size_t at = 0; at < x.data.size(); at += extent)
      y.data.insert(y.data.end(), x.data.begin() + at + offset, x.data.begin() + at + offset + size);
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult ConcatOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>&lhs = ev.tensor<T>(getLhs()), &rhs = ev.tensor<T>(getRhs());
    if (failed(checkRowCount(*this, "rhs", rhs.rows(), lhs.rows()))) return failure();
    Tensor<T> y{{lhs.rows(), lhs.shape[1] + rhs.shape[1]}, {}};
    y.data.reserve(lhs.data.size() + rhs.data.size());
    for (int64_t r = 0; r < lhs.rows(); ++r) {
      y.data.insert(y.data.end(), lhs.row(r), lhs.row(r) + lhs.shape[1]);
      y.data.insert(y.data.end(), rhs.row(r), rhs.row(r) + rhs.shape[1]);
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult SelectRowsOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const Tensor<T>& x = ev.tensor<T>(getX());
    const std::vector<int32_t>& indices = ev.ids(getIndices());
    Tensor<T> y{{static_cast<int64_t>(indices.size()), x.shape[1]}, {}};
    for (int32_t index : indices) {
      if (index < 0 || index >= x.rows())
        return LogicalResult(emitOpError() << "selects row " << index << " of " << x.rows());
      y.data.insert(y.data.end(), x.row(index), x.row(index) + x.shape[1]);
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult GdnDecayOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> g = ev.tensor<T>(getA());
    std::vector<T> ssmA = decodeWeight<T>(ev.weight(getSsmA()));
    std::vector<T> dtBias = decodeWeight<T>(ev.weight(getDtBias()));
    int64_t heads = ssmA.size();
    for (int64_t r = 0; r < g.rows(); ++r)
      for (int64_t h = 0; h < heads; ++h) g.row(r)[h] = ssmA[h] * softplus(g.row(r)[h] + dtBias[h]);
    ev.setTensor(getResult(), std::move(g));
    return success();
  });
}

LogicalResult RopeTableOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const StepRows& rows = ev.rows(getRows());
    ArrayRef<double> frequencies = getInvFreq();
    ArrayRef<int64_t> sections = getSections();
    int64_t pairs = frequencies.size();
    double magnitude = getMagnitude().convertToDouble();
    // Which of the positions t, h, w, e turns pair s.
    auto stream = [&](int64_t s) {
      if (sections.empty()) return 0;
      if (s % 3 == 1 && s < 3 * sections[1]) return 1;
      if (s % 3 == 2 && s < 3 * sections[2]) return 2;
      if (s % 3 == 0 && s < 3 * sections[0]) return 0;
      return 3;
    };
    Tensor<T> table{{rows.size(), 2 * pairs}, std::vector<T>(rows.size() * 2 * pairs)};
    for (int64_t r = 0; r < rows.size(); ++r)
      for (int64_t s = 0; s < pairs; ++s) {
        double angle = static_cast<double>(rows.positions[r][stream(s)]) * frequencies[s];
        table.row(r)[s] = std::cos(angle) * magnitude;
        table.row(r)[pairs + s] = std::sin(angle) * magnitude;
      }
    ev.setTensor(getResult(), std::move(table));
    return success();
  });
}

LogicalResult RopeOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    Tensor<T> y = ev.tensor<T>(getX());
    const Tensor<T>& table = ev.tensor<T>(getTable());
    if (failed(checkRowCount(*this, "table", table.rows(), y.rows()))) return failure();
    int64_t heads = y.shape[1], headDim = y.shape[2], pairs = table.shape[1] / 2;
    for (int64_t r = 0; r < y.rows(); ++r)
      for (int64_t h = 0; h < heads; ++h) {
        T* x = y.row(r) + h * headDim;
        const T *cos = table.row(r), *sin = cos + pairs;
        for (int64_t i = 0; i < pairs; ++i) {
          T a = x[i], b = x[i + pairs];
          x[i] = a * cos[i] - b * sin[i];
          x[i + pairs] = a * sin[i] + b * cos[i];
        }
      }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult evaluateFused(Operation* op, Evaluator& ev) {
  Block& body = op->getRegion(0).front();
  for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), op->getOperands()))
    ev.set(argument, EvalValue(ev.lookup(operand)));
  if (failed(ev.evaluateBlock(body))) return failure();
  for (auto [result, value] : llvm::zip_equal(op->getResults(), body.getTerminator()->getOperands()))
    ev.set(result, EvalValue(ev.lookup(value)));
  return success();
}

}  // namespace qcc::hir
