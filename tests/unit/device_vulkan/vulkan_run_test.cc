#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/device_vulkan/vulkan_fixture.h"

namespace qrt::testing {
namespace {

TEST_F(VulkanTest, ListsDevicesWithWhatTheyAre) {
  const Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(loader());
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();
  const Result<size_t> best = ChooseVulkanDevice(*devices, -1);
  ASSERT_TRUE(best.ok()) << best.status().ToString();
  const VulkanDeviceInfo& info = (*devices)[*best];
  EXPECT_TRUE(info.usable);
  EXPECT_EQ(info.why_not, "");
  EXPECT_EQ(info.index, static_cast<int>(*best));
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.memory_bytes, 1u << 20);
  EXPECT_GE(info.max_workgroup, 128u);
  EXPECT_GE(info.max_push_bytes, 128u);
  EXPECT_LE(info.subgroup_min, info.subgroup_max);
  const Result<size_t> none = ChooseVulkanDevice(*devices, 99);
  EXPECT_EQ(none.status().number(), 5014u) << none.status().ToString();
}

TEST_F(VulkanTest, DecodesAsTheHostDoes) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->variant(), "none");
  EXPECT_TRUE(device->samples());
  EXPECT_TRUE(device->name().starts_with("vulkan:")) << device->name();
  ExpectDecodes(*device, {3, 1, 4, 1, 5, 9, 2, 6});
  ExpectDecodes(*device, {39, 0});
}

// Weights read where the file is mapped, copied in place, and copied as to a discrete GPU.
TEST_F(VulkanTest, EveryPlaceOfTheWeightsGivesTheSameBits) {
  const uint64_t all = Toy().weights.size() * 4;
  const uint64_t asked = faults().calls["vkGetMemoryHostPointerPropertiesEXT"];
  const std::unique_ptr<Device> one = Create(ToyArtifact(), Options());
  ASSERT_NE(one, nullptr);
  const bool can_import = faults().calls["vkGetMemoryHostPointerPropertiesEXT"] != asked;
  EXPECT_EQ(one->device_weight_bytes(), can_import ? 0 : all);
  VulkanOptions separate = Options();
  separate.separate_memory = true;
  const std::unique_ptr<Device> other = Create(ToyArtifact(), separate);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->device_weight_bytes(), all);
  std::vector<std::unique_ptr<Device>> refused;
  if (can_import) {
    for (const char* call : {"vkGetMemoryHostPointerPropertiesEXT", "vkCreateBuffer", "vkAllocateMemory"}) {
      faults().Fail(call, 1, VK_ERROR_INVALID_EXTERNAL_HANDLE, /*once=*/true);
      refused.push_back(Create(ToyArtifact(), Options()));
      ASSERT_NE(refused.back(), nullptr) << call;
      EXPECT_EQ(refused.back()->device_weight_bytes(), all) << call;
      faults().StopFailing();
    }
  }
  std::vector<Device*> devices = {one.get(), other.get()};
  for (const auto& device : refused) devices.push_back(device.get());
  std::vector<std::vector<float>> logits;
  for (Device* device : devices) {
    ExpectDecodes(*device, {7, 8, 9});
    ToySequence sequence = NewSequence(*device);
    ToyStep step;
    step.parts = {{&sequence, {11, 12, 13}}};
    step.wanted = {0, 2};
    ASSERT_EQ(step.Run(*device, kDecode4), DeviceResult::kOk);
    logits.push_back(step.out_logits);
    FreeSequence(*device, sequence);
  }
  for (size_t i = 1; i < logits.size(); ++i) {
    EXPECT_EQ(std::memcmp(logits[0].data(), logits[i].data(), logits[0].size() * 4), 0) << "device " << i;
  }
}

TEST_F(VulkanTest, SequencesOfOneStepAreIndependent) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence a = NewSequence(*device), b = NewSequence(*device), alone = NewSequence(*device);
  ToyReference ra(Toy().weights), rb(Toy().weights);
  for (int32_t i = 0; i < 5; ++i) {
    ToyStep step;
    step.parts = {{&a, {i}}, {&b, {20 + i, 30}}};
    step.wanted = {0, 2, 1};
    ASSERT_EQ(step.Run(*device, kDecode4), DeviceResult::kOk) << device->last_error();
    ExpectLogits(step.out_logits.data(), ra.Append(i, 100 + i), "a");
    const std::vector<float> first = rb.Append(20 + i, 100 + 2 * i);
    ExpectLogits(step.out_logits.data() + kStride, rb.Append(30, 101 + 2 * i), "b, second row");
    ExpectLogits(step.out_logits.data() + 2 * kStride, first, "b, first row");
    // The same sequence without company, in another bucket: equal to the bit.
    ToyStep single;
    single.parts = {{&alone, {i}}};
    single.wanted = {0};
    ASSERT_EQ(single.Run(*device, kDecode1), DeviceResult::kOk);
    EXPECT_EQ(std::memcmp(single.out_logits.data(), step.out_logits.data(), kVocab * 4), 0) << i;
  }
  for (ToySequence* s : {&a, &b, &alone}) FreeSequence(*device, *s);
}

