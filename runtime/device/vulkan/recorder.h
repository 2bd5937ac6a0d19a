// The artifact's programs as command buffers, recorded once.
#ifndef RUNTIME_DEVICE_VULKAN_RECORDER_H_
#define RUNTIME_DEVICE_VULKAN_RECORDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/base/status.h"
#include "runtime/device/gpu/gpu_pieces.h"
#include "runtime/device/vulkan/context.h"
#include "runtime/device/vulkan/kernels.h"

namespace qrt {

// Where the arguments' spaces lie: pieces and the address of each.
struct VulkanSpaces {
  struct Space {
    std::vector<GpuPiece> pieces;
    std::vector<uint64_t> addresses;
  };
  std::array<Space, kGpuSpaces> spaces;

  // What the kernel gets.
  uint64_t Resolve(const GpuArg& arg) const;
};

// A part of a program that may be submitted on its own.
struct VulkanSegment {
  VkCommandBuffer commands;  // secondary
  GpuCost cost;
  size_t begin, end;  // of the program's dispatches
};
using VulkanProgram = std::vector<VulkanSegment>;

// One dispatch, into commands whose pipeline is `bound`; null: none yet.
void RecordDispatch(VulkanContext& context, const GpuCode& code, const VulkanKernels& kernels,
                    const VulkanSpaces& spaces, const GpuDispatch& d, VkCommandBuffer commands,
                    VkPipeline* bound);

// Cuts the dispatches into at most `max_segments` of about the same cost. With 1, which is how whatever steps
// of a chain run is recorded, a submission may hold them more than once. Errors: Q5010, Q5011, Q6001.
Status RecordProgram(VulkanContext& context, const GpuCode& code, const VulkanKernels& kernels,
                     const VulkanSpaces& spaces, const std::vector<GpuDispatch>& dispatches,
                     size_t max_segments, VulkanProgram* out);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_RECORDER_H_
