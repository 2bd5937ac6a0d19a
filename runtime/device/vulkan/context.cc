#include "runtime/device/vulkan/context.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "runtime/device/vulkan/mapped_drivers.h"

namespace qrt {
namespace {

constexpr uint64_t kAddressAlignment = 256;
// Buffers begin where the driver wants; this much more lets their use begin at an aligned address, and end
// with whole words.
constexpr uint64_t kSlack = kAddressAlignment + 16;

constexpr VkMemoryPropertyFlags kReachable =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

}  // namespace

VulkanBuffer& VulkanBuffer::operator=(VulkanBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  context_ = std::exchange(other.context_, nullptr);
  buffer_ = std::exchange(other.buffer_, VK_NULL_HANDLE);
  memory_ = std::exchange(other.memory_, VK_NULL_HANDLE);
  bytes_ = std::exchange(other.bytes_, 0);
  address_ = std::exchange(other.address_, 0);
  offset_ = std::exchange(other.offset_, 0);
  mapped_ = std::exchange(other.mapped_, nullptr);
  cached_ = std::exchange(other.cached_, false);
  return *this;
}

VkResult VulkanBuffer::CreateBuffer(uint64_t bytes, const void* chain, VkMemoryRequirements* needs) {
  const VkDeviceFunctions& vk = context_->vk();
  VkBufferCreateInfo create{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  create.pNext = chain;
  create.size = bytes;
  create.usage = kBufferUsage;
  const VkResult result = vk.CreateBuffer(context_->device(), &create, nullptr, &buffer_);
  if (result != VK_SUCCESS) {
    buffer_ = VK_NULL_HANDLE;
    return result;
  }
  vk.GetBufferMemoryRequirements(context_->device(), buffer_, needs);
  return VK_SUCCESS;
}

VkResult VulkanBuffer::TakeMemory(int type, uint64_t bytes, const void* chain) {
  if (type < 0) return VK_ERROR_FEATURE_NOT_PRESENT;
  const VkPhysicalDeviceMemoryProperties& memory = context_->facts().memory;
  // Not even to be asked for (VUID-vkAllocateMemory-pAllocateInfo-01713).
  if (bytes > memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  const VkDeviceFunctions& vk = context_->vk();
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.pNext = chain;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.pNext = &flags;
  allocate.allocationSize = bytes;
  allocate.memoryTypeIndex = static_cast<uint32_t>(type);
  const VkResult result = vk.AllocateMemory(context_->device(), &allocate, nullptr, &memory_);
  if (result != VK_SUCCESS) {
    memory_ = VK_NULL_HANDLE;
    return result;
  }
  ++context_->allocations_;
  cached_ = (memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
  return vk.BindBufferMemory(context_->device(), buffer_, memory_, 0);
}

uint64_t VulkanBuffer::Address() const {
  VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  address.buffer = buffer_;
  return context_->vk().GetBufferDeviceAddress(context_->device(), &address);
}

VkResult VulkanBuffer::Allocate(VulkanContext* context, VulkanMemoryKind kind, uint64_t bytes) {
  Free();
  // Above maxMemoryAllocationSize a driver may still succeed: only it can tell.
  const uint64_t most = context->facts().max_buffer_bytes;
  if (most < kSlack || bytes > most - kSlack || context->allocations_ >= context->facts().max_allocations) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  context_ = context;
  VkMemoryRequirements needs;
  VkResult result = CreateBuffer(bytes + kSlack, nullptr, &needs);
  if (result == VK_SUCCESS) {
    result = TakeMemory(context->MemoryType(kind, needs.memoryTypeBits), needs.size, nullptr);
    if (memory_ == VK_NULL_HANDLE && kind == VulkanMemoryKind::kDevice && context->unified()) {
      const int other = context->MemoryType(VulkanMemoryKind::kOther, needs.memoryTypeBits);
      if (other >= 0) result = TakeMemory(other, needs.size, nullptr);
    }
  }
  void* mapped = nullptr;
  if (result == VK_SUCCESS && (kind == VulkanMemoryKind::kHost || context->unified())) {
    result = context->vk().MapMemory(context->device(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped);
  }
  if (result != VK_SUCCESS) {
    Free();
    return result;
  }
  address_ = Address();
  offset_ = (kAddressAlignment - address_ % kAddressAlignment) % kAddressAlignment;
  address_ += offset_;
  bytes_ = bytes;
  if (mapped != nullptr) mapped_ = static_cast<uint8_t*>(mapped) + offset_;
  return VK_SUCCESS;
}

VkResult VulkanBuffer::Import(VulkanContext* context, const uint8_t* from, uint64_t bytes) {
  Free();
  const uint64_t page = context->facts().import_alignment;
  const uint64_t begin = reinterpret_cast<uintptr_t>(from) / page * page;
  const uint64_t offset = reinterpret_cast<uintptr_t>(from) - begin;
  const uint64_t whole = (offset + bytes + page - 1) / page * page;
  if (whole > context->max_buffer_bytes() || context->allocations_ >= context->facts().max_allocations) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  // Kernels only read weights: the mapping is read-only, and a driver that minds says so here; can_import()
  // leaves out those that say so too late.
  void* host = reinterpret_cast<void*>(begin);
  context_ = context;
  VkMemoryHostPointerPropertiesEXT pointer{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  VkResult result =
      context->vk().GetMemoryHostPointerPropertiesEXT(context->device(), kHostMemory, host, &pointer);
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = kHostMemory;
  VkMemoryRequirements needs;
  if (result == VK_SUCCESS) result = CreateBuffer(whole, &external, &needs);
  if (result == VK_SUCCESS && needs.size > whole) result = VK_ERROR_FEATURE_NOT_PRESENT;
  if (result == VK_SUCCESS) {
    VkImportMemoryHostPointerInfoEXT import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT};
    import.handleType = kHostMemory;
    import.pHostPointer = host;
    result = TakeMemory(
        context->MemoryType(VulkanMemoryKind::kHost, needs.memoryTypeBits & pointer.memoryTypeBits), whole,
        &import);
  }
  if (result == VK_SUCCESS && (Address() + offset) % kAddressAlignment != 0) {
    result = VK_ERROR_FEATURE_NOT_PRESENT;
  }
  if (result != VK_SUCCESS) {
    Free();
    return result;
  }
  address_ = Address() + offset;
  offset_ = offset;
  bytes_ = bytes;
  return VK_SUCCESS;
}

void VulkanBuffer::Free() {
  if (context_ == nullptr) return;
  const VkDeviceFunctions& vk = context_->vk();
  if (buffer_ != VK_NULL_HANDLE) vk.DestroyBuffer(context_->device(), buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) {
    vk.FreeMemory(context_->device(), memory_, nullptr);  // unmaps
    --context_->allocations_;
  }
  context_ = nullptr;
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  bytes_ = address_ = offset_ = 0;
  mapped_ = nullptr;
  cached_ = false;
}

Result<std::unique_ptr<VulkanContext>> VulkanContext::Create(std::unique_ptr<VulkanInstance> instance,
                                                             const VulkanFacts& facts, bool separate_memory) {
  std::unique_ptr<VulkanContext> context(new VulkanContext(std::move(instance), facts));
  QRT_RETURN_IF_ERROR(context->Init(separate_memory));
  return context;
}

Status VulkanContext::Init(bool separate_memory) {
  VkResult result = CreateVkDevice(*instance_, facts_, &device_);
  if (result != VK_SUCCESS) {
    device_ = VK_NULL_HANDLE;
    return VulkanError(result, "to open " + facts_.info.name);
  }
  const std::string missing = LoadFunctions(instance_->vk().GetDeviceProcAddr, device_, &vk_);
  if (!missing.empty()) {
    return Status(Code::kDeviceFailed, 5011, "the GPU's driver has no " + missing, "device vulkan",
                  "update the driver");
  }
  KeepMapped(reinterpret_cast<const void*>(vk_.QueueSubmit));
  vk_.GetDeviceQueue(device_, facts_.queue_family, 0, &queue_);
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = facts_.queue_family;
  result = vk_.CreateCommandPool(device_, &pool, nullptr, &pool_);
  if (result != VK_SUCCESS) {
    pool_ = VK_NULL_HANDLE;
    return VulkanError(result, "to make a command pool");
  }
  VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  result = vk_.CreateFence(device_, &fence, nullptr, &fence_);
  if (result != VK_SUCCESS) {
    fence_ = VK_NULL_HANDLE;
    return VulkanError(result, "to make a fence");
  }
  const bool one_memory =
      facts_.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || facts_.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
  for (uint32_t i = 0; i < facts_.memory.memoryTypeCount && one_memory && !separate_memory; ++i) {
    const VkMemoryPropertyFlags flags = facts_.memory.memoryTypes[i].propertyFlags;
    constexpr VkMemoryPropertyFlags kBoth = kReachable | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    if ((flags & kBoth) == kBoth) unified_ = true;
  }
  return Status();
}

VulkanContext::~VulkanContext() {
  if (device_ == VK_NULL_HANDLE || vk_.DestroyDevice == nullptr) return;
  vk_.DeviceWaitIdle(device_);
  if (fence_ != VK_NULL_HANDLE) vk_.DestroyFence(device_, fence_, nullptr);
  if (pool_ != VK_NULL_HANDLE) vk_.DestroyCommandPool(device_, pool_, nullptr);
  vk_.DestroyDevice(device_, nullptr);
}

int VulkanContext::MemoryType(VulkanMemoryKind kind, uint32_t types) const {
  VkMemoryPropertyFlags need = kReachable, like = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  if (kind == VulkanMemoryKind::kDevice) {
    need = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (unified_ ? kReachable : 0);
    like = 0;
  }
  // Drivers list their best types first; protected and device-coherent ones need features that are off.
  VkMemoryPropertyFlags avoid = VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                                VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
  if (kind == VulkanMemoryKind::kOther) {
    avoid |= VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    like = 0;
  }
  int found = -1;
  for (uint32_t i = 0; i < facts_.memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = facts_.memory.memoryTypes[i].propertyFlags;
    if (!(types >> i & 1) || (flags & need) != need || (flags & avoid) != 0) continue;
    if ((flags & like) == like) return static_cast<int>(i);
    if (found < 0) found = static_cast<int>(i);
  }
  return found;
}

bool VulkanContext::reads_in_place() const {
  const int type = MemoryType(VulkanMemoryKind::kDevice, std::numeric_limits<uint32_t>::max());
  return unified_ && type >= 0 &&
         (facts_.memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
}

bool VulkanContext::can_import() const {
  // Files are mapped in pages of the machine: with a larger alignment more would be imported than is mapped.
  const long page = sysconf(_SC_PAGESIZE);
  // Intel's accept a read-only mapping; i915 then pins its pages for writing at the first submission, fails,
  // and the device is lost.
  const bool loses_device = facts_.driver_id == VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA ||
                            facts_.driver_id == VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS;
  return unified_ && !loses_device && vk_.GetMemoryHostPointerPropertiesEXT != nullptr &&
         facts_.import_alignment != 0 && page > 0 &&
         static_cast<uint64_t>(page) % facts_.import_alignment == 0;
}

uint64_t VulkanContext::max_buffer_bytes() const {
  const uint64_t most = facts_.info.max_allocation_bytes;
  return most > 2 * kSlack ? most - 2 * kSlack : 0;
}

uint64_t VulkanContext::device_bytes_left() const {
  const auto heap_of = [this](VulkanMemoryKind kind) {
    const int type = MemoryType(kind, std::numeric_limits<uint32_t>::max());
    return type < 0 ? -1 : static_cast<int>(facts_.memory.memoryTypes[type].heapIndex);
  };
  const int own = heap_of(VulkanMemoryKind::kDevice), other = heap_of(VulkanMemoryKind::kOther);
  uint64_t left = own < 0 ? 0 : facts_.heap_left[own];
  if (unified_ && other >= 0 && other != own) left += facts_.heap_left[other];
  return left;
}

VkResult VulkanContext::AllocateCommands(VkCommandBufferLevel level, VkCommandBuffer* out) {
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = level;
  allocate.commandBufferCount = 1;
  return vk_.AllocateCommandBuffers(device_, &allocate, out);
}

void VulkanContext::KernelBarrier(VkCommandBuffer commands) const {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  vk_.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void VulkanContext::FullBarrier(VkCommandBuffer commands) const {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags kStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  vk_.CmdPipelineBarrier(commands, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void VulkanContext::HostBarrier(VkCommandBuffer commands) const {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
  vk_.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

VkResult VulkanContext::Submit(VkCommandBuffer commands, VkFence fence) {
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  return vk_.QueueSubmit(queue_, 1, &submit, fence);
}

VkResult VulkanContext::Wait(VkFence fence) {
  if (instance_ == nullptr) return VK_ERROR_DEVICE_LOST;               // abandoned
  const bool is_program = facts_.type == VK_PHYSICAL_DEVICE_TYPE_CPU;  // slow at times, but at work
  const VkResult result = vk_.WaitForFences(
      device_, 1, &fence, VK_TRUE, is_program ? std::numeric_limits<uint64_t>::max() : kLongestWaitNs);
  if (result == VK_TIMEOUT) {
    Abandon();
    return result;
  }
  // Without the wait the work may still run, on memory that callers free next.
  if (result != VK_SUCCESS) vk_.DeviceWaitIdle(device_);
  const VkResult reset = vk_.ResetFences(device_, 1, &fence);
  return result == VK_SUCCESS ? reset : result;
}

namespace {

template <typename Result, typename... Parameters>
void DoNothing(Result(VKAPI_PTR** function)(Parameters...)) {
  *function = [](Parameters...) { return Result(); };
}

}  // namespace

// What runs may never end, and uses what it was given: nothing of that is given back, and nobody waits.
void VulkanContext::Abandon() {
  lost_ = true;
  DoNothing(&vk_.DeviceWaitIdle);
  DoNothing(&vk_.DestroyBuffer);
  DoNothing(&vk_.FreeMemory);
  DoNothing(&vk_.DestroyFence);
  DoNothing(&vk_.DestroyCommandPool);
  DoNothing(&vk_.DestroyQueryPool);
  DoNothing(&vk_.DestroyPipeline);
  DoNothing(&vk_.DestroyPipelineLayout);
  DoNothing(&vk_.DestroyPipelineCache);
  DoNothing(&vk_.DestroyShaderModule);
  DoNothing(&vk_.DestroyDevice);
  [[maybe_unused]] const VulkanInstance* left = instance_.release();
}

VkResult VulkanContext::Run(VkCommandBuffer commands) {
  const VkResult result = Submit(commands, fence_);
  return result == VK_SUCCESS ? Wait(fence_) : result;
}

DeviceResult VulkanContext::Fail(VkResult result, const char* what) {
  last_result_ = result;
  last_what_ = what;
  last_limit_ = 0;
  switch (result) {
    case VK_TIMEOUT:
    case VK_ERROR_DEVICE_LOST:
      lost_ = true;
      return DeviceResult::kLost;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return DeviceResult::kOutOfMemory;
    default:
      return DeviceResult::kFailed;
  }
}

DeviceResult VulkanContext::FailAllocation(VkResult result, uint64_t bytes) {
  const DeviceResult failed = Fail(result, "to take device memory");
  if (bytes > max_buffer_bytes()) last_limit_ = facts_.info.max_allocation_bytes;
  return failed;
}

std::string VulkanContext::last_error() const {
  if (last_what_ == nullptr) return "";
  std::string text = std::string(last_what_) + ": " + ResultName(last_result_);
  if (last_result_ == VK_TIMEOUT)
    text += " (no answer within " + std::to_string(kLongestWaitNs / 1'000'000'000) + " s)";
  if (last_limit_ != 0) text += " (maxMemoryAllocationSize is " + std::to_string(last_limit_) + " bytes)";
  return text;
}

}  // namespace qrt