TEST_F(VulkanTest, PrefillThenHeads) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  ToyReference reference(Toy().weights);
  ToyStep step;
  step.parts = {{&sequence, {1, 2, 3, 4, 5, 6, 7}}};
  ASSERT_EQ(step.Run(*device, kPrefill8), DeviceResult::kOk) << device->last_error();
  EXPECT_EQ(device->counters().bytes_to_host, 0u);
  step.wanted = {6, 0};
  ASSERT_EQ(step.Run(*device, kHead8), DeviceResult::kOk);
  std::vector<float> first, last;
  for (int32_t i = 0; i < 7; ++i) {
    last = reference.Append(i + 1, 100 + i);
    if (i == 0) first = last;
  }
  ExpectLogits(step.out_logits.data(), last, "last row");
  ExpectLogits(step.out_logits.data() + kStride, first, "first row");
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, GreedyTokensCostFourBytesAndOneSubmission) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  ToyReference reference(Toy().weights);
  int32_t token = 17;
  for (int32_t i = 0; i < 10; ++i) {
    const DeviceCounters before = device->counters();
    ToyStep step;
    step.parts = {{&sequence, {token}}};
    step.wanted = {0};
    step.logits = false;
    step.choose = true;
    ASSERT_EQ(step.Run(*device, kDecode1), DeviceResult::kOk) << device->last_error();
    EXPECT_EQ(device->counters().submissions - before.submissions, 1u);
    EXPECT_EQ(device->counters().bytes_to_host - before.bytes_to_host, 4u);
    const std::vector<float> logits = reference.Append(token, 100 + i);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_EQ(step.chosen[0], best) << "token " << i;
    token = step.chosen[0];
  }
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, SamplesReachTheKernels) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  ToyStep step;
  step.parts = {{&sequence, {1, 2, 3}}};
  step.wanted = {0, 1, 2};
  step.choose = true;
  step.samples.resize(3);
  step.penalties = {{5, 7}, {11, 2}, {100, 3}};
  for (uint32_t i = 0; i < 3; ++i) {
    step.samples[i].random = 1000 * i + 1;
    step.samples[i].top_k = i;
    step.samples[i].penalty_begin = i;
    step.samples[i].penalty_count = 3 - i;
  }
  ASSERT_EQ(step.Run(*device, kDecode4), DeviceResult::kOk) << device->last_error();
  const auto constant = static_cast<int32_t>(kDrawConstant);
  EXPECT_EQ(step.chosen[0], constant + 1 + 0 + 35 + 22 + 300);
  EXPECT_EQ(step.chosen[1], constant + 1001 + 1 + 22 + 300);
  EXPECT_EQ(step.chosen[2], constant + 2001 + 2 + 300);
  EXPECT_EQ(device->counters().bytes_to_host, 3 * 4 + 3 * uint64_t{kStride} * 4);
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, FewTokensAreDrawnByKernelsOfTheirOwn) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  const auto drawn = [&](std::vector<uint32_t> top_k) {
    ToyStep step;
    step.parts = {{&sequence, std::vector<int32_t>(top_k.size(), 3)}};
    step.choose = true;
    for (const uint32_t k : top_k) {
      step.wanted.push_back(static_cast<int32_t>(step.wanted.size()));
      step.samples.emplace_back().top_k = k;
    }
    EXPECT_EQ(step.Run(*device, top_k.size() == 1 ? kDecode1 : kDecode4), DeviceResult::kOk);
    return static_cast<uint64_t>(step.chosen[0]);
  };
  EXPECT_EQ(drawn({1}), kDrawFewConstant + 1);
  EXPECT_EQ(drawn({QRT_GPU_FEW_TOKENS}), kDrawFewConstant + QRT_GPU_FEW_TOKENS);
  EXPECT_EQ(drawn({0}), kDrawConstant);
  EXPECT_EQ(drawn({QRT_GPU_FEW_TOKENS + 1}), kDrawConstant + QRT_GPU_FEW_TOKENS + 1);
  EXPECT_EQ(drawn({2, 2}), kDrawConstant + 2) << "the artifact has a shorter way for one row only";
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, LongPrefillIsCutIntoSubmissionsWithTheSameResult) {
  VulkanOptions options = Options();
  std::vector<std::vector<float>> logits;
  std::vector<uint64_t> submissions;
  for (const double limit : {200.0, 1e-6, 0.0}) {
    options.max_dispatch_ms = limit;
    const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
    ASSERT_NE(device, nullptr);
    ToySequence sequence = NewSequence(*device);
    ToyStep step;
    step.parts = {{&sequence, {8, 7, 6, 5, 4, 3, 2, 1}}};
    ASSERT_EQ(step.Run(*device, kPrefill8), DeviceResult::kOk) << device->last_error();
    submissions.push_back(device->counters().submissions);
    step.wanted = {7};
    ASSERT_EQ(step.Run(*device, kHead8), DeviceResult::kOk);
    EXPECT_EQ(device->counters().submissions, submissions.back() + 1) << "a head is never cut";
    logits.push_back(step.out_logits);
    FreeSequence(*device, sequence);
  }
  EXPECT_EQ(submissions[0], 1u);
  EXPECT_EQ(submissions[1], Toy().code.programs[kPrefill8].dispatches.size());
  EXPECT_EQ(submissions[2], 1u);
  for (size_t i = 1; i < logits.size(); ++i) EXPECT_EQ(logits[i], logits[0]) << i;
}

