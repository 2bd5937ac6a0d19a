// What compiled steps take of a thread's stack: no more than the interface says, on threads that have hardly
// more, with the bits that they compute on large ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
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
  bool Run(qrt::PoolTask task, void* arg) override {
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

using StepStack = InFolder;

TEST_F(StepStack, AStepRunsOnASmallOne) {
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
  const size_t stride = (*artifact)->manifest().model.logits_stride;
  std::vector<int32_t> tokens(36);
  std::iota(tokens.begin(), tokens.end(), 40);

  const auto logits_on = [&](std::unique_ptr<qrt::Workers> workers) {
    std::vector<float> logits(4 * stride);
    auto device = qrt::CpuDevice::Create(**artifact, 0, std::move(workers), nullptr);
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    if (!device.ok()) return logits;
    CpuSequence sequence(**artifact, **device);
    sequence.Run("prefill_32", std::span(tokens).first(32), 0, nullptr);
    sequence.Run("decode_4", std::span(tokens).subspan(32), 32, logits.data());
    return logits;
  };
  size_t most = 0;
  const std::vector<float> want = logits_on(qrt::ThreadPool::Create(2, 2));
  EXPECT_EQ(logits_on(std::make_unique<SmallStackWorkers>(&most)), want);
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, QRT_STEP_STACK_BYTES * qrt::testing::kStackScale);
}

}  // namespace
}  // namespace qcc::compiler
