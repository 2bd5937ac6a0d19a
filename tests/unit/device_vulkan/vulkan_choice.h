// What tests of the choice among an artifact's code need: devices by their facts, and manifests.
#ifndef TESTS_UNIT_DEVICE_VULKAN_VULKAN_CHOICE_H_
#define TESTS_UNIT_DEVICE_VULKAN_VULKAN_CHOICE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/artifact/manifest.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt::testing {

inline VulkanDeviceInfo Info(uint32_t min, uint32_t max, bool control, bool dot) {
  VulkanDeviceInfo info;
  info.name = "test";
  info.usable = true;
  info.subgroup_min = min;
  info.subgroup_max = max;
  info.subgroup_control = control;
  info.int_dot = dot;
  info.max_workgroup = 1024;
  return info;
}

inline Manifest WithCode(std::vector<CodeInfo> code) {
  Manifest manifest;
  manifest.code = std::move(code);
  return manifest;
}

}  // namespace qrt::testing

#endif  // TESTS_UNIT_DEVICE_VULKAN_VULKAN_CHOICE_H_
