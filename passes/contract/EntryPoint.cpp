#include "passes/contract/EntryPoint.h"

using namespace mlir;

namespace qcc::passes {
namespace {

bool isRows(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 2 && tensor.isDynamicDim(0) && !tensor.isDynamicDim(1) &&
         tensor.getElementType().isF32() && !tensor.getEncoding();
}

bool isIds(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 1 && tensor.isDynamicDim(0) && tensor.getElementType().isInteger(32);
}

template <typename Op>
bool onlyFor(BlockArgument argument) {
  return llvm::all_of(argument.getUsers(), llvm::IsaPred<Op>);
}

InFlightDiagnostic problem(func::FuncOp func) {
  return func.emitError("model contract: @") << func.getName() << " ";
}

// The place that an argument or result fills; an error when there is none, or another fills it.
template <typename T>
LogicalResult fill(T& place, T value, func::FuncOp func, StringRef what) {
  if (place) return problem(func) << what << " twice";
  place = value;
  return success();
}

LogicalResult addArgument(EntryPoint& entry, BlockArgument argument) {
  Type type = argument.getType();
  if (argument.use_empty()) return success();  // what nobody uses is not taken
  if (isa<hir::RowsType>(type)) {
    entry.inSequences = true;
    return success();
  }
  if (isIds(type)) {
    if (onlyFor<hir::EmbedOp>(argument)) return fill(entry.tokens, argument, entry.func, "takes tokens");
    if (onlyFor<hir::SelectRowsOp>(argument))
      return fill(entry.chosen, argument, entry.func, "takes numbers of rows");
    return problem(entry.func) << "takes ids (argument " << argument.getArgNumber()
                               << ") that are neither embedded nor select rows";
  }
  if (!isRows(type))
    return problem(entry.func) << "takes " << type << " (argument " << argument.getArgNumber()
                               << "); a program takes ids, rows of f32 and !hir.rows";
  auto leftBy = entry.func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), hir::kLeftBy);
  if (leftBy) entry.leftBy = leftBy.getValue();
  return fill(entry.rows, argument, entry.func, "takes rows");
}

}  // namespace

int64_t colsOf(Value rows) {
  return cast<RankedTensorType>(rows.getType()).getShape().back();
}

FailureOr<EntryPoint> describeEntryPoint(func::FuncOp func) {
  EntryPoint entry{func, {}, {}, {}, {}, {}, {}};
  for (BlockArgument argument : func.getArguments())
    if (failed(addArgument(entry, argument))) return failure();
  if (!entry.tokens && !entry.rows) return problem(func) << "takes neither tokens nor rows";
  for (OpOperand& result : func.getBody().front().getTerminator()->getOpOperands()) {
    if (!isRows(result.get().getType()))
      return problem(func) << "returns " << result.get().getType() << "; a program gives rows of f32";
    bool logits = static_cast<bool>(func.getResultAttr(result.getOperandNumber(), hir::kLogits));
    if (failed(logits ? fill(entry.logits, result.get(), func, "returns logits")
                      : fill(entry.left, result.get(), func, "leaves rows")))
      return failure();
  }
  if (!entry.logits && !entry.left) return problem(func) << "returns nothing";
  if (entry.chosen && entry.left)
    return problem(func) << "selects rows and leaves some: rows are left for all";
  return entry;
}

FailureOr<SmallVector<EntryPoint>> entryPoints(ModuleOp module) {
  SmallVector<EntryPoint> first, after, all;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isPrivate() || func.isExternal()) continue;
    FailureOr<EntryPoint> entry = describeEntryPoint(func);
    if (failed(entry)) return failure();
    (entry->leftBy.empty() ? first : after).push_back(*entry);
  }
  if (first.empty())
    return module.emitError(
        "model contract: no public function begins a step, by tokens or rows of the caller's");
  for (EntryPoint& entry : after) {
    auto* from = llvm::find_if(first, [&](EntryPoint& other) { return other.name() == entry.leftBy; });
    if (from == first.end() || !from->left)
      return problem(entry.func) << "takes the rows that @" << entry.leftBy
                                 << " leaves, but no function of that name leaves rows that it did not take";
    if (from->left.getType() != entry.rows.getType())
      return problem(entry.func) << "takes " << entry.rows.getType() << ", but @" << entry.leftBy
                                 << " leaves " << from->left.getType();
    if (from->logits)
      return problem(from->func) << "gives logits and leaves rows that @" << entry.name() << " takes";
    if (entry.left)
      return problem(entry.func) << "takes rows that @" << entry.leftBy << " leaves, and leaves some";
  }
  for (EntryPoint& entry : first) {
    all.push_back(entry);
    llvm::copy_if(after, std::back_inserter(all), [&](EntryPoint& o) { return o.leftBy == entry.name(); });
  }
  return all;
}

const EntryPoint* preparing(const EntryPoint& entry, ArrayRef<EntryPoint> entries) {
  auto* found = llvm::find_if(entries, [&](const EntryPoint& other) { return other.preparesRowsOf(entry); });
  return found == entries.end() ? nullptr : found;
}

SmallVector<StringRef> namesToChoose(ArrayRef<EntryPoint> entries) {
  SmallVector<StringRef> names;
  for (const EntryPoint& entry : entries) {
    const bool prepares =
        llvm::any_of(entries, [&](const EntryPoint& other) { return entry.preparesRowsOf(other); });
    if (entry.leftBy.empty() && !prepares) names.push_back(entry.name());
  }
  return names;
}

SmallVector<EntryPoint, 2> tokensToLogits(ArrayRef<EntryPoint> entries) {
  for (const EntryPoint& first : entries) {
    if (!first.tokens || first.rows) continue;
    if (first.logits) return {first};
    for (const EntryPoint& then : entries)
      if (then.leftBy == first.name() && then.logits) return {first, then};
  }
  return {};
}

}  // namespace qcc::passes
