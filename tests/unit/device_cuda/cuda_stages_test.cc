// Stages timed by events in the graphs, over a driver on which a workgroup takes a microsecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/device/cuda/cuda_api.h"
#include "tests/unit/device_cuda/cuda_model.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

// Of a program of the drafting model; a choice behind the last row.
struct Rows : SequenceRows {
  Rows(Device& device, uint32_t takes, Output gives, uint32_t bucket)
      : SequenceRows(device, Model(), ProgramOf(Model(), takes, gives, bucket), bucket),
        program(&Model().programs[step.program]) {
    if (step.n_out != 0) step.chosen = &chosen;
  }
  static const Manifest& Model() { return CudaDraftingModel().manifest(); }

  const ProgramInfo* program;
  int32_t chosen = 0;
};

std::unique_ptr<Device> Make(const FakeCuda& fake) {
  CudaOptions options;
  options.max_dispatch_ms = 1e-3;  // programs without logits are cut
  auto made = CreateCudaDevice(CudaDraftingModel(), 0, options, fake.loader());
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? std::move(*made) : nullptr;
}

void ExpectClean(const FakeCuda& fake) {
  EXPECT_TRUE(fake.Clean()) << fake.events.size() << " events, " << fake.execs.size() << " graphs are left";
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

// Launches that ran, and seconds, of all stages of a program.
StageTime Sum(const Device& device, const std::string& program) {
  StageTime sum;
  for (size_t i = 0; i < device.stages().size(); ++i) {
    if (device.stages()[i].program != program) continue;
    const StageTime time = device.stage_time(0, i);
    EXPECT_EQ(time.seconds > 0, time.runs > 0) << device.stages()[i].specification;
    sum.runs += time.runs;
    sum.seconds += time.seconds;
  }
  return sum;
}

TEST(CudaStages, EachLaunchIsTimedAndNothingElseChanges) {
  FakeCuda fake;
  {
    const std::unique_ptr<Device> device = Make(fake);
    ASSERT_NE(device, nullptr);
    Rows token(*device, kTokens, Output::kChosenLogits, 1), prompt(*device, kTokens, Output::kNothing, 16);
    const auto run = [&](Rows& rows) {
      fake.launched.clear();
      EXPECT_EQ(device->Run(rows.step), DeviceResult::kOk) << device->last_error();
      return fake.Launched();
    };
    EXPECT_TRUE(device->stages().empty()) << "nobody asked yet";
    const FakeCuda::Graph plain = run(token), plain_prompt = run(prompt);
    for (const FakeCuda::Launch& launch : plain) EXPECT_FALSE(launch.marked) << launch.kernel;
    for (int round = 0; round < 2; ++round) {  // the second time from 0 on
      ASSERT_EQ(device->TimeStages(), DeviceResult::kOk) << device->last_error();
      const uint64_t begin = fake.clock;
      for (const auto& [rows, expected] : {std::pair(&token, &plain), std::pair(&prompt, &plain_prompt)}) {
        FakeCuda::Graph timed = run(*rows);
        ASSERT_EQ(timed.size(), expected->size());
        for (size_t i = 0; i < timed.size(); ++i) {
          EXPECT_TRUE(timed[i].marked) << timed[i].kernel;
          EXPECT_FALSE(timed[i].overlaps) << timed[i].kernel;
          EXPECT_EQ(timed[i].kernel, (*expected)[i].kernel);
          EXPECT_EQ(timed[i].grid, (*expected)[i].grid);
          EXPECT_EQ(timed[i].args, (*expected)[i].args);
        }
      }
      const StageTime one = Sum(*device, token.program->name), choice = Sum(*device, "greedy_1");
      const StageTime many = Sum(*device, prompt.program->name);
      EXPECT_EQ(one.runs + choice.runs, plain.size());
      EXPECT_GT(choice.runs, 0u);
      EXPECT_EQ(many.runs, plain_prompt.size());
      EXPECT_NEAR(one.seconds + choice.seconds + many.seconds, static_cast<double>(fake.clock - begin) * 1e-6,
                  1e-6);
    }
    const auto heads = [&](const std::string& program) {
      return std::count_if(device->stages().begin(), device->stages().end(), [&](const DeviceStage& stage) {
        return stage.program == program && stage.is_head;
      });
    };
    EXPECT_EQ(heads(token.program->name), 1);
    EXPECT_EQ(heads(prompt.program->name), 0);
    token.Free(*device);
    prompt.Free(*device);
  }
  ExpectClean(fake);
}

// Whatever call fails, the device goes on as it was, and nothing is left behind.
TEST(CudaStages, EveryFailureIsAnError) {
  for (int at = 1;; at += 97) {
    FakeCuda fake;
    {
      const std::unique_ptr<Device> device = Make(fake);
      ASSERT_NE(device, nullptr);
      fake.fail_with = cuda::kOutOfMemory;
      fake.fail_at = at;
      const DeviceResult result = device->TimeStages();
      const bool reached = fake.fail_at == 0;
      fake.fail_at = 0;
      EXPECT_EQ(result == DeviceResult::kOk, !reached) << at;
      EXPECT_EQ(device->last_error().empty(), !reached) << at;
      Rows token(*device, kTokens, Output::kChosenLogits, 1);
      EXPECT_EQ(device->Run(token.step), DeviceResult::kOk) << at;
      if (!reached) {
        fake.fail_function = "cuEventElapsedTime";
        fake.fail_at = 1;
        EXPECT_EQ(device->Run(token.step), DeviceResult::kOutOfMemory);
        fake.fail_at = 0;
        EXPECT_EQ(device->Run(token.step), DeviceResult::kOk);
      }
      token.Free(*device);
      if (!reached) at = -1;
    }
    ExpectClean(fake);
    if (at < 0) break;
  }
}

}  // namespace
}  // namespace qrt
