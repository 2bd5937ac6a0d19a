// A feed-forward block of experts: router, routing, the experts' matrices, the shared expert, all into the
// residual.
#include "dialects/layouts/layouts.h"
#include "passes/Liveness.h"
#include "passes/plan/LinearDispatches.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

namespace qcc::passes {
namespace {

// What says which rows an expert has. Unbound: one expert, which has all.
struct Lists {
  plan::Ref ids, groups, order;
};

// Hidden rows have whole groups of a matrix's rows and whole chunks of its columns: zeros stand behind the
// rows of gate and up, which give hidden zeros, and behind the columns of down.
constexpr int64_t kWidthStep = layouts::kChunkColumns;

bool lieAsPair(hir::WeightType gate, hir::WeightType up) {
  return gate == up;
}

class MoeDispatches {
 public:
  MoeDispatches(hir::FusedMoeOp op, const llvm::DenseMap<Value, plan::Ref>& weights, const View& y,
                Lowering& l)
      : op(op), placed(weights), y(y), l(l) {}

  LogicalResult emit() {
    // Ahead of what they feed, as they take the same rows: the shared expert's first matrices run beside the
    // router.
    if (failed(checkColumns()) || failed(router()) || failed(sharedHidden()) || failed(route()) ||
        failed(experts()))
      return failure();
    // The shared expert's rows are rounded beside the others'.
    Down routed{this->routed(op.getDown(), op.getDownScale()), weights, hidden};
    Down shared{
        {op.getSharedDown(), op.getSharedDownScale(), {}, /*experts=*/1, /*topK=*/1, {}}, factor, sharedRows};
    if (failed(round(routed, op.getHiddenBlock(), "expert_hidden_q"))) return failure();
    if (op.getSharedDown() && failed(round(shared, op.getSharedHiddenBlock(), "shared_hidden_q")))
      return failure();
    emitDown(routed);
    if (op.getSharedDown()) emitDown(shared);
    return success();
  }

 private:
  int64_t topK() { return op.getTopK(); }
  // Unbound where there is no such weight, or where it is the second of a pair.
  plan::Ref at(Value weight) { return weight ? placed.lookup(weight) : plan::Ref(); }
  int64_t columns() { return rowElements(op.getResult()); }

  int64_t width() { return layouts::AlignUp(op.getWidth(), kWidthStep); }
  int64_t sharedWidth() { return layouts::AlignUp(op.getSharedWidth(), kWidthStep); }

  LogicalResult checkColumns() {
    if (columns() % layouts::kGroupRows == 0) return success();
    return l.noKernel(op) << " with " << columns() << " columns: a multiple of " << layouts::kGroupRows
                          << " is needed";
  }

  LogicalResult router() {
    int64_t experts = op.getExperts();
    logits = l.scratch("router", layouts::AlignUp(experts, layouts::kGroupRows));
    LinearWork work{op, op.getX(), op.getRouter().getType(), at(op.getRouter()), {}, {}};
    return emitLinear(work, 0, experts, plan::Epilogue::Store, logits, l);
  }

  LogicalResult route() {
    plan::MoeRouteSpec spec;
    spec.experts = op.getExperts();
    spec.top_k = topK();
    spec.gating = op.getGating() == hir::Gating::Softmax ? plan::Gating::Softmax : plan::Gating::Sigmoid;
    spec.normalise = op.getNormalise();
    spec.norm_floor = op.getNormFloor().convertToFloat();
    spec.scale = op.getScale().convertToFloat();
    spec.shared = static_cast<bool>(op.getSharedRouter());
    spec.cols = rowElements(op.getX());
    plan::MoeRouteBindings<plan::Ref> bindings;
    bindings.logits = Lowering::ref(logits);
    bindings.ids = Lowering::ref(l.scratch("expert_ids", topK()));
    bindings.weights = weights = Lowering::ref(l.scratch("expert_weights", topK()));
    if (spec.shared) {
      FailureOr<View> x = l.denseRows(op.getX(), op);
      if (failed(x)) return failure();
      bindings.x = Lowering::ref(*x);
      bindings.shared_router = at(op.getSharedRouter());
      bindings.factor = factor = Lowering::ref(l.scratch("shared_factor", 1));
    }
    if (spec.experts > 1) {
      lists = {bindings.ids,
               Lowering::ref(l.wholeScratch("expert_groups", plan::moeGroupsBytes(spec.experts))),
               Lowering::ref(l.scratch("expert_order", topK()))};
      // One row needs no sorting.
      if (l.bucket() == 1) bindings.groups = lists.groups, bindings.order = lists.order;
    }
    l.dispatch(op, spec, bindings);
    if (lists.groups && l.bucket() > 1)
      l.dispatch(op, plan::MoeGroupSpec{spec.experts, spec.top_k}, {lists.ids, lists.groups, lists.order});
    return success();
  }

