// Layouts by target: equal choices share a plan and a section of weights, different ones lie side by side,
// each code reads its own, and what is computed is the same.
#include "compiler/pipeline/layout_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "compiler/pipeline/pipeline.h"
#include "compiler/pipeline/weights_section.h"
#include "dialects/plan/IR/Plan.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/gguf.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/include/qrt/qrt.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::compiler {
namespace {

namespace fs = std::filesystem;
using layouts::Layout;
using layouts::Use;

const fs::path kModel = fs::path(QCC_SOURCE_DIR) / "tests" / "golden" / "t35-q-Q4_K_M.gguf";

Layout PairsApart(Use use, Format format, int64_t rows, int64_t cols) {
  if (use == Use::kMatrixPair) return Layout::kX16;
  return layouts::X16Everywhere(use, format, rows, cols);
}
// Another function with the choices of X16Everywhere for every model that has no matrix of one row.
Layout X16ButForOneRow(Use use, Format format, int64_t rows, int64_t cols) {
  if (use == Use::kMatrix && rows == 1) return Layout::kF32;
  return layouts::X16Everywhere(use, format, rows, cols);
}
Layout PairsEverywhere(Use use, Format format, int64_t rows, int64_t cols) {
  if (use == Use::kMatrix) return Layout::kX16Pair;
  return layouts::X16Everywhere(use, format, rows, cols);
}
Layout MatricesAsF32(Use use, Format format, int64_t rows, int64_t cols) {
  if (use == Use::kMatrix) return Layout::kF32;
  return layouts::X16Everywhere(use, format, rows, cols);
}

class LayoutPlans : public InFolder {
 protected:
  // For the named targets, with policies of these.
  absl::Status Compile(const std::vector<std::pair<std::string, layouts::Policy>>& chosen) {
    PipelineOptions options;
    options.input = kModel.string();
    options.output = Path();
    options.cpu = {"base"};
    options.gpu_profiles = {"sg8-dot"};
    options.decode_buckets = {1};
    options.prefill_buckets = {16};
    options.cache_dir = InFolder::Path("cache");  // code that several have in common is made once
    options.targets.clear();
    std::vector<TargetInfo> targets;
    for (const auto& [name, policy] : chosen) {
      options.targets.push_back(name);
      targets.push_back(*FindTarget(name));
      targets.back().layouts = policy;
    }
    QuietSink quiet;
    return CompileModel(options, quiet, targets);
  }
  std::unique_ptr<qrt::Artifact> Open(const std::vector<std::pair<std::string, layouts::Policy>>& chosen) {
    const absl::Status compiled = Compile(chosen);
    EXPECT_TRUE(compiled.ok()) << compiled;
    if (!compiled.ok()) return nullptr;
    auto opened = qrt::Artifact::Open(Path());
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    if (!opened.ok()) return nullptr;
    const qrt::Status weights = (*opened)->VerifyWeights();
    EXPECT_TRUE(weights.ok()) << weights.ToString();
    return *std::move(opened);
  }
  std::string Path() const { return InFolder::Path("model.qbin"); }
};

size_t WeightSections(const qrt::Artifact& artifact) {
  return static_cast<size_t>(
      std::count_if(artifact.sections().begin(), artifact.sections().end(),
                    [](const qrt::Section& s) { return s.kind == QBIN_SECTION_WEIGHTS; }));
}

// Logits after 24 tokens on the CPU, 16 at a time and then one by one.
std::vector<float> Logits(const qrt::Artifact& artifact) {
  const qrt::Manifest& m = artifact.manifest();
  auto made = qrt::CpuDevice::Create(artifact, 0, qrt::ThreadPool::Create(2, 2), nullptr);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  if (!made.ok()) return {};
  CpuSequence sequence(artifact, **made);
  std::vector<int32_t> tokens;
  for (int64_t at = 0; at < 24; ++at) {
    tokens.push_back(static_cast<int32_t>((at * 37 + 11) % m.model.vocab_size));
  }
  std::vector<float> logits(m.model.logits_stride);
  sequence.Run("prefill_16", std::span(tokens).first(16), 0, nullptr);
  for (size_t at = 16; at < 24; ++at) {
    sequence.Run("decode_1", std::span(tokens).subspan(at, 1), static_cast<int64_t>(at), logits.data());
  }
  logits.resize(m.model.vocab_size);
  return logits;
}

TEST_F(LayoutPlans, EqualChoicesAreStoredOnce) {
  const auto artifact = Open({{"cpu", layouts::X16Everywhere}, {"vulkan", X16ButForOneRow}});
  ASSERT_TRUE(artifact);
  EXPECT_EQ(WeightSections(*artifact), 1u) << "two policies that choose the same for this model";
  ASSERT_EQ(artifact->manifest().code.size(), 2u);
  EXPECT_EQ(artifact->manifest().code[0].weights_section, artifact->manifest().code[1].weights_section);
}

TEST_F(LayoutPlans, DifferentChoicesLieSideBySide) {
  const auto one = Open({{"cpu", layouts::X16Everywhere}});
  const auto other = Open({{"vulkan", PairsApart}});
  const auto both = Open({{"cpu", layouts::X16Everywhere}, {"vulkan", PairsApart}});
  ASSERT_TRUE(one && other && both);
  const qrt::Manifest& m = both->manifest();
  ASSERT_EQ(m.code.size(), 2u);
  EXPECT_EQ(m.code[0].target, "cpu");
  EXPECT_EQ(m.code[1].target, "vulkan");
  ASSERT_EQ(WeightSections(*both), 2u);
  EXPECT_NE(m.code[0].weights_section, m.code[1].weights_section);
  EXPECT_TRUE(std::ranges::equal(both->weights(0), one->weights(0))) << "what the CPU reads when alone";
  EXPECT_TRUE(std::ranges::equal(both->weights(1), other->weights(0))) << "what the GPU reads when alone";
  EXPECT_FALSE(std::ranges::equal(both->weights(0), both->weights(1)));
  EXPECT_EQ(m.weights_bytes, std::max(both->weights(0).size(), both->weights(1).size()));
  ASSERT_EQ(m.programs.size(), one->manifest().programs.size());
  for (size_t i = 0; i < m.programs.size(); ++i) {
    EXPECT_EQ(m.programs[i].arena_bytes,
              std::max(one->manifest().programs[i].arena_bytes, other->manifest().programs[i].arena_bytes))
        << m.programs[i].name;
  }
  auto packed = [](const qrt::Artifact& a) {
    const auto& formats = a.manifest().formats;
    return std::accumulate(formats.begin(), formats.end(), uint64_t{0},
                           [](uint64_t sum, const qrt::FormatUse& f) { return sum + f.packed_bytes; });
  };
  EXPECT_EQ(packed(*both), packed(*one) + packed(*other));
}

// Whatever a target gives for code: what nobody can open is an error here, not of who runs it.
TEST_F(LayoutPlans, AnArtifactThatCannotBeOpenedIsNoResult) {
  PipelineOptions options;
  options.input = kModel.string();
  options.output = Path();
  options.cpu = {"base"};
  options.decode_buckets = {1};
  options.prefill_buckets = {16};
  options.golden_tokens = 0;
  options.cache_dir = InFolder::Path("cache");
  TargetInfo spoiled = *FindTarget("cpu");
  spoiled.generate = [](const TargetRequest& request) {
    absl::StatusOr<TargetCode> code = GenerateCpu(request);
    if (code.ok()) code->variants[0].bytes[0] ^= 1;
    return code;
  };
  QuietSink quiet;
  const absl::Status status = CompileModel(options, quiet, std::span(&spoiled, 1));
  EXPECT_EQ(PartsOf(status).code, "Q9002") << status;
  EXPECT_EQ(PartsOf(status).where, Path()) << status;
}

TEST(WeightsSection, ATensorInTwoLayoutsOrPlansIsCountedOnce) {
  const auto file = gguf::File::Open(kModel.string());
  ASSERT_TRUE(file.ok()) << file.status();
  const gguf::Tensor& tensor = *std::ranges::find_if((*file)->tensors(), [](const gguf::Tensor& t) {
    return t.n_dims == 2 && format_info(t.format).block_elems > 1;
  });
  const std::string format(format_info(tensor.format).name);
  mlir::MLIRContext context;
  context.loadDialect<plan::PlanDialect>();
  // Its layouts, as a plan; adds what it packs.
  int64_t packed = 0;
  const auto plan_of = [&](std::initializer_list<std::pair<const char*, Layout>> chosen) {
    std::string text;
    int64_t at = 0;
    for (const auto& [name, layout] : chosen) {
      const int64_t bytes = *layouts::PackedBytes(layout, tensor.format, tensor.ne[1], tensor.ne[0]);
      text += Concat("plan.weight @", name, " [\"", tensor.name, "\"] \"", format, "\" ", name, " ",
                     tensor.ne[1], " x ", tensor.ne[0], " at ", at, " size ", bytes, "\n");
      at = layouts::AlignUp(at + bytes, plan::kAlignment);
      packed += bytes;
    }
    return LayoutPlan{mlir::parseSourceString<mlir::ModuleOp>(text, &context), {}};
  };
  std::vector<LayoutPlan> plans;
  plans.push_back(plan_of({{"x16", Layout::kX16}, {"f32", Layout::kF32}}));
  plans.push_back(plan_of({{"x16", Layout::kX16}}));
  ASSERT_TRUE(plans[0].module && plans[1].module);
  const std::vector<FormatSpec> formats = SummarizeFormats(plans, **file);
  ASSERT_EQ(formats.size(), 1u);
  EXPECT_EQ(formats[0].name, format);
  EXPECT_EQ(formats[0].tensors, 1u);
  EXPECT_EQ(formats[0].source_bytes, tensor.bytes);
  EXPECT_EQ(formats[0].packed_bytes, static_cast<uint64_t>(packed));
}

// The section that is not the first: a code that read the other one would compute something else.
TEST_F(LayoutPlans, EachCodeReadsItsOwn) {
  const auto usual = Open({{"cpu", layouts::X16Everywhere}});
  ASSERT_TRUE(usual);
  const std::vector<float> want = Logits(*usual);
  ASSERT_FALSE(want.empty());
  EXPECT_TRUE(std::isfinite(want[0]));
  const auto apart = Open({{"cpu", PairsApart}});
  const auto fat = Open({{"cpu", PairsApart}, {"vulkan", layouts::X16Everywhere}});
  ASSERT_TRUE(apart && fat);
  EXPECT_GT(apart->manifest().programs[0].dispatches, usual->manifest().programs[0].dispatches)
      << "gate and up are linears of their own";
  EXPECT_EQ(Logits(*apart), want) << "bits of the fused kernel";
  ASSERT_EQ(WeightSections(*fat), 2u);
  EXPECT_EQ(Logits(*fat), want) << "beside another plan";
}

// Logits after 24 tokens on a device, through the public interface; nothing where the engine cannot be made.
std::vector<float> LogitsOn(const std::string& path, const char* device, std::string* why) {
  qrt_error error = {};
  error.struct_size = sizeof error;
  qrt_artifact* artifact = nullptr;
  qrt_engine* engine = nullptr;
  qrt_session* session = nullptr;
  qrt_engine_options options = {};
  options.struct_size = sizeof options;
  options.device = device;
  qrt_session_options room = {};
  room.struct_size = sizeof room;
  room.context_tokens = 64;
  std::vector<float> logits;
  if (qrt_artifact_open(path.c_str(), nullptr, &artifact, &error) == QRT_OK &&
      qrt_engine_create(artifact, &options, &engine, &error) == QRT_OK &&
      qrt_session_create(engine, &room, &session, &error) == QRT_OK) {
    qrt_artifact_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(qrt_artifact_describe(artifact, &info, &error), QRT_OK) << error.message;
    std::vector<int32_t> tokens;
    for (uint32_t at = 0; at < 24; ++at)
      tokens.push_back(static_cast<int32_t>((at * 37 + 11) % info.vocab_size));
    EXPECT_EQ(qrt_session_append(session, tokens.data(), tokens.size(), nullptr, &error), QRT_OK)
        << error.message;
    const float* values = qrt_session_logits(session);
    if (values != nullptr) logits.assign(values, values + info.vocab_size);
  } else {
    EXPECT_EQ(error.status, QRT_DEVICE_UNSUPPORTED) << device << ": " << error.message;
    *why = error.message;
  }
  qrt_session_release(session);
  qrt_engine_release(engine);
  qrt_artifact_release(artifact);
  return logits;
}

// Empty: a Vulkan device can be used here.
std::string WhyNoVulkan() {
  std::vector<qrt_device_info> devices(16);
  for (qrt_device_info& d : devices) d.struct_size = sizeof d;
  size_t count = 0;
  EXPECT_EQ(qrt_devices_list(devices.data(), devices.size(), &count, nullptr), QRT_OK);
  devices.resize(std::min(count, devices.size()));
  std::string why;
  for (const qrt_device_info& d : devices) {
    if (!std::string_view(d.id).starts_with("vulkan")) continue;
    if (d.usable != 0) return "";
    why += std::string(d.id) + " cannot be used: " + d.why_not + "; ";
  }
  EXPECT_NE(why, "") << "a kind without a device has an entry that says so";
  return why;
}

// One file, two sections, two devices. A GPU of other abilities than the artifact's profile is not asked.
TEST_F(LayoutPlans, BothDevicesOfOneFile) {
  std::string why = WhyNoVulkan();
  if (!why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(Open({{"vulkan", layouts::X16Everywhere}}));
  const std::vector<float> usual = LogitsOn(Path(), "vulkan", &why);
  if (usual.empty()) {
    ASSERT_NE(why, "") << "the engine was made, and gives no logits";
    GTEST_SKIP() << why;
  }
  const auto fat = Open({{"cpu", layouts::X16Everywhere}, {"vulkan", PairsApart}});
  ASSERT_TRUE(fat);
  ASSERT_EQ(WeightSections(*fat), 2u);
  const std::vector<float> gpu = LogitsOn(Path(), "vulkan", &why), cpu = LogitsOn(Path(), "cpu", &why);
  EXPECT_EQ(gpu, usual) << "bits of the fused kernel on the GPU " << why;
  ASSERT_EQ(cpu.size(), gpu.size()) << why;
  double error = 0, all = 0;
  for (size_t i = 0; i < cpu.size(); ++i) {
    error += (double{gpu[i]} - cpu[i]) * (double{gpu[i]} - cpu[i]);
    all += double{cpu[i]} * cpu[i];
  }
  EXPECT_LT(error / all, 1e-3) << "NMSE of the devices against each other";
}

TEST_F(LayoutPlans, WhatNoKernelReadsIsRefused) {
  const absl::Status two = Compile({{"cpu", PairsEverywhere}});
  EXPECT_NE(std::string(two.message()).find("'x16_pair', which takes 2"), std::string::npos) << two;
  const absl::Status f32 = Compile({{"cpu", MatricesAsF32}});
  EXPECT_NE(std::string(f32.message()).find("role 'w' has"), std::string::npos) << f32;
  EXPECT_FALSE(fs::exists(Path()));
}

}  // namespace
}  // namespace qcc::compiler
