#include "codegen/gpu/spirv/KernelToSpirv.h"

#include "codegen/gpu/IR/Gx.h"
#include "codegen/gpu/spirv/BarrierCrossing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/SCFToSPIRV/SCFToSPIRV.h"
#include "mlir/Conversion/UBToSPIRV/UBToSPIRV.h"
#include "mlir/Conversion/VectorToSPIRV/VectorToSPIRV.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/SPIRV/IR/TargetAndABI.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

// What only threads of a subgroup do together.
bool usesSubgroups(mlir::gpu::GPUFuncOp kernel) {
  return kernel
      .walk([](Operation* op) {
        return isa<mlir::gpu::ShuffleOp, gx::DotTileOp, gx::SubgroupBarrierOp>(op) ? WalkResult::interrupt()
                                                                                   : WalkResult::advance();
      })
      .wasInterrupted();
}

// Rewrites what no stock pattern lowers, or not as Vulkan's memory model wants it. The types of all values
// stay, so ops are replaced one by one before the conversion proper.
class KernelOps {
 public:
  KernelOps(spirv::ModuleOp module, spirv::FuncOp func, const Profile& profile, int32_t args, bool nonPrivate,
            bool subgroups)
      : module_(module),
        func_(func),
        profile_(profile),
        b_(module.getContext()),
        nonPrivate_(nonPrivate),
        subgroups_(subgroups) {
    if (args == 0) return;
    SmallVector<mlir::Type> members(args, b_.getI64Type());
    SmallVector<spirv::StructType::OffsetInfo> offsets;
    for (int32_t i = 0; i < args; ++i) offsets.push_back(8 * i);
    spirv::StructType::StructDecorationInfo block(spirv::Decoration::Block, b_.getUnitAttr());
    args_ = global("args", spirv::StructType::get(members, offsets, {}, {block}),
                   spirv::StorageClass::PushConstant);
  }

  // A workgroup attribution of the gpu.func becomes a global variable; its users are rewritten by `lower`.
  void addShared(Value attribution) {
    auto type = cast<MemRefType>(attribution.getType());
    auto array = spirv::ArrayType::get(type.getElementType(), static_cast<unsigned>(type.getNumElements()));
    shared_[attribution] =
        global("shared" + std::to_string(shared_.size()), array, spirv::StorageClass::Workgroup);
  }

  LogicalResult lowerAll() {
    SmallVector<Operation*> ops;
    func_.walk([&](Operation* op) {
      if (op != func_) ops.push_back(op);
    });
    for (Operation* op : ops)
      if (failed(lower(op))) return failure();
    return success();
  }

