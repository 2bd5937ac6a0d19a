// What a model's public functions take and give, read from their types, their uses and what the importer said
// (kLeftBy, kLogits). Names are for people.
#ifndef QCC_PASSES_CONTRACT_ENTRYPOINT_H_
#define QCC_PASSES_CONTRACT_ENTRYPOINT_H_

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::passes {

struct EntryPoint {
  mlir::func::FuncOp func;
  mlir::BlockArgument tokens;  // i32 [rows] that the function embeds; null: it takes none
  mlir::BlockArgument chosen;  // i32 [chosen rows] that select rows; null: it gives all
  mlir::BlockArgument rows;    // f32 [rows][cols]; null: it takes none
  llvm::StringRef leftBy;      // the function whose rows these are; empty: the caller's
  mlir::Value logits;          // what it returns of either kind, or null
  mlir::Value left;
  bool inSequences = false;  // needs to know which rows are whose, and where: it advances states, say

  llvm::StringRef name() const { return mlir::func::FuncOp(func).getName(); }
  // Makes rows of the caller's rows, and nothing else, and the other is given such with its tokens: runs
  // ahead of it where the caller's rows are those of another model's function.
  bool preparesRowsOf(const EntryPoint& other) const {
    return !tokens && rows && leftBy.empty() && left && !logits && !inSequences && other.tokens &&
           other.rows && other.leftBy.empty() && other.rows.getType() == left.getType();
  }
};

// One function; an error on it says what cannot be a program's input or output.
mlir::FailureOr<EntryPoint> describeEntryPoint(mlir::func::FuncOp func);

// All public functions of a module, in its order, each followed by those that take what it leaves. Errors:
// none at all; rows that no function leaves, or of another type; rows of a function that itself takes
// another's.
mlir::FailureOr<llvm::SmallVector<EntryPoint>> entryPoints(mlir::ModuleOp module);

// The functions that make logits of tokens alone, in the order in which they run: the first one that gives
// them, or the first one and the one that makes them of what it leaves. Empty where there are none.
llvm::SmallVector<EntryPoint, 2> tokensToLogits(llvm::ArrayRef<EntryPoint> entries);

// The functions that begin something, which are what a user may choose among: those that take what they leave
// go with them, and so do those that prepare their rows.
llvm::SmallVector<llvm::StringRef> namesToChoose(llvm::ArrayRef<EntryPoint> entries);

// The first of `entries` that prepares the rows that `entry` is given; null: none does.
const EntryPoint* preparing(const EntryPoint& entry, llvm::ArrayRef<EntryPoint> entries);

// Floats of a row.
int64_t colsOf(mlir::Value rows);

}  // namespace qcc::passes

#endif  // QCC_PASSES_CONTRACT_ENTRYPOINT_H_
