#include "codegen/gpu/cuda/GxToNvvm.h"

#include "codegen/gpu/IR/Gx.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

constexpr unsigned kGlobal = 1;  // address space

Value address(PatternRewriter& rw, Location loc, Value base, Value offset) {
  Value wide = arith::ExtUIOp::create(rw, loc, rw.getI64Type(), offset);
  Value sum = arith::AddIOp::create(rw, loc, base, wide);
  return LLVM::IntToPtrOp::create(rw, loc, LLVM::LLVMPointerType::get(rw.getContext(), kGlobal), sum);
}

// By name, as the header of NVVM's own ops is slow to compile. What a call may do is said by LLVM's
// declaration of the intrinsic, which those ops end in, too.
Value callIntrinsic(PatternRewriter& rw, Location loc, mlir::Type result, StringRef name,
                    ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(rw, loc, result, rw.getStringAttr(name), operands).getResult(0);
}

// That does what no value says, so it stays where it is.
void assembly(PatternRewriter& rw, Location loc, StringRef text, StringRef constraints,
              ValueRange operands = {}) {
  LLVM::InlineAsmOp::create(rw, loc, /*resultTypes=*/TypeRange(), operands, text, constraints,
                            /*has_side_effects=*/true, /*is_align_stack=*/false,
                            LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                            /*operand_attrs=*/ArrayAttr());
}

unsigned bytesOf(mlir::Type type) {
  if (auto vector = dyn_cast<VectorType>(type)) return vector.getNumElements() * 4;
  return type.getIntOrFloatBitWidth() / 8;
}

struct LoadPattern : OpRewritePattern<gx::LoadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::LoadOp op, PatternRewriter& rw) const override {
    Value at = address(rw, op.getLoc(), op.getBase(), op.getOffset());
    // A part of the instruction.
    if (auto more = static_cast<int32_t>(op.getMore()))
      at = LLVM::GEPOp::create(rw, op.getLoc(), at.getType(), rw.getI8Type(), at, LLVM::GEPArg(more));
    rw.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(), at, bytesOf(op.getType()));

    return success();
  }
};

struct StorePattern : OpRewritePattern<gx::StoreOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::StoreOp op, PatternRewriter& rw) const override {
    Value at = address(rw, op.getLoc(), op.getBase(), op.getOffset());
    rw.replaceOpWithNewOp<LLVM::StoreOp>(op, op.getValue(), at, bytesOf(op.getValue().getType()));
    return success();
  }
};

struct AtomicAddPattern : OpRewritePattern<gx::AtomicAddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::AtomicAddOp op, PatternRewriter& rw) const override {
    Value at = address(rw, op.getLoc(), op.getBase(), op.getOffset());
    rw.replaceOpWithNewOp<LLVM::AtomicRMWOp>(op, LLVM::AtomicBinOp::add, at, op.getValue(),
                                             LLVM::AtomicOrdering::monotonic);
    return success();
  }
};

// An op without operands or results as assembly.
template <typename OpTy>
struct AssemblyPattern : OpRewritePattern<OpTy> {
  AssemblyPattern(MLIRContext* context, const char* text, const char* constraints)
      : OpRewritePattern<OpTy>(context), text(text), constraints(constraints) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter& rw) const override {
    assembly(rw, op.getLoc(), text, constraints);
    rw.eraseOp(op);
    return success();
  }
  const char *text, *constraints;
};

struct PrefetchPattern : OpRewritePattern<gx::PrefetchOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::PrefetchOp op, PatternRewriter& rw) const override {
    Value at = address(rw, op.getLoc(), op.getBase(), op.getOffset());
    assembly(rw, op.getLoc(), "prefetch.global.L2 [$0];", "l", at);
    rw.eraseOp(op);
    return success();
  }
};

