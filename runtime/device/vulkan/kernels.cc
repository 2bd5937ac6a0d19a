#include "runtime/device/vulkan/kernels.h"

#include <algorithm>
#include <string>

namespace qrt {
namespace {

constexpr uint32_t kSpirv15 = 0x00010500;  // the newest that Vulkan 1.2 takes

Status BeyondLimits(const std::string& what, uint64_t found, uint64_t limit) {
  return Status(Code::kDeviceUnsupported, 5015,
                what + " is " + std::to_string(found) + ", the device allows " + std::to_string(limit),
                "device vulkan", "use another device, or another code variant");
}

}  // namespace

VulkanKernels::~VulkanKernels() {
  const VkDeviceFunctions& vk = context_.vk();
  for (VkPipeline p : pipelines_) {
    if (p != VK_NULL_HANDLE) vk.DestroyPipeline(context_.device(), p, nullptr);
  }
  for (VkPipelineLayout l : layouts_) {
    if (l != VK_NULL_HANDLE) vk.DestroyPipelineLayout(context_.device(), l, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk.DestroyPipelineCache(context_.device(), cache_, nullptr);
}

Status VulkanKernels::Init(const GpuCode& code, uint32_t subgroup_size, const PipelineCacheFile& cache,
                           const VulkanInstance::Log& log) {
  QRT_RETURN_IF_ERROR(CheckLimits(code, subgroup_size));
  std::string problem;
  const std::vector<uint8_t> saved = cache.Load(&problem);
  if (!problem.empty() && log) log(true, problem);
  QRT_RETURN_IF_ERROR(MakeCache(saved));
  std::vector<bool> used(code.kernels.size());
  code.ForEachDispatch([&used](const GpuDispatch& d) { used[d.kernel] = true; });
  pipelines_.assign(code.kernels.size(), VK_NULL_HANDLE);
  for (size_t i = 0; i < code.kernels.size(); ++i) {
    if (!used[i]) continue;
    QRT_RETURN_IF_ERROR(MakeLayout(code.kernels[i].n_args));
    QRT_RETURN_IF_ERROR(MakePipeline(code.kernels[i], subgroup_size, &pipelines_[i]));
  }
  if (cache.path().empty()) return Status();
  const std::vector<uint8_t> data = CacheData();
  if (data.empty() || data == saved) return Status();
  problem = cache.Save(data);
  if (!problem.empty() && log) log(true, "compiled kernels are not kept: " + problem);
  return Status();
}

Status VulkanKernels::CheckLimits(const GpuCode& code, uint32_t subgroup_size) const {
  const VulkanFacts& facts = context_.facts();
  const bool asked = AsksForSize(subgroup_size);
  Status status;
  const auto check = [&status](const GpuKernel& k, const char* what, uint64_t found, uint64_t limit) {
    if (status.ok() && found > limit) {
      status = BeyondLimits("the " + std::string(what) + " of kernel '" + k.name + "'", found, limit);
    }
  };
  code.ForEachDispatch([&](const GpuDispatch& d) {
    const GpuKernel& k = code.kernels[d.kernel];
    check(k, "workgroup", k.workgroup_size, facts.info.max_workgroup);
    if (asked) {
      check(k, "number of subgroups", (k.workgroup_size + subgroup_size - 1) / subgroup_size,
            facts.info.max_workgroup_subgroups);
    }
    check(k, "workgroup memory", k.shared_bytes, facts.info.max_shared_bytes);
    check(k, "push constants", 8 * k.n_args, facts.info.max_push_bytes);
    for (size_t i = 0; i < 3; ++i) check(k, "grid", d.grid[i], facts.max_grid[i]);
    if (facts.api_version < VK_API_VERSION_1_3) check(k, "SPIR-V version", k.spirv[1], kSpirv15);
  });
  return status;
}

bool VulkanKernels::AsksForSize(uint32_t subgroup_size) const {
  const VulkanDeviceInfo& info = context_.facts().info;
  return subgroup_size != 0 && info.subgroup_min != info.subgroup_max;
}

Status VulkanKernels::MakeCache(const std::vector<uint8_t>& data) {
  VkPipelineCacheCreateInfo create{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  create.initialDataSize = data.size();
  create.pInitialData = data.empty() ? nullptr : data.data();
  const VkResult result = context_.vk().CreatePipelineCache(context_.device(), &create, nullptr, &cache_);
  if (result == VK_SUCCESS) return Status();
  cache_ = VK_NULL_HANDLE;
  return VulkanError(result, "to make a pipeline cache");
}

Status VulkanKernels::MakeLayout(uint32_t n_args) {
  if (layouts_[n_args] != VK_NULL_HANDLE) return Status();
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 * n_args};
  VkPipelineLayoutCreateInfo create{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  create.pushConstantRangeCount = n_args == 0 ? 0 : 1;
  create.pPushConstantRanges = &range;
  const VkResult result =
      context_.vk().CreatePipelineLayout(context_.device(), &create, nullptr, &layouts_[n_args]);
  if (result == VK_SUCCESS) return Status();
  layouts_[n_args] = VK_NULL_HANDLE;
  return VulkanError(result, "to make a pipeline layout");
}

Status VulkanKernels::MakePipeline(const GpuKernel& kernel, uint32_t subgroup_size, VkPipeline* out) {
  const VkDeviceFunctions& vk = context_.vk();
  const VulkanFacts& facts = context_.facts();
  VkShaderModuleCreateInfo module{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module.codeSize = kernel.spirv.size_bytes();
  module.pCode = kernel.spirv.data();
  VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  create.layout = layouts_[kernel.n_args];
  create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.pName = kernel.entry.c_str();
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  required.requiredSubgroupSize = subgroup_size;
  if (subgroup_size != 0) {
    if (AsksForSize(subgroup_size)) create.stage.pNext = &required;
    if (facts.full_subgroups && kernel.workgroup_size % subgroup_size == 0) {
      create.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
  }
  VkResult result = vk.CreateShaderModule(context_.device(), &module, nullptr, &create.stage.module);
  if (result == VK_SUCCESS) {
    result = vk.CreateComputePipelines(context_.device(), cache_, 1, &create, nullptr, out);
    vk.DestroyShaderModule(context_.device(), create.stage.module, nullptr);
  }
  if (result == VK_SUCCESS) return Status();
  *out = VK_NULL_HANDLE;
  return VulkanError(result, "to compile the kernel '" + kernel.name + "'");
}

std::vector<uint8_t> VulkanKernels::CacheData() const {
  const VkDeviceFunctions& vk = context_.vk();
  size_t size = 0;
  if (vk.GetPipelineCacheData(context_.device(), cache_, &size, nullptr) != VK_SUCCESS) return {};
  std::vector<uint8_t> data(size);
  if (vk.GetPipelineCacheData(context_.device(), cache_, &size, data.data()) != VK_SUCCESS) return {};
  data.resize(size);
  return data;
}

}  // namespace qrt
