// Plans to launches: bases of layers, barriers, scratch, names of what is missing.
#include "codegen/gpu/lower/LowerToLaunches.h"

#include <gtest/gtest.h>

#include <map>

#include "codegen/gpu/build/Build.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/PlanSummary.h"
#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

namespace qcc::gpu {
namespace {

class GpuLower : public testing::Test {
 protected:
  GpuLower() : handler_(&context_, [this](mlir::Diagnostic& d) { said_ += d.str() + "\n"; }) {
    context_.loadDialect<plan::PlanDialect>();
  }
  mlir::FailureOr<LoweredGpu> Lower(const std::string& body, const std::string& profile = "none") {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(
        "module attributes {hir.vocab_size = 40 : i64} {\n" + body + "\n}", &context_);
    EXPECT_TRUE(module_) << "the plan of this test does not parse: " << said_;
    if (!module_) return mlir::failure();
    return lowerToLaunches(*module_, *FindProfile(profile), options_);
  }
  static std::vector<size_t> Of(const ProgramCode& program, std::string_view family) {
    std::vector<size_t> places;
    for (size_t i = 0; i < program.dispatches.size(); ++i)
      if (program.dispatches[i].family == family) places.push_back(i);
    return places;
  }

  mlir::MLIRContext context_;
  std::string said_;
  mlir::ScopedDiagnosticHandler handler_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  LaunchOptions options_;
};

// Two layers share a block; each norm has its own weight.
constexpr char kTwoLayers[] = R"mlir(
  plan.weight @a ["a"] "f32" f32 1 x 64 at 0 size 256
  plan.weight @b ["b"] "f32" f32 1 x 64 at 256 size 256
  plan.block @block weights 256 state 0 kv 0 {
    plan.dispatch "norm" {cols = 64 : i64, eps = 1.0e-06 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, 256, read>, #plan.ref<arena, 512, 512, write>]
    plan.barrier
    plan.dispatch "add" {cols = 64 : i64} ["x", "y"] [#plan.ref<arena, 512, 512, read>, #plan.ref<arena, 0, 512, readwrite>]
  }
  plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 1024 {
    plan.call @block weights 0 state 0 kv 0 layer "blk.0"
    plan.barrier
    plan.call @block weights 256 state 0 kv 0 layer "blk.1"
  }
)mlir";

TEST_F(GpuLower, LayersHaveTheirBasesAndNumbers) {
  auto lowered = Lower(kTwoLayers);
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  ASSERT_EQ(lowered->code.programs.size(), 1u);
  EXPECT_EQ(lowered->code.max_rows, 2u);
  EXPECT_TRUE(lowered->code.sample_programs.empty()) << "no program writes logits";
  const ProgramCode& program = lowered->code.programs[0];
  const auto norms = Of(program, "norm"), adds = Of(program, "add");
  ASSERT_EQ(norms.size(), 2u);
  ASSERT_EQ(adds.size(), 2u);
  for (int layer = 0; layer < 2; ++layer) {
    const DispatchCode& norm = program.dispatches[norms[layer]];
    EXPECT_EQ(norm.layer, layer);
    EXPECT_EQ(program.dispatches[adds[layer]].layer, layer);
    bool weight = false;
    for (const Arg& arg : norm.args)
      weight |= arg.space == Space::kWeights && arg.value == 256u * layer && arg.bytes == 256;
    EXPECT_TRUE(weight) << "layer " << layer << " does not read its own weight";
  }
  EXPECT_EQ(program.dispatches[norms[0]].kernel, program.dispatches[norms[1]].kernel);
  EXPECT_EQ(lowered->kernels.size(), lowered->code.kernels.size());
  EXPECT_EQ(lowered->kernels.size(), 2u) << "norm and add, whatever the number of layers";
}

TEST_F(GpuLower, BarriersStandBeforeWhatWaits) {
  auto lowered = Lower(kTwoLayers);
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  const auto& dispatches = lowered->code.programs[0].dispatches;
  ASSERT_EQ(dispatches.size(), 4u);
  EXPECT_FALSE(dispatches[0].barrier);
  EXPECT_TRUE(dispatches[1].barrier) << "inside the block";
  EXPECT_TRUE(dispatches[2].barrier) << "between the calls";
  EXPECT_TRUE(dispatches[3].barrier);
}

// Attention of decode programs takes scratch.
std::string Attentions(const char* between) {
  const std::string attention = R"mlir(
    plan.dispatch "attention" {gated = false, head_dim = 64 : i64, kv = "f16", kv_heads = 1 : i64, q_heads = 2 : i64, scale = 0.125 : f32} ["q", "kv", "out"] [#plan.ref<arena, 0, 512, read>, #plan.ref<kv, 0, 256, read>, #plan.ref<arena, )mlir";
  return "plan.program @prefill_1 tokens leaves \"trunk\" rows 1 arena 1600 {\n" + attention +
         "512, 512, write>]\n" + between + attention + "1024, 512, write>]\n}";
}

std::vector<Arg> ScratchOf(const LoweredGpu& lowered, uint64_t arena) {
  std::vector<Arg> scratch;
  for (const DispatchCode& d : lowered.code.programs[0].dispatches)
    for (const Arg& arg : d.args)
      if (arg.space == Space::kArena && arg.value >= arena) scratch.push_back(arg);
  return scratch;
}

TEST_F(GpuLower, ScratchIsSharedOnlyAcrossBarriers) {
  auto side = Lower(Attentions(""));
  ASSERT_TRUE(mlir::succeeded(side)) << said_;
  const std::vector<Arg> apart = ScratchOf(*side, 1600);
  ASSERT_FALSE(apart.empty()) << "this test needs a kernel that takes scratch";
  // The first half of the launches is the first dispatch.
  uint64_t first_end = 0, second_begin = UINT64_MAX;
  for (size_t i = 0; i < apart.size(); ++i) {
    EXPECT_EQ(apart[i].value % 256, 0u);
    EXPECT_LE(apart[i].value + apart[i].bytes, side->code.programs[0].arena_bytes);
    if (i < apart.size() / 2)
      first_end = std::max(first_end, apart[i].value + apart[i].bytes);
    else
      second_begin = std::min(second_begin, apart[i].value);
  }
  EXPECT_LE(first_end, second_begin) << "two dispatches that may run side by side share scratch";

  auto after = Lower(Attentions("plan.barrier\n"));
  ASSERT_TRUE(mlir::succeeded(after)) << said_;
  EXPECT_LT(after->code.programs[0].arena_bytes, side->code.programs[0].arena_bytes)
      << "behind a barrier the scratch is free again";
}

// Eight experts of 512 MiB each: one binding, whose kernel reaches it by 64-bit offsets.
TEST_F(GpuLower, ExpertsAreOneBinding) {
  const auto plan = [](int64_t rows) {
    return "plan.weight @w [\"w\"] \"f32\" x16 " + std::to_string(rows) + " x 8192 at 0 size " +
           std::to_string(rows * 4 * 8192) + R"mlir(
  plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 131072 {
    plan.dispatch "moe_linear" {epilogue = "store", experts = 8 : i64, format = "f32", k = 8192 : i64, n = 16384 : i64, numerics = "f32", scale_count = 1 : i64, top_k = 1 : i64, up_scale_count = 1 : i64} ["x", "w", "ids", "groups", "order", "y"] [#plan.ref<arena, 0, 32768, read>, #plan.ref<weights, 0, 4294967296, read>, #plan.ref<arena, 32768, 4, read>, #plan.ref<arena, 32832, 72, read>, #plan.ref<arena, 32960, 4, read>, #plan.ref<arena, 65536, 65536, write>]
  })mlir";
  };
  auto lowered = Lower(plan(8 * 16384));
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  ASSERT_EQ(lowered->code.programs[0].dispatches.size(), 1u);
  EXPECT_EQ(lowered->code.programs[0].dispatches[0].args[1].bytes, uint64_t{1} << 32);
  EXPECT_TRUE(mlir::failed(Lower(plan(8 * 16384 - 16))));
  EXPECT_NE(said_.find("it reads behind the weight section"), std::string::npos) << said_;
}

TEST_F(GpuLower, WhatHasNoKernelIsNamed) {
  auto lowered = Lower(R"mlir(
    plan.block @block weights 0 state 0 kv 0 {
      plan.dispatch "quantize" {cols = 48 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 192, read>, #plan.ref<arena, 192, 128, write>]
    }
    plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 512 {
      plan.call @block weights 0 state 0 kv 0 layer "blk.7"
    }
  )mlir");
  ASSERT_TRUE(mlir::failed(lowered)) << "blocks of 32 do not fit into 48 columns";
  for (const char* part : {"'quantize' for cols = 48: it takes multiples of 32", "blk.7", "vulkan", "none"})
    EXPECT_NE(said_.find(part), std::string::npos) << "the error does not name " << part << ": " << said_;
}

// What a family would need is said where it refuses, also behind a launch that was only tried.
TEST_F(GpuLower, WhatWouldHaveAKernelIsSaid) {
  const auto refused =
      [&](const std::string& tensors, const std::string& dispatch, const std::string& says) {
        said_.clear();
        EXPECT_TRUE(mlir::failed(Lower(tensors + R"mlir(
    plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 8192 {
      plan.dispatch )mlir" + dispatch + "\n}")));
        EXPECT_NE(said_.find(says), std::string::npos) << says << " is not said: " << said_;
      };
  const std::string weight = "plan.weight @w [\"w\"] \"f32\" x16 64 x 48 at 0 size 12288\n";
  refused(
      weight,
      R"mlir("embed" {cols = 48 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 12288, read>, #plan.ref<arena, 0, 192, write>])mlir",
      "'embed' for cols = 48: it takes multiples of 32");
  refused(
      weight,
      R"mlir("linear" {epilogue = "store", format = "f32", k = 48 : i64, n = 64 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 192, read>, #plan.ref<weights, 0, 12288, read>, #plan.ref<arena, 192, 256, write>])mlir",
      "'linear' for k = 48: it takes multiples of 32");
}

// A head of `rows` rows.
std::string HeadOf(int rows) {
  return R"mlir(
    plan.weight @w ["w"] "f32" x16 40 x 64 at 0 size 12288
    plan.program @head stream "trunk" gives chosen_logits rows )mlir" +
         std::to_string(rows) + " arena " + std::to_string(256 * rows) + R"mlir( {
      plan.dispatch "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 40 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 0, )mlir" +
         std::to_string(256 * rows) +
         R"mlir(, read>, #plan.ref<weights, 0, 12288, read>, #plan.ref<logits, 0, )mlir" +
         std::to_string(192 * rows) + R"mlir(, write>]
    }
  )mlir";
}

// What heads leave, and launches of a greedy choice of one row behind them: one if all leave keys.
TEST_F(GpuLower, HeadsLeaveKeysForAGreedyChoice) {
  const auto launches = [&](const std::string& plan) {
    auto lowered = Lower(plan);
    EXPECT_TRUE(mlir::succeeded(lowered)) << said_;
    if (mlir::failed(lowered)) return std::pair<std::string, size_t>();
    const DispatchCode& last = lowered->code.programs[0].dispatches.back();
    EXPECT_EQ(lowered->code.sample_programs.at(0).kind, Sampling::kGreedy);
    return std::pair{lowered->code.kernels[last.kernel].name,
                     lowered->code.sample_programs[0].dispatches.size()};
  };
  using Found = std::pair<std::string, size_t>;
  EXPECT_EQ(launches(HeadOf(1)), Found("linear.f32.f32.k64.store.some_keys.r1", 1))
      << "40 are no whole units";
  EXPECT_EQ(launches(HeadOf(8)).second, 1u);
  EXPECT_EQ(launches(HeadOf(9)).second, 2u);
  options_.alone = [&](const std::string& kernel) { return kernel == "linear.f32.f32.k64.store.r1"; };
  EXPECT_EQ(launches(HeadOf(1)), Found("linear.f32.f32.k64.store.r1", 2)) << "it is the product's own";
}

TEST_F(GpuLower, SamplingForOneAndForAllRows) {
  auto lowered = Lower(HeadOf(4));
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  std::vector<std::pair<Sampling, uint32_t>> found;
  for (const SampleProgramCode& p : lowered->code.sample_programs) {
    found.emplace_back(p.kind, p.rows);
    ASSERT_FALSE(p.dispatches.empty());
    EXPECT_TRUE(p.dispatches[0].barrier) << "the logits are another program's";
  }
  const std::vector<std::pair<Sampling, uint32_t>> expected = {
      {Sampling::kGreedy, 1}, {Sampling::kDraw, 1}, {Sampling::kDrawFew, 1},
      {Sampling::kGreedy, 4}, {Sampling::kDraw, 4}, {Sampling::kDrawFew, 4}};
  EXPECT_EQ(found, expected);
}

std::string DraftOf(int64_t rows) {
  const auto bytes = [&](int64_t columns) { return std::to_string(rows * columns * 4); };
  return R"mlir(
    plan.weight @w ["w"] "f32" x16 32 x 64 at 0 size 8192
    plan.program @draft stream "draft" gives logits rows )mlir" +
         std::to_string(rows) + " arena " + bytes(64) + R"mlir( {
      plan.dispatch "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, )mlir" +
         bytes(64) + R"mlir(, read>, #plan.ref<weights, 0, 8192, read>, #plan.ref<logits, 0, )mlir" +
         bytes(32) + R"mlir(, write>]
    }
  )mlir";
}

// A draft gives logits of every row, perhaps fewer of each.
TEST_F(GpuLower, GuessesForOneAndForAllRowsOfADraft) {
  auto lowered = Lower(DraftOf(4));
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  std::vector<uint32_t> rows;
  for (const SampleProgramCode& p : lowered->code.sample_programs) {
    if (p.kind != Sampling::kGuess) continue;
    rows.push_back(p.rows);
    const std::vector<Arg>& args = p.dispatches.at(0).args;
    EXPECT_EQ(args.at(1).bytes, ((p.rows - 1) * 32 + 32) * 4u) << "rows of 32 logits";
    EXPECT_EQ(p.dispatches.size(), 1u);
  }
  EXPECT_EQ(rows, (std::vector<uint32_t>{1, 4}));
}

// Of all columns that it has.
TEST_F(GpuLower, DraftsLeaveKeysForAGuess) {
  const auto launches = [&](const std::string& plan, Sampling kind) {
    auto lowered = Lower(plan);
    EXPECT_TRUE(mlir::succeeded(lowered)) << said_;
    size_t found = 0;
    if (mlir::failed(lowered)) return std::pair<std::string, size_t>();
    for (const SampleProgramCode& p : lowered->code.sample_programs) {
      if (p.kind == kind && p.rows == 1) found = p.dispatches.size();
    }
    const DispatchCode& last = lowered->code.programs.back().dispatches.back();
    return std::pair{lowered->code.kernels[last.kernel].name, found};
  };
  using Found = std::pair<std::string, size_t>;
  EXPECT_EQ(launches(DraftOf(1), Sampling::kGuess), Found("linear.f32.f32.k64.store.keys.r1", 1));
  EXPECT_EQ(launches(DraftOf(9), Sampling::kGuess).second, 2u);
  EXPECT_EQ(launches(DraftOf(1), Sampling::kGreedy).second, 2u) << "no choice of it is for guesses";
  options_.alone = [&](const std::string& kernel) { return kernel == "linear.f32.f32.k64.store.r1"; };
  EXPECT_EQ(launches(DraftOf(1), Sampling::kGuess), Found("linear.f32.f32.k64.store.r1", 2));
}

// A launch's name is the key under which kernels are shared: it must say everything that the kernel depends
// on.
TEST(GpuNames, EqualNamesAreEqualKernels) {
  mlir::DialectRegistry registry;
  registerKernelDialects(registry);
  registry.insert<hir::HirDialect, plan::PlanDialect, mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(QCC_SOURCE_DIR "/tests/lit/passes/plan/tiny-model.mlir",
                                                      &context);
  ASSERT_TRUE(module);
  mlir::PassManager pm(&context);
  passes::BuildPlanOptions buckets;
  buckets.decode = {1, 2, 4, 8};
  buckets.prefill = {16, 64};
  passes::addPlanPasses(pm, buckets);
  ASSERT_TRUE(mlir::succeeded(pm.run(*module)));
  for (const ProfileInfo& profile : Profiles()) {
    std::map<std::string, std::string> texts;
    size_t launches = 0;
    LaunchOptions options{.alone = {}, .seen = {}};
    options.seen = [&](const Launch& launch) {
      ++launches;
      auto kernel = buildKernel(context, profile.profile, launch, "k");
      if (!kernel) {
        ADD_FAILURE() << llvm::toString(kernel.takeError());
        return;
      }
      std::string text;
      llvm::raw_string_ostream stream(text);
      (*kernel)->print(stream);
      auto [it, fresh] = texts.try_emplace(launch.name, text);
      if (!fresh) {
        EXPECT_EQ(it->second, text) << "two kernels are called " << launch.name;
      }
    };
    auto lowered = lowerToLaunches(*module, profile, options);
    ASSERT_TRUE(mlir::succeeded(lowered)) << profile.profile.name;
    EXPECT_EQ(texts.size(), lowered->kernels.size());
    EXPECT_GT(launches, 2 * texts.size()) << "the model repeats too little to mean anything";
  }
}

// Linears of one input, then an add that waits for them.
constexpr char kSideBySide[] = R"mlir(
  plan.weight @a ["a"] "f32" x16 16 x 64 at 0 size 4096
  plan.weight @b ["b"] "f32" x16 32 x 64 at 4096 size 8192
  plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 2048 {
    plan.dispatch "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 512, 128, write>]
    plan.dispatch "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 4096, 8192, read>, #plan.ref<arena, 1024, 256, write>]
    plan.barrier
    plan.dispatch "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 512, 512, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 1536, 128, write>]
  }
)mlir";

