#include "dialects/hir/eval/Evaluator.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace qcc::hir {
namespace {

// Calls of a module that qcc builds nest two deep; a module from elsewhere may call itself.
constexpr int kMaxCallDepth = 64;

template <class T>
std::shared_ptr<const Tensor<T>> makeTensor(std::vector<int64_t> shape, std::span<const double> data) {
  auto tensor = std::make_shared<Tensor<T>>();
  tensor->shape = std::move(shape);
  tensor->data.assign(data.begin(), data.end());
  return tensor;
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

LogicalResult checkRows(const StepRows& rows, function_ref<InFlightDiagnostic()> emitError) {
  int64_t next = 0;
  for (const StepRows::Sequence& sequence : rows.sequences) {
    if (sequence.first != next || sequence.count < 1)
      return emitError() << "sequence " << sequence.id << " must have at least one row from row " << next
                         << " on, found " << sequence.count << " from " << sequence.first;
    if (sequence.past < 0)
      return emitError() << "sequence " << sequence.id << " has a negative past, " << sequence.past;
    next += sequence.count;
  }
  if (next != rows.size())
    return emitError() << "sequences cover " << next << " rows, positions are given for " << rows.size();
  return success();
}

template <class T>
LogicalResult checkTensor(const EvalValue& value, RankedTensorType type,
                          function_ref<InFlightDiagnostic()> emitError) {
  auto* tensor = std::get_if<std::shared_ptr<const Tensor<T>>>(&value);
  if (!tensor || !*tensor) return emitError() << "needs a tensor of the evaluator's precision";
  ArrayRef<int64_t> shape((*tensor)->shape);
  bool fits = static_cast<int64_t>(shape.size()) == type.getRank();
  int64_t elements = 1;
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] >= 0 && (type.isDynamicDim(i) || type.getDimSize(i) == shape[i]);
    elements *= shape[i];
  }
  if (!fits) return emitError() << "is a " << type << ", found the shape " << shapeText(shape);
  if (elements != static_cast<int64_t>((*tensor)->data.size()))
    return emitError() << "has the shape " << shapeText(shape) << " but " << (*tensor)->data.size()
                       << " values";
  return success();
}

LogicalResult checkInput(Precision precision, const EvalValue& value, Type type,
                         function_ref<InFlightDiagnostic()> emitError) {
  if (auto tensorType = dyn_cast<RankedTensorType>(type)) {
    if (tensorType.getElementType().isF32())
      return precision == Precision::F64 ? checkTensor<double>(value, tensorType, emitError)
                                         : checkTensor<float>(value, tensorType, emitError);
    auto* ids = std::get_if<std::shared_ptr<const std::vector<int32_t>>>(&value);
    if (!tensorType.getElementType().isInteger(32) || tensorType.getRank() < 1 || tensorType.getRank() > 2 ||
        (tensorType.getRank() == 2 && tensorType.isDynamicDim(1)))
      return emitError() << "has the type " << type << ", which the evaluator does not know";
    if (!ids || !*ids) return emitError() << "needs a list of ids";
    int64_t count = (*ids)->size(), ofRow = tensorType.getRank() == 2 ? tensorType.getDimSize(1) : 1;
    bool fits = tensorType.isDynamicDim(0) ? count % std::max<int64_t>(ofRow, 1) == 0
                                           : tensorType.getDimSize(0) * ofRow == count;
    if (!fits) return emitError() << "is a " << type << ", found " << count << " ids";
    return success();
  }
  if (isa<RowsType>(type)) {
    auto* rows = std::get_if<std::shared_ptr<const StepRows>>(&value);
    if (!rows || !*rows) return emitError() << "needs the rows of the step";
    return checkRows(**rows, emitError);
  }
  if (isa<WeightType>(type)) {
    auto* weight = std::get_if<WeightHandle>(&value);
    if (!weight || weight->type != type) return emitError() << "needs a weight of type " << type;
    return success();
  }
  if (isa<StateType>(type)) {
    auto* state = std::get_if<StateHandle>(&value);
    if (!state || state->type != type) return emitError() << "needs a state of type " << type;
    return success();
  }
  return emitError() << "has the type " << type << ", which the evaluator does not know";
}

}  // namespace

