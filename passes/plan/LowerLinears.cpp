// Linears: alone, several on one activation, with SwiGLU, with the residual sum.
#include "dialects/layouts/layouts.h"
#include "passes/Liveness.h"
#include "passes/plan/LinearDispatches.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

namespace qcc::passes {
plan::Ref nextWeight(ArrayRef<plan::Ref>& weights, Value value) {
  if (!value) return {};
  plan::Ref ref = weights.front();
  weights = weights.drop_front();
  return ref;
}

FailureOr<plan::Numerics> numericsOf(Operation* op, Value x, hir::WeightType type, Lowering& l) {
  auto xType = cast<RankedTensorType>(x.getType());
  Attribute encoding = xType.getEncoding();
  if (!encoding) return plan::Numerics::F32;
  auto blocks = dyn_cast<hir::Int8Attr>(encoding);
  if (!blocks || blocks.getBlock() != layouts::kInt8Block) {
    l.noKernel(op) << " with input " << xType;
    return failure();
  }
  if (const FormatInfo& info = format_info(type.getFormat()); info.cls != FormatClass::kBlock) {
    l.noKernel(op, " of int8 rows with " + StringRef(info.name) + " weights");
    return failure();
  }
  return blocks.getTerms() == 2 ? plan::Numerics::Int8x2 : plan::Numerics::Int8;
}

LogicalResult emitLinear(const LinearWork& work, int64_t firstRow, int64_t n, plan::Epilogue epilogue,
                         const View& y, Lowering& l) {
  FailureOr<plan::Numerics> numerics = numericsOf(work.op, work.x, work.type, l);
  if (failed(numerics)) return failure();
  bool int8 = *numerics != plan::Numerics::F32;
  FailureOr<View> x = int8 ? l.view(work.x, work.op) : l.denseRows(work.x, work.op);
  if (failed(x)) return failure();
  if (x->outRows != y.outRows && !l.rowsAreChosen())
    return l.noKernel(work.op, " between rows of the step and selected rows");

  plan::LinearSpec spec;
  spec.format = work.type.getFormat();
  spec.numerics = *numerics;
  spec.k = work.type.getShape().back();
  spec.n = n;
  spec.epilogue = epilogue;
  spec.rows = y.outRows ? plan::RowsFrom::OutRows : plan::RowsFrom::Rows;
  plan::LinearBindings<plan::Ref> bindings;
  (int8 ? bindings.xq : bindings.x) = Lowering::ref(*x);
  bindings.w = work.weight;
  if (firstRow != 0 || n < work.type.getShape().front()) {
    // Groups of 16 rows lie one behind the other: a range of them is a matrix of its own.
    bindings.w.offset += layouts::X16Bytes(spec.format, firstRow, spec.k);
    bindings.w.bytes = layouts::X16Bytes(spec.format, n, spec.k);
  }
  bindings.scale = work.scale;
  bindings.up_scale = work.upScale;
  bindings.y = Lowering::ref(y);
  l.dispatch(work.op, spec, bindings);
  return success();
}

// Where the target keeps gate and up as matrices of their own: two linears and their product.
static LogicalResult emitApart(const SwigluWork& work, int64_t n, const View& y, Lowering& l) {
  if (n % layouts::kGroupRows != 0)
    return l.noKernel(work.op) << " with gate and up apart and " << n << " columns: a multiple of "
                               << layouts::kGroupRows << " is needed";
  if (y.outRows) return l.noKernel(work.op, " of selected rows, with gate and up apart");
  View gate = l.scratch("swiglu_gate", n), up = l.scratch("swiglu_up", n);
  LinearWork ofGate{work.op, work.x, work.gateType, work.gate, work.gateScale, {}};
  LinearWork ofUp{work.op, work.x, work.upType, work.up, work.upScale, {}};
  if (failed(emitLinear(ofGate, 0, n, plan::Epilogue::Store, gate, l)) ||
      failed(emitLinear(ofUp, 0, n, plan::Epilogue::Store, up, l)))
    return failure();
  l.dispatch(work.op, plan::SwigluSpec{n}, {Lowering::ref(gate), Lowering::ref(up), Lowering::ref(y)});
  return success();
}

LogicalResult emitSwiglu(const SwigluWork& work, const View& y, Lowering& l) {
  int64_t n = work.n;
  if (work.up) return emitApart(work, n, y, l);
  LinearWork pair{work.op, work.x, work.gateType, work.gate, work.gateScale, work.upScale};
  return emitLinear(pair, 0, n, plan::Epilogue::Swiglu, y, l);
}

namespace {

// The weights of a linear: the matrix or matrices, then the scales that there are.
void addLinear(AddWeight add, layouts::Use use, ValueRange matrices, ArrayRef<Value> scales) {
  add(use, matrices);
  for (Value scale : scales)
    if (scale) add(layouts::Use::kVector, scale);
}

// Where all uses of a linear's result are slices, the matrix is run in pieces, one per slice; else false.
FailureOr<bool> storeSlices(const LinearWork& work, Value result, Lowering& l) {
  SmallVector<hir::SliceOp> slices;
  for (Operation* user : result.getUsers()) {
    auto slice = dyn_cast<hir::SliceOp>(user);
    if (!slice) return false;
    slices.push_back(slice);
  }
  if (slices.empty()) return false;
  llvm::sort(slices, [](hir::SliceOp a, hir::SliceOp b) {
    return std::pair(a.getOffset(), a.getSize()) < std::pair(b.getOffset(), b.getSize());
  });
  int64_t n = rowElements(result);
  FailureOr<View> x = l.view(work.x, work.op);
  if (failed(x)) return failure();
  llvm::DenseMap<std::pair<int64_t, int64_t>, View> parts;
  for (hir::SliceOp slice : slices) {
    int64_t begin = slice.getOffset(), size = slice.getSize();
    if (begin % layouts::kGroupRows != 0 || (size % layouts::kGroupRows != 0 && begin + size != n))
      return slice.emitError("no kernel for a slice [")
             << begin << ", " << size << "] of a linear of " << n << " rows on target " << l.targetName()
             << ": matrices are cut at multiples of " << layouts::kGroupRows;
    auto [it, isNew] = parts.try_emplace({begin, size});
    if (isNew) {
      it->second =
          l.result(slice.getResult(), "linear", layouts::AlignUp(size, layouts::kGroupRows), x->outRows);
      if (failed(emitLinear(work, begin, size, plan::Epilogue::Store, it->second, l))) return failure();
    }
    l.place(slice.getResult(), it->second);
  }
  return true;
}

LogicalResult storeLinear(const LinearWork& work, Value result, Lowering& l) {
  FailureOr<bool> sliced = storeSlices(work, result, l);
  if (failed(sliced)) return failure();
  if (*sliced) return success();
  FailureOr<View> x = l.view(work.x, work.op);
  if (failed(x)) return failure();
  int64_t n = rowElements(result);
  View y = l.result(result, "linear", layouts::AlignUp(n, layouts::kGroupRows), x->outRows);
  return emitLinear(work, 0, n, plan::Epilogue::Store, y, l);
}

struct LinearLowering : LoweringOf<LinearLowering, hir::LinearOp> {
  static void weights(hir::LinearOp op, AddWeight add) {
    addLinear(add, layouts::Use::kMatrix, op.getWeight(), op.getScale());
  }