 private:
  LogicalResult lower(Operation* op) {
    b_.setInsertionPoint(op);
    loc_ = op->getLoc();
    return llvm::TypeSwitch<Operation*, LogicalResult>(op)
        .Case<mlir::gpu::ThreadIdOp>([&](auto id) {
          return subgroups_ ? threadBySubgroup(op)
                            : place(op, spirv::BuiltIn::LocalInvocationId, id.getDimension());
        })
        .Case<mlir::gpu::BlockIdOp>(
            [&](auto id) { return place(op, spirv::BuiltIn::WorkgroupId, id.getDimension()); })
        .Case<mlir::gpu::BarrierOp>([&](auto) { return barrier(op, spirv::Scope::Workgroup, nonPrivate_); })
        .Case<gx::SubgroupBarrierOp>([&](auto) { return barrier(op, spirv::Scope::Subgroup, false); })
        .Case<gx::BeginLoadsOp>([&](auto) { return op->erase(), success(); })
        .Case<mlir::gpu::ReturnOp>([&](auto) {
          spirv::ReturnOp::create(b_, loc_);
          op->erase();
          return success();
        })
        .Case<mlir::gpu::ShuffleOp>([&](auto shuffle) { return lowerShuffle(shuffle); })
        .Case<gx::ArgOp>([&](auto arg) {
          auto index = static_cast<int32_t>(arg.getIndex());
          return replace(op, spirv::LoadOp::create(b_, loc_, element(args_, i32(index))));
        })
        .Case<gx::LoadOp>([&](auto load) {
          Value ptr = address(load.getBase(), load.getOffset(), load.getType(), load.getMore());
          return replace(
              op, spirv::LoadOp::create(b_, loc_, ptr, access(true, nonPrivate_), alignment(load.getType())));
        })
        .Case<gx::StoreOp>([&](auto store) {
          mlir::Type type = store.getValue().getType();
          Value ptr = address(store.getBase(), store.getOffset(), type);
          spirv::StoreOp::create(b_, loc_, ptr, store.getValue(), access(true, nonPrivate_), alignment(type));
          op->erase();
          return success();
        })
        .Case<gx::AtomicAddOp>([&](auto add) {
          Value ptr = address(add.getBase(), add.getOffset(), add.getType());
          // The whole queue family sees it; the device scope would be one more feature to ask of the device.
          return replace(op,
                         spirv::AtomicIAddOp::create(b_, loc_, add.getType(), ptr, spirv::Scope::QueueFamily,
                                                     spirv::MemorySemantics::None, add.getValue()));
        })
        .Case<gx::Dot4Op>([&](auto dot) { return lowerDot(dot); })
        .Case<gx::DotTileOp>([&](auto dot) { return lowerDotTile(dot); })
        .Case<gx::UnpackHalfOp>([&](auto unpack) {
          return replace(op, spirv::GLUnpackHalf2x16Op::create(b_, loc_, unpack.getType(), unpack.getWord()));
        })
        .Case<gx::HalfToF32Op>([&](auto half) { return replace(op, halfToF32(half.getWord())); })
        .Case<gx::PackHalfOp>([&](auto pack) {
          Value high = arith::ShLIOp::create(b_, loc_, toHalf(pack.getHigh()), i32(16));
          return replace(op, arith::OrIOp::create(b_, loc_, toHalf(pack.getLow()), high));
        })
        .Case<memref::LoadOp>([&](auto load) {
          Value ptr = sharedWord(load.getMemRef(), load.getIndices()[0]);
          return replace(op, spirv::LoadOp::create(b_, loc_, ptr, access(false, true), IntegerAttr()));
        })
        .Case<memref::StoreOp>([&](auto store) {
          Value ptr = sharedWord(store.getMemRef(), store.getIndices()[0]);
          spirv::StoreOp::create(b_, loc_, ptr, store.getValue(), access(false, true), IntegerAttr());
          op->erase();
          return success();
        })
        .Case<memref::AtomicRMWOp>([&](auto rmw) { return lowerAtomic(rmw); })
        .Case<arith::MulUIExtendedOp>([&](auto mul) {
          if (mul.getLow().getType().isInteger(64) && mul.getLow().use_empty()) {
            mul.getHigh().replaceAllUsesWith(mulHigh64(mul.getLhs(), mul.getRhs()));
            op->erase();
          }
          return success();
        })
        .Case<scf::ForOp>([&](auto loop) { return lowerFor(loop); })
        // Of two numbers, so without what the stock patterns add for NaN.
        .Case<arith::MinNumFOp>([&](auto min) {
          return replace(op, spirv::GLFMinOp::create(b_, loc_, min.getLhs(), min.getRhs()));
        })
        .Case<arith::MaxNumFOp>([&](auto max) {
          return replace(op, spirv::GLFMaxOp::create(b_, loc_, max.getLhs(), max.getRhs()));
        })
        .Default([&](Operation*) { return success(); });
  }