// All 32 threads. The intrinsic is one that LLVM does not move into or out of a branch.
template <typename OpTy>
struct SubgroupBarrierPattern : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter& rw) const override {
    Value all = arith::ConstantOp::create(rw, op.getLoc(), rw.getI32IntegerAttr(-1));
    LLVM::CallIntrinsicOp::create(rw, op.getLoc(), rw.getStringAttr("llvm.nvvm.bar.warp.sync"), all);
    rw.eraseOp(op);
    return success();
  }
};

struct Dot4Pattern : OpRewritePattern<gx::Dot4Op> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::Dot4Op op, PatternRewriter& rw) const override {
    rw.replaceOp(op, callIntrinsic(rw, op.getLoc(), rw.getI32Type(), "llvm.nvvm.idp4a.s.s",
                                   {op.getA(), op.getB(), op.getAcc()}));
    return success();
  }
};

struct UnpackHalfPattern : OpRewritePattern<gx::UnpackHalfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::UnpackHalfOp op, PatternRewriter& rw) const override {
    auto halves = VectorType::get({2}, rw.getF16Type());
    Value both = LLVM::BitcastOp::create(rw, op.getLoc(), halves, op.getWord());
    rw.replaceOpWithNewOp<LLVM::FPExtOp>(op, op.getType(), both);
    return success();
  }
};

struct HalfToF32Pattern : OpRewritePattern<gx::HalfToF32Op> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::HalfToF32Op op, PatternRewriter& rw) const override {
    Value low = arith::TruncIOp::create(rw, op.getLoc(), rw.getI16Type(), op.getWord());
    Value half = LLVM::BitcastOp::create(rw, op.getLoc(), rw.getF16Type(), low);
    rw.replaceOpWithNewOp<LLVM::FPExtOp>(op, op.getType(), half);
    return success();
  }
};

struct PackHalfPattern : OpRewritePattern<gx::PackHalfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gx::PackHalfOp op, PatternRewriter& rw) const override {
    // Of both at a time: one instruction where the chip has it.
    Location loc = op.getLoc();
    auto both = VectorType::get({2}, rw.getF32Type()), halves = VectorType::get({2}, rw.getF16Type());
    Value pair = vector::FromElementsOp::create(rw, loc, both, ValueRange{op.getLow(), op.getHigh()});
    Value rounded = LLVM::FPTruncOp::create(rw, loc, halves, pair);
    rw.replaceOpWithNewOp<LLVM::BitcastOp>(op, rw.getI32Type(), rounded);
    return success();
  }
};

// A product of matrices in fragments. The intrinsic takes words of `a` and `b` as `word`; null: as they are.
template <typename OpTy>
struct MmaPattern : OpRewritePattern<OpTy> {
  MmaPattern(MLIRContext* context, const char* name, mlir::Type word)
      : OpRewritePattern<OpTy>(context), name(name), word(word) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter& rw) const override {
    Location loc = op.getLoc();
    SmallVector<Value> operands;
    for (ValueRange fragment : {ValueRange(op.getA()), ValueRange(op.getB())})
      for (Value v : fragment) operands.push_back(word ? LLVM::BitcastOp::create(rw, loc, word, v) : v);
    llvm::append_range(operands, op.getC());
    auto sums = LLVM::LLVMStructType::getLiteral(rw.getContext(), llvm::to_vector(op->getResultTypes()));
    Value result = callIntrinsic(rw, loc, sums, name, operands);
    SmallVector<Value> parts;
    for (int64_t i = 0; i < 4; ++i)
      parts.push_back(LLVM::ExtractValueOp::create(rw, loc, result, ArrayRef<int64_t>{i}));
    rw.replaceOp(op, parts);
    return success();
  }
  const char* name;
  mlir::Type word;
};

// A function as the LLVM intrinsic that NVPTX selects an instruction for. Vectors go element by element.
template <typename OpTy>
struct IntrinsicPattern : OpRewritePattern<OpTy> {
  IntrinsicPattern(MLIRContext* context, const char* name) : OpRewritePattern<OpTy>(context), name(name) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter& rw) const override {
    Location loc = op.getLoc();
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      rw.replaceOp(op, callIntrinsic(rw, loc, rw.getF32Type(), name, op->getOperands()));
      return success();
    }
    SmallVector<Value> lanes;
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(vector::ExtractOp::create(rw, loc, operand, i));
      lanes.push_back(callIntrinsic(rw, loc, rw.getF32Type(), name, operands));
    }
    rw.replaceOpWithNewOp<vector::FromElementsOp>(op, vector, lanes);
    return success();
  }
  const char* name;
};

