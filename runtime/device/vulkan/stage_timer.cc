#include "runtime/device/vulkan/stage_timer.h"

#include <algorithm>

namespace qrt {

Result<std::unique_ptr<VulkanStageTimer>> VulkanStageTimer::Create(VulkanContext& context,
                                                                   const Artifact& artifact, size_t place) {
  Result<GpuCode> code = GpuCode::Read(artifact, place, GpuTarget::kVulkan);
  if (!code.ok()) return code.status();
  std::unique_ptr<VulkanStageTimer> timer(
      new VulkanStageTimer(context, std::move(*code), artifact.manifest()));
  // A program and a choice behind it, as often as a chain has steps. Each segment adds a begin.
  size_t program = 0, choice = 0;
  for (size_t list = 0; list < timer->stages_.lists(); ++list) {
    size_t& most = list < timer->code_.programs.size() ? program : choice;
    most = std::max(most, 2 * timer->Dispatches(list).size());
  }
  const size_t most = kMostChainSteps * (program + choice);
  VkQueryPoolCreateInfo create{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  create.queryType = VK_QUERY_TYPE_TIMESTAMP;
  create.queryCount = static_cast<uint32_t>(std::max<size_t>(most, 1));
  const VkResult result = context.vk().CreateQueryPool(context.device(), &create, nullptr, &timer->pool_);
  if (result != VK_SUCCESS) {
    timer->pool_ = VK_NULL_HANDLE;
    return VulkanError(result, "to make timestamps");
  }
  timer->ends_.reserve(most);
  timer->values_.resize(most);
  return timer;
}

VulkanStageTimer::~VulkanStageTimer() {
  if (pool_ != VK_NULL_HANDLE) context_.vk().DestroyQueryPool(context_.device(), pool_, nullptr);
}

const std::vector<GpuDispatch>& VulkanStageTimer::Dispatches(size_t list) const {
  const size_t programs = code_.programs.size();
  return list < programs ? code_.programs[list].dispatches
                         : code_.sample_programs[list - programs].dispatches;
}

void VulkanStageTimer::Begin() {
  ends_.clear();
}

void VulkanStageTimer::Record(const VulkanKernels& kernels, const VulkanSpaces& spaces, size_t list,
                              const VulkanSegment& segment, VkCommandBuffer commands) {
  const VkDeviceFunctions& vk = context_.vk();
  const auto stamp = [&](uint32_t end) {
    const uint32_t place = static_cast<uint32_t>(ends_.size());
    ends_.push_back(end);
    vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, place);
  };
  vk.CmdResetQueryPool(commands, pool_, static_cast<uint32_t>(ends_.size()),
                       static_cast<uint32_t>(segment.end - segment.begin + 1));
  stamp(kBegin);
  VkPipeline bound = VK_NULL_HANDLE;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    RecordDispatch(context_, code_, kernels, spaces, Dispatches(list)[i], commands, &bound);
    stamp(stages_.Of(list)[i]);
  }
}

VkResult VulkanStageTimer::Collect() {
  if (ends_.empty()) return VK_SUCCESS;
  const VkResult result = context_.vk().GetQueryPoolResults(
      context_.device(), pool_, 0, static_cast<uint32_t>(ends_.size()), ends_.size() * sizeof(uint64_t),
      values_.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  if (result != VK_SUCCESS) return result;
  const uint32_t bits = context_.facts().timestamp_bits;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  for (size_t i = 1; i < ends_.size(); ++i) {
    if (ends_[i] == kBegin) continue;
    const uint64_t ticks = (values_[i] - values_[i - 1]) & mask;
    stages_.Add(ends_[i], static_cast<double>(ticks) * context_.facts().timestamp_seconds);
  }
  return VK_SUCCESS;
}

}  // namespace qrt
