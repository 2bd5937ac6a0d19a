// A logical Vulkan device with one queue: memory, submissions, and how they failed.
#ifndef RUNTIME_DEVICE_VULKAN_CONTEXT_H_
#define RUNTIME_DEVICE_VULKAN_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/device/vulkan/facts.h"
#include "runtime/device/vulkan/functions.h"
#include "runtime/device/vulkan/instance.h"

namespace qrt {

class VulkanContext;

enum class VulkanMemoryKind : uint8_t {
  kDevice,  // where kernels run fastest; reached by the host too if VulkanContext::unified
  kHost,    // reached by both, cached by the host where there is such memory
  kOther,   // where VulkanContext::unified: the same memory as kDevice's, in a heap that is not called the
            // device's
};

// Owns a buffer and its memory. Movable; empty when default-made. The context must outlive it.
class VulkanBuffer {
 public:
  VulkanBuffer() = default;
  ~VulkanBuffer() { Free(); }
  VulkanBuffer(VulkanBuffer&& other) noexcept { *this = std::move(other); }
  VulkanBuffer& operator=(VulkanBuffer&& other) noexcept;

  // `bytes` > 0. The contents are undefined. What an integrated GPU calls its own, often set aside by the
  // firmware, may be little: what does not fit there comes from its other memory.
  VkResult Allocate(VulkanContext* context, VulkanMemoryKind kind, uint64_t bytes);
  // Host memory that kernels may read in place, if VulkanContext::can_import(); it must stay as long as the
  // buffer. Whole pages around `bytes` > 0 at `from` must be mapped. Errors mean that this memory cannot:
  // copy it.
  VkResult Import(VulkanContext* context, const uint8_t* from, uint64_t bytes);
  void Free();

  uint64_t bytes() const { return bytes_; }
  uint64_t address() const { return address_; }  // multiple of 256
  uint8_t* mapped() const { return mapped_; }    // of `address`; null: the host cannot reach it
  bool cached() const { return cached_; }        // what the host reads there
  VkBuffer buffer() const { return buffer_; }
  uint64_t offset() const { return offset_; }  // of `address` in the buffer

 private:
  VulkanContext* context_ = nullptr;
  // The steps of making one; a failure is followed by Free().
  VkResult CreateBuffer(uint64_t bytes, const void* chain, VkMemoryRequirements* needs);
  VkResult TakeMemory(int type, uint64_t bytes, const void* chain);
  uint64_t Address() const;

  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  uint64_t bytes_ = 0, address_ = 0, offset_ = 0;
  uint8_t* mapped_ = nullptr;
  bool cached_ = false;
};

class VulkanContext {
 public:
  // `separate_memory`: as on a discrete GPU. Errors: Q5010, Q5011, Q6001.
  static Result<std::unique_ptr<VulkanContext>> Create(std::unique_ptr<VulkanInstance> instance,
                                                       const VulkanFacts& facts, bool separate_memory);
  // Waits for the device.
  ~VulkanContext();
  VulkanContext(const VulkanContext&) = delete;
  VulkanContext& operator=(const VulkanContext&) = delete;

  const VkDeviceFunctions& vk() const { return vk_; }
  VkDevice device() const { return device_; }
  const VulkanFacts& facts() const { return facts_; }
  bool unified() const { return unified_; }
  // Whether the host has what it reads of device memory in its caches.
  bool reads_in_place() const;
  // Whether host memory can become a buffer, and kernels reach it as fast as any.
  bool can_import() const;

  // The largest buffer that every driver of this device can be relied on to make.
  uint64_t max_buffer_bytes() const;
  // Free bytes of the heaps that device memory comes from, as far as the driver tells.
  uint64_t device_bytes_left() const;

  // A command buffer; the context's pool frees it.
  VkResult AllocateCommands(VkCommandBufferLevel level, VkCommandBuffer* out);
  // Makes what kernels wrote before visible to kernels after.
  void KernelBarrier(VkCommandBuffer commands) const;
  // The same for kernels and copies.
  void FullBarrier(VkCommandBuffer commands) const;
  // As FullBarrier, and to the host once the submission is over.
  void HostBarrier(VkCommandBuffer commands) const;
  // Submits and waits.
  VkResult Run(VkCommandBuffer commands);
  VkResult Submit(VkCommandBuffer commands, VkFence fence);
  // And resets it. Nothing runs any more after an error, if the driver can still tell; VK_TIMEOUT: it does
  // not, the device is lost, and what it has is never freed.
  VkResult Wait(VkFence fence);

  // Keeps the error for last_error() and says what it is to callers; once lost, always lost. `what` is a
  // literal.
  DeviceResult Fail(VkResult result, const char* what);
  // The same for an allocation of `bytes`: last_error() has the driver's limit if that is smaller.
  DeviceResult FailAllocation(VkResult result, uint64_t bytes);
  bool lost() const { return lost_; }
  std::string last_error() const;

 private:
  friend class VulkanBuffer;

  // For one submission of a GPU: much more than what desktops let one take, 2 to 10 s.
  static constexpr uint64_t kLongestWaitNs = 60'000'000'000;

  VulkanContext(std::unique_ptr<VulkanInstance> instance, const VulkanFacts& facts)
      : instance_(std::move(instance)), facts_(facts) {}
  Status Init(bool separate_memory);
  void Abandon();
  // -1: there is none among `types`.
  int MemoryType(VulkanMemoryKind kind, uint32_t types) const;

  std::unique_ptr<VulkanInstance> instance_;
  const VulkanFacts facts_;
  VkDeviceFunctions vk_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  bool unified_ = false;
  bool lost_ = false;
  uint32_t allocations_ = 0;
  VkResult last_result_ = VK_SUCCESS;
  const char* last_what_ = nullptr;
  uint64_t last_limit_ = 0;  // 0: no limit to tell of
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_CONTEXT_H_
