// The artifact's kernels as pipelines.
#ifndef RUNTIME_DEVICE_VULKAN_KERNELS_H_
#define RUNTIME_DEVICE_VULKAN_KERNELS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/base/status.h"
#include "runtime/device/vulkan/context.h"
#include "runtime/device/vulkan/pipeline_cache.h"

namespace qrt {

class VulkanKernels {
 public:
  explicit VulkanKernels(VulkanContext& context) : context_(context) {}
  ~VulkanKernels();
  VulkanKernels(const VulkanKernels&) = delete;
  VulkanKernels& operator=(const VulkanKernels&) = delete;

  // Makes those kernels that some dispatch uses. `subgroup_size`: what the code was built for; 0: any. A bad
  // cache file is ignored and said to `log`. Errors: Q5010, Q5011, Q5015 (a kernel is beyond the device's
  // limits), Q6001.
  Status Init(const GpuCode& code, uint32_t subgroup_size, const PipelineCacheFile& cache,
              const VulkanInstance::Log& log);

  VkPipeline pipeline(uint32_t kernel) const { return pipelines_[kernel]; }
  VkPipelineLayout layout(uint32_t n_args) const { return layouts_[n_args]; }

 private:
  Status CheckLimits(const GpuCode& code, uint32_t subgroup_size) const;
  // Whether the device has several sizes of subgroups and must be told the code's.
  bool AsksForSize(uint32_t subgroup_size) const;
  Status MakeCache(const std::vector<uint8_t>& data);
  Status MakeLayout(uint32_t n_args);
  Status MakePipeline(const GpuKernel& kernel, uint32_t subgroup_size, VkPipeline* out);
  // Empty if the driver does not give it.
  std::vector<uint8_t> CacheData() const;

  VulkanContext& context_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::array<VkPipelineLayout, kMaxGpuArgs + 1> layouts_{};
  std::vector<VkPipeline> pipelines_;  // of kernels that nothing uses: VK_NULL_HANDLE
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_KERNELS_H_
