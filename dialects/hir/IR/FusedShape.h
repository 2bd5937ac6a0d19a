// What `match` of the fused ops is written with. Not for other rooms.
#ifndef QCC_DIALECTS_HIR_IR_FUSEDSHAPE_H_
#define QCC_DIALECTS_HIR_IR_FUSEDSHAPE_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/raw_ostream.h"

namespace qcc::hir {

inline std::string quoted(mlir::Operation* op) {
  return "'" + op->getName().getStringRef().str() + "'";
}

inline std::string typeText(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// The ops of a candidate, and which of them the kernel covers; what is left over is refused. The first
// refusal is the reason.
class Shape {
 public:
  Shape(llvm::ArrayRef<mlir::Operation*> ops, std::string& reason)
      : ops(ops), members(ops.begin(), ops.end()), reason(reason) {}

  // The only T among the ops, or null.
  template <typename T>
  T only() {
    T found;
    for (mlir::Operation* op : ops) {
      T candidate = llvm::dyn_cast<T>(op);
      if (!candidate) continue;
      if (found) {
        note(op, "it is a second one");
        return nullptr;
      }
      found = candidate;
    }
    if (!found) note("has no '" + T::getOperationName() + "'");
    return take(found);
  }

  // The producer of `value` behind reshapes, which must be a T among the ops; else null.
  template <typename T>
  T producer(mlir::Value value, mlir::Operation* user) {
    value = behindReshapes(value);
    if (T op = value.getDefiningOp<T>(); op && members.contains(op)) return take(op);
    mlir::Operation* found = value.getDefiningOp();
    std::string what =
        found ? quoted(found) + (members.contains(found) ? "" : " outside of it") : "an argument";
    note("needs '" + T::getOperationName() + "' in front of " + quoted(user) + ", found " + what);
    return nullptr;
  }

  // The same for an activation of one kind.
  ActivationOp activation(mlir::Value value, ActivationKind kind, mlir::Operation* user) {
    auto op = producer<ActivationOp>(value, user);
    if (op && op.getKind() != kind) {
      note(op, stringifyActivationKind(op.getKind()) + " instead of " + stringifyActivationKind(kind));
      return nullptr;
    }
    return op;
  }

  // `op` works along the last dimension, so its heads must be those of `used`, which is its result behind
  // reshapes.
  llvm::LogicalResult sameHeads(mlir::Operation* op, mlir::Value used) {
    auto found = llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType());
    if (found.getShape() == shapeOf(used)) return llvm::success();
    note("the kernel does not execute this " + quoted(op) + " of " + typeText(found) +
         ": its result is needed as " + typeText(used.getType()));
    return llvm::failure();
  }

  // Behind the reshapes among the ops, which it marks as covered.
  mlir::Value behindReshapes(mlir::Value value) {
    for (auto reshape = value.getDefiningOp<ReshapeOp>(); reshape && members.contains(reshape);
         reshape = value.getDefiningOp<ReshapeOp>())
      value = take(reshape).getX();
    return value;
  }

  template <typename T>
  T take(T op) {
    if (op) covered.insert(op);
    return op;
  }
  bool has(mlir::Operation* op) const { return op && members.contains(op); }

  // Every op is covered, and what is needed of them is exactly `results`.
  llvm::LogicalResult finish(mlir::ValueRange yielded, mlir::ValueRange results) {
    for (mlir::Operation* op : ops)
      if (!covered.contains(op)) return refuse(op, "it is not part of what the kernel computes");
    if (!llvm::equal(yielded, results))
      return refuse("gives " + std::to_string(yielded.size()) +
                    " values that are not the results of its kernel");
    return llvm::success();
  }

  llvm::LogicalResult refuse(mlir::Operation* op, const llvm::Twine& found) {
    note(op, found);
    return llvm::failure();
  }
  llvm::LogicalResult refuse(const llvm::Twine& why) {
    note(why);
    return llvm::failure();
  }

 private:
  void note(mlir::Operation* op, const llvm::Twine& found) {
    note("the kernel does not execute this " + quoted(op) + ": " + found);
  }
  void note(const llvm::Twine& why) {
    if (reason.empty()) reason = why.str();
  }

  llvm::ArrayRef<mlir::Operation*> ops;
  llvm::SmallPtrSet<mlir::Operation*, 16> members, covered;
  std::string& reason;
};

inline mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute value) {
  return {mlir::StringAttr::get(value.getContext(), name), value};
}

inline mlir::NamedAttribute segments(mlir::MLIRContext* context, llvm::ArrayRef<int32_t> sizes) {
  return named("operandSegmentSizes", mlir::DenseI32ArrayAttr::get(context, sizes));
}

}  // namespace qcc::hir

#endif  // QCC_DIALECTS_HIR_IR_FUSEDSHAPE_H_
