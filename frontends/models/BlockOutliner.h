// Layers as functions: layers whose ops and types agree call the same `@block_*`.
#ifndef QCC_FRONTENDS_MODELS_BLOCKOUTLINER_H_
#define QCC_FRONTENDS_MODELS_BLOCKOUTLINER_H_

#include <string>
#include <vector>

#include "dialects/hir/IR/Hir.h"
#include "frontends/models/TensorTable.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::models {

// What a layer hands to its block. A role is the tensor's name without its "blk.N." and in its first spelling
// ("ssm_dt.bias"), or the last part of a state's name ("kv").
struct BlockInputs {
  struct NamedWeight {
    std::string role;
    Weight weight;
  };
  struct NamedState {
    std::string role;
    hir::StateType type;
  };
  std::vector<NamedWeight> weights;
  std::vector<NamedState> states;

  void add(std::string role, Weight weight) { weights.push_back({std::move(role), std::move(weight)}); }
  // The weight, then its scale as scaleRole(role) where it has one.
  void add(const std::string& role, Linear linear);
  bool has(llvm::StringRef role) const;
};

// "attn_q.scale" of "attn_q.weight".
std::string scaleRole(llvm::StringRef role);

hir::WeightType weightType(mlir::MLIRContext* context, const Weight& weight);
// A location that says which tensor of the file an op is about.
mlir::Location tensorLoc(mlir::MLIRContext* context, llvm::StringRef name);
// `hir.param` for a tensor of the file.
mlir::Value param(mlir::OpBuilder& builder, const Weight& weight);

// The inside of a block function while it is built. Locations are tensor names with `*` for the layer number.
class BlockScope {
 public:
  BlockScope(mlir::OpBuilder& builder, mlir::func::FuncOp function, const BlockInputs& inputs, bool withRope);

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Value x() const { return x_; }
  mlir::Value rows() const { return rows_; }
  mlir::Value rope() const { return rope_; }
  bool has(llvm::StringRef role) const { return values_.contains(role); }
  mlir::Value operator[](llvm::StringRef role) const { return values_.lookup(role); }
  mlir::Location loc(llvm::StringRef role) const;

 private:
  mlir::OpBuilder& builder_;
  mlir::Value x_, rows_, rope_;
  llvm::StringMap<mlir::Value> values_;
};

class BlockOutliner {
 public:
  explicit BlockOutliner(mlir::ModuleOp module) : module_(module) {}

  // Calls the block of `layer` ("blk.3") at `builder`: fetches its weights and states, and finds or builds
  // the function, whose body `build` emits (it returns the new residual stream). `kind` names the function
  // and must determine the ops together with the inputs' roles and types. `rope` may be null.
  mlir::Value call(mlir::OpBuilder& builder, llvm::StringRef kind, llvm::StringRef layer, mlir::Value x,
                   mlir::Value rows, mlir::Value rope, const BlockInputs& inputs,
                   llvm::function_ref<mlir::Value(BlockScope&)> build);

 private:
  mlir::func::FuncOp find(llvm::StringRef kind, mlir::FunctionType type, const BlockInputs& inputs,
                          bool withRope, llvm::function_ref<mlir::Value(BlockScope&)> build);

  mlir::ModuleOp module_;
  llvm::StringMap<mlir::func::FuncOp> byKey_;
  llvm::StringMap<int> countOfKind_;
  mlir::func::FuncOp last_;
};

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_BLOCKOUTLINER_H_
