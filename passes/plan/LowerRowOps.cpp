// Ops that work row by row: embedding, rotation table, norms, int8 rounding, elementwise sums and products;
// and the ops that are names and views.
#include "dialects/layouts/layouts.h"
#include "passes/Liveness.h"
#include "passes/plan/Lowering.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

namespace qcc::passes {
namespace {

// Names of things, and views that their readers resolve.
template <typename Op>
struct Viewed : LoweringOf<Viewed<Op>, Op> {
  static LogicalResult lowerOp(Op, Lowering&) { return success(); }
};

struct EmbedLowering : LoweringOf<EmbedLowering, hir::EmbedOp> {
  static void weights(hir::EmbedOp op, AddWeight add) { add(layouts::Use::kMatrix, op.getTable()); }

  static LogicalResult lowerOp(hir::EmbedOp op, Lowering& l) {
    int64_t cols = rowElements(op.getResult());
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    if (failed(w)) return failure();
    View out = l.result(op.getResult(), "embed", cols, false);
    l.dispatch(op, plan::EmbedSpec{op.getTable().getType().getFormat(), cols}, {(*w)[0], Lowering::ref(out)});
    return success();
  }
};

struct RopeTableLowering : LoweringOf<RopeTableLowering, hir::RopeTableOp> {
  static LogicalResult lowerOp(hir::RopeTableOp op, Lowering& l) {
    FailureOr<plan::Ref> frequencies = l.constant(op);
    if (failed(frequencies)) return failure();
    View out = l.result(op.getResult(), "rope", rowElements(op.getResult()), false);
    plan::RopeTableSpec spec;
    spec.pairs = op.getInvFreq().size();
    spec.sections = op.getSections().vec();
    spec.magnitude = op.getMagnitude().convertToDouble();
    l.dispatch(op, spec, {*frequencies, Lowering::ref(out)});
    return success();
  }
};

// Norms select the rows that they read. For others rows of another program are copied to where this one's
// lie.
struct SelectRowsLowering : LoweringOf<SelectRowsLowering, hir::SelectRowsOp> {
  static LogicalResult lowerOp(hir::SelectRowsOp op, Lowering& l) {
    FailureOr<View> x = l.denseRows(op.getX(), op);
    if (failed(x)) return failure();
    bool forNorms = llvm::all_of(op->getUsers(), llvm::IsaPred<hir::RmsNormOp, hir::FusedNormQuantOp>);
    if (l.rowsAreChosen() && !forNorms) {
      int64_t cols = rowElements(op.getResult());
      View out = l.result(op.getResult(), "selected", cols, false);
      l.dispatch(op, plan::SelectRowsSpec{cols}, {Lowering::ref(*x), Lowering::ref(out)});
      return success();
    }
    View selected = *x;
    selected.selected = true;
    l.place(op.getResult(), selected);
    return success();
  }
};

// Of rounded rows.
int64_t termsOf(Value rounded) {
  return cast<hir::Int8Attr>(cast<RankedTensorType>(rounded.getType()).getEncoding()).getTerms();
}

// rms_norm over whole rows; `out`, `outQ`: the results that are needed, or null.
LogicalResult lowerNorm(Operation* op, Value xValue, float eps, Value out, Value outQ, Lowering& l) {
  if (cast<RankedTensorType>(xValue.getType()).getRank() != 2) return l.noKernel(op, " over heads");
  int64_t cols = rowElements(xValue);
  FailureOr<View> x = l.view(xValue, op);
  if (failed(x)) return failure();
  bool select = x->selected;
  if (!select && failed(l.denseRows(xValue, op))) return failure();
  if (!select && x->outRows) return l.noKernel(op) << " behind a selection of rows; it selects rows itself";
  FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
  if (failed(w)) return failure();
  plan::NormSpec spec{cols, eps, select ? plan::RowsFrom::OutRows : plan::RowsFrom::Rows};
  plan::NormBindings<plan::Ref> bindings;
  bindings.x = Lowering::ref(*x);
  bindings.weight = (*w)[0];
  if (out) bindings.out = Lowering::ref(l.result(out, "norm", cols, select));
  if (outQ) {
    int64_t terms = termsOf(outQ);
    View codes = l.int8Result(outQ, "norm_q", terms * cols, select);
    (terms == 2 ? bindings.out_q2 : bindings.out_q) = Lowering::ref(codes);
  }
  l.dispatch(op, spec, bindings);
  return success();
}

struct RmsNormLowering : LoweringOf<RmsNormLowering, hir::RmsNormOp> {
  static void weights(hir::RmsNormOp op, AddWeight add) { add(layouts::Use::kVector, op.getWeight()); }

  static LogicalResult lowerOp(hir::RmsNormOp op, Lowering& l) {
    return lowerNorm(op, op.getX(), op.getEps().convertToFloat(), op.getResult(), Value(), l);
  }
};

struct NormQuantLowering : LoweringOf<NormQuantLowering, hir::FusedNormQuantOp> {
  static void weights(hir::FusedNormQuantOp op, AddWeight add) { add(layouts::Use::kVector, op.getWeight()); }

