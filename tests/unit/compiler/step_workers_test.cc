// Compiled steps on threads of a test's own: with hardly more stack than the interface says they take, and
// fewer of them where that is faster; always with the same bits.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "runtime/abi/program.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/include/qrt/qrt.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/runtime/small_stack.h"

namespace qcc::compiler {
namespace {

// Two threads for each task, each with as much stack as qrt.h asks for.
class SmallStackWorkers final : public qrt::Workers {
 public:
  explicit SmallStackWorkers(size_t* most) : most_(most) {}
  uint32_t threads() const override { return 2; }
  bool Run(qrt::PoolTask task, void* arg, uint32_t /*count*/) override {
    std::vector<std::unique_ptr<qrt::testing::SmallStackThread>> threads;
    for (uint32_t i = 0; i < 2; ++i) {
      threads.push_back(std::make_unique<qrt::testing::SmallStackThread>(
          QRT_STEP_STACK * qrt::testing::kStackScale, [=] { task(arg, i, 2); }));
    }
    for (auto& thread : threads) *most_ = std::max(*most_, thread->Join());
    return true;
  }

 private:
  size_t* most_;
};

// Three threads, of which one is held up each time, as by a program that wants its core.
class HeldUpWorkers final : public qrt::Workers {
 public:
  uint32_t threads() const override { return 3; }
  bool divisible() const override { return true; }
  bool Run(qrt::PoolTask task, void* arg, uint32_t count) override {
    const bool ran = pool_->Run(task, arg, count);
    if (count == 3) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return ran;
  }

 private:
  const std::unique_ptr<qrt::Workers> pool_ = qrt::ThreadPool::Create(3, 3);
};

class StepWorkers : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    PipelineOptions options;
    options.input = (std::filesystem::path(QCC_SOURCE_DIR) / "assets" / "tiny-qwen35-q8_0.gguf").string();
    options.output = Path("tiny.qbin");
    options.cpu = {"base"};  // the others' frames: cpu_lower_test
    options.decode_buckets = {4};
    options.prefill_buckets = {32};
    QuietSink quiet;
    const absl::Status compiled = CompileModel(options, quiet);
    ASSERT_TRUE(compiled.ok()) << compiled;
    auto artifact = qrt::Artifact::Open(options.output);
    ASSERT_TRUE(artifact.ok()) << artifact.status().ToString();
    artifact_ = std::move(*artifact);
  }

  // Of the last steps' four rows, behind 32 of a prompt; steps of four until `steps` of them were.
  std::vector<float> LogitsOn(std::unique_ptr<qrt::Workers> workers, uint32_t steps,
                              qrt::DeviceCounters* counters = nullptr) {
    std::vector<int32_t> tokens(32 + 4 * steps);
    std::iota(tokens.begin(), tokens.end(), 40);
    std::vector<float> logits(4 * artifact_->manifest().model.logits_stride);
    auto device = qrt::CpuDevice::Create(*artifact_, 0, std::move(workers), nullptr);
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    if (!device.ok()) return logits;
    CpuSequence sequence(*artifact_, **device);
    sequence.Run("prefill_32", std::span(tokens).first(32), 0, nullptr);
    for (uint32_t at = 32; at < tokens.size(); at += 4)
      sequence.Run("decode_4", std::span(tokens).subspan(at, 4), at, logits.data());
    if (counters != nullptr) *counters = (*device)->counters();
    return logits;
  }

 private:
  std::unique_ptr<qrt::Artifact> artifact_;
};

TEST_F(StepWorkers, MayHaveSmallStacks) {
  size_t most = 0;
  EXPECT_EQ(LogitsOn(std::make_unique<SmallStackWorkers>(&most), 1),
            LogitsOn(qrt::ThreadPool::Create(2, 2), 1));
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, QRT_STEP_STACK_BYTES * qrt::testing::kStackScale);
}

TEST_F(StepWorkers, AreFewerWhereOneHoldsTheOthersUp) {
  constexpr uint32_t kSteps = 12;  // a look takes one or two of 60 ms, a trial one
  qrt::DeviceCounters counters;
  EXPECT_EQ(LogitsOn(std::make_unique<HeldUpWorkers>(), kSteps, &counters),
            LogitsOn(qrt::ThreadPool::Create(2, 2), kSteps));
  EXPECT_EQ(counters.cpu_steps, kSteps + 1);
  EXPECT_LT(counters.step_threads, 3 * counters.cpu_steps) << "no step ran on fewer than all threads";
}

}  // namespace
}  // namespace qcc::compiler