  static LogicalResult replace(Operation* op, Value with) {
    op->replaceAllUsesWith(ValueRange{with});
    op->erase();
    return success();
  }
  Value i32(int32_t value) {
    return spirv::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(value));
  }
  spirv::GlobalVariableOp global(StringRef name, mlir::Type type, spirv::StorageClass storage) {
    OpBuilder b(module_.getContext());
    b.setInsertionPoint(func_);
    return spirv::GlobalVariableOp::create(b, func_.getLoc(), spirv::PointerType::get(type, storage), name);
  }
  Value element(spirv::GlobalVariableOp variable, Value index) {
    Value base = spirv::AddressOfOp::create(b_, loc_, variable);
    return spirv::AccessChainOp::create(b_, loc_, base, ValueRange{index});
  }

  LogicalResult place(Operation* op, spirv::BuiltIn builtin, mlir::gpu::Dimension dimension) {
    Value all = spirv::getBuiltinVariableValue(op, builtin, b_.getI32Type(), b_);
    Value one = spirv::CompositeExtractOp::create(b_, loc_, all, {static_cast<int32_t>(dimension)});
    return replace(op, arith::IndexCastUIOp::create(b_, loc_, b_.getIndexType(), one));
  }

  // Kernels take lane i of subgroup s for thread s * size + i. Vulkan does not say that LocalInvocationId
  // counts so: this does.
  LogicalResult threadBySubgroup(Operation* op) {
    Value subgroup = spirv::getBuiltinVariableValue(op, spirv::BuiltIn::SubgroupId, b_.getI32Type(), b_);
    Value lane =
        spirv::getBuiltinVariableValue(op, spirv::BuiltIn::SubgroupLocalInvocationId, b_.getI32Type(), b_);
    Value first = spirv::IMulOp::create(b_, loc_, subgroup, i32(profile_.subgroup));
    Value thread = spirv::IAddOp::create(b_, loc_, first, lane);
    return replace(op, arith::IndexCastUIOp::create(b_, loc_, b_.getIndexType(), thread));
  }

  LogicalResult barrier(Operation* op, spirv::Scope scope, bool deviceMemory) {
    using S = spirv::MemorySemantics;
    S semantics = S::AcquireRelease | S::WorkgroupMemory | S::MakeAvailable | S::MakeVisible;
    if (deviceMemory) semantics = semantics | S::UniformMemory;
    spirv::ControlBarrierOp::create(b_, loc_, scope, scope, semantics);
    op->erase();
    return success();
  }

  spirv::MemoryAccessAttr access(bool aligned, bool nonPrivate) {
    using A = spirv::MemoryAccess;
    A all = A::None;
    if (aligned) all = all | A::Aligned;
    if (nonPrivate) all = all | A::NonPrivatePointer;
    return spirv::MemoryAccessAttr::get(b_.getContext(), all);
  }
  IntegerAttr alignment(mlir::Type type) {
    if (auto vector = dyn_cast<VectorType>(type)) return b_.getI32IntegerAttr(4 * vector.getNumElements());
    return b_.getI32IntegerAttr(type.getIntOrFloatBitWidth() / 8);
  }
  // `more` is added last and in 64 bits: so Mesa's drivers find it as an instruction's constant.
  Value address(Value base, Value offset, mlir::Type type, uint64_t more = 0) {
    Value wide = spirv::UConvertOp::create(b_, loc_, b_.getI64Type(), offset);
    Value sum = spirv::IAddOp::create(b_, loc_, base, wide);
    if (more != 0) {
      Value last = spirv::ConstantOp::create(b_, loc_, b_.getI64Type(),
                                             b_.getI64IntegerAttr(static_cast<int64_t>(more)));
      sum = spirv::IAddOp::create(b_, loc_, sum, last);
    }
    auto ptr = spirv::PointerType::get(type, spirv::StorageClass::PhysicalStorageBuffer);
    return spirv::ConvertUToPtrOp::create(b_, loc_, ptr, sum);
  }
  Value sharedWord(Value attribution, Value index) {
    Value word = arith::IndexCastUIOp::create(b_, loc_, b_.getI32Type(), index);
    return element(shared_.lookup(attribution), word);
  }

  LogicalResult lowerAtomic(memref::AtomicRMWOp op) {
    Value ptr = sharedWord(op.getMemref(), op.getIndices()[0]);
    auto scope = spirv::Scope::Workgroup;
    auto none = spirv::MemorySemantics::None;
    if (op.getKind() == arith::AtomicRMWKind::addi)
      return replace(op,
                     spirv::AtomicIAddOp::create(b_, loc_, op.getType(), ptr, scope, none, op.getValue()));
    if (op.getKind() == arith::AtomicRMWKind::maxu)
      return replace(op,
                     spirv::AtomicUMaxOp::create(b_, loc_, op.getType(), ptr, scope, none, op.getValue()));
    return op.emitError("has no SPIR-V lowering; addi and maxu have one");
  }

  LogicalResult lowerShuffle(mlir::gpu::ShuffleOp op) {
    if (op.getMode() != mlir::gpu::ShuffleMode::XOR || profile_.subgroup == 0)
      return op.emitError("wants a profile with subgroups and the mode xor");
    op.getShuffleResult().replaceAllUsesWith(spirv::GroupNonUniformShuffleXorOp::create(
        b_, loc_, op.getValue().getType(), spirv::Scope::Subgroup, op.getValue(), op.getOffset()));
    if (!op.getValid().use_empty()) return op.emitError("the validity of a shuffle has no SPIR-V lowering");
    op.erase();
    return success();
  }

  LogicalResult lowerDot(gx::Dot4Op op) {
    Value sum = op.getAcc();
    if (profile_.int_dot) {
      auto format = spirv::PackedVectorFormatAttr::get(b_.getContext(),
                                                       spirv::PackedVectorFormat::PackedVectorFormat4x8Bit);
      Value dot = spirv::SDotOp::create(b_, loc_, op.getType(), op.getA(), op.getB(), format);
      return replace(op, spirv::IAddOp::create(b_, loc_, dot, sum));
    }
    for (int byte = 0; byte < 4; ++byte) {
      Value product =
          spirv::IMulOp::create(b_, loc_, signedByte(op.getA(), byte), signedByte(op.getB(), byte));
      sum = spirv::IAddOp::create(b_, loc_, sum, product);
    }
    return replace(op, sum);
  }
  Value signedByte(Value word, int byte) {
    return spirv::BitFieldSExtractOp::create(b_, loc_, word.getType(), word, i32(8 * byte), i32(8));
  }

  // Matrices are read through pointers to words, so strides count words. Each of `b`'s rows is a column of
  // the right factor; sums are stored column by column.
  LogicalResult lowerDotTile(gx::DotTileOp op) {
    using Use = spirv::CooperativeMatrixUseKHR;
    using Layout = spirv::CooperativeMatrixLayoutKHR;
    using Operands = spirv::CooperativeMatrixOperandsKHR;
    auto m = static_cast<uint32_t>(op.getShape()[0]), n = static_cast<uint32_t>(op.getShape()[1]);
    auto k = static_cast<uint32_t>(op.getShape()[2]);
    auto type = [&](mlir::Type element, uint32_t rows, uint32_t columns, Use use) {
      return spirv::CooperativeMatrixType::get(element, rows, columns, spirv::Scope::Subgroup, use);
    };
    auto aType = type(b_.getI8Type(), m, k, Use::MatrixA), bType = type(b_.getI8Type(), k, n, Use::MatrixB);
    auto sumType = type(b_.getI32Type(), m, n, Use::MatrixAcc);
    auto shared = access(false, true);
    auto signs = spirv::CooperativeMatrixOperandsKHRAttr::get(
        b_.getContext(), Operands::ASigned | Operands::BSigned | Operands::CSigned | Operands::ResultSigned);
    auto at = [&](Value memory, Value first, uint32_t words) {
      Value word = spirv::IAddOp::create(b_, loc_, first, i32(static_cast<int32_t>(words)));
      return element(shared_.lookup(memory), word);
    };
    auto load = [&](mlir::Type matrix, Value memory, Value first, uint32_t words, uint32_t stride,
                    Layout layout) -> Value {
      return spirv::KHRCooperativeMatrixLoadOp::create(b_, loc_, matrix, at(memory, first, words), layout,
                                                       i32(static_cast<int32_t>(stride)), shared,
                                                       IntegerAttr());
    };
    Value none = spirv::CompositeConstructOp::create(b_, loc_, sumType, ValueRange{i32(0)});
    for (uint32_t i = 0; i < op.getARows(); i += m) {
      SmallVector<Value> lefts;
      for (uint32_t c = 0; c < op.getColumns(); c += k) {
        lefts.push_back(load(aType, op.getA(), op.getAAt(), i * op.getAStride() + c / 4, op.getAStride(),
                             Layout::RowMajor));
      }
      for (uint32_t j = 0; j < op.getBRows(); j += n) {
        Value sum = none;
        for (uint32_t c = 0; c < op.getColumns(); c += k) {
          Value right = load(bType, op.getB(), op.getBAt(), j * op.getBStride() + c / 4, op.getBStride(),
                             Layout::ColumnMajor);
          sum =
              spirv::KHRCooperativeMatrixMulAddOp::create(b_, loc_, sumType, lefts[c / k], right, sum, signs);
        }
        Value to = at(op.getD(), op.getDAt(), j * op.getDStride() + i);
        spirv::KHRCooperativeMatrixStoreOp::create(b_, loc_, to, sum, Layout::ColumnMajor,
                                                   i32(static_cast<int32_t>(op.getDStride())), shared,
                                                   IntegerAttr());
      }
    }
    op->erase();
    return success();
  }

  // The stock pattern leaves the results of a loop without a turn undefined and puts the body into the
  // continue construct. Here the header keeps what goes round in variables, from which the results are read
  // after the loop (the serializer knows no results of loops).
  LogicalResult lowerFor(scf::ForOp op) {
    auto loop = spirv::LoopOp::create(b_, loc_, spirv::LoopControl::None);
    loop.addEntryAndMergeBlock(b_);
    Block *entry = loop.getEntryBlock(), *merge = &loop.getBody().back();
    Block *header = new Block, *body = new Block, *next = new Block;
    for (Block* block : {header, body, next}) block->insertBefore(merge);
    for (Value value : op.getBody()->getArguments()) header->addArgument(value.getType(), loc_);
    SmallVector<Value> first{op.getLowerBound()};
    llvm::append_range(first, op.getInitArgs());
    b_.setInsertionPointToEnd(entry);
    spirv::BranchOp::create(b_, loc_, header, first);

    Value index = header->getArgument(0);
    for (auto [result, value] : llvm::zip_equal(op.getResults(), header->getArguments().drop_front())) {
      if (result.use_empty()) continue;
      b_.setInsertionPointToStart(&func_.getBody().front());
      auto pointer = spirv::PointerType::get(result.getType(), spirv::StorageClass::Function);
      Value last = spirv::VariableOp::create(b_, loc_, pointer, spirv::StorageClass::Function, Value());
      b_.setInsertionPointToEnd(header);
      spirv::StoreOp::create(b_, loc_, last, value);
      b_.setInsertionPointAfter(loop);
      result.replaceAllUsesWith(spirv::LoadOp::create(b_, loc_, last));
    }
    b_.setInsertionPointToEnd(header);
    Value again = spirv::SLessThanOp::create(b_, loc_, index, op.getUpperBound());
    spirv::BranchConditionalOp::create(b_, loc_, again, body, ValueRange(), merge, ValueRange());

    for (auto [old, now] : llvm::zip_equal(op.getBody()->getArguments(), header->getArguments()))
      old.replaceAllUsesWith(now);
    Operation* yield = op.getBody()->getTerminator();
    SmallVector<Value> values(yield->getOperands());
    yield->erase();
    body->getOperations().splice(body->end(), op.getBody()->getOperations());
    b_.setInsertionPointToEnd(body);
    spirv::BranchOp::create(b_, loc_, next);

    b_.setInsertionPointToEnd(next);
    SmallVector<Value> round{spirv::IAddOp::create(b_, loc_, index, op.getStep())};
    round.append(values);
    spirv::BranchOp::create(b_, loc_, header, round);
    op.erase();
    return success();
  }

  // The half in the low 16 bits, by bits: GLSL's unpackHalf2x16 may take subnormal halves for 0.
  Value halfToF32(Value word) {
    auto op = [&](auto tag, Value a, Value b) -> Value { return decltype(tag)::create(b_, loc_, a, b); };
    auto less = [&](Value a, int32_t limit) -> Value {
      return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, a, i32(limit));
    };
    auto asF32 = [&](Value bits) -> Value {
      return spirv::BitcastOp::create(b_, loc_, b_.getF32Type(), bits);
    };
    Value magnitude = op(arith::ShLIOp(), op(arith::AndIOp(), word, i32(0x7fff)), i32(13));
    Value sign = op(arith::ShLIOp(), op(arith::AndIOp(), word, i32(0x8000)), i32(16));
    Value normal = op(arith::AddIOp(), magnitude, i32(112 << 23));
    // Exponent 0: put the mantissa under the exponent of 2^-14, then take 2^-14 away; all f32 normal.
    Value tiny =
        op(arith::SubFOp(), asF32(op(arith::AddIOp(), magnitude, i32(113 << 23))), asF32(i32(113 << 23)));
    Value tinyBits = spirv::BitcastOp::create(b_, loc_, b_.getI32Type(), tiny);
    Value finite = arith::SelectOp::create(b_, loc_, less(magnitude, 1 << 23), tinyBits, normal);
    Value special = op(arith::AddIOp(), normal, i32(112 << 23));
    Value bits = arith::SelectOp::create(b_, loc_, less(magnitude, 31 << 23), finite, special);
    return asF32(op(arith::OrIOp(), bits, sign));
  }

  // The bits of the half nearest to `x`, ties to even. GLSL's packHalf2x16 leaves the rounding to the device.
  Value toHalf(Value x) {
    auto op = [&](auto tag, Value a, Value b) -> Value { return decltype(tag)::create(b_, loc_, a, b); };
    auto less = [&](Value a, int32_t limit) -> Value {
      return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, a, i32(limit));
    };
    Value bits = spirv::BitcastOp::create(b_, loc_, b_.getI32Type(), x);
    Value magnitude = op(arith::AndIOp(), bits, i32(0x7fffffff));
    Value sign = op(arith::ShRUIOp(), op(arith::XOrIOp(), bits, magnitude), i32(16));
    // Normal halves: rebias the exponent and round at bit 13. A carry out of the mantissa ends in the
    // exponent.
    Value odd = op(arith::AndIOp(), op(arith::ShRUIOp(), magnitude, i32(13)), i32(1));
    Value rebased = op(arith::AddIOp(), magnitude, i32(static_cast<int32_t>(0xc8000fffu)));
    Value normal = op(arith::ShRUIOp(), op(arith::AddIOp(), rebased, odd), i32(13));
    // Subnormal halves: adding 0.5 leaves multiples of 2^-24 in the mantissa, rounded by the addition.
    Value magic = i32(126 << 23);
    Value half = spirv::BitcastOp::create(b_, loc_, b_.getF32Type(), magic);
    Value absolute = spirv::BitcastOp::create(b_, loc_, b_.getF32Type(), magnitude);
    Value shifted = spirv::BitcastOp::create(b_, loc_, b_.getI32Type(), op(arith::AddFOp(), absolute, half));
    Value subnormal = op(arith::SubIOp(), shifted, magic);
    Value special = arith::SelectOp::create(b_, loc_, less(magnitude, 0x7f800001), i32(0x7c00), i32(0x7e00));
    Value finite = arith::SelectOp::create(b_, loc_, less(magnitude, 113 << 23), subnormal, normal);
    Value result = arith::SelectOp::create(b_, loc_, less(magnitude, 143 << 23), finite, special);
    return op(arith::OrIOp(), result, sign);
  }

  // The upper half of a 64 x 64 bit product from 32 x 32 bit ones: drivers differ in what they make of the
  // 64-bit UMulExtended.
  Value mulHigh64(Value a, Value b) {
    Value mask = spirv::ConstantOp::create(b_, loc_, b_.getI64Type(), b_.getI64IntegerAttr(0xffffffff));
    Value by32 = spirv::ConstantOp::create(b_, loc_, b_.getI64Type(), b_.getI64IntegerAttr(32));
    auto low = [&](Value v) -> Value { return spirv::BitwiseAndOp::create(b_, loc_, v, mask); };
    auto high = [&](Value v) -> Value {
      return spirv::ShiftRightLogicalOp::create(b_, loc_, v.getType(), v, by32);
    };
    auto mul = [&](Value x, Value y) -> Value { return spirv::IMulOp::create(b_, loc_, x, y); };
    auto add = [&](Value x, Value y) -> Value { return spirv::IAddOp::create(b_, loc_, x, y); };
    Value cross = add(mul(high(a), low(b)), high(mul(low(a), low(b))));
    Value other = add(mul(low(a), high(b)), low(cross));
    return add(add(mul(high(a), high(b)), high(cross)), high(other));
  }

  spirv::ModuleOp module_;
  spirv::FuncOp func_;
  const Profile& profile_;
  OpBuilder b_;
  Location loc_ = UnknownLoc::get(b_.getContext());
  bool nonPrivate_, subgroups_;
  spirv::GlobalVariableOp args_;
  llvm::DenseMap<Value, spirv::GlobalVariableOp> shared_;
};

