// The Vulkan functions that the runtime calls, in tables filled when an instance and a device are made.
#ifndef RUNTIME_DEVICE_VULKAN_FUNCTIONS_H_
#define RUNTIME_DEVICE_VULKAN_FUNCTIONS_H_

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include <string>

#include "runtime/device/vulkan/cooperative_matrix.h"
#include "runtime/device/vulkan/vulkan_loader.h"

namespace qrt {

#define QRT_VK_GLOBAL_FUNCTIONS(X) \
  X(CreateInstance)                \
  X(EnumerateInstanceVersion)      \
  X(EnumerateInstanceLayerProperties)

#define QRT_VK_INSTANCE_FUNCTIONS(X)           \
  X(DestroyInstance)                           \
  X(EnumeratePhysicalDevices)                  \
  X(GetPhysicalDeviceProperties2)              \
  X(GetPhysicalDeviceFeatures2)                \
  X(GetPhysicalDeviceMemoryProperties2)        \
  X(GetPhysicalDeviceQueueFamilyProperties)    \
  X(GetPhysicalDeviceExternalBufferProperties) \
  X(EnumerateDeviceExtensionProperties)        \
  X(CreateDevice)                              \
  X(GetDeviceProcAddr)

#define QRT_VK_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice)                 \
  X(GetDeviceQueue)                \
  X(AllocateMemory)                \
  X(FreeMemory)                    \
  X(MapMemory)                     \
  X(CreateBuffer)                  \
  X(DestroyBuffer)                 \
  X(GetBufferMemoryRequirements)   \
  X(BindBufferMemory)              \
  X(GetBufferDeviceAddress)        \
  X(CreateShaderModule)            \
  X(DestroyShaderModule)           \
  X(CreatePipelineLayout)          \
  X(DestroyPipelineLayout)         \
  X(CreateComputePipelines)        \
  X(DestroyPipeline)               \
  X(CreatePipelineCache)           \
  X(DestroyPipelineCache)          \
  X(GetPipelineCacheData)          \
  X(CreateCommandPool)             \
  X(DestroyCommandPool)            \
  X(AllocateCommandBuffers)        \
  X(BeginCommandBuffer)            \
  X(EndCommandBuffer)              \
  X(CmdBindPipeline)               \
  X(CmdPushConstants)              \
  X(CmdDispatch)                   \
  X(CmdPipelineBarrier)            \
  X(CmdCopyBuffer)                 \
  X(CmdFillBuffer)                 \
  X(CmdExecuteCommands)            \
  X(CreateQueryPool)               \
  X(DestroyQueryPool)              \
  X(CmdResetQueryPool)             \
  X(CmdWriteTimestamp)             \
  X(GetQueryPoolResults)           \
  X(CreateFence)                   \
  X(DestroyFence)                  \
  X(ResetFences)                   \
  X(WaitForFences)                 \
  X(QueueSubmit)                   \
  X(DeviceWaitIdle)

// Of extensions: null where the device was made without them.
#define QRT_VK_OPTIONAL_DEVICE_FUNCTIONS(X) X(GetMemoryHostPointerPropertiesEXT)

#define QRT_VK_MEMBER(name) PFN_vk##name name = nullptr;
struct VkGlobalFunctions {
  QRT_VK_GLOBAL_FUNCTIONS(QRT_VK_MEMBER)
};
struct VkInstanceFunctions {
  QRT_VK_INSTANCE_FUNCTIONS(QRT_VK_MEMBER)
  GetCooperativeMatrixProperties GetPhysicalDeviceCooperativeMatrixPropertiesKHR = nullptr;  // may stay so
};
struct VkDeviceFunctions {
  QRT_VK_DEVICE_FUNCTIONS(QRT_VK_MEMBER)
  QRT_VK_OPTIONAL_DEVICE_FUNCTIONS(QRT_VK_MEMBER)
};
#undef QRT_VK_MEMBER

// Each returns the name of the first function that is missing, empty if all are there.
std::string LoadFunctions(VulkanLoader::GetProc get_proc, VkGlobalFunctions* out);
std::string LoadFunctions(VulkanLoader::GetProc get_proc, VkInstance instance, VkInstanceFunctions* out);
std::string LoadFunctions(PFN_vkGetDeviceProcAddr get_proc, VkDevice device, VkDeviceFunctions* out);

// "VK_ERROR_DEVICE_LOST"; of unknown ones the number.
std::string ResultName(VkResult result);

// Q6001 out of memory, Q5010 lost, Q5011 anything else. `what`: what was tried, e.g. "to make a buffer of 16
// bytes".
Status VulkanError(VkResult result, const std::string& what);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_FUNCTIONS_H_
