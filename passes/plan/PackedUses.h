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

// What an op does with a weight, of one source or, for Use::kMatrixPair, two.
struct WeightUse {
  llvm::SmallVector<mlir::Value, 2> sources;
  layouts::Use use;
};

// One weight of the artifact: the hir values of its sources (two for x16_pair) and its layout.
struct PackedUse {
  llvm::SmallVector<mlir::Value, 2> sources;
  plan::Layout layout;
  mlir::Operation* user;
};

}  // namespace qcc::passes

#include "passes/plan/LoweringInterface.h.inc"

namespace qcc::passes {

// Attaches LowerableOpInterface to the ops of hir that kernels execute.
void registerLowerings(mlir::DialectRegistry& registry);

// Rows and columns of a weight of one or two dimensions; a vector is one row.
std::pair<int64_t, int64_t> matrixShape(hir::WeightType type);

// Bytes of a weight of this layout whose sources have this type (one or two dimensions, columns last).
int64_t packedBytes(plan::Layout layout, hir::WeightType type);

// Bytes of a layer's state in a sequence's memory; of a cache, per token: one K and one V.
int64_t stateBytes(hir::StateType type);

// The weights that `op` reads, as the policy lays them: where it gives a pair the layout of one matrix, two
// weights, one behind the other. A layout of more sources than the op has is an error on it.
mlir::FailureOr<llvm::SmallVector<PackedUse>> packedUses(mlir::Operation* op, layouts::Policy policy);

// The same of `block`'s ops, in order.
mlir::FailureOr<llvm::SmallVector<PackedUse>> packedUses(mlir::Block& block, layouts::Policy policy);

// Identity of a weight of the artifact: a tensor used twice in one layout is stored once.
std::string packedKey(plan::Layout layout, llvm::ArrayRef<std::string> sources);

// The GGUF tensor (or the name of the state) behind a value of a public function or, through the operands of
// its call, of a block. Empty when the value is neither a hir.param/hir.state nor such an argument.
std::string sourceName(mlir::Value value, mlir::ValueRange callOperands);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_PACKEDUSES_H_