struct GxToNvvmPass : PassWrapper<GxToNvvmPass, OperationPass<mlir::gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GxToNvvmPass)

  StringRef getArgument() const final { return "qcc-gx-to-nvvm"; }
  StringRef getDescription() const final {
    return "gx and math ops of GPU kernels to LLVM ops and NVVM intrinsics";
  }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<LLVM::LLVMDialect, arith::ArithDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    for (auto func : getOperation().getOps<mlir::gpu::GPUFuncOp>())
      if (func.isKernel() && failed(addParameters(func))) return signalPassFailure();
    MLIRContext* context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<LoadPattern, StorePattern, AtomicAddPattern, PrefetchPattern,
                 SubgroupBarrierPattern<gx::SubgroupBarrierOp>, SubgroupBarrierPattern<gx::BeginLoadsOp>,
                 Dot4Pattern, UnpackHalfPattern, HalfToF32Pattern, PackHalfPattern>(context);
    patterns.add<MmaPattern<gx::MmaS8Op>>(context, "llvm.nvvm.mma.m16n8k32.row.col.s8", mlir::Type());
    patterns.add<MmaPattern<gx::MmaF16Op>>(context, "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
                                           VectorType::get({2}, Float16Type::get(context)));
    patterns.add<MmaPattern<gx::MmaBf16Op>>(context, "llvm.nvvm.mma.m16n8k16.row.col.bf16", mlir::Type());
    // The wait is no intrinsic, as LLVM declares that one to touch no memory: loads could move ahead of it.
    patterns.add<AssemblyPattern<gx::AwaitEarlierOp>>(context, "griddepcontrol.wait;", "~{memory}");
    patterns.add<AssemblyPattern<gx::LetNextBeginOp>>(context, "griddepcontrol.launch_dependents;", "");
    patterns.add<IntrinsicPattern<math::FmaOp>>(context, "llvm.fma");
    patterns.add<IntrinsicPattern<arith::MinNumFOp>>(context, "llvm.minnum");
    patterns.add<IntrinsicPattern<arith::MaxNumFOp>>(context, "llvm.maxnum");
    patterns.add<IntrinsicPattern<math::SqrtOp>>(context, "llvm.sqrt");
    patterns.add<IntrinsicPattern<math::AbsFOp>>(context, "llvm.fabs");
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) return signalPassFailure();
    getOperation().walk([&](Operation* op) {
      if (isa<gx::GxDialect>(op->getDialect())) {
        op->emitError("'") << op->getName() << "' has no form in PTX";
        signalPassFailure();
      }
    });
  }

  // gx.arg i -> parameter i, in front of the workgroup memory.
  static LogicalResult addParameters(mlir::gpu::GPUFuncOp func) {
    FailureOr<int32_t> n = gx::argsOf(func);
    if (failed(n)) return failure();
    MLIRContext* context = func.getContext();
    auto i64 = IntegerType::get(context, 64);
    Block& entry = func.getBody().front();
    for (int32_t i = 0; i < *n; ++i) entry.insertArgument(i, i64, func.getLoc());
    func.setFunctionType(FunctionType::get(context, SmallVector<mlir::Type>(*n, i64), {}));
    func.walk([&](gx::ArgOp op) {
      op.getResult().replaceAllUsesWith(entry.getArgument(op.getIndex()));
      op.erase();
    });
    func->removeAttr("gx.args");
    return success();
  }
};

}  // namespace

std::unique_ptr<Pass> createGxToNvvmPass() {
  return std::make_unique<GxToNvvmPass>();
}

}  // namespace qcc::gpu
