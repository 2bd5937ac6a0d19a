#include "codegen/gpu/build/Build.h"

#include <optional>
#include <string>
#include <utility>

#include "codegen/gpu/IR/Gx.h"
#include "codegen/gpu/build/CheckedBuilder.h"
#include "codegen/gpu/build/value_types.h"
#include "llvm/ADT/Twine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

constexpr int64_t kSharedAlignment = 16;  // bytes

class MlirBuilder final : public CheckedBuilder {
 public:
  MlirBuilder(const Profile& profile, const Launch& launch, mlir::gpu::GPUFuncOp func)
      : CheckedBuilder(profile, func.getLoc()), launch_(launch), func_(func) {
    b_.setInsertionPointToStart(&func.getBody().front());
  }

  void finish() { mlir::gpu::ReturnOp::create(b_, loc_); }

  Val Arg(int index) override {
    if (index < 0 || index >= static_cast<int>(launch_.args.size())) {
      return fail(Type::kI64, "Arg(" + llvm::Twine(index) + "): the launch has " +
                                  llvm::Twine(launch_.args.size()) + " arguments");
    }
    return wrap(gx::ArgOp::create(b_, loc_, b_.getI64Type(), index), Type::kI64);
  }
  Val BlockX() override { return block(mlir::gpu::Dimension::x); }
  Val BlockY() override { return block(mlir::gpu::Dimension::y); }
  Val BlockZ() override { return block(mlir::gpu::Dimension::z); }
  Val Thread() override { return id(mlir::gpu::ThreadIdOp::create(b_, loc_, mlir::gpu::Dimension::x)); }

  Val I32(int32_t value) override {
    return wrap(arith::ConstantOp::create(b_, loc_, b_.getI32IntegerAttr(value)), Type::kI32);
  }
  Val I64(int64_t value) override {
    return wrap(arith::ConstantOp::create(b_, loc_, b_.getI64IntegerAttr(value)), Type::kI64);
  }
  Val F32(float value) override {
    return wrap(arith::ConstantOp::create(b_, loc_, b_.getF32FloatAttr(value)), Type::kF32);
  }

  using Builder::Load;
  Val Load(Type type, Val base, Val byte_offset, int32_t more) override {
    if (type == Type::kBool) return fail(Type::kI32, "Load: of bool");
    if (!want("Load", {base}, Type::kI64) || !want("Load", {byte_offset}, Type::kI32)) return zero(type);
    return wrap(gx::LoadOp::create(b_, loc_, lower(type), get(base), get(byte_offset), more), type);
  }
  void BeginLoads() override {
    if (profile_.loads_ahead != LoadsAhead::kNever) gx::BeginLoadsOp::create(b_, loc_);
  }
  void Store(Val base, Val byte_offset, Val value) override {
    if (!want("Store", {base}, Type::kI64) || !want("Store", {byte_offset}, Type::kI32) ||
        !usable("Store", value))
      return;
    if (value.type() == Type::kBool) {
      fail(Type::kI32, "Store: of bool");
      return;
    }
    gx::StoreOp::create(b_, loc_, get(value), get(base), get(byte_offset));
  }

  Val Extract(Val vector, int lane) override {
    if (!usable("Extract", vector)) return zero(Type::kI32);
    Type element = elementOf(vector.type());
    if (lane < 0 || lane >= lanesOf(vector.type()) || lanesOf(vector.type()) == 1)
      return fail(element, "Extract: lane " + llvm::Twine(lane) + " of " + nameOf(vector.type()));
    return wrap(vector::ExtractOp::create(b_, loc_, get(vector), static_cast<int64_t>(lane)), element);
  }
  Val Vector(const std::vector<Val>& lanes) override {
    if (lanes.size() != 2 && lanes.size() != 4)
      return fail(Type::kI32x2, "Vector: of " + llvm::Twine(lanes.size()) + " lanes; 2 or 4 exist");
    Type element = lanes[0].type() == Type::kF32 ? Type::kF32 : Type::kI32;
    Type type = vectorOf(element, static_cast<int>(lanes.size()));
    if (!want("Vector", lanes, element)) return zero(type);
    return wrap(vector::FromElementsOp::create(b_, loc_, cast<VectorType>(lower(type)), values(lanes)), type);
  }

