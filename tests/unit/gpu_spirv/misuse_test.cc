// What the Builder says of kernels that break the language's rules.
#include <gtest/gtest.h>

#include "codegen/gpu/build/Build.h"
#include "mlir/IR/MLIRContext.h"

namespace qcc::gpu {
namespace {

std::string ErrorOf(const std::function<void(Builder&)>& emit,
                    const std::function<void(Launch&)>& change = nullptr, int subgroup = 0) {
  Profile profile;
  profile.name = "p";
  profile.subgroup = subgroup;
  Launch launch;
  launch.name = "k";
  launch.workgroup_size = 64;
  launch.args.resize(2);
  launch.emit = emit;
  if (change) change(launch);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = buildKernel(context, profile, launch, "main");
  return module ? "" : llvm::toString(module.takeError());
}

TEST(Misuse, NamesTheKernelAndTheMethod) {
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Arg(2); }), "kernel 'k': Arg(2): the launch has 2 arguments");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.I32(1) + k.F32(1); }),
            "kernel 'k': Binary kAdd: wants i32, found f32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Binary(Builder::Op::kDivF, k.I32(1), k.I32(1)); }),
            "kernel 'k': Binary kDivF: of i32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Binary(Builder::Op::kShl, k.F32(1), k.F32(1)); }),
            "kernel 'k': Binary kShl: of f32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Load(Type::kF32, k.I32(0), k.I32(0)); }),
            "kernel 'k': Load: wants i64, found i32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Store(k.Arg(0), k.I64(0), k.I32(0)); }),
            "kernel 'k': Store: wants i32, found i64");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Store(k.Arg(0), k.I32(0), Val()); }), "kernel 'k': Store: no value");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.If(k.I32(1), [] {}); }), "kernel 'k': If: wants bool, found i32");
  EXPECT_EQ(ErrorOf([](Builder& k) {
              k.IfElse(
                  LtS(k.Thread(), k.I32(1)), [&] { return std::vector<Val>{k.I32(1)}; },
                  [&] { return std::vector<Val>{k.F32(1)}; });
            }),
            "kernel 'k': IfElse: the branches give (i32) and (f32)");
  EXPECT_EQ(ErrorOf([](Builder& k) {
              k.For(k.I32(0), k.I32(4), k.I32(1), {k.I32(1)},
                    [&](Val, const std::vector<Val>&) { return std::vector<Val>{}; });
            }),
            "kernel 'k': For: the body gives (), carried are (i32)");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Compare(Builder::Cmp::kEq, k.F32(1), k.F32(2)); }),
            "kernel 'k': Compare kEq: of f32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.Extract(k.I32(1), 0); }), "kernel 'k': Extract: lane 0 of i32");
  EXPECT_EQ(ErrorOf([](Builder& k) {
              k.Vector({k.I32(1), k.I32(1), k.I32(1)});
            }),
            "kernel 'k': Vector: of 3 lanes; 2 or 4 exist");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.ToF32(k.F32(1)); }), "kernel 'k': ToF32: wants i32, found f32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.LoadShared(Shared(), k.I32(0)); }),
            "kernel 'k': LoadShared: workgroup memory that was not allocated");
}

TEST(Misuse, NamesTheLimitThatIsExceeded) {
  EXPECT_EQ(ErrorOf([](Builder& k) { k.AllocShared(Type::kF32, 4097); }),
            "kernel 'k': AllocShared: 16388 bytes of workgroup memory; profile 'p' has 16384");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.ShuffleXor(k.Thread(), 1); }),
            "kernel 'k': ShuffleXor: profile 'p' has no subgroups");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.ShuffleXor(k.Thread(), 32); }, nullptr, 32),
            "kernel 'k': ShuffleXor: mask 32 in a workgroup of 64; subgroups have 32");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.SubgroupBarrier(); }),
            "kernel 'k': SubgroupBarrier: profile 'p' has no subgroups");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.MmaS8({}, {}, {}); }),
            "kernel 'k': MmaS8: profile 'p' has no matrix units of that kind");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.MmaF16({}, {}, {}); }),
            "kernel 'k': MmaF16: profile 'p' has no matrix units of that kind");
  EXPECT_EQ(ErrorOf([](Builder& k) { k.MmaBf16({}, {}, {}); }),
            "kernel 'k': MmaBf16: profile 'p' has no matrix units of that kind");
  EXPECT_EQ(ErrorOf([](Builder& k) {
              const Shared s = k.AllocShared(Type::kI32, 64);
              k.DotTile({s, k.I32(0), 2}, 8, {s, k.I32(16), 2}, 8, 8, {s, k.I32(32), 8});
            }),
            "kernel 'k': DotTile: profile 'p' has no cooperative matrices");
  EXPECT_EQ(ErrorOf([](Builder&) {}, [](Launch& l) { l.args.resize(17); }),
            "kernel 'k': 17 arguments; a launch has at most 16");
  EXPECT_EQ(ErrorOf([](Builder&) {}, [](Launch& l) { l.workgroup_size = 256; }),
            "kernel 'k': workgroup of 256 threads; profile 'p' has at most 128");
  EXPECT_EQ(ErrorOf(nullptr), "kernel 'k': has no body");
}

// A value of one branch used outside of it: the verifier's finding, under the kernel's name.
TEST(Misuse, ReportsWhatTheVerifierFinds) {
  std::string error = ErrorOf([](Builder& k) {
    Val inside;
    k.If(LtS(k.Thread(), k.I32(1)), [&] { inside = k.Thread() * 2; });
    k.Store(k.Arg(0), k.I32(0), inside);
  });
  EXPECT_NE(error.find("kernel 'k'"), std::string::npos) << error;
  EXPECT_NE(error.find("dominate"), std::string::npos) << error;
}

}  // namespace
}  // namespace qcc::gpu