TEST_F(GpuLower, LaunchesBetweenTwoBarriersAreOne) {
  auto lowered = Lower(kSideBySide);
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  const ProgramCode& program = lowered->code.programs[0];
  ASSERT_EQ(program.dispatches.size(), 2u) << "what stands behind the barrier stays apart";
  EXPECT_FALSE(program.dispatches[0].barrier);
  EXPECT_TRUE(program.dispatches[1].barrier);
  EXPECT_EQ(program.dispatches[0].args.size(), 6u) << "x, count, two matrices, two results";
  EXPECT_NE(lowered->code.kernels[program.dispatches[0].kernel].name.find('@'), std::string::npos);
}

// --dump-kernels writes a file for each entry, with an extension: a file's name has at most 255 bytes.
TEST_F(GpuLower, EntriesOfManyLaunchesNameFiles) {
  using Weights = std::pair<const char*, int>;  // format, bytes of 16 rows of 64 columns
  const auto linears = [](Weights last) {
    std::string plan;
    int y = 512;
    for (const auto& [format, bytes] :
         {Weights{"f32", 4096}, Weights{"bf16", 2048}, Weights{"q8_0", 1088}, Weights{"q4_0", 576},
          Weights{"q5_0", 704}, Weights{"q5_1", 768}, last}) {
      plan += std::string(R"(    plan.dispatch "linear" {epilogue = "store", format = ")") + format +
              R"(", k = 64 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] )" +
              "[#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, " + std::to_string(bytes) +
              ", read>, #plan.ref<arena, " + std::to_string(y) + ", 128, write>]\n";
      y += 128;
    }
    return "  plan.program @prefill_2 tokens leaves \"trunk\" rows 2 arena 8192 {\n" + plan + "  }\n";
  };
  std::set<std::string> entries;
  for (const Weights& last : {Weights{"q4_1", 640}, Weights{"iq4_nl", 576}}) {
    auto lowered = Lower("  plan.weight @a [\"a\"] \"f32\" f32 16 x 64 at 0 size 4096\n" + linears(last));
    ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
    ASSERT_EQ(lowered->code.kernels.size(), 1u);
    const KernelCode& kernel = lowered->code.kernels[0];
    EXPECT_GT(kernel.name.size(), 255u);
    EXPECT_LE(kernel.entry.size(), 200u) << kernel.entry;
    entries.insert(kernel.entry);
  }
  EXPECT_EQ(entries.size(), 2u) << "of kernels that differ";
}

