#include "passes/plan/Lowering.h"

#include "dialects/plan/pack_layout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qcc::passes {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kFloat = 4;
// The activation rounding that the int8 kernels know.
constexpr int64_t kInt8Block = 32;

int64_t colsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

int64_t rowElements(Value value) {
  int64_t n = 1;
  for (int64_t dim : cast<RankedTensorType>(value.getType()).getShape().drop_front()) n *= dim;
  return n;
}

}  // namespace

View Arena::allocate(const std::string& name, int64_t bytes) {
  View view;
  view.buffer = name;
  view.offset = next;
  view.bytes = bytes;
  next = plan::align_up(next + bytes, kAlignment);
  return view;
}

bool Lowering::diesAt(Value value, Operation* op) {
  return llvm::all_of(value.getUsers(), [&](Operation* user) {
    Operation* here = op->getBlock()->findAncestorOpInBlock(*user);
    return here && (here == op || here->isBeforeInBlock(op));
  });
}

LogicalResult Lowering::lower(Operation* op) {
  return llvm::TypeSwitch<Operation*, LogicalResult>(op)
      // Names of things, and views that their readers resolve.
      .Case<hir::ParamOp, hir::StateOp, hir::ReshapeOp, hir::SliceOp>([](Operation*) { return success(); })
      .Case([&](hir::EmbedOp o) { return lowerEmbed(o); })
      .Case([&](hir::RopeTableOp o) { return lowerRopeTable(o); })
      .Case([&](hir::SelectRowsOp o) { return lowerSelectRows(o); })
      .Case([&](hir::RmsNormOp o) { return lowerNorm(o, o.getResult(), Value()); })
      .Case([&](hir::QuantizeOp o) { return lowerQuantize(o); })
      .Case([&](hir::LinearOp o) { return lowerLinear(o); })
      .Case([&](hir::SwigluOp o) { return lowerSwiglu(o); })
      .Case([&](hir::AddOp o) { return lowerAdd(o); })
      .Case([&](hir::GroupOp o) { return lowerGroup(o); })
      .Default([&](Operation* o) {
        return o->emitError("no kernel for '") << o->getName() << "' on target " << target;
      });
}

FailureOr<View> Lowering::view(Value value, Operation* user) {
  for (Value v = value;;) {
    if (auto it = views.find(v); it != views.end()) return it->second;
    if (auto reshape = v.getDefiningOp<hir::ReshapeOp>()) {
      v = reshape.getX();
      continue;
    }
    InFlightDiagnostic error = user->emitError("no kernel for '")
                               << user->getName() << "' on target " << target;
    if (Operation* producer = v.getDefiningOp())
      error << " with an operand from '" << producer->getName() << "', which is not stored";
    else
      error << " with an argument that is not stored";
    return error;
  }
}

FailureOr<View> Lowering::denseRows(Value value, Operation* user) {
  FailureOr<View> found = view(value, user);
  if (failed(found)) return failure();
  int64_t elements = rowElements(value);
  if (found->selected)
    return user->emitError("no kernel for '")
           << user->getName() << "' on target " << target << " with selected rows";
  if (found->stride != elements)
    return user->emitError("no kernel for '")
           << user->getName() << "' on target " << target << " with rows of " << elements << " values stored "
           << found->stride << " apart";
  return found;
}

View Lowering::fresh(StringRef role, int64_t rowBytes) {
  std::string name = prefix + role.str();
  if (int n = named[role]++) name += "." + std::to_string(n);
  return arena.allocate(name, rows * rowBytes);
}

View Lowering::result(Value value, StringRef role, int64_t stride, bool outRows) {
  if (auto it = views.find(value); it != views.end()) return it->second;
  View made = fresh(role, kFloat * stride);
  made.stride = stride;
  made.outRows = outRows;
  return views[value] = made;
}

View Lowering::int8Result(Value value, StringRef role, int64_t cols, bool outRows) {
  View made = fresh(role, plan::int8_row_bytes(cols));
  made.outRows = outRows;
  return views[value] = made;
}

Binding Lowering::bind(StringRef role, const View& view, plan::Access access) const {
  return {role, plan::RefAttr::get(b.getContext(), view.space, view.offset, view.bytes, access), view.buffer};
}

