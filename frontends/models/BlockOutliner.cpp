#include "frontends/models/BlockOutliner.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace qcc::models {

std::string scaleRole(llvm::StringRef role) {
  role.consume_back("weight");
  return (role + "scale").str();
}

void BlockInputs::add(const std::string& role, Linear linear) {
  add(role, std::move(linear.weight));
  if (linear.scale.tensor != nullptr) add(scaleRole(role), std::move(linear.scale));
}

bool BlockInputs::has(llvm::StringRef role) const {
  return llvm::any_of(weights, [&](const NamedWeight& w) { return w.role == role; });
}

hir::WeightType weightType(MLIRContext* context, const Weight& weight) {
  return hir::WeightType::get(context, weight.shape, weight.format());
}

Location tensorLoc(MLIRContext* context, llvm::StringRef name) {
  return NameLoc::get(StringAttr::get(context, name));
}

Value param(OpBuilder& builder, const Weight& weight) {
  MLIRContext* context = builder.getContext();
  hir::RowPiecesAttr pieces;
  if (const RowPieces& p = weight.pieces; !p.whole())
    pieces = hir::RowPiecesAttr::get(context, p.groups, p.groupRows, p.begins, p.counts);
  return hir::ParamOp::create(builder, tensorLoc(context, weight.tensor->name), weightType(context, weight),
                              builder.getStringAttr(weight.tensor->name), pieces);
}

BlockScope::BlockScope(OpBuilder& builder, func::FuncOp function, const BlockInputs& inputs, bool withRope)
    : builder_(builder), x_(function.getArgument(0)), rows_(function.getArgument(1)) {
  unsigned next = 2;
  if (withRope) rope_ = function.getArgument(next++);
  for (const auto& weight : inputs.weights) values_[weight.role] = function.getArgument(next++);
  for (const auto& state : inputs.states) values_[state.role] = function.getArgument(next++);
}

Location BlockScope::loc(llvm::StringRef role) const {
  return tensorLoc(builder_.getContext(), ("blk.*." + role).str());
}

func::FuncOp BlockOutliner::find(llvm::StringRef kind, FunctionType type, const BlockInputs& inputs,
                                 bool withRope, llvm::function_ref<Value(BlockScope&)> build) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << kind << ' ' << type;
  for (const auto& weight : inputs.weights) out << ' ' << weight.role;
  for (const auto& state : inputs.states) out << ' ' << state.role;
  func::FuncOp& function = byKey_[key];
  if (function) return function;

  const int number = countOfKind_[kind]++;
  std::string name = ("block_" + kind).str();
  if (number > 0) name += "_" + std::to_string(number);
  MLIRContext* context = module_.getContext();
  OpBuilder builder(context);
  if (last_)
    builder.setInsertionPointAfter(last_);
  else
    builder.setInsertionPointToStart(module_.getBody());
  const Location loc = tensorLoc(context, "blk.*");
  function = func::FuncOp::create(builder, loc, name, type);
  function.setPrivate();
  last_ = function;
  Block* entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  BlockScope scope(builder, function, inputs, withRope);
  const Value result = build(scope);
  func::ReturnOp::create(builder, loc, result);
  return function;
}

Value BlockOutliner::call(OpBuilder& builder, llvm::StringRef kind, llvm::StringRef layer, Value x,
                          Value rows, Value rope, const BlockInputs& inputs,
                          llvm::function_ref<Value(BlockScope&)> build) {
  MLIRContext* context = builder.getContext();
  const Location loc = tensorLoc(context, layer);
  llvm::SmallVector<Value> operands = {x, rows};
  if (rope) operands.push_back(rope);
  for (const auto& weight : inputs.weights) operands.push_back(param(builder, weight.weight));
  for (const auto& state : inputs.states)
    operands.push_back(hir::StateOp::create(builder, loc, state.type,
                                            builder.getStringAttr((layer + "." + state.role).str())));
  const auto type = FunctionType::get(context, ValueRange(operands).getTypes(), x.getType());
  func::FuncOp function = find(kind, type, inputs, rope != nullptr, build);
  auto call = func::CallOp::create(builder, loc, function, operands);
  call->setAttr("layer", builder.getStringAttr(layer));
  return call.getResult(0);
}

}  // namespace qcc::models
