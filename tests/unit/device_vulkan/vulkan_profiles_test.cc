// Which of the compiler's profiles devices of many kinds take.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "codegen/gpu/kernels/profiles.h"
#include "tests/unit/device_vulkan/vulkan_choice.h"

namespace qrt::testing {
namespace {

// The profiles that a compiler builds, all of them or those of the default set.
Manifest WithProfiles(bool all) {
  std::vector<CodeInfo> code;
  for (const qcc::gpu::ProfileInfo& info : qcc::gpu::Profiles()) {
    if (all || info.by_default) code.push_back({info.target, info.profile.name, info.features, 0, 0});
  }
  return WithCode(std::move(code));
}

TEST(VulkanProfiles, EveryDeviceTakesTheBestOfTheProfiles) {
  struct Kind {
    const char* device;
    uint32_t min, max;
    bool control, dot, intel;
    std::vector<std::string> shapes;
    uint32_t shared_bytes;
    const char *of_all, *by_default;
    uint32_t workgroup = 1024;
  };
  const Kind kinds[] = {
      {"NVIDIA", 32, 32, true, true, false, {"16x16x32"}, 49152, "sg32-matrix32", "sg32-dot"},
      {"matrices, and little memory", 32, 32, true, true, false, {"16x16x32"}, 16384, "none-dot", "none"},
      {"NVIDIA before matrices", 32, 32, true, true, false, {}, 49152, "sg32-dot", "sg32-dot"},
      {"RDNA 3", 32, 64, true, true, false, {"16x16x16"}, 65536, "sg32-matrix16", "sg32-dot"},
      {"RDNA 1", 32, 64, true, false, false, {}, 65536, "sg32", "none"},
      {"GCN", 64, 64, true, true, false, {}, 65536, "sg64-dot", "sg64-dot"},
      {"GCN without dot products", 64, 64, false, false, false, {}, 32768, "sg64", "none"},
      {"Intel Xe", 8, 32, true, true, true, {}, 65536, "sg8-dot", "sg8-dot"},
      {"Intel Xe2", 16, 32, true, true, true, {}, 65536, "sg16-dot", "sg16-dot"},
      {"Intel before Xe", 8, 32, true, false, true, {}, 65536, "sg8", "none"},
      {"56 subgroups of 8", 8, 32, true, true, true, {}, 65536, "sg8-dot", "sg8-dot", 448},
      {"workgroups of 128", 32, 32, true, true, false, {}, 32768, "none-dot", "none", 128},
      {"any size, and none can be asked for", 8, 32, false, true, false, {}, 32768, "none-dot", "none"},
      {"16 threads", 16, 16, false, true, false, {}, 32768, "sg16-dot", "sg16-dot"},
      {"16 threads without dot products", 16, 16, false, false, false, {}, 32768, "sg16", "none"},
      {"4 threads", 4, 4, true, true, false, {}, 32768, "none-dot", "none"},
      {"128 threads", 128, 128, true, true, false, {}, 32768, "none-dot", "none"},
      {"no shuffles", 0, 0, false, true, false, {}, 16384, "none-dot", "none"},
      {"nothing", 0, 0, false, false, false, {}, 16384, "none", "none"},
      {"lavapipe", 8, 8, true, true, false, {"8x8x8"}, 32768, "sg8-matrix8", "sg8-dot"},
  };
  const Manifest all = WithProfiles(true), usual = WithProfiles(false);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.device);
    VulkanDeviceInfo info = Info(kind.min, kind.max, kind.control, kind.dot);
    info.vendor_id = kind.intel ? 0x8086 : 0;
    info.matrix_shapes = kind.shapes;
    info.max_shared_bytes = kind.shared_bytes;
    info.max_workgroup = kind.workgroup;
    EXPECT_EQ(all.code[*ChooseVulkanCode(all, info, "")].isa, kind.of_all);
    EXPECT_EQ(usual.code[*ChooseVulkanCode(usual, info, "")].isa, kind.by_default);
  }
}

}  // namespace
}  // namespace qrt::testing
