// A GPU as a device, through Vulkan: what there is, which code variant it can run, and how to make one.
#ifndef RUNTIME_DEVICE_VULKAN_VULKAN_DEVICE_H_
#define RUNTIME_DEVICE_VULKAN_VULKAN_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/device/vulkan/vulkan_loader.h"

namespace qrt {

struct VulkanOptions {
  int index = -1;                // as in ListVulkanDevices; -1: the best usable one
  double max_dispatch_ms = 200;  // longest submission to aim for: a watchdog kills long ones. <= 0: no limit
  std::string pipeline_cache_dir;  // existing folder; empty: compiled kernels are not kept
  bool validation = false;         // the Khronos validation layer, whose messages go to `log`
  bool separate_memory = false;    // as on a discrete GPU, even where the host reaches the device's memory
  std::function<void(bool warning, std::string_view line)> log;  // empty: silence
  std::function<bool(uint64_t done, uint64_t total)> progress;   // of the weights; false stops; empty: none
};

struct VulkanDeviceInfo {
  int index = 0;
  std::string name, driver, api_version;
  std::string type;           // "discrete", "integrated", "virtual", "cpu", "other"
  uint64_t memory_bytes = 0;  // of the largest device-local heap
  bool usable = false;        // has what every profile needs
  std::string why_not;        // what it lacks
  uint32_t vendor_id = 0, device_id = 0;
  uint32_t subgroup_min = 0, subgroup_max = 0;
  bool subgroup_control = false;  // any size from min to max can be asked for
  bool int_dot = false;           // packed 4 x 8-bit dot products
  // Cooperative matrices of signed bytes with 32-bit sums, by subgroups: "16x16x32" for m x n sums over k
  // columns.
  std::vector<std::string> matrix_shapes;
  uint64_t max_allocation_bytes = 0;
  uint32_t max_workgroup = 0;            // threads
  uint32_t max_workgroup_subgroups = 0;  // where their size is asked for
  uint32_t max_shared_bytes = 0;
  uint32_t max_push_bytes = 0;
};

// In the driver's order; may be none. Errors: Q5011 the driver failed, Q5013 no driver.
Result<std::vector<VulkanDeviceInfo>> ListVulkanDevices(const VulkanLoader& loader);

// The device to use: `index`, or with -1 the best usable one: discrete before integrated before the rest,
// then the one with more memory. Errors: Q5013 there is none (says what each lacks), Q5014 no such index.
Result<size_t> ChooseVulkanDevice(const std::vector<VulkanDeviceInfo>& devices, int index);

// The code variant to run: with `name` empty the first of target "vulkan" whose features ("subgroup-32",
// "int-dot", "matrix-16x16x32", "shared-32768") the device has, on Intel's GPUs the one of those with its
// features for the smallest subgroups; else the one called so. Errors: Q5001 (says what each variant lacks),
// Q5002 no code for Vulkan, Q5003 no variant of that name.
Result<size_t> ChooseVulkanCode(const Manifest& manifest, const VulkanDeviceInfo& device,
                                std::string_view name);

// Uploads the weights, makes the kernels and records the programs. Where the host's memory is the device's
// too and the driver can, the weights are read in the artifact's mapping instead (device_weight_bytes() is 0
// then), and TimeStages reads its code again, so the artifact must outlive the device. Errors: those of
// ListVulkanDevices, ChooseVulkanDevice and GpuCode::Read; Q5010 the device was lost, Q5015 the model does
// not fit the device, Q5016 stopped by `progress`, Q5017 no validation layer, Q6001 out of device memory.
Result<std::unique_ptr<Device>> CreateVulkanDevice(const Artifact& artifact, size_t variant,
                                                   const VulkanOptions& options, const VulkanLoader& loader);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_VULKAN_DEVICE_H_
