// The kernels of this room as SPIR-V: every variant passes the lowering and the validator for every kind of
// profile, and stays small enough for drivers to compile fast.
#include <cstdlib>
#include <iostream>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "dialects/plan/pack_layout.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr size_t kMostBytes = 66000;  // the largest, q5_k in f32 with swiglu, has 63 KB

Arg Somewhere(Space space) {
  return {space, 0, 1 << 20};
}

void ExpectSmall(mlir::MLIRContext& context, const Profile& profile, const Launch& launch) {
  SCOPED_TRACE(profile.name + " " + launch.name);
  auto module = buildKernel(context, profile, launch, "kernel_entry");
  ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
  auto words = emitSpirv(**module, profile, launch);
  ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
  EXPECT_LE(words->size() * 4, kMostBytes);
  if (std::getenv("QCC_PRINT_SIZES"))
    std::cout << profile.name << " " << launch.name << " " << words->size() * 4 << "\n";
}

class SpirvSizeTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    registerSpirvDialects(registry);
    context.appendDialectRegistry(registry);
  }
  void Expect(Expand expand, const Dispatch& dispatch) {
    Sandbox box(profile(), 512);
    const std::vector<Launch> launches = expand(dispatch, box);
    EXPECT_FALSE(launches.empty());
    for (const Launch& launch : launches) ExpectSmall(context, profile(), launch);
  }
  const Profile& profile() const { return FindProfile(GetParam())->profile; }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(SpirvSizeTest, Linear) {
  for (Format format : kFormats) {
    for (const char* numerics : {"f32", "int8"}) {
      const bool int8 = std::string(numerics) == "int8";
      if (int8 && format_info(format).cls != FormatClass::kBlock) continue;
      for (const char* epilogue : {"add", "swiglu"}) {
        for (int64_t rows : {1, 8, 512}) {
          Dispatch d;
          d.strings = {{"format", std::string(format_info(format).name)},
                       {"numerics", numerics},
                       {"epilogue", epilogue},
                       {"rows", "rows"}};
          d.integers = {{"k", 2816}, {"n", 8192}};
          d.rows = rows;
          d.bindings[int8 ? "xq" : "x"].arg = d.bindings["y"].arg = Somewhere(Space::kArena);
          d.bindings["w"].arg = Somewhere(Space::kWeights);
          Expect(Expand_linear, d);
        }
      }
    }
  }
}

TEST_P(SpirvSizeTest, Rows) {
  Dispatch d;
  d.integers = {{"cols", 1024}, {"pairs", 32}};
  d.floats = {{"eps", 1e-6}, {"magnitude", 1.0}};
  d.lists = {{"sections", {11, 11, 10, 0}}};
  d.rows = 8;
  for (const char* role : {"x", "y", "out", "out_q", "gate", "up"})
    d.bindings[role].arg = Somewhere(Space::kArena);
  for (const char* role : {"weight", "inv_freq", "table"}) d.bindings[role].arg = Somewhere(Space::kWeights);
  for (const char* source : {"rows", "out_rows"}) {
    d.strings["source"] = source;
    Expect(Expand_norm, d);
  }
  for (Format format : kFormats) {
    d.strings["format"] = std::string(format_info(format).name);
    Expect(Expand_embed, d);
  }
  Expect(Expand_quantize, d);
  Expect(Expand_rope_table, d);
  Expect(Expand_swiglu, d);
  Expect(Expand_add, d);
}

INSTANTIATE_TEST_SUITE_P(Profiles, SpirvSizeTest,
                         ::testing::Values("none", "sg8-dot", "sg32-dot", "sg64-dot", "sg32-matrix32"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace qcc::gpu