using C = spirv::Capability;
using E = spirv::Extension;

spirv::VerCapExtAttr everythingWeMayUse(MLIRContext* context) {
  return spirv::VerCapExtAttr::get(spirv::Version::V_1_6,
                                   {C::Shader, C::Int64, C::Int8, C::PhysicalStorageBufferAddresses,
                                    C::VulkanMemoryModel, C::GroupNonUniform, C::GroupNonUniformShuffle,
                                    C::DotProduct, C::DotProductInput4x8BitPacked, C::CooperativeMatrixKHR},
                                   {E::SPV_KHR_physical_storage_buffer, E::SPV_KHR_vulkan_memory_model,
                                    E::SPV_KHR_integer_dot_product, E::SPV_KHR_cooperative_matrix},
                                   context);
}

spirv::VerCapExtAttr whatIsUsed(spirv::ModuleOp module) {
  SmallVector<C> capabilities{C::Shader, C::Int64, C::PhysicalStorageBufferAddresses, C::VulkanMemoryModel};
  SmallVector<E> extensions;
  bool shuffles = false, dots = false, matrices = false, bySubgroup = false;
  module.walk([&](Operation* op) {
    auto barrier = dyn_cast<spirv::ControlBarrierOp>(op);
    bySubgroup |= barrier && barrier.getExecutionScope() == spirv::Scope::Subgroup;
    shuffles |= isa<spirv::GroupNonUniformShuffleXorOp>(op);
    dots |= isa<spirv::SDotOp>(op);
    matrices |= isa<spirv::KHRCooperativeMatrixMulAddOp>(op);
  });
  // All of them number their threads by subgroup and lane.
  if (shuffles || matrices || bySubgroup) capabilities.push_back(C::GroupNonUniform);
  if (shuffles) capabilities.push_back(C::GroupNonUniformShuffle);
  if (dots) {
    capabilities.append({C::DotProduct, C::DotProductInput4x8BitPacked});
    extensions.push_back(E::SPV_KHR_integer_dot_product);  // part of SPIR-V 1.6 only
  }
  if (matrices) {
    capabilities.append({C::CooperativeMatrixKHR, C::Int8});
    extensions.push_back(E::SPV_KHR_cooperative_matrix);
  }
  // Only devices of Vulkan 1.3, which take 1.6, are asked to have matrices.
  auto version = matrices ? spirv::Version::V_1_6 : spirv::Version::V_1_5;
  return spirv::VerCapExtAttr::get(version, capabilities, extensions, module.getContext());
}