  static LogicalResult lowerOp(hir::LinearOp op, Lowering& l) {
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    if (failed(w)) return failure();
    ArrayRef<plan::Ref> refs = *w;
    LinearWork work{op,
                    op.getX(),
                    op.getWeight().getType(),
                    nextWeight(refs, op.getWeight()),
                    nextWeight(refs, op.getScale()),
                    {}};
    return storeLinear(work, op.getResult(), l);
  }
};

struct MergedLinearLowering : LoweringOf<MergedLinearLowering, hir::FusedMergedLinearOp> {
  static void weights(hir::FusedMergedLinearOp op, AddWeight add) {
    for (auto [i, weight] : llvm::enumerate(op.getWeights()))
      addLinear(add, layouts::Use::kMatrix, weight, op.getScale(i));
  }

  static LogicalResult lowerOp(hir::FusedMergedLinearOp op, Lowering& l) {
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    if (failed(w)) return failure();
    ArrayRef<plan::Ref> refs = *w;
    for (auto [i, x, weight, result] : llvm::enumerate(op.getInputs(), op.getWeights(), op.getResults())) {
      auto type = cast<hir::WeightType>(weight.getType());
      LinearWork work{
          op.getLinear(i), x, type, nextWeight(refs, weight), nextWeight(refs, op.getScale(i)), {}};
      if (failed(storeLinear(work, result, l))) return failure();
    }
    return success();
  }
};

struct LinearSwigluLowering : LoweringOf<LinearSwigluLowering, hir::FusedLinearSwigluOp> {
  static void weights(hir::FusedLinearSwigluOp op, AddWeight add) {
    addLinear(add, layouts::Use::kMatrixPair, {op.getGate(), op.getUp()},
              {op.getGateScale(), op.getUpScale()});
  }