  static LogicalResult lowerOp(hir::FusedNormQuantOp op, Lowering& l) {
    int64_t block = op.getRounding().getBlock();
    if (block != layouts::kInt8Block)
      return l.noKernel(op, " with block " + Twine(block)) << "; it rounds blocks of " << layouts::kInt8Block;
    return lowerNorm(op, op.getX(), op.getEps().convertToFloat(), op.getNorm(), op.getQuantized(), l);
  }
};

struct QuantizeLowering : LoweringOf<QuantizeLowering, hir::QuantizeOp> {
  static LogicalResult lowerOp(hir::QuantizeOp op, Lowering& l) {
    if (static_cast<int64_t>(op.getBlock()) != layouts::kInt8Block)
      return l.noKernel(op, " with block " + Twine(op.getBlock()))
             << "; it rounds blocks of " << layouts::kInt8Block;
    FailureOr<View> x = l.denseRows(op.getX(), op);
    if (failed(x)) return failure();
    if (x->outRows) return l.noKernel(op, " of selected rows");
    int64_t cols = rowElements(op.getX());
    int64_t terms = op.getTerms();
    View out = l.int8Result(op.getResult(), "quantized", terms * cols, false);
    plan::QuantizeBindings<plan::Ref> bindings;
    bindings.x = Lowering::ref(*x);
    (terms == 2 ? bindings.out_q2 : bindings.out_q) = Lowering::ref(out);
    l.dispatch(op, plan::QuantizeSpec{cols}, bindings);
    return success();
  }
};

struct SwigluLowering : LoweringOf<SwigluLowering, hir::SwigluOp> {
  static LogicalResult lowerOp(hir::SwigluOp op, Lowering& l) {
    FailureOr<View> gate = l.denseRows(op.getGate(), op);
    FailureOr<View> up = l.denseRows(op.getUp(), op);
    if (failed(gate) || failed(up)) return failure();
    if (gate->outRows || up->outRows) return l.noKernel(op, " of selected rows");
    int64_t cols = rowElements(op.getResult());
    View out = l.result(op.getResult(), "swiglu", cols, false);
    l.dispatch(op, plan::SwigluSpec{cols}, {Lowering::ref(*gate), Lowering::ref(*up), Lowering::ref(out)});
    return success();
  }
};

struct AddLowering : LoweringOf<AddLowering, hir::AddOp> {
  static LogicalResult lowerOp(hir::AddOp op, Lowering& l) {
    FailureOr<View> lhs = l.denseRows(op.getLhs(), op);
    FailureOr<View> rhs = l.denseRows(op.getRhs(), op);
    if (failed(lhs) || failed(rhs)) return failure();
    if (lhs->outRows || rhs->outRows) return l.noKernel(op, " of selected rows");
    // y += x: the sum takes the place of an operand that nobody needs any more, the residual stream if it is
    // one.
    bool lhsDies = diesAt(op.getLhs(), op), rhsDies = diesAt(op.getRhs(), op);
    if (!lhsDies && !rhsDies) return l.noKernel(op) << " whose operands are both needed afterwards";
    bool intoRhs = rhsDies && (!lhsDies || rhs->offset == 0);
    View &y = intoRhs ? *rhs : *lhs, &x = intoRhs ? *lhs : *rhs;
    if (x.offset == y.offset) return l.noKernel(op) << " of a value with itself";
    if (l.isPlaced(op.getResult()) && l.view(op.getResult(), op)->offset != y.offset)
      return l.noKernel(op) << " that begins the residual stream: the sum takes the place of an operand";
    l.dispatch(op, plan::AddSpec{rowElements(op.getResult())}, {Lowering::ref(x), Lowering::ref(y)});
    l.place(op.getResult(), y);
    return success();
  }
};

struct ConcatLowering : LoweringOf<ConcatLowering, hir::ConcatOp> {
  static LogicalResult lowerOp(hir::ConcatOp op, Lowering& l) {
    FailureOr<View> a = l.denseRows(op.getLhs(), op);
    FailureOr<View> b = l.denseRows(op.getRhs(), op);
    if (failed(a) || failed(b)) return failure();
    if (a->outRows || b->outRows) return l.noKernel(op, " of selected rows");
    View out = l.result(op.getResult(), "concat", rowElements(op.getResult()), false);
    l.dispatch(op, plan::ConcatSpec{rowElements(op.getLhs()), rowElements(op.getRhs())},
               {Lowering::ref(*a), Lowering::ref(*b), Lowering::ref(out)});
    return success();
  }
};

}  // namespace

void attachRowLowerings(MLIRContext& context) {
  hir::ParamOp::attachInterface<Viewed<hir::ParamOp>>(context);
  hir::StateOp::attachInterface<Viewed<hir::StateOp>>(context);
  hir::ReshapeOp::attachInterface<Viewed<hir::ReshapeOp>>(context);
  hir::SliceOp::attachInterface<Viewed<hir::SliceOp>>(context);
  hir::EmbedOp::attachInterface<EmbedLowering>(context);
  hir::RopeTableOp::attachInterface<RopeTableLowering>(context);
  hir::SelectRowsOp::attachInterface<SelectRowsLowering>(context);
  hir::RmsNormOp::attachInterface<RmsNormLowering>(context);
  hir::FusedNormQuantOp::attachInterface<NormQuantLowering>(context);
  hir::QuantizeOp::attachInterface<QuantizeLowering>(context);
  hir::SwigluOp::attachInterface<SwigluLowering>(context);
  hir::AddOp::attachInterface<AddLowering>(context);
  hir::ConcatOp::attachInterface<ConcatLowering>(context);
}

}  // namespace qcc::passes