  Shared AllocShared(Type type, int words) override {
    if ((type != Type::kI32 && type != Type::kF32) || words <= 0) {
      fail(Type::kI32,
           "AllocShared: " + llvm::Twine(words) + " of " + nameOf(type) + "; wants i32 or f32, at least 1");
      type = Type::kI32;
      words = 1;
    }
    shared_bytes_ += 4 * static_cast<int64_t>(words);
    if (shared_bytes_ > profile_.max_shared) {
      fail(Type::kI32, "AllocShared: " + llvm::Twine(shared_bytes_) +
                           " bytes of workgroup memory; profile '" + profile_.name + "' has " +
                           llvm::Twine(profile_.max_shared));
    }
    auto space = mlir::gpu::AddressSpaceAttr::get(b_.getContext(), mlir::gpu::AddressSpace::Workgroup);
    auto memref = MemRefType::get({words}, lower(type), MemRefLayoutAttrInterface{}, space);
    shared_.push_back(func_.addWorkgroupAttribution(memref, loc_));
    const int id = static_cast<int>(shared_.size()) - 1;
    // Said aloud: LLVM takes large arrays to be aligned like this, and then reads several words at a time,
    // but does not write it into PTX by itself.
    func_.setWorkgroupAttributionAttr(static_cast<unsigned>(id), b_.getStringAttr("llvm.align"),
                                      b_.getI64IntegerAttr(kSharedAlignment));
    return {id, type, words};
  }
  Val LoadShared(const Shared& shared, Val index) override {
    if (!wantShared("LoadShared", shared, index)) return zero(shared.type);
    return wrap(memref::LoadOp::create(b_, loc_, shared_[shared.id], toIndex(index)), shared.type);
  }
  void StoreShared(const Shared& shared, Val index, Val value) override {
    if (!wantShared("StoreShared", shared, index) || !want("StoreShared", {value}, shared.type)) return;
    memref::StoreOp::create(b_, loc_, get(value), shared_[shared.id], toIndex(index));
  }
  Val AtomicAddShared(const Shared& shared, Val index, Val value) override {
    return atomicShared("AtomicAddShared", arith::AtomicRMWKind::addi, shared, index, value);
  }
  Val AtomicMaxSharedU(const Shared& shared, Val index, Val value) override {
    return atomicShared("AtomicMaxSharedU", arith::AtomicRMWKind::maxu, shared, index, value);
  }
  void Barrier() override { mlir::gpu::BarrierOp::create(b_, loc_); }
  void SubgroupBarrier() override {
    if (profile_.subgroup == 0) {
      fail(Type::kI32, "SubgroupBarrier: profile '" + profile_.name + "' has no subgroups");
      return;
    }
    gx::SubgroupBarrierOp::create(b_, loc_);
  }
  void AwaitEarlier() override {
    if (profile_.overlap) gx::AwaitEarlierOp::create(b_, loc_);
  }
  void LetNextBegin() override {
    if (profile_.overlap) gx::LetNextBeginOp::create(b_, loc_);
  }
  void Prefetch(Val base, Val byte_offset) override {
    if (!want("Prefetch", {base}, Type::kI64) || !want("Prefetch", {byte_offset}, Type::kI32)) return;
    if (profile_.overlap) gx::PrefetchOp::create(b_, loc_, get(base), get(byte_offset));
  }

  Val AtomicAdd(Val base, Val byte_offset, Val value) override {
    if (!want("AtomicAdd", {base}, Type::kI64) || !want("AtomicAdd", {byte_offset, value}, Type::kI32))
      return zero(Type::kI32);
    return wrap(gx::AtomicAddOp::create(b_, loc_, b_.getI32Type(), get(value), get(base), get(byte_offset)),
                Type::kI32);
  }