  // Matrices of experts, one behind the other, or pairs of them by the first. Scales may be null.
  struct Stack {
    TypedValue<hir::WeightType> matrices;
    Value scale, upScale;
    int64_t experts, topK;
    Lists lists;
  };
  Stack routed(TypedValue<hir::WeightType> matrices, Value scale, Value upScale = {}) {
    return {matrices, scale, upScale, op.getExperts(), topK(), lists};
  }

  // Rows `x` through a stack into `out`; `slotWeights`: with add, unbound otherwise.
  void emitStack(const Stack& stack, plan::Numerics numerics, plan::Epilogue epilogue, const View& x,
                 const plan::Ref& slotWeights, const View& out) {
    hir::WeightType type = stack.matrices.getType();
    plan::MoeLinearSpec spec;
    spec.format = type.getFormat();
    spec.numerics = numerics;
    spec.k = epilogue == plan::Epilogue::Add ? x.stride / stack.topK : type.getShape().back();
    spec.n = epilogue == plan::Epilogue::Add ? columns() : width();
    spec.experts = stack.experts;
    spec.top_k = stack.topK;
    spec.epilogue = epilogue;
    spec.scale_count = numbersOf(stack.scale);
    spec.up_scale_count = numbersOf(stack.upScale);
    plan::MoeLinearBindings<plan::Ref> bindings;
    (numerics == plan::Numerics::Int8 ? bindings.xq : bindings.x) = Lowering::ref(x);
    bindings.w = at(stack.matrices);
    bindings.scale = at(stack.scale);
    bindings.up_scale = at(stack.upScale);
    if (stack.experts > 1) {
      bindings.ids = stack.lists.ids;
      bindings.groups = stack.lists.groups;
      bindings.order = stack.lists.order;
    }
    bindings.weights = slotWeights;
    bindings.y = Lowering::ref(out);
    l.dispatch(op, spec, bindings);
  }
  // Of a scale: one, or one for each expert.
  static int64_t numbersOf(Value scale) {
    return scale ? cast<hir::WeightType>(scale.getType()).getShape().back() : 1;
  }

  LogicalResult experts() {
    hir::WeightType gate = op.getGate().getType(), up = op.getUp().getType();
    FailureOr<plan::Numerics> numerics = numericsOf(op, op.getExpertsX(), gate, l);
    if (failed(numerics) || failed(numericsOf(op, op.getExpertsX(), up, l))) return failure();
    if (*numerics == plan::Numerics::Int8x2) return l.noKernel(op, " of int8 rows of two terms");
    FailureOr<View> x =
        *numerics == plan::Numerics::Int8 ? l.view(op.getExpertsX(), op) : l.denseRows(op.getExpertsX(), op);
    if (failed(x)) return failure();
    int64_t cols = topK() * width();
    hidden = l.scratch("expert_hidden", cols);
    if (!at(op.getUp())) {
      emitStack(routed(op.getGate(), op.getGateScale(), op.getUpScale()), *numerics, plan::Epilogue::Swiglu,
                *x, {}, hidden);
    } else {
      View g = l.scratch("expert_gate", cols), u = l.scratch("expert_up", cols);
      emitStack(routed(op.getGate(), op.getGateScale()), *numerics, plan::Epilogue::Store, *x, {}, g);
      emitStack(routed(op.getUp(), op.getUpScale()), *numerics, plan::Epilogue::Store, *x, {}, u);
      l.dispatch(op, plan::SwigluSpec{cols}, {Lowering::ref(g), Lowering::ref(u), Lowering::ref(hidden)});
    }
    return success();
  }

