// Reference meaning of the ops that read a big matrix: a few rows of it are decoded at a time, never the
// whole.
#include "dialects/hir/eval/ReferenceMath.h"

using namespace mlir;

namespace qcc::hir {

LogicalResult EmbedOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const WeightHandle& table = ev.weight(getTable());
    const std::vector<int32_t>& ids = ev.ids(getIds());
    int64_t vocabulary = table.type.getShape()[0], columns = table.type.getShape()[1];
    int64_t rows = ids.size();
    Tensor<T> y{{rows, columns}, std::vector<T>(rows * columns)};
    std::vector<float> scratch;
    for (int64_t r = 0; r < rows; ++r) {
      if (ids[r] < 0 || ids[r] >= vocabulary)
        return LogicalResult(emitOpError() << "id " << ids[r] << " of row " << r << " is not in a table of "
                                           << vocabulary << " rows");
      decodeWeightRow(table, ids[r], scratch, y.row(r));
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

LogicalResult LinearOp::evaluate(Evaluator& ev) {
  return inPrecision(ev, [&](auto zero) {
    using T = decltype(zero);
    const WeightHandle& weight = ev.weight(getWeight());
    const Tensor<T>& x = ev.tensor<T>(getX());
    int64_t outputs = weight.type.getShape()[0], inputs = weight.type.getShape()[1], rows = x.rows();
    Tensor<T> y{{rows, outputs}, std::vector<T>(rows * outputs)};
    inParts(outputs, [&](int64_t begin, int64_t end) {
      DecodedRows<T> matrix(weight);
      for (int64_t o = begin; o < end; o += matrix.size()) {
        matrix.decode(o, end);
        for (int64_t r = 0; r < rows; ++r) dots(x.row(r), matrix.rows(), inputs, y.row(r) + o);
      }
    });
    if (getScale()) {
      T scale = decodeWeight<T>(ev.weight(getScale())).front();
      for (T& value : y.data) value *= scale;
    }
    ev.setTensor(getResult(), std::move(y));
    return success();
  });
}

}  // namespace qcc::hir