  void If(Val condition, const std::function<void()>& then) override {
    if (!want("If", {condition}, Type::kBool)) condition = zero(Type::kBool);
    auto op = scf::IfOp::create(b_, loc_, get(condition), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(op.thenYield());
    then();
  }
  std::vector<Val> IfElse(Val condition, const std::function<std::vector<Val>()>& then,
                          const std::function<std::vector<Val>()>& otherwise) override {
    if (!want("IfElse", {condition}, Type::kBool)) condition = zero(Type::kBool);
    // The results' types are known only after the branches were written: they move to an op that has results.
    auto draft = scf::IfOp::create(b_, loc_, get(condition), /*withElseRegion=*/true);
    std::vector<Val> first = branch(draft.thenBlock(), then);
    std::vector<Val> second = branch(draft.elseBlock(), otherwise);
    bool same = first.size() == second.size();
    for (size_t i = 0; same && i < first.size(); ++i) same = first[i].type() == second[i].type();
    if (!same) {
      fail(Type::kI32, "IfElse: the branches give " + list(first) + " and " + list(second));
      draft.erase();
      for (Val& v : first) v = zero(v.type());
      return first;
    }
    SmallVector<mlir::Type> types;
    for (const Val& v : first) types.push_back(lower(v.type()));
    auto op = scf::IfOp::create(b_, loc_, types, get(condition));
    op.getThenRegion().takeBody(draft.getThenRegion());
    op.getElseRegion().takeBody(draft.getElseRegion());
    draft.erase();
    std::vector<Val> results;
    for (size_t i = 0; i < first.size(); ++i) results.push_back(wrap(op.getResult(i), first[i].type()));
    return results;
  }
  std::vector<Val> For(Val low, Val high, Val step, const std::vector<Val>& carried,
                       const std::function<std::vector<Val>(Val, const std::vector<Val>&)>& body) override {
    for (const Val& v : carried)
      if (!usable("For", v)) return carried;
    if (!want("For", {low, high, step}, Type::kI32)) low = high = step = I32(1);
    std::vector<Val> results;
    auto op = scf::ForOp::create(b_, loc_, get(low), get(high), get(step), values(carried),
                                 [](OpBuilder&, Location, Value, ValueRange) {});
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(op.getBody());
      std::vector<Val> inside;
      for (size_t i = 0; i < carried.size(); ++i)
        inside.push_back(wrap(op.getRegionIterArgs()[i], carried[i].type()));
      std::vector<Val> next = body(wrap(op.getInductionVar(), Type::kI32), inside);
      bool same = next.size() == carried.size();
      for (size_t i = 0; same && i < next.size(); ++i) same = next[i] && next[i].type() == carried[i].type();
      if (!same) {
        fail(Type::kI32, "For: the body gives " + list(next) + ", carried are " + list(carried));
        next = inside;
      }
      scf::YieldOp::create(b_, loc_, values(next));
    }
    for (size_t i = 0; i < carried.size(); ++i) results.push_back(wrap(op.getResult(i), carried[i].type()));
    return results;
  }

  Val Binary(Op op, Val a, Val b) override;
  Val Compare(Cmp cmp, Val a, Val b) override;
  Val Select(Val condition, Val a, Val b) override {
    if (!usable("Select", a) || !usable("Select", b)) return zero(Type::kI32);
    if (a.type() != b.type() || !want("Select", {condition}, Type::kBool))
      return fail(a.type(), llvm::Twine("Select: of ") + list({condition, a, b}));
    return wrap(arith::SelectOp::create(b_, loc_, get(condition), get(a), get(b)), a.type());
  }
  Val Fma(Val a, Val b, Val c) override {
    if (!usable("Fma", a) || !isFloat(a.type()) || !want("Fma", {b, c}, a.type()))
      return fail(a && isFloat(a.type()) ? a.type() : Type::kF32, "Fma: of " + list({a, b, c}));
    return wrap(math::FmaOp::create(b_, loc_, get(a), get(b), get(c)), a.type());
  }
  Val MulHighU(Val a, Val b) override {
    bool good = usable("MulHighU", a) && (a.type() == Type::kI32 || a.type() == Type::kI64);
    if (!good || !want("MulHighU", {b}, a.type())) return fail(Type::kI32, "MulHighU: of " + list({a, b}));
    return wrap(arith::MulUIExtendedOp::create(b_, loc_, get(a), get(b)).getHigh(), a.type());
  }
  Val Call(Fn fn, Val x) override;