TEST_F(GpuLower, AKernelThatIsReplacedStaysAlone) {
  options_.alone = [](const std::string& kernel) { return kernel.find("linear") == 0; };
  auto lowered = Lower(kSideBySide);
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  const ProgramCode& program = lowered->code.programs[0];
  ASSERT_EQ(program.dispatches.size(), 3u);
  EXPECT_EQ(lowered->code.kernels.size(), 1u);
  EXPECT_FALSE(program.dispatches[1].barrier);
  EXPECT_TRUE(program.dispatches[2].barrier);
}

// A norm, two linears of its rows, and what `more` says; the norm writes to `out`, the second linear to `y`.
std::string NormOfLinears(const std::string& more = "", int out = 512, int y = 2048) {
  const auto linear = [](const char* numerics, const std::string& role, const std::string& x, int to) {
    return R"(    plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 64 : i64, n = 16 : i64, numerics = ")" +
           std::string(numerics) + R"(", rows = "rows"} [")" + role + R"(", "w", "y"] [#plan.ref<arena, )" +
           x + ", read>, #plan.ref<weights, 256, 1088, read>, #plan.ref<arena, " + std::to_string(to) +
           ", 128, write>]\n";
  };
  return R"mlir(
  plan.weight @n ["n"] "f32" f32 1 x 64 at 0 size 256
  plan.weight @w ["w"] "q8_0" x16 16 x 64 at 256 size 1088
  plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 4096 {
    plan.dispatch "norm" {cols = 64 : i64, eps = 1.0e-06 : f32, source = "rows"} ["x", "weight", "out", "out_q"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, 256, read>, #plan.ref<arena, )mlir" +
         std::to_string(out) + ", 512, write>, #plan.ref<arena, 1024, 256, write>]\n    plan.barrier\n" +
         linear("int8", "xq", "1024, 256", 1536) + linear("f32", "x", std::to_string(out) + ", 512", y) +
         more + "  }\n";
}

TEST_F(GpuLower, LinearsMakeTheirRows) {
  auto lowered = Lower(NormOfLinears());
  ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
  const ProgramCode& program = lowered->code.programs[0];
  ASSERT_EQ(program.dispatches.size(), 1u);
  EXPECT_EQ(program.dispatches[0].family, "linear");
  EXPECT_FALSE(program.dispatches[0].barrier) << "nothing is left to be waited for";
  const std::string& name = lowered->code.kernels[program.dispatches[0].kernel].name;
  EXPECT_NE(name.find("linear.q8_0.int8.k64.store.normed.r2+linear.q8_0.f32.k64.store.normed.r1@"),
            std::string::npos)
      << name;
}

TEST_F(GpuLower, RowsThatOthersNeedHaveALaunch) {
  const std::string reads =
      R"(    plan.dispatch "add" {cols = 64 : i64} ["x", "y"] [#plan.ref<arena, 512, 512, read>, #plan.ref<arena, 3072, 512, readwrite>]
)";
  const std::string overwrites =
      R"(    plan.dispatch "swiglu" {cols = 64 : i64} ["gate", "up", "out"] [#plan.ref<arena, 2560, 512, read>, #plan.ref<arena, 3072, 512, read>, #plan.ref<arena, 0, 512, write>]
)";
  const std::string barrier = "    plan.barrier\n";
  const auto norms = [&](const std::string& plan) -> size_t {
    auto lowered = Lower(plan);
    EXPECT_TRUE(mlir::succeeded(lowered)) << said_;
    return mlir::succeeded(lowered) ? Of(lowered->code.programs[0], "norm").size() : SIZE_MAX;
  };
  EXPECT_EQ(norms(NormOfLinears(reads)), 1u) << "an add reads them";
  EXPECT_EQ(norms(NormOfLinears(barrier + reads)), 1u) << "later, too";
  EXPECT_EQ(norms(NormOfLinears("", 512, 256)), 1u) << "a linear writes over what the norm reads";
  EXPECT_EQ(norms(NormOfLinears(overwrites)), 1u) << "what runs beside the linears does";
  EXPECT_EQ(norms(NormOfLinears(barrier + overwrites)), 0u) << "it waits for them";
  EXPECT_EQ(norms(NormOfLinears("", 0)), 1u) << "the program leaves them";
}