  LogicalResult sharedHidden() {
    if (!op.getSharedGate()) return success();
    SwigluWork work{op,
                    op.getSharedX(),
                    op.getSharedGate().getType(),
                    op.getSharedUp().getType(),
                    at(op.getSharedGate()),
                    at(op.getSharedUp()),
                    at(op.getSharedGateScale()),
                    at(op.getSharedUpScale()),
                    sharedWidth()};
    sharedRows = l.scratch("shared_hidden", sharedWidth());
    return emitSwiglu(work, sharedRows, l);
  }

  // y += slotWeights * (the stack times rows).
  struct Down {
    Stack stack;
    plan::Ref slotWeights;
    View rows;
    plan::Numerics numerics = plan::Numerics::F32;
  };

  // Rounds the rows where `block` is not 0.
  LogicalResult round(Down& down, int64_t block, StringRef name) {
    if (block == 0) return success();
    if (block != layouts::kInt8Block)
      return l.noKernel(op, " with block " + Twine(block)) << "; it rounds blocks of " << layouts::kInt8Block;
    if (const FormatInfo& info = format_info(down.stack.matrices.getType().getFormat());
        info.cls != FormatClass::kBlock)
      return l.noKernel(op, " of int8 rows with " + StringRef(info.name) + " weights");
    int64_t cols = down.rows.stride;
    View codes = l.int8Scratch(name, cols);
    codes.stride = cols;
    l.dispatch(op, plan::QuantizeSpec{cols}, {Lowering::ref(down.rows), Lowering::ref(codes)});
    down.rows = codes;
    down.numerics = plan::Numerics::Int8;
    return success();
  }

  void emitDown(const Down& down) {
    emitStack(down.stack, down.numerics, plan::Epilogue::Add, down.rows, down.slotWeights, y);
  }

  hir::FusedMoeOp op;
  const llvm::DenseMap<Value, plan::Ref>& placed;
  View y, logits, hidden, sharedRows;
  plan::Ref weights, factor;
  Lists lists;
  Lowering& l;
};

struct MoeLowering : LoweringOf<MoeLowering, hir::FusedMoeOp> {
  static void weights(hir::FusedMoeOp op, AddWeight add) {
    constexpr Padding kRows{.rows = kWidthStep}, kCols{.cols = kWidthStep};
    auto vector = [&](Value value) {
      if (value) add(layouts::Use::kVector, value);
    };
    auto gateAndUp = [&](Value gate, Value up, Value gateScale, Value upScale) {
      if (lieAsPair(cast<hir::WeightType>(gate.getType()), cast<hir::WeightType>(up.getType()))) {
        add(layouts::Use::kMatrixPair, {gate, up}, kRows);
      } else {
        add(layouts::Use::kMatrix, gate, kRows);
        add(layouts::Use::kMatrix, up, kRows);
      }
      vector(gateScale);
      vector(upScale);
    };
    add(layouts::Use::kMatrix, op.getRouter());
    gateAndUp(op.getGate(), op.getUp(), op.getGateScale(), op.getUpScale());
    add(layouts::Use::kMatrix, op.getDown(), kCols);
    vector(op.getDownScale());
    if (!op.getSharedGate()) return;
    vector(op.getSharedRouter());
    gateAndUp(op.getSharedGate(), op.getSharedUp(), op.getSharedGateScale(), op.getSharedUpScale());
    add(layouts::Use::kMatrix, op.getSharedDown(), kCols);
    vector(op.getSharedDownScale());
  }

  static LogicalResult lowerOp(hir::FusedMoeOp op, Lowering& l) {
    Value residual = op.getResidual();
    if (!residual) return l.noKernel(op, " without the residual sum");
    if (!diesAt(residual, op))
      return op.emitError("'") << op->getName() << "' adds in place, but the residual is needed afterwards";
    FailureOr<View> y = l.denseRows(residual, op);
    FailureOr<llvm::DenseMap<Value, plan::Ref>> weights = l.weightsBySource(op);
    if (failed(y) || failed(weights)) return failure();
    if (y->outRows) return l.noKernel(op, " of selected rows");
    l.place(op.getResult(), *y);
    return MoeDispatches(op, *weights, *y, l).emit();
  }
};

}  // namespace

void attachMoeLowerings(MLIRContext& context) {
  hir::FusedMoeOp::attachInterface<MoeLowering>(context);
}

}  // namespace qcc::passes
