// Pieces that the ops' evaluate methods share. T is the evaluator's precision.
#ifndef QCC_DIALECTS_HIR_EVAL_REFERENCEMATH_H_
#define QCC_DIALECTS_HIR_EVAL_REFERENCEMATH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "dialects/hir/eval/Evaluator.h"

namespace qcc::hir {

// Calls fn(T()) with T = double or float.
template <class Fn>
llvm::LogicalResult inPrecision(const Evaluator& ev, Fn fn) {
  return ev.precision() == Precision::F64 ? fn(double()) : fn(float());
}

// out[i] = a . x[i], of n numbers. Sixteen partial sums, so that the compiler may use vector registers
// without being allowed to reassociate: the order depends on n alone. Several x at once take less time than
// one by one, whose sums wait for each other.
void dots(const float* a, llvm::ArrayRef<const float*> x, int64_t n, float* out);
void dots(const double* a, llvm::ArrayRef<const double*> x, int64_t n, double* out);
template <class T>
T dot(const T* a, const T* b, int64_t n) {
  T sum;
  dots(a, b, n, &sum);
  return sum;
}

// Calls fn(begin, end) for parts of [0, n) that together are all of it, on all cores.
template <class Fn>
void inParts(int64_t n, Fn fn) {
  constexpr int64_t kWorthAThread = 64;
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t parts = std::max<int64_t>(1, std::min(cores, n / kWorthAThread));
  std::vector<std::thread> threads;
  try {
    for (int64_t part = 1; part < parts; ++part)
      threads.emplace_back([&fn, n, part, parts] { fn(n * part / parts, n * (part + 1) / parts); });
  } catch (const std::system_error&) {
    // No more threads: this one does the parts that are left.
  }
  const auto left = static_cast<int64_t>(threads.size()) + 1;
  fn(0, n / parts);
  if (left < parts) fn(n * left / parts, n);
  for (std::thread& thread : threads) thread.join();
}

// Both forms never raise e to a large positive power.
template <class T>
T sigmoid(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  T e = std::exp(x);
  return e / (1 + e);
}
template <class T>
T softplus(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}
template <class T>
T silu(T x) {
  return x * sigmoid(x);
}

// A block of hir.quantize, in place.
template <class T>
void roundToInt8(T* block, int64_t n) {
  T largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(block[i]));
  T d = largest / 127;
  // A block of zeros, or one whose scale underflows, is all zero.
  for (int64_t i = 0; i < n; ++i) block[i] = d > 0 ? std::nearbyint(block[i] / d) * d : T(0);
}

// Row `row` (of the last dimension) of a weight.
template <class T>
void decodeWeightRow(const WeightHandle& weight, int64_t row, std::vector<float>& scratch, T* dst) {
  int64_t columns = weight.type.getShape().back();
  Format format = weight.tensor.format;
  if (weight.pieces) row = weight.pieces.getTensorRow(row);
  scratch.resize(columns);
  decode_row(format, weight.tensor.bytes.data() + row * row_bytes(format, columns), columns, scratch.data());
  for (int64_t i = 0; i < columns; ++i) dst[i] = scratch[i];
}

// A few rows of a weight, decoded: as many as make every row that is multiplied with them be read from the
// second-level cache a quarter as often.
template <class T>
class DecodedRows {
 public:
  explicit DecodedRows(const WeightHandle& weight)
      : weight(weight), columns(weight.type.getShape().back()), values(kMost * columns) {}

  // Rows from `begin` on, up to `end` and as many as there is room for.
  void decode(int64_t begin, int64_t end) {
    found.clear();
    for (int64_t row = begin; row < end && size() < kMost; ++row) {
      T* to = values.data() + size() * columns;
      decodeWeightRow(weight, row, scratch, to);
      found.push_back(to);
    }
  }
  llvm::ArrayRef<const T*> rows() const { return found; }
  int64_t size() const { return static_cast<int64_t>(found.size()); }

 private:
  static constexpr int64_t kMost = 4;
  const WeightHandle& weight;
  int64_t columns;
  std::vector<T> values;
  std::vector<float> scratch;
  std::vector<const T*> found;
};

// All of a weight; for the small ones (norms, convolution taps, decay).
template <class T>
std::vector<T> decodeWeight(const WeightHandle& weight) {
  int64_t columns = weight.type.getShape().back(), rows = weight.type.getNumElements() / columns;
  std::vector<T> values(rows * columns);
  std::vector<float> scratch;
  for (int64_t row = 0; row < rows; ++row)
    decodeWeightRow(weight, row, scratch, values.data() + row * columns);
  return values;
}

inline llvm::LogicalResult checkRowCount(mlir::Operation* op, llvm::StringRef name, int64_t found,
                                         int64_t expected) {
  if (found == expected) return llvm::success();
  return op->emitOpError() << name << " has " << found << " rows in this evaluation, expected " << expected;
}

}  // namespace qcc::hir

#endif  // QCC_DIALECTS_HIR_EVAL_REFERENCEMATH_H_
