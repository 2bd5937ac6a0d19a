// Which device an engine runs on: what there is, what was asked for, what the artifact holds code for.
#ifndef RUNTIME_CAPI_DEVICES_H_
#define RUNTIME_CAPI_DEVICES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/capi/handles.h"
#include "runtime/device/device.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt::capi {

// What somebody asked for.
struct DeviceWish {
  std::string kind;  // "cpu", "vulkan", "cuda", "auto"; empty: the default
  int index = -1;    // of a GPU; -1: the best
};

// "cpu", "vulkan", "vulkan:1", "cuda:0", "auto"; empty: the default. Errors: invalid argument Q5008.
Result<DeviceWish> ParseDevice(std::string_view text);

struct ChosenDevice {
  std::unique_ptr<Device> device;
  size_t variant = 0;       // place of its code in the manifest of its part
  std::string passed_over;  // of "auto": better kinds of device that were not taken, and why
};

// Makes the device that `options` ask for, of an artifact in parts one for each part, in their order. Says to
// the log what was chosen and which better code was left out, and why. Errors: those of qrt_engine_create.
Result<std::vector<ChosenDevice>> MakeDevices(const Artifact& artifact, const qrt_engine_options& options,
                                              const Services& services);

// Every device, usable or not (qrt_devices_list).
std::vector<qrt_device_info> ListDevices();

// Empty: some device of this machine runs code variant `variant`; else what is missing.
std::string WhyUnsupported(const Artifact& artifact, size_t variant);

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_DEVICES_H_