FailureOr<Binding> Lowering::weight(StringRef role, plan::Layout layout, ValueRange sources,
                                    Operation* user) {
  FailureOr<int64_t> offset = places.weight(layout, sources, user);
  if (failed(offset)) return failure();
  auto type = cast<hir::WeightType>(sources.front().getType());
  int64_t bytes = kFloat * type.getNumElements();
  if (layout == plan::Layout::X16 || layout == plan::Layout::X16Pair)
    bytes =
        plan::x16_bytes(type.getFormat(), type.getShape().front(), type.getShape().back()) * sources.size();
  return Binding{
      role, plan::RefAttr::get(b.getContext(), plan::Space::Weights, *offset, bytes, plan::Access::Read), ""};
}

FailureOr<Binding> Lowering::state(StringRef role, Value value, plan::Access access, Operation* user) {
  FailureOr<int64_t> offset = places.state(value, user);
  if (failed(offset)) return failure();
  auto type = cast<hir::StateType>(value.getType());
  bool kv = type.getKind() == hir::StateKind::KV;
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8 * (kv ? 2 : 1);
  for (int64_t dim : type.getShape()) bytes *= dim;
  plan::Space space = kv ? plan::Space::KV : plan::Space::State;
  return Binding{role, plan::RefAttr::get(b.getContext(), space, *offset, bytes, access), ""};
}

void Lowering::dispatch(Operation* op, StringRef family, Spec spec, ArrayRef<Binding> bindings) {
  SmallVector<NamedAttribute> entries;
  for (auto [key, value] : spec) entries.emplace_back(b.getStringAttr(key), value);
  SmallVector<StringRef> roles, buffers;
  SmallVector<Attribute> refs;
  for (const Binding& binding : bindings) {
    roles.push_back(binding.role);
    buffers.push_back(binding.buffer);
    refs.push_back(binding.ref);
  }
  plan::DispatchOp::create(b, op->getLoc(), family, b.getDictionaryAttr(entries), b.getStrArrayAttr(roles),
                           b.getArrayAttr(refs), b.getStrArrayAttr(buffers));
}

LogicalResult Lowering::lowerEmbed(hir::EmbedOp op) {
  int64_t cols = colsOf(op.getResult());
  FailureOr<Binding> table = weight("table", plan::Layout::X16, op.getTable(), op);
  if (failed(table)) return failure();
  std::string_view format = format_info(op.getTable().getType().getFormat()).name;
  View out = result(op.getResult(), "embed", cols, false);
  dispatch(op, "embed", {{"format", string({format.data(), format.size()})}, {"cols", integer(cols)}},
           {*table, bind("out", out, plan::Access::Write)});
  return success();
}

LogicalResult Lowering::lowerRopeTable(hir::RopeTableOp op) {
  int64_t cols = colsOf(op.getResult());
  FailureOr<int64_t> offset = places.constant(op);
  if (failed(offset)) return failure();
  int64_t pairs = op.getInvFreq().size();
  auto ref = plan::RefAttr::get(b.getContext(), plan::Space::Weights, *offset, 8 * pairs, plan::Access::Read);
  View out = result(op.getResult(), "rope", cols, false);
  dispatch(
      op, "rope_table",
      {{"pairs", integer(pairs)}, {"sections", op.getSectionsAttr()}, {"magnitude", op.getMagnitudeAttr()}},
      {Binding{"inv_freq", ref, ""}, bind("out", out, plan::Access::Write)});
  return success();
}

// No dispatch: the norm that reads the rows selects them.
LogicalResult Lowering::lowerSelectRows(hir::SelectRowsOp op) {
  FailureOr<View> x = denseRows(op.getX(), op);
  if (failed(x)) return failure();
  View selected = *x;
  selected.selected = true;
  views[op.getResult()] = selected;
  return success();
}

LogicalResult Lowering::lowerNorm(hir::RmsNormOp op, Value out, Value outQ) {
  int64_t cols = colsOf(op.getResult());
  if (cast<RankedTensorType>(op.getX().getType()).getRank() != 2)
    return op.emitError("no kernel for '") << op->getName() << "' over heads on target " << target;
  FailureOr<View> x = view(op.getX(), op);
  if (failed(x)) return failure();
  bool select = x->selected;
  if (!select && failed(denseRows(op.getX(), op))) return failure();
  if (!select && x->outRows)
    return op.emitError("no kernel for '") << op->getName() << "' on target " << target
                                           << " behind a selection of rows; it selects rows itself";
  FailureOr<Binding> w = weight("weight", plan::Layout::F32, op.getWeight(), op);
  if (failed(w)) return failure();
  SmallVector<Binding> bindings = {read("x", *x), *w};
  if (out) bindings.push_back(bind("out", result(out, "norm", cols, select), plan::Access::Write));
  if (outQ) bindings.push_back(bind("out_q", int8Result(outQ, "norm_q", cols, select), plan::Access::Write));
  dispatch(
      op, "norm",
      {{"cols", integer(cols)}, {"eps", op.getEpsAttr()}, {"source", string(select ? "out_rows" : "rows")}},
      bindings);
  return success();
}

