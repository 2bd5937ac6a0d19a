// The hir dialect: include this one for its dialect, types, attributes, interfaces and ops.
#ifndef QCC_DIALECTS_HIR_IR_HIR_H_
#define QCC_DIALECTS_HIR_IR_HIR_H_

#include "dialects/formats/formats.h"
#include "dialects/hir/IR/Fused.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace qcc::hir {
// What an importer says about a model's functions, beside their types. On an argument of rows: the function
// (a symbol) whose rows of the same step these are; without it the caller gives them.
inline constexpr llvm::StringLiteral kLeftBy = "hir.left_by";
// On a result (unit): these rows are logits. Other rows that a function returns are left for a later one.
inline constexpr llvm::StringLiteral kLogits = "hir.logits";
// And about the model, on the module (docs/contracts.md).
inline constexpr llvm::StringLiteral kArch = "hir.arch";                         // string
inline constexpr llvm::StringLiteral kVocabSize = "hir.vocab_size";              // i64, as those below
inline constexpr llvm::StringLiteral kContextLength = "hir.context_length";      // tokens
inline constexpr llvm::StringLiteral kEmbeddingLength = "hir.embedding_length";  // values of a row
// Of a draft that gives logits of some tokens: their ids (i64 array). Without it they are the first.
inline constexpr llvm::StringLiteral kDraftTokens = "hir.draft_tokens";
}  // namespace qcc::hir

#include "dialects/hir/IR/HirDialect.h.inc"
#include "dialects/hir/IR/HirEnums.h.inc"
#include "dialects/hir/IR/HirInterfaces.h.inc"

namespace qcc::hir {
llvm::LogicalResult verifyRowWise(mlir::Operation* op);

// Hir_RowWise of HirInterfaces.td. It is mlir::Op that derives from it, and no friend.
template <typename Op>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
class RowWise : public mlir::OpTrait::TraitBase<Op, RowWise> {
 public:
  static llvm::LogicalResult verifyTrait(mlir::Operation* op) { return verifyRowWise(op); }
};
}  // namespace qcc::hir

#define GET_ATTRDEF_CLASSES
#include "dialects/hir/IR/HirAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/hir/IR/HirTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/hir/IR/HirOps.h.inc"

namespace qcc::hir {
// Of a ranked tensor.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
}  // namespace qcc::hir

#endif  // QCC_DIALECTS_HIR_IR_HIR_H_
