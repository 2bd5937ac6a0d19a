// The way into Vulkan: found when the program runs, so that no build and no machine needs it to be there.
#ifndef RUNTIME_DEVICE_VULKAN_VULKAN_LOADER_H_
#define RUNTIME_DEVICE_VULKAN_VULKAN_LOADER_H_

#include <memory>

#include "runtime/base/status.h"

struct VkInstance_T;  // VkInstance, without vulkan.h

namespace qrt {

// Everything else is reached through one function. Cheap to copy; the library stays mapped. Each engine may
// have its own, and tests put faults into one while others work, which is why this is not volk, whose
// functions are globals of the process.
class VulkanLoader {
 public:
  using GetProc = void (*(*)(VkInstance_T*, const char*))();  // PFN_vkGetInstanceProcAddr

  // Opens libvulkan.so.1. Errors: device unsupported Q5012, it is not installed.
  static Result<VulkanLoader> Open();
  // For programs that bring their own, and for tests.
  explicit VulkanLoader(GetProc get_proc) : get_proc_(get_proc) {}

  GetProc get_proc() const { return get_proc_; }

 private:
  GetProc get_proc_;
  std::shared_ptr<void> library_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_VULKAN_LOADER_H_