LogicalResult Lowering::lowerQuantize(hir::QuantizeOp op) {
  if (static_cast<int64_t>(op.getBlock()) != kInt8Block)
    return op.emitError("no kernel for '")
           << op->getName() << "' with block " << op.getBlock() << " on target " << target
           << "; it rounds blocks of " << kInt8Block;
  FailureOr<View> x = denseRows(op.getX(), op);
  if (failed(x)) return failure();
  if (x->outRows)
    return op.emitError("no kernel for '") << op->getName() << "' of selected rows on target " << target;
  int64_t cols = colsOf(op.getX());
  View out = int8Result(op.getResult(), "quantized", cols, false);
  dispatch(op, "quantize", {{"cols", integer(cols)}},
           {read("x", *x), bind("out_q", out, plan::Access::Write)});
  return success();
}

LogicalResult Lowering::emitLinear(hir::LinearOp op, int64_t firstRow, int64_t n, StringRef epilogue,
                                   const View& y) {
  bool int8 = false;
  auto encoding = cast<RankedTensorType>(op.getX().getType()).getEncoding();
  if (encoding) {
    auto blocks = dyn_cast<hir::Int8Attr>(encoding);
    if (!blocks || blocks.getBlock() != kInt8Block)
      return op.emitError("no kernel for '")
             << op->getName() << "' on target " << target << " with input " << op.getX().getType();
    int8 = true;
  }
  hir::WeightType type = op.getWeight().getType();
  const FormatInfo& format = format_info(type.getFormat());
  StringRef formatName(format.name.data(), format.name.size());
  if (int8 && format.cls != FormatClass::kBlock)
    return op.emitError("no kernel for '")
           << op->getName() << "' of int8 rows with " << formatName << " weights on target " << target;
  FailureOr<View> x = int8 ? view(op.getX(), op) : denseRows(op.getX(), op);
  if (failed(x)) return failure();

  FailureOr<Binding> w = failure();
  if (epilogue == "swiglu") {
    auto swiglu = cast<hir::SwigluOp>(*op->user_begin());
    auto up = swiglu.getUp().getDefiningOp<hir::LinearOp>();
    w = weight("w", plan::Layout::X16Pair, {op.getWeight(), up.getWeight()}, op);
  } else {
    w = weight("w", plan::Layout::X16, op.getWeight(), op);
  }
  if (failed(w)) return failure();
  int64_t k = type.getShape().back();
  if (firstRow != 0 || n != type.getShape().front()) {
    // Groups of 16 rows lie one behind the other: a range of them is a matrix of its own.
    int64_t offset = w->ref.getOffset() + plan::x16_bytes(type.getFormat(), firstRow, k);
    w->ref = plan::RefAttr::get(b.getContext(), plan::Space::Weights, offset,
                                plan::x16_bytes(type.getFormat(), n, k), plan::Access::Read);
  }
  dispatch(op, "linear",
           {{"format", string(formatName)},
            {"numerics", string(int8 ? "int8" : "f32")},
            {"k", integer(k)},
            {"n", integer(n)},
            {"epilogue", string(epilogue)},
            {"rows", string(x->outRows ? "out_rows" : "rows")}},
           {read(int8 ? "xq" : "x", *x), *w,
            bind("y", y, epilogue == "add" ? plan::Access::ReadWrite : plan::Access::Write)});
  return success();
}

