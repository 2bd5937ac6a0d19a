#include "passes/Passes.h"

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "mlir/IR/Builders.h"

namespace qcc::passes {
#define GEN_PASS_DEF_QUANTIZEACTIVATIONS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

bool hasCodes(TypedValue<hir::WeightType> weight) {
  return format_info(weight.getType().getFormat()).cls == FormatClass::kBlock;
}

// The rounded copies of a function's activations.
class Rounded {
 public:
  // Puts the rounded copy in the place of a plain activation.
  void quantize(OpOperand& input, int64_t terms, Location loc) {
    Value x = input.get();
    if (cast<RankedTensorType>(x.getType()).getEncoding()) return;
    Value& copy = copies[{x, terms}];
    if (!copy) {
      OpBuilder b(x.getContext());
      b.setInsertionPointAfterValue(x);
      copy = hir::QuantizeOp::create(b, loc, x, b.getI64IntegerAttr(layouts::kInt8Block),
                                     b.getI64IntegerAttr(terms));
    }
    input.set(copy);
  }

 private:
  llvm::DenseMap<std::pair<Value, int64_t>, Value> copies;
};

struct QuantizeActivationsPass : impl::QuantizeActivationsBase<QuantizeActivationsPass> {
  using QuantizeActivationsBase::QuantizeActivationsBase;

  void runOnOperation() override {
    getOperation().walk([&](func::FuncOp func) {
      Rounded rounded;
      SmallVector<Operation*> readers;
      Value routed;  // what the block's experts take
      func.walk([&](Operation* op) {
        readers.push_back(op);
        if (auto experts = dyn_cast<hir::MoeExpertsOp>(op)) routed = experts.getX();
      });
      for (Operation* op : readers) {
        if (auto linear = dyn_cast<hir::LinearOp>(op)) quantizeInput(linear, routed, rounded);
        if (auto experts = dyn_cast<hir::MoeExpertsOp>(op)) quantizeInputs(experts, rounded);
      }
    });
  }

  // How well a linear's input is rounded. Where experts follow, rounding of what leads to the router decides
  // now and then which of them are used, and a row with another expert has the error of hundreds without
  // (t35moe in Q4_K_M: 2.4e-3 of the file's NMSE against 4.3e-6 of the median row): so attention and delta
  // nets get two terms there. The experts themselves and a shared one get one: nothing is routed by their
  // hidden rows.
  static int64_t termsFor(hir::LinearOp op, Value routed) {
    return routed && op.getX() != routed && !op.getX().getDefiningOp<hir::SwigluOp>() ? 2 : 1;
  }

  // Of a shared expert, gate or up whose counterpart has no codes: they have one input in the fused op.
  static bool keepsCounterpartsInput(hir::LinearOp op) {
    for (Operation* user : op->getUsers()) {
      auto swiglu = dyn_cast<hir::SwigluOp>(user);
      if (!swiglu) continue;
      for (Value half : {swiglu.getGate(), swiglu.getUp()}) {
        if (auto linear = half.getDefiningOp<hir::LinearOp>(); linear && !hasCodes(linear.getWeight()))
          return true;
      }
    }
    return false;
  }

  void quantizeInput(hir::LinearOp op, Value routed, Rounded& rounded) {
    // Gate projections (ssm_alpha, ssm_beta: one row per value head) steer the recurrence's decay and cost
    // nothing: they keep f32 inputs. So do routers: an expert chosen otherwise can dominate a row's error.
    if (op.getWeight().getType().getShape()[0] <= maxF32Rows || !hasCodes(op.getWeight())) return;
    if (llvm::any_of(op->getUsers(), llvm::IsaPred<hir::MoeRouteOp>)) return;
    if (routed && keepsCounterpartsInput(op)) return;
    rounded.quantize(op.getXMutable(), termsFor(op, routed), op.getLoc());
  }

  // One input of gate and up, one rounding.
  void quantizeInputs(hir::MoeExpertsOp op, Rounded& rounded) {
    if (hasCodes(op.getGate()) && hasCodes(op.getUp())) rounded.quantize(op.getXMutable(), 1, op.getLoc());
    if (hasCodes(op.getDown()) && op.getWidth() % layouts::kInt8Block == 0)
      op.setHiddenBlock(layouts::kInt8Block);
  }
};
}  // namespace
}  // namespace qcc::passes
