// A driver stays mapped when nothing uses it any more: whoever makes engines one after the other maps it
// once.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <fstream>
#include <set>
#include <string>

#include "runtime/device/vulkan/instance.h"
#include "runtime/device/vulkan/mapped_drivers.h"
#include "runtime/device/vulkan/vulkan_device.h"
#include "runtime/device/vulkan/vulkan_loader.h"

namespace qrt::testing {
namespace {

// Files that are mapped and whose names have one of these: the loader, drivers of Mesa and NVIDIA's.
std::set<std::string> MappedFiles() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    for (const char* name : {"/libvulkan.so", "/libvulkan_", "/libGLX_nvidia", "/libEGL_nvidia"}) {
      if (line.find(name, path) != std::string::npos) files.insert(line.substr(path));
    }
  }
  return files;
}

TEST(VulkanMapped, DriversStayWhenTheirLastInstanceGoes) {
  std::set<std::string> while_listed;
  {
    const Result<VulkanLoader> loader = VulkanLoader::Open();
    if (!loader.ok()) GTEST_SKIP() << "no Vulkan here: " << loader.status().ToString();
    const auto instance = VulkanInstance::Create(*loader, false, {});
    if (!instance.ok()) GTEST_SKIP() << "no Vulkan here: " << instance.status().ToString();
    while_listed = MappedFiles();
  }
  if (while_listed.size() < 2) GTEST_SKIP() << "a driver whose library this test does not know";
  EXPECT_EQ(MappedFiles(), while_listed);
}

// Whatever library it is: a small one of glibc's, which nothing else asks for.
TEST(VulkanMapped, ALibraryStaysByAnAddressInIt) {
  constexpr char kName[] = "libanl.so.1";
  ASSERT_EQ(dlopen(kName, RTLD_NOW | RTLD_NOLOAD), nullptr) << "something maps it";
  void* library = dlopen(kName, RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << dlerror();
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  KeepMapped(map->l_ld);
  dlclose(library);
  EXPECT_NE(dlopen(kName, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

// More than NVIDIA's driver could be mapped: it failed after some dozens.
TEST(VulkanMapped, ManyInstancesOneAfterTheOther) {
  const Result<VulkanLoader> loader = VulkanLoader::Open();
  if (!loader.ok()) GTEST_SKIP() << "no Vulkan here: " << loader.status().ToString();
  const auto first = ListVulkanDevices(*loader);
  if (!first.ok()) GTEST_SKIP() << "no Vulkan here: " << first.status().ToString();
  for (int i = 0; i < 100; ++i) {
    const auto devices = ListVulkanDevices(*loader);
    ASSERT_TRUE(devices.ok()) << "instance " << i << ": " << devices.status().ToString();
    ASSERT_EQ(devices->size(), first->size()) << "instance " << i;
  }
}

}  // namespace
}  // namespace qrt::testing