FailureOr<bool> Lowering::lowerSlicedLinear(hir::LinearOp op) {
  // A merged_linear group hands the result on under another name.
  Value outer = op.getResult();
  SmallVector<hir::SliceOp> slices;
  SmallVector<Operation*> users(outer.getUsers());
  if (users.size() == 1 && isa<hir::YieldOp>(users.front())) {
    auto yield = users.front();
    outer = yield->getParentOp()->getResult(outer.getUses().begin()->getOperandNumber());
    users.assign(outer.getUsers().begin(), outer.getUsers().end());
  }
  for (Operation* user : users) {
    auto slice = dyn_cast<hir::SliceOp>(user);
    if (!slice) return false;
    slices.push_back(slice);
  }
  if (slices.empty()) return false;
  llvm::sort(slices, [](hir::SliceOp l, hir::SliceOp r) {
    return std::pair(l.getOffset(), l.getSize()) < std::pair(r.getOffset(), r.getSize());
  });
  int64_t n = colsOf(op.getResult());
  FailureOr<View> x = view(op.getX(), op);
  if (failed(x)) return failure();
  llvm::DenseMap<std::pair<int64_t, int64_t>, View> parts;
  for (hir::SliceOp slice : slices) {
    int64_t begin = slice.getOffset(), size = slice.getSize();
    if (begin % plan::kGroupRows != 0 || (size % plan::kGroupRows != 0 && begin + size != n))
      return slice.emitError("no kernel for a slice [")
             << begin << ", " << size << "] of a linear of " << n << " rows on target " << target
             << ": matrices are cut at multiples of " << plan::kGroupRows;
    auto [it, isNew] = parts.try_emplace({begin, size});
    if (isNew) {
      it->second = result(slice.getResult(), "linear", plan::align_up(size, plan::kGroupRows), x->outRows);
      if (failed(emitLinear(op, begin, size, "store", it->second))) return failure();
    }
    views[slice.getResult()] = it->second;
  }
  return true;
}

LogicalResult Lowering::lowerLinear(hir::LinearOp op) {
  FailureOr<bool> sliced = lowerSlicedLinear(op);
  if (failed(sliced)) return failure();
  if (*sliced) return success();
  FailureOr<View> x = view(op.getX(), op);
  if (failed(x)) return failure();
  int64_t n = colsOf(op.getResult());
  View y = result(op.getResult(), "linear", plan::align_up(n, plan::kGroupRows), x->outRows);
  return emitLinear(op, 0, n, "store", y);
}

LogicalResult Lowering::lowerSwiglu(hir::SwigluOp op) {
  FailureOr<View> gate = denseRows(op.getGate(), op);
  FailureOr<View> up = denseRows(op.getUp(), op);
  if (failed(gate) || failed(up)) return failure();
  if (gate->outRows)
    return op.emitError("no kernel for '") << op->getName() << "' of selected rows on target " << target;
  int64_t cols = colsOf(op.getResult());
  View out = result(op.getResult(), "swiglu", cols, false);
  dispatch(op, "swiglu", {{"cols", integer(cols)}},
           {read("gate", *gate), read("up", *up), bind("out", out, plan::Access::Write)});
  return success();
}

LogicalResult Lowering::lowerAdd(hir::AddOp op) {
  FailureOr<View> lhs = denseRows(op.getLhs(), op);
  FailureOr<View> rhs = denseRows(op.getRhs(), op);
  if (failed(lhs) || failed(rhs)) return failure();
  if (lhs->outRows)
    return op.emitError("no kernel for '") << op->getName() << "' of selected rows on target " << target;
  // y += x: the sum takes the place of an operand that nobody needs any more, the residual stream if it is
  // one.
  bool lhsDies = diesAt(op.getLhs(), op), rhsDies = diesAt(op.getRhs(), op);
  if (!lhsDies && !rhsDies)
    return op.emitError("no kernel for '")
           << op->getName() << "' on target " << target << " whose operands are both needed afterwards";
  bool intoRhs = rhsDies && (!lhsDies || rhs->offset == 0);
  View &y = intoRhs ? *rhs : *lhs, &x = intoRhs ? *lhs : *rhs;
  if (x.offset == y.offset)
    return op.emitError("no kernel for '")
           << op->getName() << "' on target " << target << " of a value with itself";
  dispatch(op, "add", {{"cols", integer(rowElements(op.getResult()))}},
           {read("x", x), bind("y", y, plan::Access::ReadWrite)});
  views[op.getResult()] = y;
  return success();
}

LogicalResult Lowering::lowerGroup(hir::GroupOp group) {
  switch (group.getKind()) {
    case hir::GroupKind::NormQuant:
      return lowerNormQuant(group);
    case hir::GroupKind::MergedLinear:
      return lowerMergedLinear(group);
    case hir::GroupKind::LinearSwiglu:
      return lowerLinearSwiglu(group);
    case hir::GroupKind::LinearResidual:
      return lowerLinearResidual(group);
    case hir::GroupKind::GatedDelta:
      return lowerGatedDelta(group);
    case hir::GroupKind::QkNormRopeStore:
      return lowerQkNormRopeStore(group);
    case hir::GroupKind::GatedAttention:
      return lowerGatedAttention(group);
  }
  llvm_unreachable("all group kinds are listed");
}

