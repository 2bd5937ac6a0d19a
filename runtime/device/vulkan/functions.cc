#include "runtime/device/vulkan/functions.h"

namespace qrt {

std::string LoadFunctions(VulkanLoader::GetProc get_proc, VkGlobalFunctions* out) {
  std::string missing;
#define QRT_VK_LOAD(name)                                                    \
  out->name = reinterpret_cast<PFN_vk##name>(get_proc(nullptr, "vk" #name)); \
  if (out->name == nullptr && missing.empty()) missing = "vk" #name;
  QRT_VK_GLOBAL_FUNCTIONS(QRT_VK_LOAD)
#undef QRT_VK_LOAD
  return missing;
}

std::string LoadFunctions(VulkanLoader::GetProc get_proc, VkInstance instance, VkInstanceFunctions* out) {
  std::string missing;
#define QRT_VK_LOAD(name)                                                     \
  out->name = reinterpret_cast<PFN_vk##name>(get_proc(instance, "vk" #name)); \
  if (out->name == nullptr && missing.empty()) missing = "vk" #name;
  QRT_VK_INSTANCE_FUNCTIONS(QRT_VK_LOAD)
#undef QRT_VK_LOAD
  out->GetPhysicalDeviceCooperativeMatrixPropertiesKHR = reinterpret_cast<GetCooperativeMatrixProperties>(
      get_proc(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  return missing;
}

std::string LoadFunctions(PFN_vkGetDeviceProcAddr get_proc, VkDevice device, VkDeviceFunctions* out) {
  std::string missing;
#define QRT_VK_LOAD(name)                                                   \
  out->name = reinterpret_cast<PFN_vk##name>(get_proc(device, "vk" #name)); \
  if (out->name == nullptr && missing.empty()) missing = "vk" #name;
  QRT_VK_DEVICE_FUNCTIONS(QRT_VK_LOAD)
#undef QRT_VK_LOAD
#define QRT_VK_LOAD(name) out->name = reinterpret_cast<PFN_vk##name>(get_proc(device, "vk" #name));
  QRT_VK_OPTIONAL_DEVICE_FUNCTIONS(QRT_VK_LOAD)
#undef QRT_VK_LOAD
  return missing;
}

std::string ResultName(VkResult result) {
  switch (result) {
#define QRT_VK_NAME(name) \
  case name:              \
    return #name;
    QRT_VK_NAME(VK_SUCCESS)
    QRT_VK_NAME(VK_TIMEOUT)
    QRT_VK_NAME(VK_INCOMPLETE)
    QRT_VK_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    QRT_VK_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    QRT_VK_NAME(VK_ERROR_INITIALIZATION_FAILED)
    QRT_VK_NAME(VK_ERROR_DEVICE_LOST)
    QRT_VK_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    QRT_VK_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    QRT_VK_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    QRT_VK_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    QRT_VK_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    QRT_VK_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    QRT_VK_NAME(VK_ERROR_INVALID_SHADER_NV)
    QRT_VK_NAME(VK_ERROR_UNKNOWN)
#undef QRT_VK_NAME
    default:
      return "VkResult " + std::to_string(static_cast<int>(result));
  }
}

Status VulkanError(VkResult result, const std::string& what) {
  const std::string found = ResultName(result);
  switch (result) {
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return Status(Code::kOutOfMemory, 6001, "the GPU's driver ran out of memory " + what + ": " + found,
                    "device vulkan", "free memory of the device, or use a smaller model");
    case VK_TIMEOUT:
    case VK_ERROR_DEVICE_LOST:
      return Status(Code::kDeviceLost, 5010, "the GPU was lost " + what + ": " + found, "device vulkan",
                    "make another engine");
    default:
      return Status(Code::kDeviceFailed, 5011, "the GPU's driver failed " + what + ": " + found,
                    "device vulkan", "update the driver, or use another device");
  }
}

}  // namespace qrt