TEST_F(GpuLower, RowsOfAReplacedKernelHaveALaunch) {
  for (const char* replaced : {"norm.", "linear.q8_0.int8"}) {
    options_.alone = [&](const std::string& kernel) { return kernel.find(replaced) == 0; };
    auto lowered = Lower(NormOfLinears());
    ASSERT_TRUE(mlir::succeeded(lowered)) << said_;
    EXPECT_EQ(Of(lowered->code.programs[0], "norm").size(), 1u) << replaced;
  }
}

// A delta net of `rows` rows, the quantize of what it gives, a linear of that, and what `more` says; the
// linear writes to `y`. Places are those of one row.
std::string DeltaOfLinear(int rows = 1, const std::string& more = "", int y = 8192) {
  const auto arena = [&](int at, int bytes, const char* access) {
    return "#plan.ref<arena, " + std::to_string(rows * at) + ", " + std::to_string(rows * bytes) + ", " +
           access + ">";
  };
  return R"mlir(
  plan.weight @d ["d"] "f32" f32 1 x 512 at 0 size 2048
  plan.weight @w ["w"] "q8_0" x16 16 x 64 at 2048 size 1088
  plan.program @decode tokens leaves "trunk" rows )mlir" +
         std::to_string(rows) + " arena " + std::to_string(rows * 12288) + R"mlir( {
    plan.dispatch "gated_delta" {heads = "tiled", key_dim = 8 : i64, key_heads = 2 : i64, l2_eps = 1.0e-6 : f32, l2_form = "sum", ld_ab = 8 : i64, norm_eps = 1.0e-6 : f32, scale = 0.5 : f32, taps = 4 : i64, value_dim = 16 : i64, value_heads = 4 : i64} ["conv_state", "delta_state", "qkv", "z", "alpha", "beta", "conv_w", "ssm_a", "dt_bias", "norm_w", "out"] [#plan.ref<state, 0, 6144, readwrite>, #plan.ref<state, 6144, 8192, readwrite>, )mlir" +
         arena(1024, 384, "read") + ", " + arena(4096, 256, "read") + ", " + arena(6144, 32, "read") + ", " +
         arena(6144, 32, "read") +
         R"mlir(, #plan.ref<weights, 0, 1536, read>, #plan.ref<weights, 1536, 16, read>, #plan.ref<weights, 1552, 16, read>, #plan.ref<weights, 1568, 64, read>, )mlir" +
         arena(5120, 256, "write") + R"mlir(]
    plan.barrier
    plan.dispatch "quantize" {cols = 64 : i64} ["x", "out_q"] [)mlir" +
         arena(5120, 256, "read") + ", " + arena(7168, 128, "write") + R"mlir(]
    plan.barrier
    plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 64 : i64, n = 16 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [)mlir" +
         arena(7168, 128, "read") + ", #plan.ref<weights, 2048, 1088, read>, " + arena(y, 64, "write") +
         "]\n" + more + "  }\n";
}

