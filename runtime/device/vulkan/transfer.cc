#include "runtime/device/vulkan/transfer.h"

#include <algorithm>
#include <cstring>

namespace qrt {
namespace {

constexpr uint64_t kHalfBytes = uint64_t{8} << 20;
// Bytes of memory that the host reads past its caches that are not worth a submission. (Not measured: such a
// device was not at hand.)
constexpr uint64_t kReadAnyway = 4096;

}  // namespace

VulkanTransfer::~VulkanTransfer() {
  FinishAll();
  for (Half& half : halves_) {
    if (half.fence != VK_NULL_HANDLE) context_.vk().DestroyFence(context_.device(), half.fence, nullptr);
  }
}

VkResult VulkanTransfer::Init() {
  if (context_.reads_in_place()) return VK_SUCCESS;
  VkResult result = staging_.Allocate(&context_, VulkanMemoryKind::kHost, kHalfBytes * halves_.size());
  for (Half& half : halves_) {
    if (result != VK_SUCCESS) return result;
    result = context_.AllocateCommands(VK_COMMAND_BUFFER_LEVEL_PRIMARY, &half.commands);
    if (result != VK_SUCCESS) return result;
    VkFenceCreateInfo create{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    result = context_.vk().CreateFence(context_.device(), &create, nullptr, &half.fence);
    if (result != VK_SUCCESS) half.fence = VK_NULL_HANDLE;
  }
  return result;
}

VkResult VulkanTransfer::Begin(Half& half) {
  const VkResult result = Finish(half);
  if (result != VK_SUCCESS) return result;
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return context_.vk().BeginCommandBuffer(half.commands, &begin);
}

VkResult VulkanTransfer::Submit(Half& half) {
  VkResult result = context_.vk().EndCommandBuffer(half.commands);
  if (result == VK_SUCCESS) result = context_.Submit(half.commands, half.fence);
  half.busy = result == VK_SUCCESS;
  return result;
}

VkResult VulkanTransfer::Finish(Half& half) {
  if (!half.busy) return VK_SUCCESS;
  half.busy = false;
  return context_.Wait(half.fence);
}

VkResult VulkanTransfer::FinishAll() {
  VkResult result = VK_SUCCESS;
  for (Half& half : halves_) {
    const VkResult finished = Finish(half);
    if (result == VK_SUCCESS) result = finished;
  }
  return result;
}

VkResult VulkanTransfer::Write(const VulkanBuffer& to, uint64_t offset, const uint8_t* from, uint64_t bytes,
                               const std::function<bool(uint64_t)>& done) {
  size_t next = 0;
  for (uint64_t at = 0; at < bytes; next ^= 1) {
    const uint64_t n = std::min(kHalfBytes, bytes - at);
    if (to.mapped() != nullptr) {
      std::memcpy(to.mapped() + offset + at, from + at, n);
    } else {
      Half& half = halves_[next];
      VkResult result = Begin(half);  // waits for what it last carried
      if (result != VK_SUCCESS) {
        FinishAll();  // the caller may free the buffer
        return result;
      }
      std::memcpy(staging_.mapped() + next * kHalfBytes, from + at, n);
      const VkBufferCopy copy{staging_.offset() + next * kHalfBytes, to.offset() + offset + at, n};
      context_.FullBarrier(half.commands);
      context_.vk().CmdCopyBuffer(half.commands, staging_.buffer(), to.buffer(), 1, &copy);
      result = Submit(half);
      if (result != VK_SUCCESS) {
        FinishAll();
        return result;
      }
    }
    at += n;
    if (done && !done(at)) {
      const VkResult result = FinishAll();
      return result == VK_SUCCESS ? VK_INCOMPLETE : result;
    }
  }
  return FinishAll();
}

VkResult VulkanTransfer::Read(const VulkanBuffer& from, uint64_t offset, uint8_t* to, uint64_t bytes) {
  const bool in_place = from.cached() || bytes <= kReadAnyway || staging_.bytes() == 0;
  if (from.mapped() != nullptr && in_place) {
    std::memcpy(to, from.mapped() + offset, bytes);
    return VK_SUCCESS;
  }
  Half& half = halves_[0];
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t n = std::min(kHalfBytes, bytes - at);
    VkResult result = Begin(half);
    if (result != VK_SUCCESS) return result;
    const VkBufferCopy copy{from.offset() + offset + at, staging_.offset(), n};
    context_.FullBarrier(half.commands);
    context_.vk().CmdCopyBuffer(half.commands, from.buffer(), staging_.buffer(), 1, &copy);
    context_.HostBarrier(half.commands);
    result = Submit(half);
    if (result == VK_SUCCESS) result = Finish(half);
    if (result != VK_SUCCESS) return result;
    std::memcpy(to + at, staging_.mapped(), n);
    at += n;
  }
  return VK_SUCCESS;
}

VkResult VulkanTransfer::Zero(const VulkanBuffer& buffer) {
  if (buffer.mapped() != nullptr) {
    std::memset(buffer.mapped(), 0, buffer.bytes());
    return VK_SUCCESS;
  }
  Half& half = halves_[0];
  VkResult result = Begin(half);
  if (result != VK_SUCCESS) return result;
  context_.FullBarrier(half.commands);
  // Whole words: buffers have room behind their bytes.
  context_.vk().CmdFillBuffer(half.commands, buffer.buffer(), buffer.offset(), (buffer.bytes() + 3) / 4 * 4,
                              0);
  result = Submit(half);
  return result == VK_SUCCESS ? Finish(half) : result;
}

}  // namespace qrt