// A number that a condition selects from 0 and 1 is folded to the condition, also where it is an index;
// upstream widens integers only.
struct IndexOfCondition : OpConversionPattern<arith::IndexCastUIOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::IndexCastUIOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter& rewriter) const override {
    mlir::Type type = getTypeConverter()->convertType(op.getType());
    if (!adaptor.getIn().getType().isInteger(1) || !type) return failure();
    Value zero = spirv::ConstantOp::getZero(type, op.getLoc(), rewriter);
    Value one = spirv::ConstantOp::getOne(type, op.getLoc(), rewriter);
    rewriter.replaceOpWithNewOp<spirv::SelectOp>(op, type, adaptor.getIn(), one, zero);
    return success();
  }
};

LogicalResult convertTheRest(spirv::ModuleOp module) {
  MLIRContext* context = module.getContext();
  auto env = spirv::TargetEnvAttr::get(everythingWeMayUse(context), spirv::getDefaultResourceLimits(context),
                                       spirv::ClientAPI::Vulkan, spirv::Vendor::Unknown,
                                       spirv::DeviceType::Unknown, spirv::TargetEnvAttr::kUnknownDeviceID);
  SPIRVTypeConverter types(env);
  RewritePatternSet patterns(context);
  ScfToSPIRVContext scf;
  arith::populateArithToSPIRVPatterns(types, patterns);
  populateMathToSPIRVPatterns(types, patterns);
  populateVectorToSPIRVPatterns(types, patterns);
  populateSCFToSPIRVPatterns(types, scf, patterns);
  ub::populateUBToSPIRVConversionPatterns(types, patterns);
  patterns.add<IndexOfCondition>(types, context);
  std::unique_ptr<ConversionTarget> target = SPIRVConversionTarget::get(env);
  return applyFullConversion(module.getOperation(), *target, std::move(patterns));
}

}  // namespace