  Val ToF32(Val x) override { return convert<arith::SIToFPOp>("ToF32", x, Type::kI32, Type::kF32); }
  Val ToI32(Val x) override { return convert<arith::FPToSIOp>("ToI32", x, Type::kF32, Type::kI32); }
  Val AsI32(Val x) override { return convert<arith::BitcastOp>("AsI32", x, Type::kF32, Type::kI32); }
  Val AsF32(Val x) override { return convert<arith::BitcastOp>("AsF32", x, Type::kI32, Type::kF32); }
  Val ExtendU(Val x) override { return convert<arith::ExtUIOp>("ExtendU", x, Type::kI32, Type::kI64); }
  Val ExtendS(Val x) override { return convert<arith::ExtSIOp>("ExtendS", x, Type::kI32, Type::kI64); }
  Val Truncate(Val x) override { return convert<arith::TruncIOp>("Truncate", x, Type::kI64, Type::kI32); }
  Val UnpackHalf(Val x) override {
    return convert<gx::UnpackHalfOp>("UnpackHalf", x, Type::kI32, Type::kF32x2);
  }
  Val HalfToF32(Val x) override { return convert<gx::HalfToF32Op>("HalfToF32", x, Type::kI32, Type::kF32); }
  Val PackHalf(Val low, Val high) override {
    if (!want("PackHalf", {low, high}, Type::kF32)) return zero(Type::kI32);
    return wrap(gx::PackHalfOp::create(b_, loc_, b_.getI32Type(), get(low), get(high)), Type::kI32);
  }

  Val Dot4(Val a, Val b, Val acc) override {
    if (!want("Dot4", {a, b, acc}, Type::kI32)) return zero(Type::kI32);
    return wrap(gx::Dot4Op::create(b_, loc_, b_.getI32Type(), get(a), get(b), get(acc)), Type::kI32);
  }
  Val ShuffleXor(Val v, int mask) override {
    if (!usable("ShuffleXor", v)) return zero(Type::kI32);
    if (v.type() != Type::kI32 && v.type() != Type::kF32)
      return fail(Type::kI32, llvm::Twine("ShuffleXor: of ") + nameOf(v.type()) + "; wants i32 or f32");
    int size = profile_.subgroup;
    if (size == 0) return fail(v.type(), "ShuffleXor: profile '" + profile_.name + "' has no subgroups");
    if (launch_.workgroup_size % size != 0 || mask <= 0 || mask >= size) {
      return fail(v.type(), "ShuffleXor: mask " + llvm::Twine(mask) + " in a workgroup of " +
                                llvm::Twine(launch_.workgroup_size) + "; subgroups have " +
                                llvm::Twine(size));
    }
    Value result = mlir::gpu::ShuffleOp::create(b_, loc_, get(v), get(I32(mask)), get(I32(size)),
                                                mlir::gpu::ShuffleMode::XOR)
                       .getShuffleResult();
    return wrap(result, v.type());
  }
  std::vector<Val> MmaS8(const std::vector<Val>& a, const std::vector<Val>& b,
                         const std::vector<Val>& c) override {
    return mma<gx::MmaS8Op>("MmaS8", a, b, c, Type::kI32);
  }
  std::vector<Val> MmaF16(const std::vector<Val>& a, const std::vector<Val>& b,
                          const std::vector<Val>& c) override {
    return mma<gx::MmaF16Op>("MmaF16", a, b, c, Type::kF32);
  }
  std::vector<Val> MmaBf16(const std::vector<Val>& a, const std::vector<Val>& b,
                           const std::vector<Val>& c) override {
    return mma<gx::MmaBf16Op>("MmaBf16", a, b, c, Type::kF32);
  }
  void DotTile(const SharedRows& a, int a_rows, const SharedRows& b, int b_rows, int columns,
               const SharedRows& d) override {
    for (const SharedRows* rows : {&a, &b, &d}) {
      if (!wantShared("DotTile", rows->memory, rows->at)) return;
      if (rows->memory.type != Type::kI32) {
        fail(Type::kI32, "DotTile: of f32 words");
        return;
      }
    }
    const MatrixUnits& units = profile_.matrix;
    if (units.kind != MatrixUnits::Kind::kCooperative) {
      fail(Type::kI32, "DotTile: profile '" + profile_.name + "' has no cooperative matrices");
      return;
    }
    if (a_rows <= 0 || a_rows % units.m || b_rows <= 0 || b_rows % units.n || columns <= 0 ||
        columns % units.k) {
      fail(Type::kI32, "DotTile: " + llvm::Twine(a_rows) + " by " + llvm::Twine(b_rows) + " rows of " +
                           llvm::Twine(columns) + " columns; profile '" + profile_.name + "' has " +
                           llvm::Twine(units.m) + " x " + llvm::Twine(units.n) + " x " +
                           llvm::Twine(units.k));
      return;
    }
    gx::DotTileOp::create(b_, loc_, shared_[a.memory.id], get(a.at), a.stride, a_rows, shared_[b.memory.id],
                          get(b.at), b.stride, b_rows, shared_[d.memory.id], get(d.at), d.stride, columns,
                          ArrayRef<int32_t>{units.m, units.n, units.k});
  }

