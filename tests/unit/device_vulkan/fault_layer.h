// Sits between the device and the Vulkan loader: counts, changes what a device says of itself, and fails
// calls.
#ifndef TESTS_UNIT_DEVICE_VULKAN_FAULT_LAYER_H_
#define TESTS_UNIT_DEVICE_VULKAN_FAULT_LAYER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/device/vulkan/functions.h"
#include "runtime/device/vulkan/vulkan_loader.h"

namespace qrt::testing {

struct FaultLayer {
  // From now on the n-th call (1: the next) of this name returns `result`; "*": of any that can fail. Without
  // `once` all later ones too.
  void Fail(std::string name, uint64_t n, VkResult result, bool once = false);
  void StopFailing() { fail_at = 0; }

  std::string fail;
  uint64_t fail_at = 0;  // 0: never
  VkResult fail_result = VK_SUCCESS;
  bool fail_once = false;

  std::function<void(VkPhysicalDeviceProperties2*)> properties;
  std::function<void(VkPhysicalDeviceFeatures2*)> features;
  std::function<void(VkPhysicalDeviceMemoryProperties2*)> memory;
  std::function<void(VkQueueFamilyProperties*)> queue;        // of each family
  std::function<void(VkExternalMemoryProperties*)> external;  // of host memory as a buffer
  bool no_devices = false;

  std::map<std::string, uint64_t, std::less<>> calls;
  uint64_t matching = 0;           // calls since Fail that it means
  uint64_t cache_bytes_given = 0;  // of the last vkCreatePipelineCache
  uint64_t largest_asked = 0;      // bytes, of a vkAllocateMemory
  int64_t live = 0;                // objects made and not destroyed

  // One more call; takes no memory but for the first of that name.
  void Saw(const char* name);

  static FaultLayer& Get();
  // Forgets everything; `live` must be 0.
  void Reset();
  // Uses the real loader; empty when there is none.
  static Result<VulkanLoader> Loader();
};

}  // namespace qrt::testing

#endif  // TESTS_UNIT_DEVICE_VULKAN_FAULT_LAYER_H_
