#include "runtime/capi/device_candidates.h"
#include "runtime/capi/kernel_cache.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt::capi {

Result<Candidate> FindVulkan(const Request& request, int index) {
  Result<VulkanLoader> loader = VulkanLoader::Open();
  if (!loader.ok()) return loader.status();
  Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(*loader);
  if (!devices.ok()) return devices.status();
  Result<size_t> place = ChooseVulkanDevice(*devices, index);
  if (!place.ok()) return place.status();
  const VulkanDeviceInfo info = (*devices)[*place];
  const Manifest& manifest = request.artifact.manifest();
  Result<size_t> variant = ChooseVulkanCode(manifest, info, request.variant_name());
  if (!variant.ok()) return variant.status();
  Candidate candidate;
  candidate.variant = *variant;
  candidate.software = info.type == "cpu";
  candidate.why_not = [info, &manifest](size_t other) {
    return ChooseVulkanCode(manifest, info, manifest.code[other].isa).status();
  };
  candidate.make = [request, info, chosen = *variant, loader = *loader] {
    VulkanOptions options;
    options.index = info.index;
    options.max_dispatch_ms = DispatchMsOf(request.options);
    options.pipeline_cache_dir = KernelFolderOf(request);
    options.log = LogOf(request.services);
    options.progress = ProgressOf(request.options);
    Result<std::unique_ptr<Device>> device = CreateVulkanDevice(request.artifact, chosen, options, loader);
    TrimCacheFolder(options.pipeline_cache_dir, kKernelCacheBytes);
    return device;
  };
  return candidate;
}

std::vector<qrt_device_info> ListVulkan() {
  std::vector<qrt_device_info> result;
  Result<VulkanLoader> loader = VulkanLoader::Open();
  Result<std::vector<VulkanDeviceInfo>> devices =
      loader.ok() ? ListVulkanDevices(*loader) : Result<std::vector<VulkanDeviceInfo>>(loader.status());
  if (!devices.ok() || devices->empty()) {
    result.push_back(
        Missing("vulkan", devices.ok() ? "no Vulkan driver finds a device" : devices.status().message()));
    return result;
  }
  for (const VulkanDeviceInfo& device : *devices) {
    qrt_device_info& out = result.emplace_back();
    CopyText(out.id, "vulkan:" + std::to_string(device.index));
    CopyText(out.name, device.name);
    std::string facts = device.type + ", " + device.driver + ", Vulkan " + device.api_version +
                        ", subgroups of " + std::to_string(device.subgroup_min);
    if (device.subgroup_max != device.subgroup_min) facts += " to " + std::to_string(device.subgroup_max);
    if (device.int_dot) facts += ", int8 dot products";
    for (const std::string& shape : device.matrix_shapes) {
      facts += (&shape == device.matrix_shapes.data() ? ", int8 matrices of " : " and ") + shape;
    }
    CopyText(out.facts, facts + ", " + Megabytes(device.memory_bytes));
    out.usable = device.usable;
    CopyText(out.why_not, device.why_not);
    out.memory_bytes = device.memory_bytes;
  }
  return result;
}

std::string WhyNotVulkan(const Artifact& artifact, const CodeInfo& code) {
  Result<VulkanLoader> loader = VulkanLoader::Open();
  if (!loader.ok()) return loader.status().message();
  const Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(*loader);
  if (!devices.ok()) return devices.status().message();
  std::string why;
  for (const VulkanDeviceInfo& device : *devices) {
    if (!why.empty()) why += "; ";
    const Result<size_t> found = device.usable
                                     ? ChooseVulkanCode(artifact.manifest(), device, code.isa)
                                     : Result<size_t>(Status(Code::kDeviceUnsupported, 5013, device.why_not));
    if (found.ok()) return "";
    why += "vulkan:" + std::to_string(device.index) + ": " + found.status().message();
  }
  return why.empty() ? "there is no Vulkan device" : why;
}

}  // namespace qrt::capi
