// What a Vulkan device is and has, asked once.
#ifndef RUNTIME_DEVICE_VULKAN_FACTS_H_
#define RUNTIME_DEVICE_VULKAN_FACTS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/vulkan/functions.h"
#include "runtime/device/vulkan/instance.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt {

// Of every buffer.
inline constexpr VkBufferUsageFlags kBufferUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
    VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
// Of host memory that becomes a buffer.
inline constexpr VkExternalMemoryHandleTypeFlagBits kHostMemory =
    VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;

struct VulkanFacts {
  VulkanDeviceInfo info;
  Status failure;  // why info.usable is false, if the driver failed rather than lacks something: Q5010,
                   // Q5011, Q6001
  VkPhysicalDevice device = VK_NULL_HANDLE;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  VkDriverId driver_id = VkDriverId{};
  uint32_t api_version = 0, driver_version = 0;
  std::array<uint8_t, VK_UUID_SIZE> cache_uuid{};
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;   // that the queue's timestamps have; 0: it has none
  double timestamp_seconds = 0;  // from one to the next
  std::array<uint32_t, 3> max_grid{};
  uint32_t max_allocations = 0;
  uint64_t import_alignment = 0;  // of host memory that can become a buffer; 0: none can
  // No buffer can be larger. info.max_allocation_bytes is what every driver promises; many give more.
  uint64_t max_buffer_bytes = std::numeric_limits<uint64_t>::max();
  // Optional features to switch on, besides what every device must have.
  bool memory_model_device_scope = false, extended_subgroup_types = false, full_subgroups = false;
  // Extensions that must be named to be used; core in Vulkan 1.3.
  std::vector<const char*> extensions;
  VkPhysicalDeviceMemoryProperties memory{};
  bool has_budget = false;
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> heap_left{};  // bytes; without a budget: the heap's size
};

// A driver that fails makes its device an unusable one, and no other.
VulkanFacts QueryVulkanFacts(const VulkanInstance& instance, size_t index);

// Of the device to use: see ChooseVulkanDevice. Errors: its, or that of a driver that failed.
Result<VulkanFacts> ChosenVulkanFacts(const VulkanInstance& instance, int index);

// Makes a device with one compute queue and the features above.
VkResult CreateVkDevice(const VulkanInstance& instance, const VulkanFacts& facts, VkDevice* out);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_FACTS_H_
