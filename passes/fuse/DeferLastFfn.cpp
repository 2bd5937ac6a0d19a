#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::passes {
#define GEN_PASS_DEF_DEFERLASTFFN
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// A block in two: what works row by row behind `rows`, and what is ahead of it.
struct Cut {
  Operation* first;  // of the ops that are moved
  Value rows;        // all that they need of those ahead
};

bool isRowWise(Operation* op) {
  return op->hasTrait<hir::RowWise>();
}

// The values of rows that ops from `first` on need of those ahead of it.
llvm::SmallSetVector<Value, 4> rowsNeeded(Block& block, Operation* first) {
  llvm::SmallSetVector<Value, 4> needed;
  for (Operation& op : llvm::make_range(first->getIterator(), block.end()))
    for (Value operand : op.getOperands()) {
      Operation* producer = operand.getDefiningOp();
      bool ahead = !producer || producer->isBeforeInBlock(first);
      if (ahead && isa<RankedTensorType>(operand.getType())) needed.insert(operand);
    }
  return needed;
}

// The earliest place behind which ops work row by row on one value of rows, which can be left in place of the
// block's result.
FailureOr<Cut> findCut(func::FuncOp func, std::string& reason) {
  Block& block = func.getBody().front();
  Operation* end = block.getTerminator();
  Operation* first = end;
  while (Operation* before = first->getPrevNode()) {
    if (!isRowWise(before)) break;
    first = before;
  }
  if (first == &block.front() && first != end) {
    reason = "@" + func.getName().str() + " works row by row throughout";
    return failure();
  }
  for (; first != end; first = first->getNextNode()) {
    auto needed = rowsNeeded(block, first);
    if (needed.size() == 1 && needed.front().getType() == end->getOperand(0).getType())
      return Cut{first, needed.front()};
  }
  reason = "nothing at the end of @" + func.getName().str() + " works row by row on one value";
  return failure();
}

// Arguments of `func` that ops in [begin, end) use, by number.
SmallVector<unsigned> argumentsUsed(func::FuncOp func, Operation* begin, Operation* end) {
  SmallVector<unsigned> used;
  for (BlockArgument argument : func.getArguments())
    if (llvm::any_of(argument.getUsers(), [&](Operation* user) {
          return !user->isBeforeInBlock(begin) && user->isBeforeInBlock(end);
        }))
      used.push_back(argument.getArgNumber());
  return used;
}

// A private function of ops [begin, end) of `func`: takes `rows`, where given, then the arguments `taken`,
// and returns what stands for `result`. It stands behind `func`.
func::FuncOp makePart(func::FuncOp func, StringRef name, Operation* begin, Operation* end, Value rows,
                      ArrayRef<unsigned> taken, Value result, SymbolTable& symbols) {
  OpBuilder b(func.getContext());
  b.setInsertionPointAfter(func);
  IRMapping map;
  SmallVector<Type> types;
  if (rows) types.push_back(rows.getType());
  for (unsigned i : taken) types.push_back(func.getArgument(i).getType());
  auto part = func::FuncOp::create(b, func.getLoc(), name, b.getFunctionType(types, result.getType()));
  part.setPrivate();
  Block* body = part.addEntryBlock();
  if (rows) map.map(rows, body->getArgument(0));
  for (auto [place, i] : llvm::enumerate(taken))
    map.map(func.getArgument(i), body->getArgument(place + (rows ? 1 : 0)));
  OpBuilder inside = OpBuilder::atBlockEnd(body);
  for (Operation& op : llvm::make_range(begin->getIterator(), end->getIterator())) inside.clone(op, map);
  func::ReturnOp::create(inside, func.getLoc(), map.lookup(result));
  symbols.insert(part);
  return part;
}

struct DeferLastFfnPass : impl::DeferLastFfnBase<DeferLastFfnPass> {
  using DeferLastFfnBase::DeferLastFfnBase;

  void runOnOperation() override {
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(getOperation());
    if (failed(entries)) return signalPassFailure();
    for (EntryPoint& entry : *entries)
      if (entry.left && entry.leftBy.empty() && !entry.rows) defer(entry, *entries);
  }

