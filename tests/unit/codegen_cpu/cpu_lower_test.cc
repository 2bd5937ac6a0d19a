// A plan's way to machine code: what the kernels' argument structs become.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <type_traits>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/limits.h"
#include "codegen/cpu/lower/EmitBlob.h"
#include "codegen/cpu/lower/KernelCall.h"
#include "codegen/cpu/lower/LowerToLlvm.h"
#include "dialects/plan/kernel_families.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

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
  if constexpr (requires { s.experts; }) s.experts = 40, s.top_k = 5;
  if constexpr (requires { s.scale_count; }) s.scale_count = 40, s.up_scale_count = 1;
  if constexpr (requires { s.norm_floor; }) s.norm_floor = 0.125f, s.shared = true;
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

  // A program of one dispatch, all of whose roles are bound, or of several that are alike.
  template <class Spec>
  void AddProgram(const Spec& spec, int64_t rows, int dispatches = 1) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(module->getBody());
    auto program = plan::ProgramOp::create(
        b, b.getUnknownLoc(), std::string(spec.kFamily) + std::to_string(rows),
        /*tokens=*/true, mlir::IntegerAttr(), mlir::StringAttr(), mlir::StringAttr(),
        plan::OutputAttr::get(b.getContext(), plan::Output::ChosenLogits), rows, 1 << 24);
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
    for (int d = 0; d < dispatches; ++d) plan::createDispatch(b, b.getUnknownLoc(), spec, bindings);
  }

  // What the programs' stages are, one after the other: the part of a specification in front of its
  // constants, or "barrier".
  static std::vector<std::string> StagesOf(const LoweredPrograms& lowered) {
    std::vector<std::string> names;
    for (const ProgramStage& stage : lowered.stages) {
      const std::string name = stage.kernel ? lowered.kernels[*stage.kernel].specification : "barrier {";
      names.push_back(name.substr(0, name.find(" {")));
    }
    return names;
  }

  // A program of this one dispatch has no kernel, for the reason given.
  template <class Spec>
  void ExpectRefused(const Spec& spec, int64_t rows, const std::string& says) {
    module = mlir::ModuleOp::create(b.getUnknownLoc());
    AddProgram(spec, rows);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&said](mlir::Diagnostic& diagnostic) {
      said += diagnostic.str();
      return mlir::success();
    });
    int dispatches = 0;
    module->walk([&](plan::DispatchOp op) {
      EXPECT_TRUE(mlir::failed(selectKernels(op, rows)));
      ++dispatches;
    });
    EXPECT_EQ(dispatches, 1);
    EXPECT_NE(said.find(says), std::string::npos) << said;
  }

  mlir::MLIRContext context;
  mlir::OpBuilder b;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Every kernel is inlined into the function of its specification, and its argument struct is gone: the fields
