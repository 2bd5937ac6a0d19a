// Bytes between the host and device memory, and zeros.
#ifndef RUNTIME_DEVICE_VULKAN_TRANSFER_H_
#define RUNTIME_DEVICE_VULKAN_TRANSFER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/device/device.h"
#include "runtime/device/vulkan/context.h"

namespace qrt {

// Memory that the host reaches is copied in place, but what it reaches past its caches is not read there
// (some integrated GPUs' memory); the rest goes through two pieces of host memory, one filled while the other
// is on its way. Each call returns when everything has arrived.
class VulkanTransfer {
 public:
  explicit VulkanTransfer(VulkanContext& context) : context_(context) {}
  ~VulkanTransfer();
  VulkanTransfer(const VulkanTransfer&) = delete;
  VulkanTransfer& operator=(const VulkanTransfer&) = delete;

  // Takes the host memory; nothing where the host reads all memory in place.
  VkResult Init();
  uint64_t host_bytes() const { return staging_.bytes(); }

  // `done` (may be empty) is told how many bytes were handed over, about every 8 MiB; false stops:
  // VK_INCOMPLETE.
  VkResult Write(const VulkanBuffer& to, uint64_t offset, const uint8_t* from, uint64_t bytes,
                 const std::function<bool(uint64_t)>& done = {});
  VkResult Read(const VulkanBuffer& from, uint64_t offset, uint8_t* to, uint64_t bytes);
  VkResult Zero(const VulkanBuffer& buffer);

 private:
  struct Half {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    bool busy = false;
  };
  VkResult Begin(Half& half);
  VkResult Submit(Half& half);
  VkResult Finish(Half& half);
  VkResult FinishAll();

  VulkanContext& context_;
  VulkanBuffer staging_;
  std::array<Half, 2> halves_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_TRANSFER_H_
