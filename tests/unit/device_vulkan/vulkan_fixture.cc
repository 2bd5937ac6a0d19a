#include "tests/unit/device_vulkan/vulkan_fixture.h"

#include <cmath>

#include "runtime/device/vulkan/instance.h"

namespace qrt::testing {

void VulkanTest::SetUp() {
  constexpr uint32_t kNoLibrary = 5012, kNoDriver = 5013;
  Result<VulkanLoader> loader = FaultLayer::Loader();
  if (!loader.ok()) GTEST_SKIP() << "no Vulkan here: " << loader.status().ToString();
  loader_ = *loader;
  faults().Reset();
  const Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(*loader_);
  if (const uint32_t number = devices.status().number(); number == kNoLibrary || number == kNoDriver) {
    GTEST_SKIP() << "no Vulkan here: " << devices.status().ToString();
  }
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();  // there is a driver, and it fails
  const Result<size_t> chosen = ChooseVulkanDevice(*devices, -1);
  if (!chosen.ok()) GTEST_SKIP() << chosen.status().ToString();
  const Status validated = VulkanInstance::Create(*loader_, true, {}).status();
  validation_ = validated.ok();
  EXPECT_TRUE(validation_) << validated.ToString();
  faults().Reset();
}

void VulkanTest::TearDown() {
  if (!loader_) return;
  faults().Reset();
  for (const std::string& line : messages()) ADD_FAILURE() << "validation layer: " << line;
}

const ToyParts& VulkanTest::Toy() {
  static const ToyParts parts = MakeToy();
  return parts;
}

const Artifact& VulkanTest::ToyArtifact() {
  static const std::unique_ptr<Artifact> artifact = WriteToy(Toy());
  return *artifact;
}

VulkanOptions VulkanTest::Options() {
  VulkanOptions options;
  options.validation = validation_;
  options.log = [this](bool, std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    messages_.emplace_back(line);
  };
  return options;
}

std::unique_ptr<Device> VulkanTest::Create(const Artifact& artifact, const VulkanOptions& options) {
  Result<std::unique_ptr<Device>> device = TryCreate(artifact, options);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return device.ok() ? *std::move(device) : nullptr;
}

void VulkanTest::ExpectDecodes(Device& device, const std::vector<int32_t>& tokens) {
  ToySequence sequence = NewSequence(device);
  ToyReference reference(Toy().weights);
  for (size_t i = 0; i < tokens.size(); ++i) {
    ToyStep step;
    step.parts = {{&sequence, {tokens[i]}}};
    step.wanted = {0};
    ASSERT_EQ(step.Run(device, kDecode1), DeviceResult::kOk) << device.last_error();
    ExpectLogits(step.out_logits.data(), reference.Append(tokens[i], static_cast<int32_t>(100 + i)),
                 "token " + std::to_string(i));
  }
  FreeSequence(device, sequence);
}

void ExpectLogits(const float* found, const std::vector<float>& expected, const std::string& what) {
  for (size_t v = 0; v < expected.size(); ++v) {
    ASSERT_NEAR(found[v], expected[v], 1e-5f * (1 + std::fabs(expected[v]))) << what << ", logit " << v;
  }
}

}  // namespace qrt::testing