 private:
  template <typename OpTy>
  std::vector<Val> mma(const char* name, const std::vector<Val>& a, const std::vector<Val>& b,
                       const std::vector<Val>& c, Type sum) {
    std::vector<Val> results(4);
    bool good = a.size() == 4 && b.size() == 2 && c.size() == 4 && want(name, a, Type::kI32) &&
                want(name, b, Type::kI32) && want(name, c, sum);
    const bool has = profile_.matrix.kind == MatrixUnits::Kind::kMma;
    if (!good || !has) {
      for (Val& v : results) {
        v = fail(sum, llvm::Twine(name) +
                          (has ? ": wants 4, 2 and 4 words"
                               : ": profile '" + profile_.name + "' has no matrix units of that kind"));
      }
      return results;
    }
    SmallVector<mlir::Type> types(4, lower(sum));
    auto op = OpTy::create(b_, loc_, types, values(a), values(b), values(c));
    for (int i = 0; i < 4; ++i) results[i] = wrap(op.getResult(i), sum);
    return results;
  }
  Val atomicShared(const char* method, arith::AtomicRMWKind kind, const Shared& shared, Val index,
                   Val value) {
    if (!wantShared(method, shared, index) || !want(method, {value}, Type::kI32)) return zero(Type::kI32);
    if (shared.type != Type::kI32) return fail(Type::kI32, llvm::Twine(method) + ": of f32 words");
    return wrap(memref::AtomicRMWOp::create(b_, loc_, kind, get(value), shared_[shared.id], toIndex(index)),
                Type::kI32);
  }
  Value toIndex(Val index) { return arith::IndexCastUIOp::create(b_, loc_, b_.getIndexType(), get(index)); }
  Val id(Value index) {
    return wrap(arith::IndexCastUIOp::create(b_, loc_, b_.getI32Type(), index), Type::kI32);
  }
  Val block(mlir::gpu::Dimension dimension) { return id(mlir::gpu::BlockIdOp::create(b_, loc_, dimension)); }
  std::vector<Val> branch(Block* block, const std::function<std::vector<Val>()>& body) {
    OpBuilder::InsertionGuard guard(b_);
    block->clear();
    b_.setInsertionPointToStart(block);
    std::vector<Val> results = body();
    for (Val& v : results)
      if (!usable("IfElse", v)) v = zero(Type::kI32);
    scf::YieldOp::create(b_, loc_, values(results));
    return results;
  }
  template <typename OpTy>
  Val convert(const char* method, Val x, Type from, Type to) {
    if (!want(method, {x}, from)) return zero(to);
    return wrap(OpTy::create(b_, loc_, lower(to), get(x)), to);
  }
  template <typename OpTy>
  Value make(Val a, Val b) {
    return OpTy::create(b_, loc_, get(a), get(b));
  }

