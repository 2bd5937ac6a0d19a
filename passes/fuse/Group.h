// How fusion passes form fused ops: collect ops, let the fused op say what they amount to, move them into its
// body; say why not when that is impossible.
#ifndef QCC_PASSES_FUSE_GROUP_H_
#define QCC_PASSES_FUSE_GROUP_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::passes {

using OpSet = llvm::SetVector<mlir::Operation*>;

// Grows `ops` backwards: adds a producer in the same block when `accept` takes it and all its users are
// already in the set, until nothing changes. What is also needed elsewhere (a reshape that feeds a gate, say)
// stays outside.
void growBackwards(OpSet& ops, llvm::function_ref<bool(mlir::Operation*)> accept);

enum class GroupAt { First, Last };

// Moves `ops` (one block) into a new `opName` ("hir.fused.*"), placed where the first or the last of them
// stood, with the location of `about`, one of them. Returns null and sets `reason` when a value would be used
// before it exists or after it is overwritten, or when the ops are not what the fused op's kernel executes.
mlir::Operation* makeFused(llvm::StringRef opName, const OpSet& ops, GroupAt at, mlir::Operation* about,
                           std::string& reason);

// Remarks on `op`, gathered by `qcc compile --report=fusion`: "fused gated_delta: 14 ops" / "missed ...:
// <reason>".
void reportFused(mlir::Operation* op, llvm::StringRef opName, size_t opCount);
void reportMissed(mlir::Operation* op, llvm::StringRef opName, const llvm::Twine& reason);

// makeFused where the last of `ops` stands, and the remark on `about` that says what came of it.
void fuseAndReport(llvm::StringRef opName, const OpSet& ops, mlir::Operation* about);

// A slice of a linear, which stays outside of groups behind it: the linear is run in pieces.
bool isPartOfLinear(mlir::Operation* op);

// All T of a module that are not part of a fused op already, taken down before any of them moves.
template <typename T>
llvm::SmallVector<T> collect(mlir::ModuleOp module) {
  llvm::SmallVector<T> ops;
  module.walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation* op) {
    if (T found = llvm::dyn_cast<T>(op)) ops.push_back(found);
    return llvm::isa<hir::FusedOpInterface>(op) ? mlir::WalkResult::skip() : mlir::WalkResult::advance();
  });
  return ops;
}

// The only user of `v` if it is of type T, else null; always in the same block, as fused ops are isolated.
template <typename T>
T soleUser(mlir::Value v) {
  if (!v.hasOneUse()) return nullptr;
  return llvm::dyn_cast<T>(*v.user_begin());
}

// The same behind reshapes that nobody else reads, which go into `ops` where such a user is found.
template <typename T>
T soleUserBehindReshapes(mlir::Value v, OpSet& ops) {
  llvm::SmallVector<mlir::Operation*> reshapes;
  for (auto reshape = soleUser<hir::ReshapeOp>(v); reshape; reshape = soleUser<hir::ReshapeOp>(v)) {
    reshapes.push_back(reshape);
    v = reshape.getResult();
  }
  T user = soleUser<T>(v);
  if (user) ops.insert(reshapes.begin(), reshapes.end());
  return user;
}

}  // namespace qcc::passes

#endif  // QCC_PASSES_FUSE_GROUP_H_
