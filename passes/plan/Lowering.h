// Lowering of one function body (a block, the trunk, the head) for one bucket: hir values become ranges of
// the arena, hir groups and ops become dispatches. Used by qcc-build-plan.
#ifndef QCC_PASSES_PLAN_LOWERING_H_
#define QCC_PASSES_PLAN_LOWERING_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace qcc::passes {

// Where a hir value lies.
struct View {
  plan::Space space = plan::Space::Arena;
  std::string buffer;  // name of the arena buffer
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t stride = 0;     // floats from row to row; 0: int8 rows
  bool selected = false;  // result of select_rows: the buffer holds all rows, the step's out_rows say which
  bool outRows = false;   // one row per requested row, not per row of the step
};

// Gives every buffer of a program its own bytes; qcc-assign-arena makes them share.
class Arena {
 public:
  View allocate(const std::string& name, int64_t bytes);
  int64_t end() const { return next; }

 private:
  int64_t next = 0;
};

// Offset of a packed weight or constant or state, as a binding in this function says it.
struct Places {
  llvm::function_ref<mlir::FailureOr<int64_t>(plan::Layout, mlir::ValueRange sources, mlir::Operation*)>
      weight;
  llvm::function_ref<mlir::FailureOr<int64_t>(hir::RopeTableOp)> constant;
  llvm::function_ref<mlir::FailureOr<int64_t>(mlir::Value state, mlir::Operation*)> state;
};

struct Binding {
  llvm::StringRef role;
  plan::RefAttr ref;
  std::string buffer;
};

class Lowering {
 public:
  // `prefix` makes the names of this function's buffers unique in the program.
  Lowering(mlir::OpBuilder& b, std::string prefix, int64_t rows, Arena& arena, const Places& places,
           llvm::StringRef target)
      : b(b), prefix(std::move(prefix)), rows(rows), arena(arena), places(places), target(target) {}

  // Gives a value its place before its producer is lowered (arguments, the residual stream, the logits).
  void place(mlir::Value value, const View& view) { views[value] = view; }

  // One op of the body. An op that no kernel executes is an error on the op.
  mlir::LogicalResult lower(mlir::Operation* op);

  // Where a value lies; the error on `user` names the op whose result no buffer holds.
  mlir::FailureOr<View> view(mlir::Value value, mlir::Operation* user);

  // Whether nothing after `op` in its block (groups included) needs the value.
  static bool diesAt(mlir::Value value, mlir::Operation* op);

 private:
  using Spec = llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Attribute>>;

  mlir::LogicalResult lowerEmbed(hir::EmbedOp op);
  mlir::LogicalResult lowerRopeTable(hir::RopeTableOp op);
  mlir::LogicalResult lowerSelectRows(hir::SelectRowsOp op);
  mlir::LogicalResult lowerNorm(hir::RmsNormOp op, mlir::Value out, mlir::Value outQ);
  mlir::LogicalResult lowerQuantize(hir::QuantizeOp op);
  mlir::LogicalResult lowerLinear(hir::LinearOp op);
  mlir::LogicalResult lowerSwiglu(hir::SwigluOp op);
  mlir::LogicalResult lowerAdd(hir::AddOp op);
  mlir::LogicalResult lowerGroup(hir::GroupOp group);
  mlir::LogicalResult lowerNormQuant(hir::GroupOp group);
  mlir::LogicalResult lowerMergedLinear(hir::GroupOp group);
  mlir::LogicalResult lowerLinearSwiglu(hir::GroupOp group);
  mlir::LogicalResult lowerLinearResidual(hir::GroupOp group);
  mlir::LogicalResult lowerGatedDelta(hir::GroupOp group);
  mlir::LogicalResult lowerQkNormRopeStore(hir::GroupOp group);
  mlir::LogicalResult lowerGatedAttention(hir::GroupOp group);

  // A dispatch of n output rows of `op`'s matrix, from row `firstRow` on, into `y`.
  mlir::LogicalResult emitLinear(hir::LinearOp op, int64_t firstRow, int64_t n, llvm::StringRef epilogue,
                                 const View& y);
  // Slices of a linear's result that are all its uses: the matrix is run in pieces, one per slice.
  mlir::FailureOr<bool> lowerSlicedLinear(hir::LinearOp op);

  // The view of rows that lie one behind the other, without padding: what most kernels read.
  mlir::FailureOr<View> denseRows(mlir::Value value, mlir::Operation* user);
  // Place of a result with `stride` floats per row: given by place(), or new.
  View result(mlir::Value value, llvm::StringRef role, int64_t stride, bool outRows);
  View int8Result(mlir::Value value, llvm::StringRef role, int64_t cols, bool outRows);
  View fresh(llvm::StringRef role, int64_t rowBytes);

  Binding read(llvm::StringRef role, const View& view) const { return bind(role, view, plan::Access::Read); }
  Binding bind(llvm::StringRef role, const View& view, plan::Access access) const;
  mlir::FailureOr<Binding> weight(llvm::StringRef role, plan::Layout layout, mlir::ValueRange sources,
                                  mlir::Operation* user);
  mlir::FailureOr<Binding> state(llvm::StringRef role, mlir::Value value, plan::Access access,
                                 mlir::Operation* user);
  void dispatch(mlir::Operation* op, llvm::StringRef family, Spec spec, llvm::ArrayRef<Binding> bindings);

  mlir::Attribute integer(int64_t value) const { return b.getI64IntegerAttr(value); }
  mlir::Attribute string(llvm::StringRef value) const { return b.getStringAttr(value); }

  mlir::OpBuilder& b;
  std::string prefix;
  int64_t rows;
  Arena& arena;
  const Places& places;
  llvm::StringRef target;
  llvm::DenseMap<mlir::Value, View> views;
  llvm::StringMap<int> named;  // buffers per role, for their names
};

// The ops of a group that its kernel covers; what is left over is an error.
class GroupMatch {
 public:
  explicit GroupMatch(hir::GroupOp group) : group(group) {}

  // The only T in the group, or null and an error on the group.
  template <typename T>
  T only() {
    T found;
    for (T op : group.getBody().front().getOps<T>()) {
      if (found) {
        unexpected(op, "a second one");
        return nullptr;
      }
      found = op;
    }
    if (!found) group.emitError("group '") << kind() << "' has no '" << T::getOperationName() << "'";
    return take(found);
  }
  // The producer of `value` behind reshapes, which must be a T of the group; else null and an error on
  // `user`.
  template <typename T>
  T producer(mlir::Value value, mlir::Operation* user) {
    value = behindReshapes(value);
    if (T op = value.getDefiningOp<T>(); op && op->getParentOp() == group) return take(op);
    expected(user, T::getOperationName(), value);
    return nullptr;
  }
  // The same for an activation of one kind.
  hir::ActivationOp activation(mlir::Value value, hir::ActivationKind kind, mlir::Operation* user);
  // Marks reshapes of the group as covered on the way.
  mlir::Value behindReshapes(mlir::Value value);
  template <typename T>
  T take(T op) {
    if (op) covered.insert(op);
    return op;
  }
  // Every op of the group is covered, and the group yields exactly `values`.
  mlir::LogicalResult finish(mlir::ValueRange values);
  mlir::InFlightDiagnostic unexpected(mlir::Operation* op, const llvm::Twine& found);

  llvm::StringRef kind() { return hir::stringifyGroupKind(group.getKind()); }

 private:
  void expected(mlir::Operation* user, llvm::StringRef what, mlir::Value found);

  hir::GroupOp group;
  llvm::SmallPtrSet<mlir::Operation*, 16> covered;
};

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_LOWERING_H_