  void defer(EntryPoint& from, ArrayRef<EntryPoint> entries) {
    auto call = from.left.getDefiningOp<func::CallOp>();
    Operation* about = call ? call.getOperation() : from.func.getOperation();
    auto kept = [&](const Twine& reason) { about->emitRemark() << "kept last_ffn: " << reason.str(); };
    if (!call || !call->hasOneUse() || call.getNumOperands() == 0)
      return kept("the rows that @" + from.name() +
                  " leaves do not come from a block that nobody else reads");
    SmallVector<EntryPoint> takers;
    for (const EntryPoint& other : entries) {
      if (other.leftBy == from.name()) takers.push_back(other);
      // Who is given what it makes of them is given rows, too, and is the one to name.
      if (llvm::any_of(entries, [&](const EntryPoint& o) { return other.preparesRowsOf(o); })) continue;
      if (other.rows && other.leftBy.empty() && other.rows.getType() == from.left.getType())
        return kept("@" + other.name() + " is given rows of all tokens");
    }
    if (takers.empty()) return kept("@" + from.name() + " gives its rows to the caller");
    for (EntryPoint& taker : takers)
      if (!taker.chosen || !llvm::all_of(taker.rows.getUsers(), llvm::IsaPred<hir::SelectRowsOp>))
        return kept("@" + taker.name() + " takes the rows of all tokens");
    move(call, takers, kept);
  }

  void move(func::CallOp call, ArrayRef<EntryPoint> takers, llvm::function_ref<void(const Twine&)> kept) {
    int64_t selections = 0;
    for (const EntryPoint& taker : takers) selections += llvm::range_size(taker.rows.getUsers());
    // Its weights would be those of several calls, and of several of one program's each would overwrite the
    // rows of the next.
    if (selections > 1)
      return kept("the rows that @" + takers.front().leftBy + " leaves are chosen in " + Twine(selections) +
                  " places");
    SymbolTable symbols(getOperation());
    auto block = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!block || block.isExternal() || block.getNumResults() != 1)
      return kept("@" + call.getCallee() + " has no body with one result");
    std::string reason;
    FailureOr<Cut> cut = findCut(block, reason);
    if (failed(cut)) return kept(reason);
    Operation *front = &block.getBody().front().front(), *end = block.getBody().front().getTerminator();
    SmallVector<unsigned> ahead = argumentsUsed(block, front, cut->first);
    SmallVector<unsigned> behind = argumentsUsed(block, cut->first, end);
    for (unsigned i : behind)
      if (Operation* param = call.getOperand(i).getDefiningOp(); !param || !isa<hir::ParamOp>(param))
        return kept("operand " + Twine(i) + " of the last block is no tensor of the model");
    auto ffn = makePart(block, (block.getName() + "_ffn").str(), cut->first, end, cut->rows, behind,
                        end->getOperand(0), symbols);
    auto mixer =
        makePart(block, (block.getName() + "_mixer").str(), front, cut->first, {}, ahead, cut->rows, symbols);
    const auto moved = std::distance(cut->first->getIterator(), end->getIterator());
    call.emitRemark() << "moved last_ffn: " << moved << " ops behind the choice of rows";
    for (const EntryPoint& taker : takers)
      for (Operation* user : llvm::make_early_inc_range(taker.rows.getUsers()))
        callFfn(user, ffn, call, behind);
    callMixer(mixer, call, ahead);
    if (SymbolTable::symbolKnownUseEmpty(block, getOperation())) symbols.erase(block);
  }

  // The rest of the block for the rows that `select` picked.
  static void callFfn(Operation* select, func::FuncOp ffn, func::CallOp of, ArrayRef<unsigned> weights) {
    OpBuilder b(select->getContext());
    b.setInsertionPointAfter(select);
    SmallVector<Value> operands = {select->getResult(0)};
    for (unsigned i : weights) operands.push_back(b.clone(*of.getOperand(i).getDefiningOp())->getResult(0));
    auto call = func::CallOp::create(b, of.getLoc(), ffn, operands);
    call->setDiscardableAttrs(of->getDiscardableAttrDictionary());
    select->getResult(0).replaceAllUsesExcept(call.getResult(0), call);
  }

  // In place of the whole block. Weights that only the rest needs are no longer named here.
  static void callMixer(func::FuncOp mixer, func::CallOp of, ArrayRef<unsigned> taken) {
    OpBuilder b(of);
    SmallVector<Value> operands, before(of.getOperands());
    for (unsigned i : taken) operands.push_back(of.getOperand(i));
    auto call = func::CallOp::create(b, of.getLoc(), mixer, operands);
    call->setDiscardableAttrs(of->getDiscardableAttrDictionary());
    of.getResult(0).replaceAllUsesWith(call.getResult(0));
    of.erase();
    for (Value operand : before)
      if (auto param = operand.getDefiningOp<hir::ParamOp>(); param && param->use_empty()) param.erase();
  }
};
}  // namespace
}  // namespace qcc::passes
