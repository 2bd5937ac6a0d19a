#include "passes/Passes.h"

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "mlir/IR/Builders.h"

namespace qcc::passes {
#define GEN_PASS_DEF_QUANTIZEACTIVATIONS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

struct QuantizeActivationsPass : impl::QuantizeActivationsBase<QuantizeActivationsPass> {
  using QuantizeActivationsBase::QuantizeActivationsBase;

  void runOnOperation() override {
    getOperation().walk([&](func::FuncOp func) { quantizeInputs(func); });
  }

  void quantizeInputs(func::FuncOp func) {
    llvm::DenseMap<Value, Value> quantized;  // activation -> its rounded copy
    SmallVector<hir::LinearOp> linears;
    func.walk([&](hir::LinearOp op) { linears.push_back(op); });
    for (hir::LinearOp op : linears) {
      auto weight = op.getWeight().getType();
      if (format_info(weight.getFormat()).cls != FormatClass::kBlock) continue;
      // Gate projections (ssm_alpha, ssm_beta: one row per value head) steer the recurrence's decay and cost
      // nothing: they keep f32 inputs.
      if (weight.getShape()[0] <= maxF32Rows) continue;
      Value x = op.getX();
      if (cast<RankedTensorType>(x.getType()).getEncoding()) continue;
      Value& q = quantized[x];
      if (!q) {
        OpBuilder b(op.getContext());
        b.setInsertionPointAfterValue(x);
        q = hir::QuantizeOp::create(b, op.getLoc(), x, b.getI64IntegerAttr(layouts::kInt8Block));
      }
      op.getXMutable().assign(q);
    }
  }
};
}  // namespace
}  // namespace qcc::passes
