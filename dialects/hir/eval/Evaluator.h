// The reference meaning of hir: plain loops over the ops of a module, in f32 or f64. Slow; everything else is
// tested against it.
//
//   Evaluator evaluator(module, weights, Precision::F64);
//   auto hidden = evaluator.evaluate("trunk", {idsValue(ids), rowsValue(StepRows::text(0, n))});
//   auto logits = evaluator.evaluate("head", {(*hidden)[0], idsValue(wantedRows)});
//
// Weights are decoded exactly, one row at a time; from then on all arithmetic is in the evaluator's precision
// (sums too). State lives in the evaluator, per sequence, so a prompt can be fed in pieces. Errors are
// diagnostics on the op that failed and a failed result; the state of the sequences of that step is then
// unusable until dropped.
#ifndef QCC_DIALECTS_HIR_EVAL_EVALUATOR_H_
#define QCC_DIALECTS_HIR_EVAL_EVALUATOR_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::hir {

enum class Precision { F32, F64 };

// A GGUF tensor as it lies in the file: rows of the last hir dimension, one after the other.
struct WeightBytes {
  Format format;
  std::span<const uint8_t> bytes;
};

// Where the evaluator finds the tensors that `hir.param` names.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // nullopt when there is no tensor of that name. The bytes stay valid as long as the source.
  virtual std::optional<WeightBytes> find(llvm::StringRef name) const = 0;
};

// The value of `!hir.rows`.
struct StepRows {
  struct Sequence {
    int64_t id;     // names the sequence's state in the evaluator
    int64_t past;   // tokens of it that earlier steps have processed; 0 starts it anew, with zero state
    int64_t first;  // its rows of this step: [first, first + count)
    int64_t count;
  };
  std::vector<Sequence> sequences;                // ascending, without gaps, together all rows
  std::vector<std::array<int64_t, 4>> positions;  // per row: rope positions t, h, w, e

  // One sequence of text: all four positions are the index in the sequence.
  static StepRows text(int64_t past, int64_t count, int64_t id = 0);
  int64_t size() const { return static_cast<int64_t>(positions.size()); }
};

// Row-major values; T is float or double as the evaluator's precision says.
template <class T>
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<T> data;

  int64_t rows() const { return shape[0]; }
  int64_t rowSize() const;  // elements of one row
  const T* row(int64_t r) const { return data.data() + r * rowSize(); }
  T* row(int64_t r) { return data.data() + r * rowSize(); }
};

struct WeightHandle {
  std::string name;
  WeightType type;
  WeightBytes tensor;         // the whole, in the type's format or one that widens to it
  RowPiecesAttr pieces = {};  // which rows of it `type` has; null: all
};
struct StateHandle {
  std::string name;
  StateType type;
};

// What an SSA value holds. Tensors are immutable and shared. Ids of two dimensions are listed row by row.
using EvalValue =
    std::variant<std::monostate, std::shared_ptr<const Tensor<float>>, std::shared_ptr<const Tensor<double>>,
                 std::shared_ptr<const std::vector<int32_t>>, std::shared_ptr<const StepRows>, WeightHandle,
                 StateHandle>;

EvalValue idsValue(std::vector<int32_t> ids);
EvalValue rowsValue(StepRows rows);
// A tensor for an evaluator of that precision; `data` has as many values as `shape` says.
EvalValue tensorValue(Precision precision, std::vector<int64_t> shape, std::span<const double> data);
// The values of a tensor of either precision; empty if `value` is not a tensor.
std::vector<double> toDoubles(const EvalValue& value);
std::vector<int64_t> shapeOf(const EvalValue& value);

// State of one layer for one sequence.
template <class T>
struct StateData {
  int64_t tokens = 0;     // tokens of the sequence that it reflects
  std::vector<T> values;  // conv, delta: in the state type's shape. kv: keys [tokens][kv_heads][head_dim]
  std::vector<T> second;  // kv: the values that belong to the keys
};

class Evaluator {
 public:
  Evaluator(mlir::ModuleOp module, const WeightSource& weights, Precision precision)
      : module_(module), weights_(weights), precision_(precision) {}

  // Runs a function of the module. Errors: no such function; inputs that do not fit its arguments; an op
  // without EvaluableOpInterface; whatever an op finds wrong with its values (ids out of range, rows that do
  // not continue the state, ...).
  llvm::FailureOr<llvm::SmallVector<EvalValue>> evaluate(llvm::StringRef function,
                                                         llvm::ArrayRef<EvalValue> inputs);

  Precision precision() const { return precision_; }

  // Forgets the state of a sequence.
  void dropSequence(int64_t id);
  // A copy of one state (kv: keys, then values), or empty if that sequence has none of that name.
  std::vector<double> stateValues(llvm::StringRef name, int64_t sequence) const;

  // For the ops' evaluate methods: values of the function being evaluated, of the type that the verifier has
  // ensured.
  template <class T>
  const Tensor<T>& tensor(mlir::Value value) const {
    return *std::get<std::shared_ptr<const Tensor<T>>>(lookup(value));
  }
  const std::vector<int32_t>& ids(mlir::Value value) const {
    return *std::get<std::shared_ptr<const std::vector<int32_t>>>(lookup(value));
  }
  const StepRows& rows(mlir::Value value) const {
    return *std::get<std::shared_ptr<const StepRows>>(lookup(value));
  }
  const WeightHandle& weight(mlir::Value value) const { return std::get<WeightHandle>(lookup(value)); }
  const StateHandle& state(mlir::Value value) const { return std::get<StateHandle>(lookup(value)); }
  void set(mlir::Value value, EvalValue result) { (*frame_)[value] = std::move(result); }
  template <class T>
  void setTensor(mlir::Value value, Tensor<T> result) {
    set(value, std::make_shared<const Tensor<T>>(std::move(result)));
  }
  // All operations of a block but its terminator.
  llvm::LogicalResult evaluateBlock(mlir::Block& block);
  const EvalValue& lookup(mlir::Value value) const { return frame_->find(value)->second; }

  // For ops that advance a state: what `handle` names for `sequence`, made (zeros, no tokens) when the
  // sequence starts. nullptr, with an error on `op`, when it reflects another number of tokens than
  // `sequence.past`; only a kv state may have more, and is cut.
  template <class T>
  StateData<T>* beginState(mlir::Operation* op, const StateHandle& handle,
                           const StepRows::Sequence& sequence);
  // For ops that read a state which this step has advanced; errors as above, against past + count.
  template <class T>
  const StateData<T>* currentState(mlir::Operation* op, const StateHandle& handle,
                                   const StepRows::Sequence& sequence);
  const WeightSource& weights() const { return weights_; }

 private:
  using Frame = llvm::DenseMap<mlir::Value, EvalValue>;

  llvm::FailureOr<llvm::SmallVector<EvalValue>> evaluateFunction(mlir::func::FuncOp function,
                                                                 llvm::ArrayRef<EvalValue> inputs);
  template <class T>
  using States = std::map<std::pair<int64_t, std::string>, StateData<T>>;

  template <class T>
  States<T>& states() {
    return std::get<States<T>>(states_);
  }

  mlir::ModuleOp module_;
  const WeightSource& weights_;
  Precision precision_;
  Frame* frame_ = nullptr;
  int depth_ = 0;
  std::tuple<States<float>, States<double>> states_;
};

}  // namespace qcc::hir

#endif  // QCC_DIALECTS_HIR_EVAL_EVALUATOR_H_