// are literals and parameters there. What stays on the stack are small arrays of the kernels' own.
TEST_F(CpuLower, NoArgumentStructIsLeftInTheCode) {
  std::vector<size_t> sizes;
#define QCC_FAMILY(name, Name) sizes.push_back(sizeof(name##_args));
#include "dialects/plan/kernel_families.def"
  plan::forEachFamily([&](auto spec) {
    // moe_route has its lists in programs of one row.
    const bool one_row = std::is_same_v<decltype(spec), plan::MoeRouteSpec>;
    AddProgram(Small<decltype(spec)>(), one_row ? 1 : 8);
  });
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  // Each program is one dispatch; some are several calls.
  size_t program = 0;
  for (const ProgramStage& stage : lowered->stages) {
    EXPECT_TRUE(stage.program == program || stage.program == program + 1) << stage.program;
    program = stage.program;
    if (stage.kernel) {
      EXPECT_LT(*stage.kernel, lowered->kernels.size());
    }
  }
  EXPECT_EQ(program + 1, sizes.size());
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cpu_lower";
  std::filesystem::create_directories(folder);
  // One level will do: what is left does not depend on it.
  auto blobs =
      emitBlobs(BlobRequest{*lowered->module, {Isa::base}, lowered->entries, folder.string(), {}}, 1);
  ASSERT_TRUE(static_cast<bool>(blobs)) << llvm::toString(blobs.takeError());
  std::string code;
  for (const auto& file : std::filesystem::directory_iterator(folder / "base")) {
    if (file.path().extension() != ".ll") continue;
    std::ifstream in(file.path());
    code.append(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_NE(code.find("void @spec_"), std::string::npos) << "no functions in the dump";
  EXPECT_EQ(code.find("call void @qk_"), std::string::npos) << "a kernel is not inlined";
  for (size_t size : sizes)
    EXPECT_EQ(code.find("alloca [" + std::to_string(size) + " x i8]"), std::string::npos)
        << "an argument struct of " << size << " bytes is left";
  std::filesystem::remove_all(folder);
}

// In programs of few rows threads share the parts of a context, in two calls with a barrier between. Shared
// scratch that may still be read is not written: a barrier goes ahead of another such dispatch.
TEST_F(CpuLower, AttentionOfFewRowsIsInParts) {
  const auto spec = Small<plan::AttentionSpec>();
  AddProgram(spec, 1, 2);
  AddProgram(spec, SharedAttentionScratch::kRows);
  AddProgram(spec, SharedAttentionScratch::kRows + 1, 2);
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  EXPECT_EQ(StagesOf(*lowered),
            (std::vector<std::string>{"attention.parts", "barrier", "attention.fold", "barrier",
                                      "attention.parts", "barrier", "attention.fold",  //
                                      "attention.parts", "barrier", "attention.fold",  //
                                      "attention", "attention"}));
}

// What a barrier does is there once, whatever the number of barriers.
TEST_F(CpuLower, BarriersShareTheirCode) {
  AddProgram(Small<plan::AttentionSpec>(), 1, 3);
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  size_t barriers = 0, inlined = 0;
  for (const std::string& stage : StagesOf(*lowered)) barriers += stage == "barrier";
  lowered->module->walk([&](mlir::LLVM::CallOp call) { inlined += call.getCallee() == "qk_barrier"; });
  EXPECT_EQ(barriers, 5u);
  EXPECT_EQ(inlined, 1u);
}

// What several rows of a sequence need is no part of a program of one row.
TEST_F(CpuLower, OneRowHasNoCodeForSeveral) {
  auto attention = Small<plan::AttentionSpec>();
  attention.kv = plan::KvElement::B16;
  for (const int64_t rows : {1, 8}) {
    AddProgram(attention, rows);
    AddProgram(Small<plan::GatedDeltaSpec>(), rows);
  }
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  auto blobs =
      emitBlobs(BlobRequest{*lowered->module, {Isa::base}, lowered->entries, "", {}, lowered->scratch}, 1);
  ASSERT_TRUE(static_cast<bool>(blobs)) << llvm::toString(blobs.takeError());
  for (const std::string family : {"attention", "gated_delta"}) {
    uint64_t bytes[2] = {0, 0};
    for (const SpecializedKernel& kernel : lowered->kernels) {
      if (kernel.specification.rfind(family, 0) != 0) continue;
      const bool one = kernel.specification.find("one row") != std::string::npos;
      for (const BlobFunction& function : blobs->front().functions) {
        if (function.name == kernel.function) bytes[one] += function.codeBytes;
      }
    }
    EXPECT_GT(bytes[1], 0u) << family;
    EXPECT_LT(bytes[1], bytes[0] * 6 / 10) << family;
  }
}

// What every thread does for itself has nobody to share with, and lies behind what kernels take of the
// thread's scratch.
TEST_F(CpuLower, ReplicatedRowsLieInTheThreadsScratch) {
  module = mlir::parseSourceString<mlir::ModuleOp>(R"(
plan.program @decode_1 tokens gives chosen_logits rows 1 arena 256 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<thread, 64, 64, write>] {replicated}
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "out_rows"} ["xq", "w", "y"] [#plan.ref<thread, 64, 64, read>, #plan.ref<weights, 0, 1088, read>, #plan.ref<arena, 128, 128, write>]
}
plan.program @decode_2 tokens gives chosen_logits rows 2 arena 512 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 256, read>, #plan.ref<arena, 256, 128, write>]
}
)",
                                                   &context);
  ASSERT_TRUE(module);
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  const int64_t kernels =
      LinearScratch::Bytes(description(Format::Q8_0).plain, 32, plan::termsOf(plan::Numerics::Int8));
  EXPECT_EQ(lowered->scratch.thread, layouts::AlignUp(kernels, 64) + 128);
  EXPECT_EQ(StagesOf(*lowered), (std::vector<std::string>{"quantize", "linear", "quantize"}));
  std::vector<bool> shares;
  for (const SpecializedKernel& kernel : lowered->kernels) {
    bool calls = false;
    lowered->module->lookupSymbol(kernel.function)->walk([&](mlir::LLVM::CallOp call) {
      calls |= call.getCallee() == "qk_share";
    });
    shares.push_back(calls);
  }
  EXPECT_EQ(shares, (std::vector<bool>{false, true, true})) << "quantize for itself, linear, quantize";
}