// Earlier launches keep what later steps need, one of one row, two of few, and the linear makes the gated
// norm.
TEST_F(GpuLower, LinearsMakeGatedNorms) {
  const auto launches = [&](const std::string& plan) {
    auto lowered = Lower(plan);
    EXPECT_TRUE(mlir::succeeded(lowered)) << said_;
    std::vector<std::string> names;
    for (const DispatchCode& dispatch : lowered->code.programs[0].dispatches)
      names.push_back(lowered->code.kernels[dispatch.kernel].name);
    return names;
  };
  const std::vector<std::string> fused = launches(DeltaOfLinear());
  ASSERT_EQ(fused.size(), 2u);
  EXPECT_TRUE(llvm::StringRef(fused[0]).starts_with("gated_delta.mix_rule")) << fused[0];
  EXPECT_TRUE(llvm::StringRef(fused[1]).starts_with("linear.q8_0.int8.k64.store.gated_normed16")) << fused[1];

  const std::vector<std::string> of_two = launches(DeltaOfLinear(2));
  ASSERT_EQ(of_two.size(), 3u);
  EXPECT_TRUE(llvm::StringRef(of_two[0]).ends_with(".keep2")) << of_two[0];
  EXPECT_TRUE(llvm::StringRef(of_two[1]).ends_with(".kept2")) << of_two[1];
  EXPECT_TRUE(llvm::StringRef(of_two[2]).starts_with("linear.q8_0.int8.k64.store.gated_normed16"))
      << of_two[2];

  const auto norms = [&](const std::string& plan) {
    return llvm::count_if(launches(plan),
                          [](llvm::StringRef name) { return name.starts_with("gated_delta.norm"); });
  };
  const std::string reads =
      R"(    plan.barrier
    plan.dispatch "add" {cols = 64 : i64} ["x", "y"] [#plan.ref<arena, 5120, 256, read>, #plan.ref<arena, 10240, 256, readwrite>]
)";
  EXPECT_EQ(norms(DeltaOfLinear(9)), 1) << "the norm's launch keeps";
  EXPECT_EQ(norms(DeltaOfLinear(1, reads)), 1) << "somebody else reads it";
  EXPECT_EQ(norms(DeltaOfLinear(1, "", 4096)), 1) << "the linear writes over the gates";
  EXPECT_EQ(norms(DeltaOfLinear(1, "", 5120)), 1) << "the linear writes over what is to be normed";
  for (const char* replaced : {"gated_delta.norm", "gated_delta.mix_rule", "linear."}) {
    options_.alone = [&](const std::string& kernel) { return kernel.find(replaced) == 0; };
    EXPECT_EQ(norms(DeltaOfLinear()), 1) << replaced;
  }
}