  const Launch& launch_;
  mlir::gpu::GPUFuncOp func_;
  int64_t shared_bytes_ = 0;
};

Val MlirBuilder::Binary(Op op, Val a, Val b) {
  static const char* const kNames[] = {"kAdd",  "kSub",  "kMul",  "kDivF", "kDivU", "kRemU",
                                       "kAnd",  "kOr",   "kXor",  "kShl",  "kShrU", "kShrS",
                                       "kMinS", "kMaxS", "kMinU", "kMaxU", "kMinF", "kMaxF"};
  std::string name = std::string("Binary ") + kNames[static_cast<int>(op)];
  if (!usable(name.c_str(), a)) return zero(Type::kI32);
  if (!want(name.c_str(), {b}, a.type())) return zero(a.type());
  Type t = a.type();
  Value v;
  if (isFloat(t)) {
    switch (op) {
      case Op::kAdd:
        v = make<arith::AddFOp>(a, b);
        break;
      case Op::kSub:
        v = make<arith::SubFOp>(a, b);
        break;
      case Op::kMul:
        v = make<arith::MulFOp>(a, b);
        break;
      case Op::kDivF:
        v = make<arith::DivFOp>(a, b);
        break;
      case Op::kMinF:
        v = make<arith::MinNumFOp>(a, b);
        break;
      case Op::kMaxF:
        v = make<arith::MaxNumFOp>(a, b);
        break;
      default:
        break;
    }
  } else if (isInt(t) || op == Op::kAnd || op == Op::kOr || op == Op::kXor) {
    switch (op) {
      case Op::kAdd:
        v = make<arith::AddIOp>(a, b);
        break;
      case Op::kSub:
        v = make<arith::SubIOp>(a, b);
        break;
      case Op::kMul:
        v = make<arith::MulIOp>(a, b);
        break;
      case Op::kDivU:
        v = make<arith::DivUIOp>(a, b);
        break;
      case Op::kRemU:
        v = make<arith::RemUIOp>(a, b);
        break;
      case Op::kAnd:
        v = make<arith::AndIOp>(a, b);
        break;
      case Op::kOr:
        v = make<arith::OrIOp>(a, b);
        break;
      case Op::kXor:
        v = make<arith::XOrIOp>(a, b);
        break;
      case Op::kShl:
        v = make<arith::ShLIOp>(a, b);
        break;
      case Op::kShrU:
        v = make<arith::ShRUIOp>(a, b);
        break;
      case Op::kShrS:
        v = make<arith::ShRSIOp>(a, b);
        break;
      case Op::kMinS:
        v = make<arith::MinSIOp>(a, b);
        break;
      case Op::kMaxS:
        v = make<arith::MaxSIOp>(a, b);
        break;
      case Op::kMinU:
        v = make<arith::MinUIOp>(a, b);
        break;
      case Op::kMaxU:
        v = make<arith::MaxUIOp>(a, b);
        break;
      default:
        break;
    }
  }
  if (!v) return fail(t, llvm::Twine(name) + ": of " + nameOf(t));
  return wrap(v, t);
}

