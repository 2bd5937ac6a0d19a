// What a Vulkan driver's compiler makes of an artifact's kernels, made as the runtime makes them. The device
// need not be there: Mesa's RADV compiles for any AMD chip that RADV_FORCE_FAMILY names.
//   device_vulkan_kernels ARTIFACT [VARIANT [PREFIX [DIR]]]
// VARIANT: of the artifact's code, as qcc inspect names it; "": what the runtime would choose. PREFIX: of the
// names of kernels that are shown; DIR: gets a file with the driver's last form of each.
// Prints a table of what the driver says of each kernel. Exit code: 2 where the artifact, the driver or the
// device cannot be used, 1 where a kernel does not compile.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/gpu_code.h"
#include "runtime/device/vulkan/context.h"
#include "runtime/device/vulkan/facts.h"
#include "runtime/device/vulkan/kernels.h"
#include "runtime/device/vulkan/variant.h"

namespace qrt {
namespace {

// Functions of Vulkan say not for whom they are called: what lies between the runtime and the driver is one
// for the process.
struct Layer {
  PFN_vkGetInstanceProcAddr instance_proc = nullptr;
  PFN_vkGetDeviceProcAddr device_proc = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties extensions = nullptr;
  PFN_vkCreateComputePipelines create_pipelines = nullptr;
  PFN_vkGetPipelineExecutableStatisticsKHR statistics = nullptr;
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR forms = nullptr;
  bool tells = false;  // the device has VK_KHR_pipeline_executable_properties
  bool want_text = false;
  struct Kernel {
    std::string entry, text;
    std::vector<std::pair<std::string, double>> numbers;
  };
  std::vector<Kernel> kernels;
};
Layer g_layer;

constexpr char kTells[] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;

double Number(const VkPipelineExecutableStatisticKHR& s) {
  switch (s.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return s.value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<double>(s.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return static_cast<double>(s.value.u64);
    default:
      return s.value.f64;
  }
}

// Of the driver's forms of a kernel, which it goes through one after the other.
std::string LastForm(VkDevice device, const VkPipelineExecutableInfoKHR& info) {
  uint32_t count = 0;
  g_layer.forms(device, &info, &count, nullptr);
  if (count == 0) return {};
  std::vector<VkPipelineExecutableInternalRepresentationKHR> forms(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR});
  g_layer.forms(device, &info, &count, forms.data());
  std::string text(forms.back().dataSize, '\0');
  forms.back().pData = text.data();
  for (uint32_t i = 0; i + 1 < count; ++i) forms[i].dataSize = 0;
  g_layer.forms(device, &info, &count, forms.data());
  text.resize(std::strlen(text.c_str()));
  return text;
}

void Note(VkDevice device, VkPipeline pipeline, const char* entry) {
  Layer::Kernel kernel{entry, {}, {}};
  VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
  info.pipeline = pipeline;
  uint32_t count = 0;
  g_layer.statistics(device, &info, &count, nullptr);
  std::vector<VkPipelineExecutableStatisticKHR> numbers(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
  g_layer.statistics(device, &info, &count, numbers.data());
  for (const auto& s : numbers) kernel.numbers.emplace_back(s.name, Number(s));
  if (g_layer.want_text) kernel.text = LastForm(device, info);
  g_layer.kernels.push_back(std::move(kernel));
}

VKAPI_ATTR VkResult VKAPI_CALL CreatePipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                               const VkComputePipelineCreateInfo* infos,
                                               const VkAllocationCallbacks* allocator, VkPipeline* out) {
  std::vector<VkComputePipelineCreateInfo> told(infos, infos + count);
  for (auto& info : told) {
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (g_layer.want_text) info.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  }
  const VkResult result = g_layer.create_pipelines(device, cache, count, told.data(), allocator, out);
  for (uint32_t i = 0; i < count && result == VK_SUCCESS; ++i) Note(device, out[i], infos[i].stage.pName);
  return result;
}

// What a driver without its device cannot make is not asked of it: nothing runs.
template <class Info, class Handle>
VKAPI_ATTR VkResult VKAPI_CALL MakeNothing(VkDevice, const Info*, const VkAllocationCallbacks*, Handle* out) {
  *out = VK_NULL_HANDLE;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL WaitForNothing(VkDevice) {
  return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL DeviceProc(VkDevice device, const char* name) {
  const PFN_vkVoidFunction real = g_layer.device_proc(device, name);
  if (std::strcmp(name, "vkCreateCommandPool") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(MakeNothing<VkCommandPoolCreateInfo, VkCommandPool>);
  if (std::strcmp(name, "vkDeviceWaitIdle") == 0) return reinterpret_cast<PFN_vkVoidFunction>(WaitForNothing);
  if (std::strcmp(name, "vkCreateFence") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(MakeNothing<VkFenceCreateInfo, VkFence>);
  if (std::strcmp(name, "vkCreateComputePipelines") != 0) return real;
  g_layer.create_pipelines = reinterpret_cast<PFN_vkCreateComputePipelines>(real);
  const auto get = [&](const char* what) { return g_layer.device_proc(device, what); };
  g_layer.statistics =
      reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(get("vkGetPipelineExecutableStatisticsKHR"));
  g_layer.forms = reinterpret_cast<PFN_vkGetPipelineExecutableInternalRepresentationsKHR>(
      get("vkGetPipelineExecutableInternalRepresentationsKHR"));
  return g_layer.tells ? reinterpret_cast<PFN_vkVoidFunction>(CreatePipelines) : real;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* out) {
  uint32_t count = 0;
  g_layer.extensions(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> known(count);
  g_layer.extensions(physical, nullptr, &count, known.data());
  g_layer.tells = std::any_of(known.begin(), known.end(),
                              [](const auto& e) { return std::strcmp(e.extensionName, kTells) == 0; });
  std::vector<const char*> names(info->ppEnabledExtensionNames,
                                 info->ppEnabledExtensionNames + info->enabledExtensionCount);
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  VkDeviceCreateInfo told = *info;
  if (g_layer.tells) {
    names.push_back(kTells);
    feature.pipelineExecutableInfo = VK_TRUE;
    feature.pNext = const_cast<void*>(info->pNext);
    told.pNext = &feature;
    told.enabledExtensionCount = static_cast<uint32_t>(names.size());
    told.ppEnabledExtensionNames = names.data();
  }
  return g_layer.create_device(physical, &told, allocator, out);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL InstanceProc(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction real = g_layer.instance_proc(instance, name);
  if (real == nullptr) return real;
  if (std::strcmp(name, "vkCreateDevice") == 0) {
    g_layer.create_device = reinterpret_cast<PFN_vkCreateDevice>(real);
    g_layer.extensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(
        g_layer.instance_proc(instance, "vkEnumerateDeviceExtensionProperties"));
    return reinterpret_cast<PFN_vkVoidFunction>(CreateDevice);
  }
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    g_layer.device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(DeviceProc);
  }
  return real;
}

[[noreturn]] void Refuse(const Status& status) {
  std::fprintf(stderr, "device_vulkan_kernels: %s\n", status.ToString().c_str());
  std::exit(2);
}
template <class T>
T Must(Result<T> result) {
  if (!result.ok()) Refuse(result.status());
  return std::move(*result);
}

// A driver says the same of every kernel. False: a file could not be written.
bool Show(const char* prefix, const char* folder) {
  for (const auto& [name, number] : g_layer.kernels.front().numbers) std::printf("%s | ", name.c_str());
  std::printf("Kernel\n");
  for (const Layer::Kernel& kernel : g_layer.kernels) {
    if (kernel.entry.rfind(prefix, 0) != 0) continue;
    for (const auto& [name, number] : kernel.numbers)
      std::printf("%*.0f | ", static_cast<int>(name.size()), number);
    std::printf("%s\n", kernel.entry.c_str());
    if (*folder == '\0') continue;
    const std::string path = std::string(folder) + "/" + kernel.entry.substr(0, 200);
    std::ofstream file(path);
    if (!(file << kernel.text).flush()) {
      std::fprintf(stderr, "device_vulkan_kernels: '%s' cannot be written\n", path.c_str());
      return false;
    }
  }
  return true;
}

int Run(const char* path, const char* name, const char* prefix, const char* folder) {
  g_layer.want_text = *folder != '\0';
  const VulkanLoader real = Must(VulkanLoader::Open());
  g_layer.instance_proc = reinterpret_cast<PFN_vkGetInstanceProcAddr>(real.get_proc());
  const VulkanLoader loader(reinterpret_cast<VulkanLoader::GetProc>(&InstanceProc));
  const std::unique_ptr<Artifact> artifact = Must(Artifact::Open(path));
  std::unique_ptr<VulkanInstance> instance = Must(VulkanInstance::Create(loader, false, {}));
  const VulkanFacts facts = Must(ChosenVulkanFacts(*instance, -1));
  const size_t variant = Must(ChooseVulkanCode(artifact->manifest(), facts.info, name));
  const CodeInfo& info = artifact->manifest().code[variant];
  const GpuCode code = Must(GpuCode::Read(*artifact, variant, GpuTarget::kVulkan));
  const std::unique_ptr<VulkanContext> context =
      Must(VulkanContext::Create(std::move(instance), facts, false));
  std::printf("%s, code variant %s\n", facts.info.name.c_str(), info.isa.c_str());
  std::fflush(stdout);
  if (!g_layer.tells) {
    std::fprintf(stderr, "device_vulkan_kernels: the driver has no %s\n", kTells);
    return 2;
  }
  VulkanKernels kernels(*context);
  const PipelineCacheFile no_cache("", facts, artifact->code_hash(variant));
  const Status made = kernels.Init(code, SubgroupSizeOf(info), no_cache, {});
  if (!g_layer.kernels.empty() && !Show(prefix, folder)) return 2;
  if (made.ok()) return 0;
  std::fprintf(stderr, "device_vulkan_kernels: %s\n", made.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace qrt

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    std::fprintf(stderr, "usage: device_vulkan_kernels ARTIFACT [VARIANT [PREFIX [DIR]]]\n");
    return 2;
  }
  const auto argument = [&](int i) { return i < argc ? argv[i] : ""; };
  return qrt::Run(argv[1], argument(2), argument(3), argument(4));
}
