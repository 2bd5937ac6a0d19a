#include "runtime/device/vulkan/mapped_drivers.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <vector>

namespace qrt {
namespace {

// What the loader asks a library for to learn that it is a driver.
constexpr char kOfDrivers[] = "vk_icdGetInstanceProcAddr";

// A library that is mapped, without mapping it; null: it is not, or not by this name. The caller closes it.
void* Mapped(const char* path, int more = 0) {
  return path != nullptr && path[0] != '\0' ? dlopen(path, RTLD_NOW | RTLD_NOLOAD | more) : nullptr;
}

void Keep(const char* path) {
  if (void* library = Mapped(path, RTLD_NODELETE)) dlclose(library);
}

}  // namespace

void KeepDriversMapped() {
  // Names first: who opens libraries while they are listed may wait forever for another thread that does.
  std::vector<std::string> paths;
  const auto add = [](dl_phdr_info* info, size_t, void* to) {
    if (info->dlpi_name != nullptr) static_cast<std::vector<std::string>*>(to)->push_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &paths);
  for (const std::string& path : paths) {
    void* library = Mapped(path.c_str());
    if (library == nullptr) continue;
    if (dlsym(library, kOfDrivers) != nullptr) Keep(path.c_str());
    dlclose(library);
  }
}

void KeepMapped(const void* address) {
  Dl_info found = {};
  if (dladdr(address, &found) != 0) Keep(found.dli_fname);
}

}  // namespace qrt