StepRows StepRows::text(int64_t past, int64_t count, int64_t id) {
  StepRows rows;
  rows.sequences.push_back({id, past, 0, count});
  for (int64_t i = 0; i < count; ++i) rows.positions.push_back({past + i, past + i, past + i, past + i});
  return rows;
}

template <class T>
int64_t Tensor<T>::rowSize() const {
  return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
}
template struct Tensor<float>;
template struct Tensor<double>;

EvalValue idsValue(std::vector<int32_t> ids) {
  return std::make_shared<const std::vector<int32_t>>(std::move(ids));
}

EvalValue rowsValue(StepRows rows) {
  return std::make_shared<const StepRows>(std::move(rows));
}

EvalValue tensorValue(Precision precision, std::vector<int64_t> shape, std::span<const double> data) {
  if (precision == Precision::F64) return makeTensor<double>(std::move(shape), data);
  return makeTensor<float>(std::move(shape), data);
}

std::vector<double> toDoubles(const EvalValue& value) {
  if (auto* tensor = std::get_if<std::shared_ptr<const Tensor<float>>>(&value))
    return {(*tensor)->data.begin(), (*tensor)->data.end()};
  if (auto* tensor = std::get_if<std::shared_ptr<const Tensor<double>>>(&value)) return (*tensor)->data;
  return {};
}

std::vector<int64_t> shapeOf(const EvalValue& value) {
  if (auto* tensor = std::get_if<std::shared_ptr<const Tensor<float>>>(&value)) return (*tensor)->shape;
  if (auto* tensor = std::get_if<std::shared_ptr<const Tensor<double>>>(&value)) return (*tensor)->shape;
  return {};
}

FailureOr<SmallVector<EvalValue>> Evaluator::evaluate(StringRef name, ArrayRef<EvalValue> inputs) {
  auto function = module_.lookupSymbol<func::FuncOp>(name);
  if (!function) return module_.emitError() << "no function @" << name << " to evaluate";
  return evaluateFunction(function, inputs);
}

FailureOr<SmallVector<EvalValue>> Evaluator::evaluateFunction(func::FuncOp function,
                                                              ArrayRef<EvalValue> inputs) {
  if (function.isExternal())
    return function.emitError() << "@" << function.getName() << " has no body to evaluate";
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "@" << function.getName() << " must be a single block to be evaluated";
  if (depth_ >= kMaxCallDepth)
    return function.emitError() << "@" << function.getName() << " is called more than " << kMaxCallDepth
                                << " deep";
  Block& body = function.getBody().front();
  if (inputs.size() != body.getNumArguments())
    return function.emitError() << "@" << function.getName() << " takes " << body.getNumArguments()
                                << " arguments, found " << inputs.size();
  Frame frame;
  for (auto [index, argument, input] : llvm::enumerate(body.getArguments(), inputs)) {
    auto emitError = [&, index = index] {
      return function.emitError() << "argument " << index << " of @" << function.getName() << " ";
    };
    if (failed(checkInput(precision_, input, argument.getType(), emitError))) return failure();
    frame[argument] = input;
  }

  Frame* caller = std::exchange(frame_, &frame);
  ++depth_;
  auto restore = llvm::scope_exit([&] {
    frame_ = caller;
    --depth_;
  });
  if (failed(evaluateBlock(body))) return failure();
  SmallVector<EvalValue> results;
  for (Value value : body.getTerminator()->getOperands()) results.push_back(lookup(value));
  return results;
}

