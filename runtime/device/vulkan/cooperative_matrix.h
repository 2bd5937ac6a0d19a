// VK_KHR_cooperative_matrix, which the Vulkan headers of Debian 12 (1.3.239) do not have: names and values
// are those of the Vulkan specification, for the structures that the runtime uses.
#ifndef RUNTIME_DEVICE_VULKAN_COOPERATIVE_MATRIX_H_
#define RUNTIME_DEVICE_VULKAN_COOPERATIVE_MATRIX_H_

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include <cstdint>

namespace qrt {

inline constexpr char kCooperativeMatrixExtension[] = "VK_KHR_cooperative_matrix";

struct CooperativeMatrixFeatures {
  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE;
  VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

// Of a device.
struct CooperativeMatrixStages {
  VkStructureType sType = static_cast<VkStructureType>(1000506002);
  void* pNext = nullptr;
  VkShaderStageFlags cooperativeMatrixSupportedStages = 0;
};

struct CooperativeMatrixProperties {
  enum class Component : int32_t { kSint8 = 3, kSint32 = 5 };
  enum class Scope : int32_t { kSubgroup = 3 };
  VkStructureType sType = static_cast<VkStructureType>(1000506001);
  void* pNext = nullptr;
  uint32_t MSize = 0, NSize = 0, KSize = 0;
  Component AType{}, BType{}, CType{}, ResultType{};
  VkBool32 saturatingAccumulation = VK_FALSE;
  Scope scope{};
};

using GetCooperativeMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*,
                                                            CooperativeMatrixProperties*);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_COOPERATIVE_MATRIX_H_