  static LogicalResult lowerOp(hir::FusedLinearSwigluOp op, Lowering& l) {
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    if (failed(w)) return failure();
    FailureOr<View> x = l.view(op.getX(), op);
    if (failed(x)) return failure();
    int64_t n = rowElements(op.getResult());
    ArrayRef<plan::Ref> refs = *w;
    size_t scales = (op.getGateScale() ? 1 : 0) + (op.getUpScale() ? 1 : 0);
    View y = l.result(op.getResult(), "swiglu", layouts::AlignUp(n, layouts::kGroupRows), x->outRows);
    SwigluWork work{op, op.getX(), op.getGate().getType(), op.getUp().getType(), {}, {}, {}, {}, n};
    work.gate = nextWeight(refs, op.getGate());
    if (refs.size() != scales) work.up = nextWeight(refs, op.getUp());
    work.gateScale = nextWeight(refs, op.getGateScale());
    work.upScale = nextWeight(refs, op.getUpScale());
    return emitSwiglu(work, y, l);
  }
};

struct LinearResidualLowering : LoweringOf<LinearResidualLowering, hir::FusedLinearResidualOp> {
  static void weights(hir::FusedLinearResidualOp op, AddWeight add) {
    addLinear(add, layouts::Use::kMatrix, op.getWeight(), op.getScale());
  }

  static LogicalResult lowerOp(hir::FusedLinearResidualOp op, Lowering& l) {
    if (!diesAt(op.getResidual(), op))
      return op.emitError("'") << op->getName() << "' adds in place, but the residual is needed afterwards";
    FailureOr<View> y = l.denseRows(op.getResidual(), op);
    if (failed(y)) return failure();
    int64_t n = rowElements(op.getResult());
    if (n % layouts::kGroupRows != 0)
      return l.noKernel(op) << " with " << n << " columns: a multiple of " << layouts::kGroupRows
                            << " is needed";
    FailureOr<SmallVector<plan::Ref>> w = l.weights(op);
    if (failed(w)) return failure();
    l.place(op.getResult(), *y);
    ArrayRef<plan::Ref> refs = *w;
    LinearWork work{op,
                    op.getX(),
                    op.getWeight().getType(),
                    nextWeight(refs, op.getWeight()),
                    nextWeight(refs, op.getScale()),
                    {}};
    return emitLinear(work, 0, n, plan::Epilogue::Add, *y, l);
  }
};

}  // namespace

void attachLinearLowerings(MLIRContext& context) {
  hir::LinearOp::attachInterface<LinearLowering>(context);
  hir::FusedMergedLinearOp::attachInterface<MergedLinearLowering>(context);
  hir::FusedLinearSwigluOp::attachInterface<LinearSwigluLowering>(context);
  hir::FusedLinearResidualOp::attachInterface<LinearResidualLowering>(context);
}

}  // namespace qcc::passes
