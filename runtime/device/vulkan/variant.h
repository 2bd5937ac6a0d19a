// What a code variant asks of a Vulkan device.
#ifndef RUNTIME_DEVICE_VULKAN_VARIANT_H_
#define RUNTIME_DEVICE_VULKAN_VARIANT_H_

#include <cstdint>
#include <string>

#include "runtime/artifact/manifest.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt {

// The N of feature "subgroup-N"; 0: the code runs with any.
uint32_t SubgroupSizeOf(const CodeInfo& code);

// "subgroup-32, int-dot": what the device lacks of it; empty: nothing. Unknown features count as lacking.
std::string MissingFeatures(const VulkanDeviceInfo& device, const CodeInfo& code);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_VARIANT_H_
