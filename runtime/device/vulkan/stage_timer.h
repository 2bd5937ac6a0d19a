// How long each stage of a device's programs takes, by timestamps of its queue.
#ifndef RUNTIME_DEVICE_VULKAN_STAGE_TIMER_H_
#define RUNTIME_DEVICE_VULKAN_STAGE_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/gpu_code.h"
#include "runtime/artifact/manifest.h"
#include "runtime/base/status.h"
#include "runtime/device/gpu/gpu_stages.h"
#include "runtime/device/vulkan/context.h"
#include "runtime/device/vulkan/kernels.h"
#include "runtime/device/vulkan/recorder.h"

namespace qrt {

// Records dispatches into a submission with a timestamp behind each: one's time is from when all before it
// were over to when it was. The context must outlive it.
class VulkanStageTimer {
 public:
  // Of the artifact's code at `place`. The queue must have timestamps. Errors: those of GpuCode::Read; Q5010,
  // Q5011, Q6001.
  static Result<std::unique_ptr<VulkanStageTimer>> Create(VulkanContext& context, const Artifact& artifact,
                                                          size_t place);
  ~VulkanStageTimer();
  VulkanStageTimer(const VulkanStageTimer&) = delete;
  VulkanStageTimer& operator=(const VulkanStageTimer&) = delete;

  const GpuStages& stages() const { return stages_; }
  void Restart() { stages_.Restart(); }
  // A submission begins to be recorded.
  void Begin();
  // Dispatches of a list of GpuStages, behind what the submission already has.
  void Record(const VulkanKernels& kernels, const VulkanSpaces& spaces, size_t list,
              const VulkanSegment& segment, VkCommandBuffer commands);
  // The submission is over.
  VkResult Collect();

 private:
  VulkanStageTimer(VulkanContext& context, GpuCode code, const Manifest& manifest)
      : context_(context), code_(std::move(code)), stages_(code_, manifest) {}
  const std::vector<GpuDispatch>& Dispatches(size_t list) const;

  // A timestamp of the submission: the end of a stage's run, or a begin.
  static constexpr uint32_t kBegin = ~0u;

  VulkanContext& context_;
  const GpuCode code_;
  GpuStages stages_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  std::vector<uint32_t> ends_;    // by timestamp: a stage, or kBegin
  std::vector<uint64_t> values_;  // as the device gives them
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_STAGE_TIMER_H_
