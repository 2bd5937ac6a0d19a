// A Builder that hands everything on to another one: what a derived class changes is seen by one kernel that
// is part of a larger one.
#ifndef QCC_CODEGEN_GPU_KERNELS_BUILDER_VIEW_H_
#define QCC_CODEGEN_GPU_KERNELS_BUILDER_VIEW_H_

#include <functional>
#include <vector>

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

class BuilderView : public Builder {
 public:
  explicit BuilderView(Builder& base) : base_(base) {}

  const Profile& profile() const override { return base_.profile(); }
  Val Arg(int index) override { return base_.Arg(index); }
  Val BlockX() override { return base_.BlockX(); }
  Val BlockY() override { return base_.BlockY(); }
  Val BlockZ() override { return base_.BlockZ(); }
  Val Thread() override { return base_.Thread(); }
  Val I32(int32_t value) override { return base_.I32(value); }
  Val I64(int64_t value) override { return base_.I64(value); }
  Val F32(float value) override { return base_.F32(value); }
  using Builder::Load;
  Val Load(Type type, Val base, Val at, int32_t more) override { return base_.Load(type, base, at, more); }
  void BeginLoads() override { base_.BeginLoads(); }
  void Store(Val base, Val at, Val value) override { base_.Store(base, at, value); }
  Val Extract(Val vector, int lane) override { return base_.Extract(vector, lane); }
  Val Vector(const std::vector<Val>& lanes) override { return base_.Vector(lanes); }
  Shared AllocShared(Type type, int words) override { return base_.AllocShared(type, words); }
  Val LoadShared(const Shared& shared, Val index) override { return base_.LoadShared(shared, index); }
  void StoreShared(const Shared& shared, Val index, Val value) override {
    base_.StoreShared(shared, index, value);
  }
  Val AtomicAddShared(const Shared& shared, Val index, Val value) override {
    return base_.AtomicAddShared(shared, index, value);
  }
  Val AtomicMaxSharedU(const Shared& shared, Val index, Val value) override {
    return base_.AtomicMaxSharedU(shared, index, value);
  }
  void Barrier() override { base_.Barrier(); }
  void SubgroupBarrier() override { base_.SubgroupBarrier(); }
  void AwaitEarlier() override { base_.AwaitEarlier(); }
  void Prefetch(Val base, Val at) override { base_.Prefetch(base, at); }
  void LetNextBegin() override { base_.LetNextBegin(); }
  Val AtomicAdd(Val base, Val at, Val value) override { return base_.AtomicAdd(base, at, value); }
  void If(Val condition, const std::function<void()>& then) override { base_.If(condition, then); }
  std::vector<Val> IfElse(Val condition, const std::function<std::vector<Val>()>& then,
                          const std::function<std::vector<Val>()>& otherwise) override {
    return base_.IfElse(condition, then, otherwise);
  }
  using Builder::For;
  std::vector<Val> For(Val low, Val high, Val step, const std::vector<Val>& carried,
                       const std::function<std::vector<Val>(Val, const std::vector<Val>&)>& body) override {
    return base_.For(low, high, step, carried, body);
  }
  Val Binary(Op op, Val a, Val b) override { return base_.Binary(op, a, b); }
  Val Compare(Cmp cmp, Val a, Val b) override { return base_.Compare(cmp, a, b); }
  Val Select(Val condition, Val a, Val b) override { return base_.Select(condition, a, b); }
  Val Fma(Val a, Val b, Val c) override { return base_.Fma(a, b, c); }
  Val MulHighU(Val a, Val b) override { return base_.MulHighU(a, b); }
  Val Call(Fn fn, Val x) override { return base_.Call(fn, x); }
  Val ToF32(Val v) override { return base_.ToF32(v); }
  Val ToI32(Val v) override { return base_.ToI32(v); }
  Val AsI32(Val v) override { return base_.AsI32(v); }
  Val AsF32(Val v) override { return base_.AsF32(v); }
  Val ExtendU(Val v) override { return base_.ExtendU(v); }
  Val ExtendS(Val v) override { return base_.ExtendS(v); }
  Val Truncate(Val v) override { return base_.Truncate(v); }
  Val UnpackHalf(Val v) override { return base_.UnpackHalf(v); }
  Val HalfToF32(Val v) override { return base_.HalfToF32(v); }
  Val PackHalf(Val low, Val high) override { return base_.PackHalf(low, high); }
  Val Dot4(Val a, Val b, Val acc) override { return base_.Dot4(a, b, acc); }
  Val ShuffleXor(Val v, int mask) override { return base_.ShuffleXor(v, mask); }
  std::vector<Val> MmaS8(const std::vector<Val>& a, const std::vector<Val>& b,
                         const std::vector<Val>& c) override {
    return base_.MmaS8(a, b, c);
  }
  std::vector<Val> MmaF16(const std::vector<Val>& a, const std::vector<Val>& b,
                          const std::vector<Val>& c) override {
    return base_.MmaF16(a, b, c);
  }
  std::vector<Val> MmaBf16(const std::vector<Val>& a, const std::vector<Val>& b,
                           const std::vector<Val>& c) override {
    return base_.MmaBf16(a, b, c);
  }
  void DotTile(const SharedRows& a, int a_rows, const SharedRows& b, int b_rows, int columns,
               const SharedRows& d) override {
    base_.DotTile(a, a_rows, b, b_rows, columns, d);
  }

 private:
  Builder& base_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_BUILDER_VIEW_H_