// Large arrays lie in the thread's scratch, whose size the code says; what is left on the stack is little at
// every level (emitBlobs refuses more), also of the largest shapes that the kernels take.
TEST_F(CpuLower, TheLargestShapesKeepToTheStack) {
  auto attention = Small<plan::AttentionSpec>();
  attention.q_heads = 2 * kMaxQueryGroup;
  attention.head_dim = kMaxHeadDim;
  attention.kv = plan::KvElement::B16;
  auto store = Small<plan::QkNormRopeStoreSpec>();
  store.head_dim = kMaxHeadDim;
  store.kv = plan::KvElement::B16;
  auto delta = Small<plan::GatedDeltaSpec>();
  delta.key_dim = delta.value_dim = kMaxDeltaDim;
  delta.taps = kMaxConvTaps;
  AddProgram(attention, 8);
  AddProgram(store, 8);
  AddProgram(delta, 8);
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  auto lowered = lowerToLlvm(*module);
  ASSERT_TRUE(mlir::succeeded(lowered));
  // In pairs of integers: keys and values of a tile of 64 positions, queries of 128 heads and what fills a
  // tile up; sums of a part, and of all.
  EXPECT_EQ(lowered->scratch.thread,
            4 * kMaxHeadDim * (64 / 2 + 64 / 2) + (128 + 8) * kMaxHeadDim * (2 + 4) + 128 * kMaxHeadDim * 4);
  // Of 8 rows, 32 parts of each query head: values, and a line with the greatest score and the sum.
  EXPECT_EQ(lowered->scratch.shared, 8 * 2 * kMaxQueryGroup * 32 * 4 * (kMaxHeadDim + 16));
  std::vector<Isa> levels;
  for (const IsaInfo& isa : isa_table()) levels.push_back(isa.id);
  BlobRequest request{*lowered->module, levels, lowered->entries, "", {}, lowered->scratch};
  auto blobs = emitBlobs(request, 1);
  ASSERT_TRUE(static_cast<bool>(blobs)) << llvm::toString(blobs.takeError());
  for (const Blob& blob : *blobs) {
    qrt_code_header header;
    ASSERT_GE(blob.bytes.size(), sizeof header);
    std::memcpy(&header, blob.bytes.data(), sizeof header);
    EXPECT_EQ(header.thread_scratch, lowered->scratch.thread);
    EXPECT_EQ(header.shared_scratch, lowered->scratch.shared);
  }
  request.scratch.thread = QRT_MAX_THREAD_SCRATCH + 64;
  auto refused = emitBlobs(request, 1);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_NE(llvm::toString(refused.takeError()).find("bytes of scratch a thread"), std::string::npos);
  request.scratch = {0, int64_t{QRT_MAX_SHARED_SCRATCH} + 64};
  refused = emitBlobs(request, 1);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_NE(llvm::toString(refused.takeError()).find("bytes of shared scratch"), std::string::npos);
}

