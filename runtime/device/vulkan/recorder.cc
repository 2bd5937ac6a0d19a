#include "runtime/device/vulkan/recorder.h"

namespace qrt {
namespace {

// For cutting only: operations against bytes as on a device that is balanced for decoding.
double Weight(const GpuCost& cost) {
  return 1 + static_cast<double>(cost.read_bytes) + static_cast<double>(cost.write_bytes) +
         static_cast<double>(cost.ops) / 8;
}

}  // namespace

void RecordDispatch(VulkanContext& context, const GpuCode& code, const VulkanKernels& kernels,
                    const VulkanSpaces& spaces, const GpuDispatch& d, VkCommandBuffer commands,
                    VkPipeline* bound) {
  const VkDeviceFunctions& vk = context.vk();
  const GpuKernel& kernel = code.kernels[d.kernel];
  if (d.barrier) context.KernelBarrier(commands);
  const VkPipeline pipeline = kernels.pipeline(d.kernel);
  if (*bound != pipeline) vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  *bound = pipeline;
  std::array<uint64_t, kMaxGpuArgs> values;
  for (size_t i = 0; i < d.args.size(); ++i) values[i] = spaces.Resolve(d.args[i]);
  if (kernel.n_args != 0) {
    vk.CmdPushConstants(commands, kernels.layout(kernel.n_args), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        8 * kernel.n_args, values.data());
  }
  vk.CmdDispatch(commands, d.grid[0], d.grid[1], d.grid[2]);
}

uint64_t VulkanSpaces::Resolve(const GpuArg& arg) const {
  if (arg.space == GpuSpace::kImmediate) return arg.value;
  const Space& space = spaces[static_cast<size_t>(arg.space)];
  const size_t piece = FindPiece(space.pieces, arg.value);
  return space.addresses[piece] + (arg.value - space.pieces[piece].begin);
}

Status RecordProgram(VulkanContext& context, const GpuCode& code, const VulkanKernels& kernels,
                     const VulkanSpaces& spaces, const std::vector<GpuDispatch>& dispatches,
                     size_t max_segments, VulkanProgram* out) {
  double total = 0;
  for (const GpuDispatch& d : dispatches) total += Weight(d.cost);
  // Two neighbours weigh more than one share, so there are not more segments than asked for.
  const double share = max_segments == 1 ? total : 2 * total / static_cast<double>(max_segments);
  VkCommandBufferInheritanceInfo inheritance{VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.pInheritanceInfo = &inheritance;
  if (max_segments == 1) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  for (size_t at = 0; at < dispatches.size();) {
    VulkanSegment segment{VK_NULL_HANDLE, {}, at, at};
    VkResult result = context.AllocateCommands(VK_COMMAND_BUFFER_LEVEL_SECONDARY, &segment.commands);
    if (result == VK_SUCCESS) result = context.vk().BeginCommandBuffer(segment.commands, &begin);
    if (result != VK_SUCCESS) return VulkanError(result, "to record a program");
    VkPipeline bound = VK_NULL_HANDLE;
    double weight = 0;
    // A segment ends before the dispatch that would make it larger than its share.
    do {
      RecordDispatch(context, code, kernels, spaces, dispatches[at], segment.commands, &bound);
      segment.cost += dispatches[at].cost;
      weight += Weight(dispatches[at].cost);
      ++at;
    } while (at < dispatches.size() && (max_segments == 1 || weight + Weight(dispatches[at].cost) <= share));
    segment.end = at;
    result = context.vk().EndCommandBuffer(segment.commands);
    if (result != VK_SUCCESS) return VulkanError(result, "to record a program");
    out->push_back(segment);
  }
  return Status();
}

}  // namespace qrt