LogicalResult Lowering::lowerNormQuant(hir::GroupOp group) {
  GroupMatch match(group);
  auto norm = match.only<hir::RmsNormOp>();
  if (!norm) return failure();
  auto quantizes = group.getBody().front().getOps<hir::QuantizeOp>();
  hir::QuantizeOp quantize;
  if (!quantizes.empty()) {
    quantize = match.only<hir::QuantizeOp>();
    if (!quantize) return failure();
    if (quantize.getX() != norm.getResult())
      return match.unexpected(quantize, "one that does not read the norm");
    if (static_cast<int64_t>(quantize.getBlock()) != kInt8Block)
      return match.unexpected(quantize, "one with block " + Twine(quantize.getBlock()));
  }
  Value out, outQ;
  auto yield = group.getBody().front().getTerminator();
  for (auto [inner, outer] : llvm::zip(yield->getOperands(), group.getResults())) {
    if (inner == norm.getResult()) out = outer;
    if (quantize && inner == quantize.getResult()) outQ = outer;
  }
  if (failed(match.finish(yield->getOperands()))) return failure();
  if (!out && !outQ) return group.emitError("group 'norm_quant' yields nothing");
  return lowerNorm(norm, out, outQ);
}

LogicalResult Lowering::lowerMergedLinear(hir::GroupOp group) {
  GroupMatch match(group);
  Operation* yield = group.getBody().front().getTerminator();
  for (hir::LinearOp op : group.getBody().front().getOps<hir::LinearOp>()) match.take(op);
  if (failed(match.finish(yield->getOperands()))) return failure();
  for (hir::LinearOp op : group.getBody().front().getOps<hir::LinearOp>())
    if (failed(lowerLinear(op))) return failure();
  for (auto [inner, outer] : llvm::zip(yield->getOperands(), group.getResults()))
    if (auto it = views.find(inner); it != views.end()) {
      View found = it->second;
      views[outer] = found;
    }
  return success();
}

LogicalResult Lowering::lowerLinearSwiglu(hir::GroupOp group) {
  GroupMatch match(group);
  auto swiglu = match.only<hir::SwigluOp>();
  if (!swiglu) return failure();
  auto gate = match.producer<hir::LinearOp>(swiglu.getGate(), swiglu);
  auto up = match.producer<hir::LinearOp>(swiglu.getUp(), swiglu);
  if (!gate || !up || failed(match.finish(swiglu.getResult()))) return failure();
  if (gate.getX() != up.getX() || gate.getWeight().getType() != up.getWeight().getType() ||
      !gate->hasOneUse())
    return match.unexpected(up, "one that differs from the gate in its input or its weight's type");
  FailureOr<View> x = view(gate.getX(), gate);
  if (failed(x)) return failure();
  int64_t n = colsOf(swiglu.getResult());
  View y = result(group.getResult(0), "swiglu", plan::align_up(n, plan::kGroupRows), x->outRows);
  return emitLinear(gate, 0, n, "swiglu", y);
}

LogicalResult Lowering::lowerLinearResidual(hir::GroupOp group) {
  GroupMatch match(group);
  auto add = match.only<hir::AddOp>();
  auto linear = match.only<hir::LinearOp>();
  if (!add || !linear || failed(match.finish(add.getResult()))) return failure();
  if ((add.getLhs() == linear.getResult()) == (add.getRhs() == linear.getResult()))
    return match.unexpected(add, "one that does not add the linear to another value");
  Value residual = add.getLhs() == linear.getResult() ? add.getRhs() : add.getLhs();
  if (!diesAt(residual, group))
    return group.emitError("group 'linear_residual' adds in place, but the residual is needed afterwards");
  FailureOr<View> y = denseRows(residual, group);
  if (failed(y)) return failure();
  int64_t n = colsOf(linear.getResult());
  if (n % plan::kGroupRows != 0)
    return group.emitError("no kernel for 'linear_residual' on target ")
           << target << " with " << n << " columns: a multiple of " << plan::kGroupRows << " is needed";
  views[group.getResult(0)] = *y;
  return emitLinear(linear, 0, n, "add", *y);
}

}  // namespace qcc::passes