// Heads of `rows` rows of one layer, their attention, and what `more` says, behind a barrier or beside it;
// the attention reads the heads at `q`.
std::string HeadsOfAttention(int rows = 1, const std::string& more = "", int q = 4096, int q_heads = 4) {
  const auto arena = [&](int at, int floats, const char* access) {
    return "#plan.ref<arena, " + std::to_string(at) + ", " + std::to_string(4 * rows * floats) + ", " +
           access + ">";
  };
  const std::string shape =
      "head_dim = 32 : i64, kv = \"b16\", kv_heads = 2 : i64, q_heads = " + std::to_string(q_heads) +
      " : i64";
  return R"mlir(
  plan.weight @n ["n"] "f32" f32 1 x 64 at 0 size 256
  plan.program @decode tokens leaves "trunk" rows )mlir" +
         std::to_string(rows) +
         " arena 16384 {\n    plan.dispatch \"qk_norm_rope_store\" {eps = 1.0e-6 : f32, gated = false, " +
         shape +
         R"mlir(, rot_dims = 16 : i64} ["q", "k", "v", "q_norm", "k_norm", "rope", "out", "kv"] [)mlir" +
         arena(512, 32 * q_heads, "read") + ", " + arena(2048, 64, "read") + ", " + arena(2560, 64, "read") +
         ", #plan.ref<weights, 0, 128, read>, #plan.ref<weights, 128, 128, read>, " +
         arena(3072, 16, "read") + ", " + arena(4096, 32 * q_heads, "write") +
         R"mlir(, #plan.ref<kv, 0, 256, write>]
    plan.barrier
    plan.dispatch "attention" {gated = false, )mlir" +
         shape + R"mlir(, scale = 0.25 : f32} ["q", "kv", "out"] [)mlir" + arena(q, 32 * q_heads, "read") +
         ", #plan.ref<kv, 0, 256, read>, " + arena(8192, 32 * q_heads, "write") + "]\n" + more + "  }\n";
}

