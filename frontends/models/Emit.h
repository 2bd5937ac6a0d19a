// The ops of a block, each with the location of the tensor that it is about.
#ifndef QCC_FRONTENDS_MODELS_EMIT_H_
#define QCC_FRONTENDS_MODELS_EMIT_H_

#include <cmath>

#include "dialects/hir/IR/Hir.h"
#include "frontends/models/BlockOutliner.h"
#include "frontends/models/HyperParameters.h"
#include "frontends/models/Layers.h"

namespace qcc::models {

class Emit {
 public:
  Emit(BlockScope& scope, const HyperParameters& hp) : scope_(scope), builder_(scope.builder()), hp_(hp) {}

  mlir::Value norm(mlir::Value x, llvm::StringRef weight) {
    return hir::RmsNormOp::create(builder_, scope_.loc(weight), x, scope_[weight], eps());
  }
  mlir::Value linear(mlir::Value x, llvm::StringRef weight) {
    return hir::LinearOp::create(builder_, scope_.loc(weight), x, scope_[weight], scope_[scaleRole(weight)]);
  }
  mlir::Value l2norm(mlir::Value x, L2Norm norm, llvm::StringRef about) {
    const auto form = norm == L2Norm::kMax ? hir::L2Form::Max : hir::L2Form::Sum;
    return hir::L2NormOp::create(builder_, scope_.loc(about), x, eps(),
                                 hir::L2FormAttr::get(builder_.getContext(), form));
  }
  mlir::Value activate(hir::ActivationKind kind, mlir::Value x, llvm::StringRef about) {
    return hir::ActivationOp::create(builder_, scope_.loc(about), x.getType(), kind, x);
  }
  mlir::Value slice(mlir::Value x, int64_t offset, int64_t size, llvm::StringRef about) {
    return hir::SliceOp::create(builder_, scope_.loc(about), x, builder_.getI64IntegerAttr(offset),
                                builder_.getI64IntegerAttr(size));
  }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> features, llvm::StringRef about) {
    return hir::ReshapeOp::create(builder_, scope_.loc(about), rowsOf(builder_.getContext(), features), x);
  }
  mlir::Value rope(mlir::Value x, llvm::StringRef about) {
    return hir::RopeOp::create(builder_, scope_.loc(about), x, scope_.rope());
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs, llvm::StringRef about) {
    return hir::MulOp::create(builder_, scope_.loc(about), lhs.getType(), lhs, rhs);
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs, llvm::StringRef about) {
    return hir::AddOp::create(builder_, scope_.loc(about), lhs.getType(), lhs, rhs);
  }
  mlir::Value swiglu(mlir::Value gate, mlir::Value up, llvm::StringRef about) {
    return hir::SwigluOp::create(builder_, scope_.loc(about), gate.getType(), gate, up);
  }
  // 1 / sqrt(size), the usual scale of dot products of that length.
  mlir::FloatAttr dotScale(int64_t size) {
    return builder_.getF32FloatAttr(static_cast<float>(1 / std::sqrt(static_cast<double>(size))));
  }

 private:
  mlir::FloatAttr eps() { return builder_.getF32FloatAttr(hp_.eps); }

  BlockScope& scope_;
  mlir::OpBuilder& builder_;
  const HyperParameters& hp_;
};

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_EMIT_H_
