// Stages timed by the timestamps of a queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "tests/unit/device_vulkan/vulkan_fixture.h"

namespace qrt::testing {
namespace {

// Tokens of one sequence, and a choice behind each; the logits.
std::vector<float> Decode(Device& device, int32_t count) {
  ToySequence sequence = NewSequence(device);
  std::vector<float> logits;
  for (int32_t i = 0; i < count; ++i) {
    ToyStep step;
    step.parts = {{&sequence, {i}}};
    step.wanted = {0};
    step.choose = true;
    EXPECT_EQ(step.Run(device, kDecode1), DeviceResult::kOk) << device.last_error();
    logits.insert(logits.end(), step.out_logits.begin(), step.out_logits.end());
  }
  FreeSequence(device, sequence);
  return logits;
}

TEST_F(VulkanTest, StagesAreTimedByTheQueue) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  EXPECT_TRUE(device->stages().empty()) << "nobody asked yet";
  const uint64_t stamped = faults().calls["vkGetQueryPoolResults"];
  const std::vector<float> plain = Decode(*device, 3);
  EXPECT_EQ(faults().calls["vkGetQueryPoolResults"], stamped) << "nor reads timestamps";
  for (const int32_t count : {3, 5}) {  // the second time from 0 on
    ASSERT_EQ(device->TimeStages(), DeviceResult::kOk) << device->last_error();
    const uint64_t submissions = device->counters().submissions;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<float> timed = Decode(*device, count);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(device->counters().submissions - submissions, static_cast<uint64_t>(count))
        << "no more of them";
    EXPECT_EQ(std::memcmp(timed.data(), plain.data(), plain.size() * sizeof(float)), 0);
    const std::string program = ToyArtifact().manifest().programs[kDecode1].name;
    double sum = 0;
    std::set<std::string> ran;
    for (size_t i = 0; i < device->stages().size(); ++i) {
      const DeviceStage& stage = device->stages()[i];
      const StageTime time = device->stage_time(0, i);
      EXPECT_EQ(time.seconds > 0, time.runs > 0) << stage.specification;
      sum += time.seconds;
      if (time.runs == 0) continue;
      EXPECT_EQ(time.runs % static_cast<uint64_t>(count), 0u) << stage.specification;
      ran.insert(stage.program);
    }
    EXPECT_EQ(ran, (std::set<std::string>{program, "greedy_1"}));
    EXPECT_LE(sum, wall.count());
    for (size_t i = 0; i < device->stages().size(); ++i) {
      if (device->stages()[i].program != program) continue;
      EXPECT_GT(device->stage_time(0, i).runs, 0u) << "every stage of the program";
    }
  }
}

TEST_F(VulkanTest, AStepThatIsCutIsTimedWhole) {
  VulkanOptions options = Options();
  options.max_dispatch_ms = 1e-6;
  const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
  ASSERT_NE(device, nullptr);
  ASSERT_EQ(device->TimeStages(), DeviceResult::kOk);
  ToySequence sequence = NewSequence(*device);
  ToyStep step;
  step.parts = {{&sequence, {1, 2, 3}}};
  ASSERT_EQ(step.Run(*device, kPrefill8), DeviceResult::kOk) << device->last_error();
  EXPECT_GT(device->counters().submissions, 1u);
  uint64_t runs = 0;
  for (size_t i = 0; i < device->stages().size(); ++i) runs += device->stage_time(0, i).runs;
  EXPECT_EQ(runs, Toy().code.programs[kPrefill8].dispatches.size());
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, AQueueWithoutTimestampsSaysSo) {
  faults().queue = [](VkQueueFamilyProperties* family) { family->timestampValidBits = 0; };
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->TimeStages(), DeviceResult::kRefused);
  EXPECT_EQ(device->last_error(), "its queue has no timestamps");
  EXPECT_TRUE(device->stages().empty());
  Decode(*device, 1);
}

TEST_F(VulkanTest, TimestampsThatCannotBeMadeOrReadAreErrors) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  faults().Fail("vkCreateQueryPool", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY, /*once=*/true);
  EXPECT_EQ(device->TimeStages(), DeviceResult::kOutOfMemory);
  faults().Fail("vkCreateQueryPool", 1, VK_ERROR_UNKNOWN, /*once=*/true);
  EXPECT_EQ(device->TimeStages(), DeviceResult::kFailed);
  EXPECT_FALSE(device->last_error().empty());
  faults().StopFailing();
  ASSERT_EQ(device->TimeStages(), DeviceResult::kOk);
  faults().Fail("vkGetQueryPoolResults", 1, VK_ERROR_DEVICE_LOST);
  ToySequence sequence = NewSequence(*device);
  ToyStep step;
  step.parts = {{&sequence, {1}}};
  step.wanted = {0};
  EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kLost);
  faults().StopFailing();
  FreeSequence(*device, sequence);
}

}  // namespace
}  // namespace qrt::testing
