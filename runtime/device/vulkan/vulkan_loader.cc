#include "runtime/device/vulkan/vulkan_loader.h"

#include <dlfcn.h>

#include <string>

namespace qrt {
namespace {

constexpr char kLibrary[] = "libvulkan.so.1";

}  // namespace

Result<VulkanLoader> VulkanLoader::Open() {
  const auto unavailable = [](const std::string& cause) {
    return Status(Code::kDeviceUnsupported, 5012, "the Vulkan loader is not available: " + cause,
                  "device vulkan",
                  "install it (Debian, Ubuntu: libvulkan1; Fedora: vulkan-loader) and the GPU's driver "
                  "(mesa-vulkan-drivers, or that of its maker)");
  };
  // Never unmapped, as drivers are not (mapped_drivers.h).
  std::shared_ptr<void> library(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), [](void* handle) {
    if (handle != nullptr) dlclose(handle);
  });
  if (library == nullptr) {
    const char* error = dlerror();
    return unavailable(error != nullptr ? error : kLibrary);
  }
  const auto get_proc = reinterpret_cast<GetProc>(dlsym(library.get(), "vkGetInstanceProcAddr"));
  if (get_proc == nullptr) return unavailable(std::string(kLibrary) + " has no vkGetInstanceProcAddr");
  VulkanLoader loader(get_proc);
  loader.library_ = std::move(library);
  return loader;
}

}  // namespace qrt
