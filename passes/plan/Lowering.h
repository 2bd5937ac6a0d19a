// Lowering of one function body (a block's or a public function's) for one bucket: hir values become ranges
// of the arena, ops become dispatches (each by its LowerableOpInterface). Used by qcc-build-plan.
#ifndef QCC_PASSES_PLAN_LOWERING_H_
#define QCC_PASSES_PLAN_LOWERING_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
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

struct PackedUse;  // PackedUses.h

// Gives every buffer of a program its own bytes; qcc-assign-arena makes them share.
class Arena {
 public:
  View allocate(const std::string& name, int64_t bytes);
  int64_t end() const { return next; }

 private:
  int64_t next = 0;
};

// Where a packed weight or constant or state begins, as a binding in this function says it.
struct Places {
  llvm::function_ref<mlir::FailureOr<int64_t>(const PackedUse&)> weight;
  llvm::function_ref<mlir::FailureOr<int64_t>(hir::RopeTableOp)> constant;
  llvm::function_ref<mlir::FailureOr<plan::Ref>(mlir::Value state, mlir::Operation*)> state;
};

// For whom is lowered.
struct Target {
  llvm::StringRef name;     // in errors
  layouts::Policy layouts;  // of its weights
};

class Lowering {
 public:
  // `prefix` makes the names of this function's buffers unique in the program.
  // `rowsAreChosen`: the program takes rows of another, and its own are those of them that the step chooses.
  Lowering(mlir::OpBuilder& b, std::string prefix, int64_t rows, Arena& arena, const Places& places,
           const Target& target, bool rowsAreChosen)
      : b(b),
        prefix(std::move(prefix)),
        rows(rows),
        arena(arena),
        places(places),
        target(target),
        chosen(rowsAreChosen) {}

  // Gives a value its place: before its producer is lowered (arguments, the residual stream, the logits), or
  // because it lies where another one does.
  void place(mlir::Value value, const View& view) { views[value] = view; }
  bool isPlaced(mlir::Value value) const { return views.contains(value); }

  // One op of the body. An op that no kernel executes is an error on the op.
  mlir::LogicalResult lower(mlir::Operation* op);

  // Where a value lies; the error on `user` names the op whose result no buffer holds.
  mlir::FailureOr<View> view(mlir::Value value, mlir::Operation* user);

  // What the lowerings of ops (Lowerings.h) build dispatches from:

  // The view of rows that lie one behind the other, without padding: what most kernels read.
  mlir::FailureOr<View> denseRows(mlir::Value value, mlir::Operation* user);
  // Place of a result with `stride` floats per row: given by place(), or new.
  View result(mlir::Value value, llvm::StringRef role, int64_t stride, bool outRows);
  View int8Result(mlir::Value value, llvm::StringRef role, int64_t cols, bool outRows);

  // Places of what lies between the dispatches of one op: `stride` words of 4 bytes per row of the step, int8
  // rows, or `bytes` whatever the rows.
  View scratch(llvm::StringRef role, int64_t stride);
  View int8Scratch(llvm::StringRef role, int64_t cols);
  View wholeScratch(llvm::StringRef role, int64_t bytes);

  // What a dispatch binds: a stored value, the weights that `op` collects (packedUses) in that order, the
  // frequencies of a rotation table, a state.
  static plan::Ref ref(const View& view) { return {view.space, view.offset, view.bytes, view.buffer}; }
  mlir::FailureOr<llvm::SmallVector<plan::Ref>> weights(mlir::Operation* op);
  // The same by the source that each begins with: where two lie as a pair, the second has none of its own.
  mlir::FailureOr<llvm::DenseMap<mlir::Value, plan::Ref>> weightsBySource(mlir::Operation* op);
  mlir::FailureOr<plan::Ref> constant(hir::RopeTableOp op);
  mlir::FailureOr<plan::Ref> state(mlir::Value value, mlir::Operation* user);

  template <class Spec>
  void dispatch(mlir::Operation* op, const Spec& spec, const plan::BindingsOf<Spec, plan::Ref>& bindings) {
    plan::createDispatch(b, op->getLoc(), spec, bindings);
  }

  // Most rows of the step.
  int64_t bucket() const { return rows; }
  bool rowsAreChosen() const { return chosen; }
  llvm::StringRef targetName() const { return target.name; }
  // "no kernel for 'hir.quantize' with block 64 on target cpu", to be continued; `with` begins with a space.
  mlir::InFlightDiagnostic noKernel(mlir::Operation* op, const llvm::Twine& with = "") const;

 private:
  std::string name(llvm::StringRef role);
  View fresh(llvm::StringRef role, int64_t rowBytes);

  mlir::OpBuilder& b;
  std::string prefix;
  int64_t rows;
  Arena& arena;
  const Places& places;
  Target target;
  bool chosen;
  llvm::DenseMap<mlir::Value, View> views;
  llvm::StringMap<int> named;  // buffers per role, for their names
};

// Features of a row, over all heads.
int64_t rowElements(mlir::Value value);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_LOWERING_H_
