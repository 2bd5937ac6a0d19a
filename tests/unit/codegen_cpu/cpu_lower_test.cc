// A plan's way to machine code: what the kernels' argument structs become.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/limits.h"
#include "codegen/cpu/lower/EmitBlob.h"
#include "codegen/cpu/lower/KernelCall.h"
#include "codegen/cpu/lower/LowerToLlvm.h"
#include "dialects/plan/kernel_families.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

namespace qcc::cpu {
namespace {

// Shapes that every kernel takes, and constants that occur nowhere else.
template <class Spec>
Spec Small() {
  Spec s;
  if constexpr (requires { s.format; }) s.format = Format::Q8_0;
  if constexpr (requires { s.cols; }) s.cols = 96;
  if constexpr (requires { s.numerics; }) s.numerics = plan::Numerics::Int8;
  if constexpr (requires { s.k; }) s.k = 96, s.n = 48;
  if constexpr (requires { s.pairs; }) s.pairs = 24, s.magnitude = 1.25;
  if constexpr (requires { s.eps; }) s.eps = 0.375f;
  if constexpr (requires { s.q_heads; }) s.q_heads = 4, s.kv_heads = 2, s.head_dim = 48, s.gated = true;
  if constexpr (requires { s.rot_dims; }) s.rot_dims = 32;
  if constexpr (requires { s.key_heads; })
    s.key_heads = 2, s.value_heads = 4, s.key_dim = 16, s.value_dim = 24;
  if constexpr (requires { s.taps; }) s.taps = 4, s.ld_ab = 16, s.l2_eps = 0.375f, s.norm_eps = 0.75f;
  if constexpr (requires { s.scale; }) s.scale = 0.625f;
  if constexpr (requires { s.a_cols; }) s.a_cols = 48, s.b_cols = 32;
  return s;
}

class CpuLower : public ::testing::Test {
 protected:
  CpuLower() : b(&context) {
    context.loadDialect<plan::PlanDialect>();
    module = mlir::ModuleOp::create(b.getUnknownLoc());
  }

  // A program of one dispatch, all of whose roles are bound.
  template <class Spec>
  void AddProgram(const Spec& spec, int64_t rows) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(module->getBody());
    auto program = plan::ProgramOp::create(
        b, b.getUnknownLoc(), std::string(spec.kFamily) + std::to_string(rows),
        /*tokens=*/true, mlir::IntegerAttr(), mlir::StringAttr(), mlir::StringAttr(),
        plan::OutputAttr::get(b.getContext(), plan::Output::ChosenLogits), rows, 1 << 20);
    b.createBlock(&program.getBody());
    const std::vector<plan::Role> roles = plan::rolesOf(spec);
    plan::BindingsOf<Spec, plan::Ref> bindings;
    size_t i = 0;
    int64_t offset = 64;
    plan::forEachRole(spec, bindings, [&](const plan::RoleExtent& role, plan::Ref& ref) {
      const plan::Space space = roles[i++].space;
      if (role.presence == plan::Presence::Absent) return;
      ref = {space, offset, role.bytes * (role.unit == plan::Unit::Rows ? rows : 1), "b"};
      offset = layouts::AlignUp(offset + ref.bytes, 64);
    });
    plan::createDispatch(b, b.getUnknownLoc(), spec, bindings);
  }

  mlir::MLIRContext context;
  mlir::OpBuilder b;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Every kernel is inlined into the function of its specification, and its argument struct is gone: the fields
// are literals and parameters there. What stays on the stack is the kernels' own scratch.
TEST_F(CpuLower, NoArgumentStructIsLeftInTheCode) {
  std::vector<size_t> sizes;
#define QCC_FAMILY(name, Name) sizes.push_back(sizeof(name##_args));
#include "dialects/plan/kernel_families.def"
  plan::forEachFamily([&](auto spec) { AddProgram(Small<decltype(spec)>(), 8); });
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cpu_lower";
  std::filesystem::create_directories(folder);
  // One level will do: what is left does not depend on it.
  auto blobs =
      emitBlobs(BlobRequest{*lowered->module, {Isa::base}, lowered->entries, folder.string(), {}}, 1);
  ASSERT_TRUE(static_cast<bool>(blobs)) << llvm::toString(blobs.takeError());
  std::ifstream in(folder / "base.ll");
  const std::string code((std::istreambuf_iterator<char>(in)), {});
  ASSERT_NE(code.find("void @spec_"), std::string::npos) << "no functions in the dump";
  EXPECT_EQ(code.find("@qk_"), std::string::npos) << "a kernel is not inlined";
  for (size_t size : sizes)
    EXPECT_EQ(code.find("alloca [" + std::to_string(size) + " x i8]"), std::string::npos)
        << "an argument struct of " << size << " bytes is left";
  std::filesystem::remove_all(folder);
}

// The importer takes no such model; a plan may be of other making.
TEST_F(CpuLower, TapsBeyondTheKernelsAreRefused) {
  for (int64_t taps : {kMinConvTaps - 1, kMaxConvTaps + 1}) {
    auto spec = Small<plan::GatedDeltaSpec>();
    spec.taps = taps;
    module = mlir::ModuleOp::create(b.getUnknownLoc());
    AddProgram(spec, 8);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&said](mlir::Diagnostic& diagnostic) {
      said += diagnostic.str();
      return mlir::success();
    });
    int dispatches = 0;
    module->walk([&dispatches](plan::DispatchOp op) {
      EXPECT_TRUE(mlir::failed(selectKernel(op, 8)));
      ++dispatches;
    });
    EXPECT_EQ(dispatches, 1);
    const std::string says = "taps = " + std::to_string(taps) + ": it takes 2 to 16";
    EXPECT_NE(said.find(says), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace qcc::cpu