Val MlirBuilder::Compare(Cmp cmp, Val a, Val b) {
  static const char* const kNames[] = {"kEq", "kNe", "kLtS", "kLeS", "kLtU", "kLeU", "kLtF", "kLeF", "kEqF"};
  std::string name = std::string("Compare ") + kNames[static_cast<int>(cmp)];
  if (!usable(name.c_str(), a) || !want(name.c_str(), {b}, a.type())) return zero(Type::kBool);
  std::optional<arith::CmpIPredicate> ints;
  std::optional<arith::CmpFPredicate> floats;
  switch (cmp) {
    case Cmp::kEq:
      ints = arith::CmpIPredicate::eq;
      break;
    case Cmp::kNe:
      ints = arith::CmpIPredicate::ne;
      break;
    case Cmp::kLtS:
      ints = arith::CmpIPredicate::slt;
      break;
    case Cmp::kLeS:
      ints = arith::CmpIPredicate::sle;
      break;
    case Cmp::kLtU:
      ints = arith::CmpIPredicate::ult;
      break;
    case Cmp::kLeU:
      ints = arith::CmpIPredicate::ule;
      break;
    case Cmp::kLtF:
      floats = arith::CmpFPredicate::OLT;
      break;
    case Cmp::kLeF:
      floats = arith::CmpFPredicate::OLE;
      break;
    case Cmp::kEqF:
      floats = arith::CmpFPredicate::OEQ;
      break;
  }
  Type t = a.type();
  bool equality = cmp == Cmp::kEq || cmp == Cmp::kNe;
  if (ints && (t == Type::kI32 || t == Type::kI64 || (t == Type::kBool && equality)))
    return wrap(arith::CmpIOp::create(b_, loc_, *ints, get(a), get(b)), Type::kBool);
  if (floats && t == Type::kF32)
    return wrap(arith::CmpFOp::create(b_, loc_, *floats, get(a), get(b)), Type::kBool);
  return fail(Type::kBool, llvm::Twine(name) + ": of " + nameOf(t));
}

Val MlirBuilder::Call(Fn fn, Val x) {
  if (!usable("Call", x)) return zero(Type::kF32);
  if (!isFloat(x.type()))
    return fail(Type::kF32, llvm::Twine("Call: of ") + nameOf(x.type()) + "; wants f32");
  Value in = get(x), v;
  switch (fn) {
    case Fn::kAbs:
      v = math::AbsFOp::create(b_, loc_, in);
      break;
    case Fn::kNeg:
      v = arith::NegFOp::create(b_, loc_, in);
      break;
    case Fn::kSqrt:
      v = math::SqrtOp::create(b_, loc_, in);
      break;
  }
  return wrap(v, x.type());
}

llvm::Error error(const Launch& launch, const llvm::Twine& what) {
  return llvm::createStringError("kernel '" + llvm::Twine(launch.name) + "': " + what);
}

}  // namespace

void registerKernelDialects(DialectRegistry& registry) {
  registry.insert<gx::GxDialect, mlir::gpu::GPUDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect, memref::MemRefDialect, vector::VectorDialect>();
}

llvm::Expected<OwningOpRef<ModuleOp>> buildKernel(MLIRContext& context, const Profile& profile,
                                                  const Launch& launch, StringRef entryName) {
  if (!launch.emit) return error(launch, "has no body");
  if (launch.workgroup_size <= 0 || launch.workgroup_size > profile.max_workgroup) {
    return error(launch, "workgroup of " + llvm::Twine(launch.workgroup_size) + " threads; profile '" +
                             profile.name + "' has at most " + llvm::Twine(profile.max_workgroup));
  }
  if (launch.args.size() > gx::kMaxArgs) {
    return error(launch, llvm::Twine(launch.args.size()) + " arguments; a launch has at most " +
                             llvm::Twine(gx::kMaxArgs));
  }
  context.loadDialect<gx::GxDialect, mlir::gpu::GPUDialect, arith::ArithDialect, math::MathDialect,
                      scf::SCFDialect, memref::MemRefDialect, vector::VectorDialect>();
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(launch.name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  auto kernel = mlir::gpu::GPUModuleOp::create(b, loc, "kernel");
  (*module)->setAttr(mlir::gpu::GPUDialect::getContainerModuleAttrName(), b.getUnitAttr());
  b.setInsertionPointToStart(kernel.getBody());
  auto func = mlir::gpu::GPUFuncOp::create(b, loc, entryName, b.getFunctionType({}, {}));
  func->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({launch.workgroup_size, 1, 1}));
  func->setAttr("gx.args", b.getI32IntegerAttr(static_cast<int32_t>(launch.args.size())));

  MlirBuilder builder(profile, launch, func);
  EmitKernel(builder, launch);
  builder.finish();
  if (!builder.error().empty()) return error(launch, builder.error());

  std::string found;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic& diagnostic) {
    if (found.empty()) found = diagnostic.str();
    return success();
  });
  if (failed(verify(*module))) return error(launch, found);
  return module;
}

}  // namespace qcc::gpu
