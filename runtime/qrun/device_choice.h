// What --device names, and whether this machine has it.
#ifndef RUNTIME_QRUN_DEVICE_CHOICE_H_
#define RUNTIME_QRUN_DEVICE_CHOICE_H_

#include <string_view>
#include <vector>

#include "runtime/include/qrt/qrt.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

inline constexpr const char* kGpus[] = {"vulkan", "cuda"};
inline constexpr char kDevices[] = "cpu, vulkan, vulkan:N, cuda, cuda:N, or auto";

// Why its code does not run here is then a sentence; of a CPU the features that it lacks.
bool IsGpu(std::string_view target);

// All of this machine, those that cannot be used with the reason.
Outcome ListDevices(std::vector<qrt_device_info>* out);

// Whether `named` is what --device may say, one for each part of a model with commas. Errors: usage Q5008.
Outcome CheckDeviceName(std::string_view named);

// Whether the GPUs of `named`, which CheckDeviceName took, are here and can be used at all; whether they run
// the model's code is the engine's to say. Opens drivers. Errors: device Q5013, usage Q5014 (no such number).
Outcome CheckDeviceIsHere(std::string_view named);

}  // namespace qrun

#endif  // RUNTIME_QRUN_DEVICE_CHOICE_H_
