// A module in text form, weights in memory, and the evaluator around both.
#ifndef QCC_TESTS_UNIT_HIR_EVALUATION_H_
#define QCC_TESTS_UNIT_HIR_EVALUATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dialects/hir/eval/Evaluator.h"
#include "gtest/gtest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace qcc::hir {

class MemoryWeights : public WeightSource {
 public:
  // Encodes rows of `columns` values; exact for F32, the format's rounding for the others.
  void add(const std::string& name, Format format, int64_t columns, const std::vector<float>& values) {
    int64_t rows = values.size() / columns, bytes = row_bytes(format, columns);
    std::vector<uint8_t> data(rows * bytes);
    for (int64_t r = 0; r < rows; ++r)
      encode_row(format, values.data() + r * columns, columns, data.data() + r * bytes);
    addBytes(name, format, std::move(data));
  }
  void addBytes(const std::string& name, Format format, std::vector<uint8_t> data) {
    tensors_[name] = {format, std::move(data)};
  }
  std::optional<WeightBytes> find(llvm::StringRef name) const override {
    auto found = tensors_.find(name.str());
    if (found == tensors_.end()) return std::nullopt;
    return WeightBytes{found->second.first, found->second.second};
  }
  // The values that the stored bytes stand for.
  std::vector<float> decoded(const std::string& name, int64_t columns) const {
    auto& [format, data] = tensors_.at(name);
    int64_t bytes = row_bytes(format, columns), rows = data.size() / bytes;
    std::vector<float> values(rows * columns);
    for (int64_t r = 0; r < rows; ++r)
      decode_row(format, data.data() + r * bytes, columns, values.data() + r * columns);
    return values;
  }

 private:
  std::map<std::string, std::pair<Format, std::vector<uint8_t>>> tensors_;
};

class EvaluationTest : public testing::Test {
 protected:
  EvaluationTest()
      : handler_(&context_, [this](mlir::Diagnostic& diagnostic) {
          errors_ += diagnostic.str() + "\n";
          return mlir::success();
        }) {
    context_.loadDialect<HirDialect, mlir::func::FuncDialect>();
  }

  // Parses `text` and starts an evaluator of this precision on it, without state.
  void load(const std::string& text, Precision precision) {
    errors_.clear();
    evaluator_.reset();
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(module_) << errors_ << text;
    evaluator_ = std::make_unique<Evaluator>(*module_, weights_, precision);
  }

  llvm::SmallVector<EvalValue> run(llvm::ArrayRef<EvalValue> inputs, llvm::StringRef function = "f") {
    errors_.clear();
    auto results = evaluator_->evaluate(function, inputs);
    EXPECT_TRUE(mlir::succeeded(results)) << errors_;
    if (mlir::failed(results)) return {};
    return *results;
  }
  // The values of the only result.
  std::vector<double> values(llvm::ArrayRef<EvalValue> inputs, llvm::StringRef function = "f") {
    auto results = run(inputs, function);
    return results.size() == 1 ? toDoubles(results[0]) : std::vector<double>();
  }
  // The message with which the evaluation fails.
  std::string failure(llvm::ArrayRef<EvalValue> inputs, llvm::StringRef function = "f") {
    errors_.clear();
    auto results = evaluator_->evaluate(function, inputs);
    EXPECT_TRUE(mlir::failed(results)) << "evaluates, but must not";
    return errors_;
  }
  EvalValue tensor(std::vector<int64_t> shape, const std::vector<double>& data) const {
    return tensorValue(evaluator_->precision(), std::move(shape), data);
  }

  mlir::MLIRContext context_;
  std::string errors_;
  mlir::ScopedDiagnosticHandler handler_;
  MemoryWeights weights_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::unique_ptr<Evaluator> evaluator_;
};

// Values that are exact in f32, so that both precisions start from the same.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  std::vector<double> vector(int64_t n, float low = -1, float high = 1) {
    std::vector<double> values(n);
    for (double& value : values) value = uniform(low, high);
    return values;
  }
  std::vector<float> floats(int64_t n, float low = -1, float high = 1) {
    auto values = vector(n, low, high);
    return {values.begin(), values.end()};
  }

 private:
  std::mt19937 engine_;
};

inline void expectNear(const std::vector<double>& found, const std::vector<double>& expected,
                       double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance) << what << ", element " << i;
}

inline std::vector<double> rowsOf(const std::vector<double>& data, int64_t rowSize, int64_t first,
                                  int64_t count) {
  return {data.begin() + first * rowSize, data.begin() + (first + count) * rowSize};
}

inline std::string precisionName(Precision precision) {
  return precision == Precision::F64 ? "f64" : "f32";
}

}  // namespace qcc::hir

#endif  // QCC_TESTS_UNIT_HIR_EVALUATION_H_
