// Linears: alone, several on one activation, with SwiGLU, with the residual sum.
#include "dialects/layouts/layouts.h"
#include "passes/plan/Lowering.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

namespace qcc::passes {
namespace {

// A linear that is to run: `op` is where errors go.
struct Work {
  Operation* op;
  Value x;
  hir::WeightType type;
  plan::Ref weight, scale, upScale;  // scales are unbound where the file has none
};

// The weights of a linear: the matrix or matrices, then the scales that there are.
void addLinear(AddWeight add, layouts::Use use, ValueRange matrices, ArrayRef<Value> scales) {
  add(use, matrices);
  for (Value scale : scales)
    if (scale) add(layouts::Use::kVector, scale);
}

// The next of the weights that addLinear added, if `value` is one.
plan::Ref next(ArrayRef<plan::Ref>& weights, Value value) {
  if (!value) return {};
  plan::Ref ref = weights.front();
  weights = weights.drop_front();
  return ref;
}

// A dispatch of n output rows of a matrix, from row `firstRow` on, into `y`.
LogicalResult emitLinear(const Work& work, int64_t firstRow, int64_t n, plan::Epilogue epilogue,
                         const View& y, Lowering& l) {
  auto xType = cast<RankedTensorType>(work.x.getType());
  bool int8 = false;
  if (Attribute encoding = xType.getEncoding()) {
    auto blocks = dyn_cast<hir::Int8Attr>(encoding);
    if (!blocks || blocks.getBlock() != layouts::kInt8Block)
      return l.noKernel(work.op) << " with input " << xType;
    int8 = true;
  }
  Format format = work.type.getFormat();
  if (const FormatInfo& info = format_info(format); int8 && info.cls != FormatClass::kBlock)
    return l.noKernel(work.op, " of int8 rows with " + StringRef(info.name) + " weights");
  FailureOr<View> x = int8 ? l.view(work.x, work.op) : l.denseRows(work.x, work.op);
  if (failed(x)) return failure();
  if (x->outRows != y.outRows) return l.noKernel(work.op, " between rows of the step and selected rows");

  plan::LinearSpec spec;
  spec.format = format;
  spec.numerics = int8 ? plan::Numerics::Int8 : plan::Numerics::F32;
  spec.k = work.type.getShape().back();
  spec.n = n;
  spec.epilogue = epilogue;
  spec.rows = x->outRows ? plan::RowsFrom::OutRows : plan::RowsFrom::Rows;
  plan::LinearBindings<plan::Ref> bindings;
  (int8 ? bindings.xq : bindings.x) = Lowering::ref(*x);
  bindings.w = work.weight;
  if (firstRow != 0 || n != work.type.getShape().front()) {
    // Groups of 16 rows lie one behind the other: a range of them is a matrix of its own.
    bindings.w.offset += layouts::X16Bytes(format, firstRow, spec.k);
    bindings.w.bytes = layouts::X16Bytes(format, n, spec.k);
  }
  bindings.scale = work.scale;
  bindings.up_scale = work.upScale;
  bindings.y = Lowering::ref(y);
  l.dispatch(work.op, spec, bindings);
  return success();
}

// Where all uses of a linear's result are slices, the matrix is run in pieces, one per slice; else false.
FailureOr<bool> storeSlices(const Work& work, Value result, Lowering& l) {
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

LogicalResult storeLinear(const Work& work, Value result, Lowering& l) {
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
    Work work{op, op.getX(), op.getWeight().getType(), next(refs, op.getWeight()), next(refs, op.getScale()),
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
      Work work{op.getLinear(i), x, type, next(refs, weight), next(refs, op.getScale(i)), {}};
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
    if (refs.size() - scales == 2) return lowerApart(op, refs, *x, l);
    View y = l.result(op.getResult(), "swiglu", layouts::AlignUp(n, layouts::kGroupRows), x->outRows);
    Work work{op,
              op.getX(),
              op.getGate().getType(),
              next(refs, op.getGate()),
              next(refs, op.getGateScale()),
              next(refs, op.getUpScale())};
    return emitLinear(work, 0, n, plan::Epilogue::Swiglu, y, l);
  }

  // Where the target keeps gate and up as matrices of their own: two linears and their product.
  static LogicalResult lowerApart(hir::FusedLinearSwigluOp op, ArrayRef<plan::Ref> w, const View& x,
                                  Lowering& l) {
    int64_t n = rowElements(op.getResult());
    if (n % layouts::kGroupRows != 0)
      return l.noKernel(op) << " with gate and up apart and " << n << " columns: a multiple of "
                            << layouts::kGroupRows << " is needed";
    if (x.outRows) return l.noKernel(op, " of selected rows, with gate and up apart");
    View gate = l.scratch("swiglu_gate", n), up = l.scratch("swiglu_up", n);
    View y = l.result(op.getResult(), "swiglu", n, false);
    Work ofGate{op, op.getX(), op.getGate().getType(), next(w, op.getGate()), {}, {}};
    Work ofUp{op, op.getX(), op.getUp().getType(), next(w, op.getUp()), {}, {}};
    ofGate.scale = next(w, op.getGateScale());
    ofUp.scale = next(w, op.getUpScale());
    if (failed(emitLinear(ofGate, 0, n, plan::Epilogue::Store, gate, l)) ||
        failed(emitLinear(ofUp, 0, n, plan::Epilogue::Store, up, l)))
      return failure();
    l.dispatch(op, plan::SwigluSpec{n}, {Lowering::ref(gate), Lowering::ref(up), Lowering::ref(y)});
    return success();
  }
};

struct LinearResidualLowering : LoweringOf<LinearResidualLowering, hir::FusedLinearResidualOp> {
  static void weights(hir::FusedLinearResidualOp op, AddWeight add) {
    addLinear(add, layouts::Use::kMatrix, op.getWeight(), op.getScale());
  }

  static LogicalResult lowerOp(hir::FusedLinearResidualOp op, Lowering& l) {
    if (!Lowering::diesAt(op.getResidual(), op))
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
    Work work{op, op.getX(), op.getWeight().getType(), next(refs, op.getWeight()), next(refs, op.getScale()),
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