FailureOr<OwningOpRef<spirv::ModuleOp>> convertKernelToSpirv(mlir::gpu::GPUFuncOp kernel,
                                                             const Profile& profile) {
  MLIRContext* context = kernel.getContext();
  Location loc = kernel.getLoc();
  auto size = kernel.getKnownBlockSize();
  if (!kernel->hasAttrOfType<IntegerAttr>("gx.args") || !size)
    return kernel.emitError("wants the attributes gx.args and known_block_size");
  FailureOr<int32_t> args = gx::argsOf(kernel);
  if (failed(args)) return failure();
  bool nonPrivate = deviceMemoryCrossesBarrier(kernel);
  bool subgroups = usesSubgroups(kernel);

  OpBuilder b(context);
  OwningOpRef<spirv::ModuleOp> module = spirv::ModuleOp::create(
      b, loc, spirv::AddressingModel::PhysicalStorageBuffer64, spirv::MemoryModel::Vulkan);
  b.setInsertionPointToStart(module->getBody());
  auto func = spirv::FuncOp::create(b, loc, kernel.getName(), b.getFunctionType({}, {}));
  func.getBody().takeBody(kernel.getBody());

  KernelOps ops(*module, func, profile, *args, nonPrivate, subgroups);
  Block& entry = func.getBody().front();
  for (Value attribution : entry.getArguments()) ops.addShared(attribution);
  if (failed(ops.lowerAll())) return failure();
  entry.eraseArguments(0, entry.getNumArguments());
  if (failed(convertTheRest(*module))) return failure();

  module->walk([&](Operation* op) {
    // Fma too: without the decoration a driver may take two for one with another rounding, and Mesa's does.
    if (isa<spirv::FAddOp, spirv::FSubOp, spirv::FMulOp, spirv::GLFmaOp>(op)) {
      op->setAttr("no_contraction", b.getUnitAttr());
    }
  });
  SmallVector<Attribute> interface;
  module->walk([&](spirv::GlobalVariableOp variable) { interface.push_back(SymbolRefAttr::get(variable)); });
  b.setInsertionPointToEnd(module->getBody());
  spirv::EntryPointOp::create(b, loc, spirv::ExecutionModel::GLCompute, func, interface);
  spirv::ExecutionModeOp::create(b, loc, func, spirv::ExecutionMode::LocalSize, *size);
  (*module).setVceTripleAttr(whatIsUsed(*module));
  return module;
}

}  // namespace qcc::gpu
