// The kernels of this room as SPIR-V: every variant passes the lowering and the validator for every kind of
// profile, and stays small enough for drivers to compile fast.
#include <cstdlib>
#include <iostream>
#include <map>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

// The largest, q2_k in int8 with swiglu, of a normed row, has 98 KB: profiles that load ahead write out the
// five chunks that a thread loads together. Of the others none has 69.
constexpr size_t kMostBytes = 99000, kMostWithoutAhead = 69000;

Arg Somewhere(Space space) {
  return {space, 0, 1 << 20};
}

void ExpectSmall(mlir::MLIRContext& context, const Profile& profile, const Launch& launch) {
  SCOPED_TRACE(profile.name + " " + launch.name);
  auto module = buildKernel(context, profile, launch, "kernel_entry");
  ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
  auto words = emitSpirv(**module, profile, launch);
  ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
  EXPECT_LE(words->size() * 4, profile.loads_ahead == LoadsAhead::kNever ? kMostWithoutAhead : kMostBytes);
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
  template <typename Spec>
  void Expect(Expand<Spec> expand, const Spec& spec, int64_t rows = 8) {
    Sandbox box(profile(), 512);
    const std::vector<Launch> launches = expand(Anywhere(spec, rows, Somewhere(Space::kArena)), box);
    EXPECT_FALSE(launches.empty());
    for (const Launch& launch : launches) ExpectSmall(context, profile(), launch);
  }
  void ExpectMade(const plan::LinearSpec& spec) {
    Sandbox box(profile(), 512);
    const Arg somewhere = Somewhere(Space::kArena);
    const std::vector<Launch> launches = ExpandMaking(
        Anywhere(spec, 1, somewhere), {.making = Making::kNormed, .x = somewhere, .weight = somewhere}, box);
    EXPECT_EQ(launches.size(), 1);
    for (const Launch& launch : launches) ExpectSmall(context, profile(), launch);
  }
  const Profile& profile() const { return FindProfile(GetParam())->profile; }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(SpirvSizeTest, Linear) {
  for (Format format : Formats()) {
    for (plan::Numerics numerics : {plan::Numerics::F32, plan::Numerics::Int8}) {
      const bool int8 = numerics == plan::Numerics::Int8;
      if (int8 && format_info(format).cls != FormatClass::kBlock) continue;
      plan::LinearSpec spec = {
          .format = format, .numerics = numerics, .k = 2816, .n = 8192, .epilogue = plan::Epilogue::Swiglu};
      for (int64_t rows : {1, 8, 512}) Expect(Expand_linear, spec, rows);
      ExpectMade(spec);
      spec.epilogue = plan::Epilogue::Add;  // half of the other's code
      Expect(Expand_linear, spec, 8);
    }
  }
}

TEST_P(SpirvSizeTest, Rows) {
  for (plan::RowsFrom source : {plan::RowsFrom::Rows, plan::RowsFrom::OutRows})
    Expect(Expand_norm, plan::NormSpec{.cols = 1024, .eps = 1e-6f, .source = source});
  for (Format format : Formats()) {
    Expect(Expand_embed, plan::EmbedSpec{.format = format, .cols = 1024});
  }
  Expect(Expand_quantize, plan::QuantizeSpec{.cols = 1024});
  Expect(Expand_rope_table, plan::RopeTableSpec{.pairs = 32, .sections = {11, 11, 10, 0}, .magnitude = 1});
  Expect(Expand_swiglu, plan::SwigluSpec{.cols = 1024});
  Expect(Expand_add, plan::AddSpec{.cols = 1024});
  Expect(Expand_trace, plan::TraceSpec{.cols = 1024});
  Expect(Expand_concat, plan::ConcatSpec{.a_cols = 1024, .b_cols = 1024});
  Expect(Expand_select_rows, plan::SelectRowsSpec{.cols = 1024});
}

TEST_P(SpirvSizeTest, Experts) {
  for (const auto& [experts, top_k] : {std::pair<int64_t, int64_t>{1, 1}, {128, 8}, {512, 10}, {1024, 16}}) {
    for (plan::Gating gating : {plan::Gating::Softmax, plan::Gating::Sigmoid}) {
      const plan::MoeRouteSpec route = {.experts = experts,
                                        .top_k = top_k,
                                        .gating = gating,
                                        .normalise = true,
                                        .norm_floor = 1e-20f,
                                        .scale = 1.f,
                                        .shared = gating == plan::Gating::Softmax,
                                        .cols = 2048};
      Expect(Expand_moe_route, route, 1);
    }
    Expect(Expand_moe_group, plan::MoeGroupSpec{.experts = experts, .top_k = top_k}, 512);
  }
  for (const auto& [format, numerics] : {std::pair{Format::Q4_K, plan::Numerics::Int8},
                                         {Format::Q6_K, plan::Numerics::Int8},
                                         {Format::Q5_K, plan::Numerics::F32},
                                         {Format::BF16, plan::Numerics::F32}}) {
    for (plan::Epilogue epilogue : {plan::Epilogue::Add, plan::Epilogue::Swiglu}) {
      for (int64_t experts : {1, 128}) {
        const plan::MoeLinearSpec spec = {.format = format,
                                          .numerics = numerics,
                                          .k = 768,
                                          .n = 2048,
                                          .experts = experts,
                                          .top_k = experts == 1 ? 1 : 8,
                                          .epilogue = epilogue,
                                          .scale_count = 1,
                                          .up_scale_count = experts};
        for (int64_t rows : {1, 8, 64, 512}) Expect(Expand_moe_linear, spec, rows);
      }
    }
  }
}

// How many barriers a module has whose threads are those of `scope`.
int Barriers(const std::vector<uint32_t>& words, uint32_t scope) {
  constexpr size_t kHeader = 5;
  constexpr uint32_t kConstant = 43, kControlBarrier = 224;
  std::map<uint32_t, uint32_t> constants;
  int count = 0;
  for (size_t i = kHeader; i < words.size(); i += words[i] >> 16) {
    const uint32_t code = words[i] & 0xffff;
    if (code == kConstant) constants[words[i + 2]] = words[i + 3];
    if (code == kControlBarrier) count += constants.at(words[i + 1]) == scope;
  }
  return count;
}

// The workgroup meets behind the first stage's stores and behind those of each other. A stage of 64 columns
// has a product for each group, chunk and scale, around which the subgroup meets.
TEST(CooperativeSpirv, WorkgroupsMeetOnceAStage) {
  constexpr uint32_t kWorkgroup = 2, kSubgroup = 3;
  mlir::DialectRegistry registry;
  registerKernelDialects(registry);
  registerSpirvDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  const Profile& profile = FindProfile("sg32-matrix32")->profile;
  for (Format format : BlockFormats()) {
    LinearSpec spec;
    spec.format = format;
    spec.int8 = true;
    spec.k = 2048;
    Launch launch = LinearCooperative(spec, 64, 512);
    launch.args.resize(6);
    SCOPED_TRACE(launch.name);
    auto module = buildKernel(context, profile, launch, "kernel_entry");
    ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
    auto words = emitSpirv(**module, profile, launch);
    ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
    EXPECT_EQ(Barriers(*words, kWorkgroup), 2);
    const int scales = description(format).plain.columns_per_scale < kChunkColumns ? 2 : 1;
    EXPECT_EQ(Barriers(*words, kSubgroup), 2 * (2 * 2 * scales)) << "ahead of reading the sums, and behind";
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, SpirvSizeTest,
                         ::testing::Values("none", "none-dot", "sg8-dot", "sg16-dot", "sg32-dot", "sg64-dot",
                                           "sg32-matrix32"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace qcc::gpu
