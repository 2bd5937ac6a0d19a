// What a Vulkan device is and has, asked once.
#ifndef RUNTIME_DEVICE_VULKAN_FACTS_H_
#define RUNTIME_DEVICE_VULKAN_FACTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/vulkan/functions.h"
#include "runtime/device/vulkan/instance.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt {

struct VulkanFacts {
  VulkanDeviceInfo info;
  VkPhysicalDevice device = VK_NULL_HANDLE;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  uint32_t api_version = 0, driver_version = 0;
  std::array<uint8_t, VK_UUID_SIZE> cache_uuid{};
  uint32_t queue_family = 0;
  std::array<uint32_t, 3> max_grid{};
  uint32_t max_allocations = 0;
  uint64_t import_alignment = 0;  // of host memory that can become a buffer; 0: none can
  // Optional features to switch on, besides what every device must have.
  bool memory_model_device_scope = false, extended_subgroup_types = false, full_subgroups = false;
  // Extensions that must be named to be used; core in Vulkan 1.3.
  std::vector<const char*> extensions;
  VkPhysicalDeviceMemoryProperties memory{};
  bool has_budget = false;
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> heap_left{};  // bytes; without a budget: the heap's size
};

// Errors: Q5011, Q6001.
Result<VulkanFacts> QueryVulkanFacts(const VulkanInstance& instance, size_t index);

// Makes a device with one compute queue and the features above.
VkResult CreateVkDevice(const VulkanInstance& instance, const VulkanFacts& facts, VkDevice* out);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_FACTS_H_
