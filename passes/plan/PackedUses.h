// Which weights a function's ops read and how they lie for a target: shared by the layout and by the
// lowering.
#ifndef QCC_PASSES_PLAN_PACKEDUSES_H_
#define QCC_PASSES_PLAN_PACKEDUSES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/SmallVector.h"

namespace qcc::passes {

class Lowering;  // passes/plan/Lowering.h

// Zeros that a use wants behind each matrix of a weight: its rows and its columns are rounded up to
// multiples.
struct Padding {
  int64_t rows = 1, cols = 1;
};

// What an op does with a weight, of one source or, for Use::kMatrixPair, two.
struct WeightUse {
  llvm::SmallVector<mlir::Value, 2> sources;
  layouts::Use use;
  Padding padding;
};

// One weight of the artifact: the hir values of its sources (two for x16_pair), its layout, and its shape: of
// each source, or with zeros behind each of its matrices.
struct PackedUse {
  llvm::SmallVector<mlir::Value, 2> sources;
  plan::Layout layout;
  mlir::Operation* user;
  int64_t rows, cols;

  hir::WeightType type() const { return llvm::cast<hir::WeightType>(sources.front().getType()); }
  int64_t bytes() const;
};

// What an op keeps of every token of a block in a state (dialects/layouts/sequence_state.h), behind what the
// state's type says, or in its place.
struct StateEntry {
  mlir::Value state;
  int64_t bytes;  // of a token
};

}  // namespace qcc::passes

#include "passes/plan/LoweringInterface.h.inc"

namespace qcc::passes {

// Attaches LowerableOpInterface to the ops of hir that kernels execute.
void registerLowerings(mlir::DialectRegistry& registry);

// A weight as matrices: a vector is one of one row.
struct MatrixShape {
  int64_t matrices, rows, cols;
};
MatrixShape matrixShape(hir::WeightType type);

// How a layer's state lies in a sequence's memory.
struct StateMemory {
  int64_t bytes;  // of a block of tokens; of a cache, per token: one K and one V
  int64_t entry;  // of these, what each token of the block leaves; 0: nothing
};
StateMemory stateMemory(hir::StateType type, int64_t entry);

// What the values of a layer's state are, of a block's argument: a cache of f16 that all attention over it
// reads for int8 rows holds what a device multiplies fastest.
plan::Element stateElement(mlir::Value state);

// The states that ops of `block` keep entries in.
llvm::SmallVector<StateEntry> stateEntries(mlir::Block& block);

// The weights that `op` reads, as the policy lays them: where it gives a pair the layout of one matrix, two
// weights, one behind the other. A layout of more sources than the op has is an error on it.
mlir::FailureOr<llvm::SmallVector<PackedUse>> packedUses(mlir::Operation* op, layouts::Policy policy);

// The same of `block`'s ops, in order.
mlir::FailureOr<llvm::SmallVector<PackedUse>> packedUses(mlir::Block& block, layouts::Policy policy);

// A GGUF tensor, and which rows of it: null for all of them in their order.
struct TensorRows {
  std::string tensor;
  hir::RowPiecesAttr pieces;
  // "blk.0.ssm_ba.weight", "blk.0.ssm_ba.weight[0:2/4]": pieces begin:count of groups of so many rows.
  std::string text() const;
};

// What is behind a weight of a public function or, through the operands of its call, of a block. No name when
// the value is neither a hir.param nor such an argument.
TensorRows tensorRows(mlir::Value weight, mlir::ValueRange callOperands);

// The name of the hir.state behind a value, found in the same way; empty when there is none.
std::string stateName(mlir::Value state, mlir::ValueRange callOperands);

// Identity of a weight of the artifact: a tensor used twice in one layout and shape is stored once.
std::string packedKey(const PackedUse& use, llvm::ArrayRef<TensorRows> sources);
// Of a weight that has its place.
std::string packedKey(plan::WeightOp op);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_PACKEDUSES_H_