TEST_F(VulkanTest, SessionMemoryIsZeroedReadAndWritten) {
  for (const bool separate : {false, true}) {
    VulkanOptions options = Options();
    options.separate_memory = separate;
    const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
    ASSERT_NE(device, nullptr);
    constexpr uint64_t kBytes = (uint64_t{20} << 20) + 13;  // more than both halves of the staging memory
    DeviceBuffer buffer;
    ASSERT_EQ(device->Allocate(kBytes, &buffer), DeviceResult::kOk) << device->last_error();
    EXPECT_EQ(buffer.bytes, kBytes);
    EXPECT_EQ(buffer.address % 256, 0u);
    std::vector<uint8_t> out(kBytes, 0xff), in(kBytes);
    const CopyRange all = {&buffer, 0, out.data(), kBytes};
    ASSERT_EQ(device->Read({&all, 1}), DeviceResult::kOk);
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](uint8_t b) { return b == 0; }));
    for (size_t i = 0; i < kBytes; ++i) in[i] = static_cast<uint8_t>(i * 31 + (i >> 13));
    const CopyRange put = {&buffer, 0, in.data(), kBytes};
    ASSERT_EQ(device->Write({&put, 1}), DeviceResult::kOk);
    std::vector<uint8_t> patch = {1, 2, 3};
    const CopyRange small = {&buffer, kBytes - 3, patch.data(), 3};
    ASSERT_EQ(device->Write({&small, 1}), DeviceResult::kOk);
    std::copy(patch.begin(), patch.end(), in.end() - 3);
    std::vector<uint8_t> tail(5);
    const CopyRange get[] = {all, {&buffer, kBytes - 5, tail.data(), 5}};
    ASSERT_EQ(device->Read(get), DeviceResult::kOk);
    EXPECT_EQ(out, in);
    EXPECT_TRUE(std::equal(tail.begin(), tail.end(), in.end() - 5));
    ASSERT_EQ(device->Zero(buffer), DeviceResult::kOk);
    ASSERT_EQ(device->Read({&all, 1}), DeviceResult::kOk);
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](uint8_t b) { return b == 0; }));
    device->Free(&buffer);
    EXPECT_TRUE(buffer.empty());
    device->Free(&buffer);
  }
}

TEST_F(VulkanTest, RefusesStepsThatCannotBe) {
  const std::unique_ptr<Device> device = Create();
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  ToyStep step;
  step.parts = {{&sequence, {1, 2}}};
  step.wanted = {0, 1};
  EXPECT_EQ(step.Run(*device, 4), DeviceResult::kFailed);
  EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kFailed) << "two rows of logits of a program for one";
  EXPECT_FALSE(device->last_error().empty());
  EXPECT_EQ(step.Run(*device, kDecode4), DeviceResult::kOk);
  EXPECT_EQ(device->last_error(), "");
  FreeSequence(*device, sequence);
}

TEST_F(VulkanTest, ProgressCanStopTheUpload) {
  VulkanOptions options = Options();
  uint64_t last = 0, total = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    last = done;
    total = all;
    return true;
  };
  EXPECT_NE(Create(ToyArtifact(), options), nullptr);
  EXPECT_EQ(last, Toy().weights.size() * 4);
  EXPECT_EQ(total, last);
  for (const bool separate : {false, true}) {
    options.separate_memory = separate;
    options.progress = [](uint64_t, uint64_t) { return false; };
    const auto stopped = TryCreate(ToyArtifact(), options);
    EXPECT_EQ(stopped.status().number(), 5016u) << stopped.status().ToString();
  }
}

}  // namespace
}  // namespace qrt::testing