// The frames of a chain of calls count together: none of these is too large by itself.
TEST_F(CpuLower, CodeThatTakesTooMuchStackIsRefused) {
  context.loadDialect<mlir::LLVM::LLVMDialect>();
  const auto emit = [&](int bytes) {
    const auto frame = [&](const std::string& name, const std::string& call) {
      return "llvm.func @" + name +
             R"((%args: !llvm.ptr, %thread: i32, %threads: i32) attributes {no_inline} {
  %size = llvm.mlir.constant()" +
             std::to_string(bytes) + R"( : i64) : i64
  %array = llvm.alloca %size x i8 : (i64) -> !llvm.ptr
  %at = llvm.getelementptr %array[%thread] : (!llvm.ptr, i32) -> !llvm.ptr, i8
  %zero = llvm.mlir.constant(0 : i8) : i8
  llvm.store volatile %zero, %at : i8, !llvm.ptr
)" + call + R"(
  llvm.store volatile %zero, %at : i8, !llvm.ptr
  llvm.return
}
)";
    };
    const std::string call = "  llvm.call @inner(%args, %thread, %threads) : (!llvm.ptr, i32, i32) -> ()";
    auto code = mlir::parseSourceString<mlir::ModuleOp>(frame("inner", "") + frame("step", call), &context);
    EXPECT_TRUE(code);
    auto blobs = emitBlobs(BlobRequest{*code, {Isa::base}, {"step"}, "", {}}, 1);
    return blobs ? std::string() : llvm::toString(blobs.takeError());
  };
  EXPECT_EQ(emit(6000), "");
  const std::string said = emit(8000);
  EXPECT_NE(said.find("'step' takes 16"), std::string::npos) << said;
  EXPECT_NE(said.find("bytes of stack, at most 14336 are allowed"), std::string::npos) << said;
}

// The importer takes no such model; a plan may be of other making.
TEST_F(CpuLower, TapsBeyondTheKernelsAreRefused) {
  for (int64_t taps : {kMinConvTaps - 1, kMaxConvTaps + 1}) {
    auto spec = Small<plan::GatedDeltaSpec>();
    spec.taps = taps;
    ExpectRefused(spec, 8, "taps = " + std::to_string(taps) + ": it takes 2 to 16");
  }
}

TEST_F(CpuLower, ExpertsBeyondTheKernelsAreRefused) {
  auto route = Small<plan::MoeRouteSpec>();
  ExpectRefused(route, 8, "with 'groups' in a program of several rows");
  route.experts = kMaxExperts + 1;
  ExpectRefused(route, 1, "experts = 1025: it takes up to 1024");
  auto group = Small<plan::MoeGroupSpec>();
  group.top_k = group.experts + 1;
  ExpectRefused(group, 8, "top_k = 41: it takes up to 40");
  const auto linear = Small<plan::MoeLinearSpec>();
  auto s = linear;
  s.n = 40;
  ExpectRefused(s, 8, "for 40 values of y a row: it takes multiples of 16");
  s = linear;
  s.format = Format::Q4_K;
  ExpectRefused(s, 8, "k = 96: it takes multiples of 256");
  s.format = Format::F16;
  ExpectRefused(s, 8, "'moe_linear' on target cpu for int8 numerics of format f16");
  s = linear;
  s.scale_count = 2;
  ExpectRefused(s, 8, "2 scales of 40 experts");
}

}  // namespace
}  // namespace qcc::cpu
