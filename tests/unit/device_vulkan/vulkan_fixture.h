// Tests on a Vulkan device: skipped by name where there is none. Every one runs under the validation layer
// where that is installed, and must leave it silent and the driver without objects.
#ifndef TESTS_UNIT_DEVICE_VULKAN_VULKAN_FIXTURE_H_
#define TESTS_UNIT_DEVICE_VULKAN_VULKAN_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/vulkan/vulkan_device.h"
#include "tests/unit/device_vulkan/fault_layer.h"
#include "tests/unit/device_vulkan/toy_gpu_model.h"

namespace qrt::testing {

class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  FaultLayer& faults() { return FaultLayer::Get(); }
  const VulkanLoader& loader() const { return *loader_; }
  // The model as it is; made once.
  static const ToyParts& Toy();
  static const Artifact& ToyArtifact();

  VulkanOptions Options();
  Result<std::unique_ptr<Device>> TryCreate(const Artifact& artifact, const VulkanOptions& options) {
    return CreateVulkanDevice(artifact, 0, options, loader());
  }
  std::unique_ptr<Device> Create(const Artifact& artifact, const VulkanOptions& options);
  std::unique_ptr<Device> Create() { return Create(ToyArtifact(), Options()); }

  // Feeds tokens one by one and compares every row of logits with the host's.
  void ExpectDecodes(Device& device, const std::vector<int32_t>& tokens);

  std::vector<std::string> messages() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return messages_;
  }
  bool validation_ = false;

 private:
  std::optional<VulkanLoader> loader_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

void ExpectLogits(const float* found, const std::vector<float>& expected, const std::string& what);

}  // namespace qrt::testing

#endif  // TESTS_UNIT_DEVICE_VULKAN_VULKAN_FIXTURE_H_
