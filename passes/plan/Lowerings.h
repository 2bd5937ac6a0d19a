// How each op of hir becomes dispatches: models of LowerableOpInterface, by file.
#ifndef QCC_PASSES_PLAN_LOWERINGS_H_
#define QCC_PASSES_PLAN_LOWERINGS_H_

#include "passes/plan/PackedUses.h"

namespace qcc::passes {

void attachRowLowerings(mlir::MLIRContext& context);       // LowerRowOps.cpp
void attachLinearLowerings(mlir::MLIRContext& context);    // LowerLinears.cpp
void attachMoeLowerings(mlir::MLIRContext& context);       // LowerMoe.cpp
void attachSequenceLowerings(mlir::MLIRContext& context);  // LowerSequenceGroups.cpp

// Takes one weight that an op uses.
class AddWeight {
 public:
  explicit AddWeight(llvm::SmallVectorImpl<WeightUse>& uses) : uses(uses) {}
  void operator()(layouts::Use use, mlir::ValueRange sources, Padding padding = {}) const {
    uses.push_back({llvm::SmallVector<mlir::Value, 2>(sources), use, padding});
  }

 private:
  llvm::SmallVectorImpl<WeightUse>& uses;
};

// Base of the models: typed access to the op. Model::weights says which weights there are, Model::entries
// what it keeps of tokens in states, by default nothing.
template <typename Model, typename Op>
struct LoweringOf : LowerableOpInterface::ExternalModel<Model, Op> {
  void collectWeights(mlir::Operation* op, llvm::SmallVectorImpl<WeightUse>& uses) const {
    Model::weights(llvm::cast<Op>(op), AddWeight(uses));
  }
  void collectEntries(mlir::Operation* op, llvm::SmallVectorImpl<StateEntry>& entries) const {
    Model::entries(llvm::cast<Op>(op), entries);
  }
  llvm::LogicalResult lower(mlir::Operation* op, Lowering& lowering) const {
    return Model::lowerOp(llvm::cast<Op>(op), lowering);
  }

  static void weights(Op, AddWeight) {}
  static void entries(Op, llvm::SmallVectorImpl<StateEntry>&) {}
};

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_LOWERINGS_H_
