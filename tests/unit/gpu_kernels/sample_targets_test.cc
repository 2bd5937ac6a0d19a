// The sampling kernels as SPIR-V for every profile, run on a Vulkan device where there is one, and as PTX.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/cuda/EmitPtx.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"
#include "tests/unit/gpu_kernels/sample_cases.h"
#include "tests/unit/gpu_spirv/vulkan_host.h"

namespace qcc::gpu {
namespace {

constexpr size_t kMostBytes = 60000;

using Words = std::vector<uint32_t>;

class SampleTargets : public testing::Test {
 protected:
  SampleTargets() {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    registerSpirvDialects(registry);
    registerPtxDialects(registry);
    context_.appendDialectRegistry(registry);
  }

  Words Emit(const Profile& profile, const Launch& launch) {
    SCOPED_TRACE(launch.name);
    auto module = buildKernel(context_, profile, launch, "main");
    if (!module) {
      ADD_FAILURE() << llvm::toString(module.takeError());
      return {};
    }
    auto words = emitSpirv(**module, profile, launch);
    if (!words) {
      ADD_FAILURE() << llvm::toString(words.takeError());
      return {};
    }
    return *words;
  }

  std::vector<Words> EmitAll(const std::vector<Launch>& launches) {
    std::vector<Words> code;
    for (const Launch& launch : launches) code.push_back(Emit(Profile{}, launch));
    return code;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
};

std::vector<Launch> All(const Profile& profile, int64_t vocab) {
  Sandbox box(profile, 8, vocab);
  uint64_t bytes = 0;
  const Vocabulary some = {vocab, Words(static_cast<size_t>(vocab) / 32, 0x7FFFFFFF)};
  std::vector<Launch> launches = ExpandGreedy(8, some, box, &bytes);
  launches.push_back(ExpandGreedyOfUnits(8, some, box, &bytes)[0]);
  for (const auto expand : {ExpandDraw, ExpandDrawFew}) {
    for (Launch& launch : expand(8, some, box, &bytes)) launches.push_back(std::move(launch));
  }
  return launches;
}

TEST_F(SampleTargets, SpirvOfEveryProfile) {
  for (const Profile& profile : TestProfiles()) {
    // Of the larger one the short draw takes the most workgroup memory.
    for (const int64_t vocab : {248320, 327680}) {
      for (const Launch& launch : All(profile, vocab)) {
        const Words words = Emit(profile, launch);
        EXPECT_GT(words.size(), 0u) << launch.name;
        EXPECT_LE(words.size() * 4, kMostBytes) << launch.name;
      }
    }
  }
}

TEST_F(SampleTargets, Ptx) {
  Profile profile;
  profile.name = "sm80";
  profile.subgroup = 32;
  const std::vector<Launch> launches = All(profile, 248320);
  std::vector<PtxKernel> kernels;
  for (size_t i = 0; i < launches.size(); ++i) kernels.push_back({"k" + std::to_string(i), &launches[i]});
  auto ptx = emitPtx(context_, profile, kernels, "sm_80");
  ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_EQ(ptx->find(".f64"), std::string::npos) << "sampling is on integers";
  EXPECT_EQ(ptx->find(".f32"), std::string::npos) << "sampling is on integers";
  std::string ptxas = "/usr/local/cuda/bin/ptxas";
  if (!std::filesystem::exists(ptxas)) ptxas = "/usr/bin/ptxas";
  if (!std::filesystem::exists(ptxas)) GTEST_SKIP() << "ptxas is not installed";
  const std::string file = testing::TempDir() + "/qcc_sample_" + std::to_string(getpid());
  std::ofstream(file + ".ptx") << *ptx;
  const std::string command = ptxas + " -arch=sm_80 -o " + file + ".cubin " + file + ".ptx";
  EXPECT_EQ(std::system(command.c_str()), 0);
  for (const char* end : {".ptx", ".cubin"}) std::filesystem::remove(file + end);
}

// One buffer per space, so that each argument is an address of its own.
std::string RunOnVulkan(VulkanHost& host, const std::vector<Launch>& launches, const std::vector<Words>& code,
                        std::map<std::pair<Space, uint64_t>, Words>* memory) {
  for (size_t i = 0; i < launches.size(); ++i) {
    std::vector<Words> buffers;
    for (const Arg& arg : launches[i].args) buffers.push_back((*memory)[{arg.space, arg.value}]);
    const std::string complaint = host.Run(code[i], "main", launches[i].grid, &buffers, {});
    if (!complaint.empty()) return launches[i].name + ": " + complaint;
    for (size_t a = 0; a < buffers.size(); ++a) {
      (*memory)[{launches[i].args[a].space, launches[i].args[a].value}] = std::move(buffers[a]);
    }
  }
  return "";
}

template <typename T>
Words AsWords(const std::vector<T>& data) {
  Words words(std::max<size_t>(data.size() * sizeof(T) / 4, 4));
  if (!data.empty()) std::memcpy(words.data(), data.data(), data.size() * sizeof(T));
  return words;
}

// The step block, of which the launches have the whole and, as a buffer of its own, what begins with the
// samples.
std::vector<uint8_t> Block(const std::vector<qrt_gpu_sample>& samples,
                           const std::vector<qrt_gpu_penalty>& penalties) {
  std::vector<qrt_gpu_entry> entries(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) entries[i].sample = samples[i];
  qrt_gpu_step step = {};
  step.n_rows = step.n_out = static_cast<uint32_t>(samples.size());
  step.penalties_at = static_cast<uint32_t>(qrt_gpu_entries_end(samples.size()));
  std::vector<uint8_t> block(step.penalties_at + penalties.size() * sizeof(qrt_gpu_penalty));
  std::memcpy(block.data(), &step, sizeof step);
  std::memcpy(&block[qrt_gpu_entries_offset()], entries.data(), entries.size() * sizeof(qrt_gpu_entry));
  if (!penalties.empty()) {
    std::memcpy(&block[step.penalties_at], penalties.data(), penalties.size() * sizeof(qrt_gpu_penalty));
  }
  return block;
}

TEST_F(SampleTargets, AVulkanDeviceDrawsTheHostsTokens) {
  std::string why;
  VulkanHost* host = VulkanHost::Get(&why);
  if (host == nullptr) GTEST_SKIP() << why;
  std::mt19937 random(21);
  struct Size {
    size_t vocab;
    int rounds;
  };
  for (const Size size : {Size{7, 2}, Size{1000, 4}, Size{5001, 4}, Size{248320, 2}}) {
    const size_t rows = 4;
    Sandbox box(Profile{}, rows, static_cast<int64_t>(size.vocab));
    uint64_t draw_bytes = 0, few_bytes = 0, greedy_bytes = 0;
    const Vocabulary some = {static_cast<int64_t>(size.vocab), AnyChoosable(random, size.vocab)};
    const std::vector<Launch> draw = ExpandDraw(rows, some, box, &draw_bytes);
    const std::vector<Launch> few = ExpandDrawFew(rows, some, box, &few_bytes);
    const std::vector<Launch> greedy = ExpandGreedy(rows, some, box, &greedy_bytes);
    const std::vector<Words> draw_code = EmitAll(draw), few_code = EmitAll(few),
                             greedy_code = EmitAll(greedy);
    ASSERT_FALSE(HasFailure());
    for (int round = 0; round < size.rounds; ++round) {
      std::vector<float> logits;
      std::vector<qrt_gpu_sample> samples(rows);
      std::vector<qrt_gpu_penalty> penalties;
      Words expected, expected_greedy;
      for (size_t i = 0; i < rows; ++i) {
        SampleRow row = AnySampleRow(random, size.vocab);
        if (round % 2 != 0) row.options.top_k = AnyFew(random);
        logits.insert(logits.end(), row.logits.begin(), row.logits.end());
        auto made = qrt::Sampler::Create(static_cast<uint32_t>(size.vocab), row.options, some.choosable);
        ASSERT_TRUE(made.ok());
        for (int32_t token : row.accepted) made->Accept(token);
        qrt::Sampler copy = *made;
        expected.push_back(static_cast<uint32_t>(OnHost(copy, i, row.logits)));
        samples[i].penalty_begin = static_cast<uint32_t>(penalties.size());
        penalties.resize(penalties.size() + made->penalties());
        made->Describe(i, &samples[i], penalties.data() + samples[i].penalty_begin);
        qrt::SamplerOptions plain;
        plain.temperature = 0;
        auto highest = qrt::Sampler::Create(static_cast<uint32_t>(size.vocab), plain, some.choosable);
        expected_greedy.push_back(static_cast<uint32_t>(OnHost(*highest, i, row.logits)));
      }
      std::map<std::pair<Space, uint64_t>, Words> memory;
      const std::vector<uint8_t> block = Block(samples, penalties);
      const auto place = [&](size_t arg) {
        return std::pair{draw[0].args[arg].space, draw[0].args[arg].value};
      };
      memory[place(0)] = AsWords(block);
      ASSERT_EQ(place(2), place(0));
      memory[place(1)] =
          AsWords(std::vector<uint8_t>(block.begin() + static_cast<ptrdiff_t>(place(1).second), block.end()));
      memory[place(3)] = AsWords(logits);
      memory[place(4)] = Words(std::max({draw_bytes, few_bytes, greedy_bytes}) / 4, 0xCDCDCDCD);
      memory[place(5)] = Words(rows, 77);
      for (const Arg& arg : {draw[0].args[6], few[0].args[6], greedy[0].args[3]}) {
        Words& words = memory[{arg.space, arg.value}] = some.choosable;
        words.resize(std::max<size_t>(words.size(), 4));
      }
      ASSERT_EQ(RunOnVulkan(*host, draw, draw_code, &memory), "");
      EXPECT_EQ(memory[place(5)], expected) << "vocabulary " << size.vocab << ", round " << round;
      if (round % 2 != 0) {
        memory[place(5)] = Words(rows, 77);
        ASSERT_EQ(RunOnVulkan(*host, few, few_code, &memory), "");
        EXPECT_EQ(memory[place(5)], expected) << "few of vocabulary " << size.vocab << ", round " << round;
      }
      ASSERT_EQ(RunOnVulkan(*host, greedy, greedy_code, &memory), "");
      EXPECT_EQ(memory[place(5)], expected_greedy) << "vocabulary " << size.vocab << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