LogicalResult Evaluator::evaluateBlock(Block& block) {
  for (Operation& op : block.without_terminator()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = module_.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!callee)
        return call.emitOpError() << "calls @" << call.getCallee() << ", which the module does not have";
      SmallVector<EvalValue> inputs;
      for (Value operand : call.getOperands()) inputs.push_back(lookup(operand));
      FailureOr<SmallVector<EvalValue>> results = evaluateFunction(callee, inputs);
      if (failed(results)) return failure();
      for (auto [result, value] : llvm::zip_equal(call.getResults(), *results)) set(result, value);
    } else if (auto evaluable = dyn_cast<EvaluableOpInterface>(op)) {
      if (failed(evaluable.evaluate(*this))) return failure();
    } else {
      return op.emitOpError() << "has no reference evaluation";
    }
    // A value with one use is dead after it: what a step keeps is its widest point, not the sum of its
    // values.
    for (Value operand : op.getOperands())
      if (operand.hasOneUse()) frame_->erase(operand);
  }
  return success();
}

void Evaluator::dropSequence(int64_t id) {
  auto drop = [&](auto& states) {
    std::erase_if(states, [&](auto& entry) { return entry.first.first == id; });
  };
  drop(states<float>());
  drop(states<double>());
}

std::vector<double> Evaluator::stateValues(StringRef name, int64_t sequence) const {
  std::vector<double> values;
  auto collect = [&](auto& states) {
    auto found = states.find({sequence, name.str()});
    if (found == states.end()) return;
    values.assign(found->second.values.begin(), found->second.values.end());
    values.insert(values.end(), found->second.second.begin(), found->second.second.end());
  };
  collect(std::get<States<float>>(states_));
  collect(std::get<States<double>>(states_));
  return values;
}

template <class T>
StateData<T>* Evaluator::beginState(Operation* op, const StateHandle& handle,
                                    const StepRows::Sequence& sequence) {
  auto key = std::make_pair(sequence.id, handle.name);
  bool isKv = handle.type.getKind() == StateKind::KV;
  int64_t elements = llvm::product_of(handle.type.getShape());
  if (sequence.past == 0) {
    StateData<T>& state = states<T>()[key];
    state = {};
    if (!isKv) state.values.assign(elements, T(0));
    return &state;
  }
  auto found = states<T>().find(key);
  int64_t tokens = found == states<T>().end() ? 0 : found->second.tokens;
  if (isKv ? tokens < sequence.past : tokens != sequence.past) {
    op->emitOpError() << "continues sequence " << sequence.id << " after " << sequence.past
                      << " tokens, its state '" << handle.name << "' reflects " << tokens;
    return nullptr;
  }
  StateData<T>& state = found->second;
  if (isKv) {
    state.tokens = sequence.past;
    state.values.resize(sequence.past * elements);
    state.second.resize(sequence.past * elements);
  }
  return &state;
}

template <class T>
const StateData<T>* Evaluator::currentState(Operation* op, const StateHandle& handle,
                                            const StepRows::Sequence& sequence) {
  auto found = states<T>().find({sequence.id, handle.name});
  int64_t tokens = found == states<T>().end() ? 0 : found->second.tokens;
  if (tokens != sequence.past + sequence.count) {
    op->emitOpError() << "needs " << sequence.past + sequence.count << " tokens of sequence " << sequence.id
                      << " in state '" << handle.name << "', found " << tokens;
    return nullptr;
  }
  return &found->second;
}

template StateData<float>* Evaluator::beginState<float>(Operation*, const StateHandle&,
                                                        const StepRows::Sequence&);
template StateData<double>* Evaluator::beginState<double>(Operation*, const StateHandle&,
                                                          const StepRows::Sequence&);
template const StateData<float>* Evaluator::currentState<float>(Operation*, const StateHandle&,
                                                                const StepRows::Sequence&);
template const StateData<double>* Evaluator::currentState<double>(Operation*, const StateHandle&,
                                                                  const StepRows::Sequence&);

}  // namespace qcc::hir
