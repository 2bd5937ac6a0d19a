#include "passes/plan/Lowering.h"

#include "dialects/layouts/layouts.h"
#include "passes/plan/PackedUses.h"

using namespace mlir;

namespace qcc::passes {
namespace {

constexpr int64_t kFloat = 4;

}  // namespace

int64_t rowElements(Value value) {
  int64_t n = 1;
  for (int64_t dim : cast<RankedTensorType>(value.getType()).getShape().drop_front()) n *= dim;
  return n;
}

View Arena::allocate(const std::string& name, int64_t bytes) {
  View view;
  view.buffer = name;
  view.offset = next;
  view.bytes = bytes;
  next = layouts::AlignUp(next + bytes, plan::kAlignment);
  return view;
}

InFlightDiagnostic Lowering::noKernel(Operation* op, const Twine& with) const {
  return op->emitError("no kernel for '") << op->getName() << "'" << with << " on target " << target.name;
}

LogicalResult Lowering::lower(Operation* op) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable) return noKernel(op);
  return lowerable.lower(*this);
}

FailureOr<View> Lowering::view(Value value, Operation* user) {
  for (Value v = value;;) {
    if (auto it = views.find(v); it != views.end()) return it->second;
    if (auto reshape = v.getDefiningOp<hir::ReshapeOp>()) {
      v = reshape.getX();
      continue;
    }
    InFlightDiagnostic error = noKernel(user);
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
  if (found->selected) return noKernel(user) << " with selected rows";
  if (found->stride == layouts::AlignUp(elements, layouts::kGroupRows) && found->stride != elements)
    return noKernel(user) << " with rows of " << elements << " values: it takes multiples of "
                          << layouts::kGroupRows;
  if (found->stride != elements)
    return noKernel(user) << " with rows of " << elements << " values stored " << found->stride << " apart";
  return found;
}

std::string Lowering::name(StringRef role) {
  std::string name = prefix + role.str();
  if (int n = named[role]++) name += "." + std::to_string(n);
  return name;
}

View Lowering::fresh(StringRef role, int64_t rowBytes) {
  return arena.allocate(name(role), rows * rowBytes);
}

View Lowering::result(Value value, StringRef role, int64_t stride, bool outRows) {
  if (auto it = views.find(value); it != views.end()) return it->second;
  View made = scratch(role, stride);
  made.outRows = outRows;
  return views[value] = made;
}

View Lowering::scratch(StringRef role, int64_t stride) {
  View made = fresh(role, kFloat * stride);
  made.stride = stride;
  return made;
}

View Lowering::int8Scratch(StringRef role, int64_t cols) {
  return fresh(role, layouts::Int8RowBytes(cols));
}

View Lowering::wholeScratch(StringRef role, int64_t bytes) {
  return arena.allocate(name(role), bytes);
}

View Lowering::int8Result(Value value, StringRef role, int64_t cols, bool outRows) {
  View made = fresh(role, layouts::Int8RowBytes(cols));
  made.outRows = outRows;
  return views[value] = made;
}

FailureOr<SmallVector<plan::Ref>> Lowering::weights(Operation* op) {
  FailureOr<SmallVector<PackedUse>> uses = packedUses(op, target.layouts);
  if (failed(uses)) return failure();
  SmallVector<plan::Ref> refs;
  for (const PackedUse& use : *uses) {
    FailureOr<int64_t> offset = places.weight(use);
    if (failed(offset)) return failure();
    refs.push_back({plan::Space::Weights, *offset, use.bytes(), ""});
  }
  return refs;
}

FailureOr<llvm::DenseMap<Value, plan::Ref>> Lowering::weightsBySource(Operation* op) {
  FailureOr<SmallVector<PackedUse>> uses = packedUses(op, target.layouts);
  FailureOr<SmallVector<plan::Ref>> refs = weights(op);
  if (failed(uses) || failed(refs)) return failure();
  llvm::DenseMap<Value, plan::Ref> bySource;
  for (auto [use, ref] : llvm::zip_equal(*uses, *refs)) bySource[use.sources.front()] = ref;
  return bySource;
}

FailureOr<plan::Ref> Lowering::constant(hir::RopeTableOp op) {
  FailureOr<int64_t> offset = places.constant(op);
  if (failed(offset)) return failure();
  auto bytes = static_cast<int64_t>(sizeof(double) * op.getInvFreq().size());
  return plan::Ref{plan::Space::Weights, *offset, bytes, ""};
}

FailureOr<plan::Ref> Lowering::state(Value value, Operation* user) {
  return places.state(value, user);
}

}  // namespace qcc::passes