TEST_F(GpuLower, AttentionMakesItsHeads) {
  const auto heads = [&](const std::string& plan) -> size_t {
    auto lowered = Lower(plan);
    EXPECT_TRUE(mlir::succeeded(lowered)) << said_;
    return mlir::succeeded(lowered) ? Of(lowered->code.programs[0], "qk_norm_rope_store").size() : SIZE_MAX;
  };
  const auto add = [](int at) {
    return "    plan.dispatch \"add\" {cols = 64 : i64} [\"x\", \"y\"] [#plan.ref<arena, " +
           std::to_string(at) + ", 256, read>, #plan.ref<arena, 12288, 256, readwrite>]\n";
  };
  const std::string writes_keys =
      R"(    plan.dispatch "add" {cols = 64 : i64} ["x", "y"] [#plan.ref<arena, 12288, 256, read>, #plan.ref<arena, 2048, 256, readwrite>]
)";
  EXPECT_EQ(heads(HeadsOfAttention()), 0u);
  EXPECT_EQ(heads(HeadsOfAttention(1, "    plan.barrier\n" + writes_keys)), 0u) << "it waits";
  EXPECT_EQ(heads(HeadsOfAttention(2)), 1u) << "another row may read what one stores";
  EXPECT_EQ(heads(HeadsOfAttention(1, "    plan.barrier\n" + add(4096))), 1u)
      << "somebody else reads the queries";
  EXPECT_EQ(heads(HeadsOfAttention(1, writes_keys)), 1u) << "what runs beside it writes over the keys";
  EXPECT_EQ(heads(HeadsOfAttention(1, "", 10240)), 1u) << "the attention reads other queries";
  EXPECT_EQ(heads(HeadsOfAttention(1, "", 4096, 10)), 1u) << "several workgroups a kv head";
  for (const char* replaced : {"qk_norm_rope_store", "attention.split"}) {
    options_.alone = [&](const std::string& kernel) { return kernel.find(replaced) == 0; };
    EXPECT_EQ(heads(HeadsOfAttention()), 1u) << replaced;
  }
}

}  // namespace
}  // namespace qcc::gpu
