// What CUDA devices there are and what they can run.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/device/cuda/cuda_driver.h"

namespace qrt {

Result<CudaLoader> CudaLoader::Open() {
  // Never unmapped: nothing undoes cuInit, and the driver's own threads may outlive the last context.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return Status(Code::kDeviceUnsupported, 5012, "CUDA is not installed: no libcuda.so.1", "device cuda",
                  "install NVIDIA's driver");
  }
  CudaLoader loader;
  loader.library_ = std::shared_ptr<void>(library, [](void* handle) { dlclose(handle); });
  return loader;
}

void* CudaLoader::Symbol(const char* name) const {
  return library_ != nullptr ? dlsym(library_.get(), name) : get_symbol_(name);
}

namespace cuda {

Result<Driver> Driver::Load(const CudaLoader& loader) {
  Driver driver;
  driver.loader_ = std::make_shared<CudaLoader>(loader);
#define QCC_CUDA_LOAD(member, name, parameters)                                                           \
  driver.call.member = reinterpret_cast<decltype(driver.call.member)>(loader.Symbol(name));               \
  if (driver.call.member == nullptr) {                                                                    \
    return Status(Code::kDeviceUnsupported, 5011, "the CUDA driver has no function " name, "device cuda", \
                  "use a driver of CUDA 11.4 or later");                                                  \
  }
  QCC_CUDA_FUNCTIONS(QCC_CUDA_LOAD)
#undef QCC_CUDA_LOAD
#define QCC_CUDA_LOAD(member, name, parameters) \
  driver.call.member = reinterpret_cast<decltype(driver.call.member)>(loader.Symbol(name));
  QCC_CUDA_LATER_FUNCTIONS(QCC_CUDA_LOAD)
#undef QCC_CUDA_LOAD
  const CUresult result = driver.call.Init(0);
  if (result != kSuccess && result != kNoDevice) return driver.Error(result, "cuInit");
  driver.no_device_ = result == kNoDevice;
  return driver;
}

// Graphs hold launches that overlap since CUDA 12.3.
bool Driver::overlaps() const {
  constexpr int kSince = 12030;
  int version = 0;
  return call.LaunchKernelEx != nullptr && call.DriverGetVersion(&version) == kSuccess && version >= kSince;
}

std::string Driver::Text(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  call.GetErrorName(result, &name);
  call.GetErrorString(result, &text);
  std::string out = name != nullptr ? name : "CUresult " + std::to_string(result);
  if (text != nullptr) out += std::string(": ") + text;
  return out;
}

bool Driver::Lost(CUresult result) {
  // After these every call of the context fails: the device is not there any more, NVLink, a contained fault,
  // the tensor memory's checks, the MPS server, and what the driver has no name for.
  constexpr CUresult kOthers[] = {46, 220, 226, 721, 810, 999};
  if (std::find(std::begin(kOthers), std::end(kOthers), result) != std::end(kOthers)) return true;
  return result == kNotReady /* of a wait: given up */ || result == kEccUncorrectable ||
         (result >= kIllegalAddress && result <= kLaunchFailed &&
          result != 701 /* out of launch resources */ && result != 704 && result != 705 /* peer access */ &&
          result != 708);
}

Status Driver::Error(CUresult result, std::string_view what) const {
  const std::string message = std::string(what) + ": " + Text(result);
  if (result == kOutOfMemory)
    return Status(Code::kOutOfMemory, 6001, message, "device cuda", "use a smaller model or context");
  if (Lost(result)) {
    return Status(Code::kDeviceLost, 5010, message, "device cuda",
                  "make another engine; if it happens again, check the device with nvidia-smi");
  }
  return Status(Code::kDeviceFailed, 5011, message, "device cuda", "update the driver");
}

}  // namespace cuda

using cuda::CUdevice;
using cuda::CUresult;

namespace {

// Where the driver does not know the memory's clock or width: less than known devices have, from 5.2 (L4) and
// 8 (T4, RTX 4090) to 36 (H200) GB/s for each of its multiprocessors.
constexpr double kLeastBytesPerMultiprocessor = 5e9;

double MemoryBytesPerSecond(const cuda::Functions& call, CUdevice device, int multiprocessors) {
  // Deprecated with CUDA 13: drivers answer 0 for some devices, and may come to refuse. The device is none
  // the worse.
  const auto attribute = [&](int which) {
    int value = 0;
    return call.DeviceGetAttribute(&value, which, device) == cuda::kSuccess ? std::max(value, 0) : 0;
  };
  // Double data rate: two transfers per clock.
  const double told = 2e3 * attribute(cuda::kMemoryClockKhz) * attribute(cuda::kMemoryBusBits) / 8;
  return told > 0 ? told : kLeastBytesPerMultiprocessor * std::max(multiprocessors, 1);
}

}  // namespace

Result<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaLoader& loader) {
  Result<cuda::Driver> driver = cuda::Driver::Load(loader);
  if (!driver.ok()) return driver.status();
  std::vector<CudaDeviceInfo> devices;
  if (driver->no_device()) return devices;
  const cuda::Functions& call = driver->call;
  int version = 0;
  int count = 0;
  call.DriverGetVersion(&version);
  CUresult result = call.DeviceGetCount(&count);
  if (result != cuda::kSuccess) return driver->Error(result, "cuDeviceGetCount");
  for (int i = 0; i < count; ++i) {
    CudaDeviceInfo info;
    info.index = i;
    info.driver = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    CUdevice device = 0;
    char name[256] = "";
    size_t bytes = 0;
    const auto attribute = [&](int which) {
      int value = 0;
      if (result == cuda::kSuccess) result = call.DeviceGetAttribute(&value, which, device);
      return value;
    };
    result = call.DeviceGet(&device, i);
    if (result == cuda::kSuccess) result = call.DeviceGetName(name, sizeof name, device);
    if (result == cuda::kSuccess) result = call.DeviceTotalMem(&bytes, device);
    info.name = name;
    info.memory_bytes = bytes;
    info.capability_major = attribute(cuda::kCapabilityMajor);
    info.capability_minor = attribute(cuda::kCapabilityMinor);
    info.multiprocessors = attribute(cuda::kMultiprocessors);
    info.bytes_per_second = MemoryBytesPerSecond(call, device, info.multiprocessors);
    info.usable = result == cuda::kSuccess;
    if (!info.usable) info.why_not = driver->Text(result);
    devices.push_back(std::move(info));
  }
  return devices;
}

namespace {

// Empty when the device has the feature.
std::string Lacking(const CudaDeviceInfo& device, const std::string& feature) {
  // Every CUDA device has warps of 32; dot products and matrix units come with the compute capability.
  if (feature == "subgroup-32" || feature == "int-dot" || feature == "matrix") return "";
  if (feature.rfind("sm-", 0) == 0) {
    const int wanted = std::atoi(feature.c_str() + 3);
    const int has = 10 * device.capability_major + device.capability_minor;
    if (wanted > 0 && has >= wanted) return "";
    return "compute capability " + std::to_string(wanted / 10) + "." + std::to_string(wanted % 10);
  }
  return feature;
}

}  // namespace

Result<size_t> ChooseCudaCode(const Manifest& manifest, const CudaDeviceInfo& device, std::string_view name) {
  std::string known;
  std::string lacking;
  for (size_t i = 0; i < manifest.code.size(); ++i) {
    const CodeInfo& code = manifest.code[i];
    if (code.target != "cuda") continue;
    known += (known.empty() ? "" : ", ") + code.isa;
    if (!name.empty() && code.isa != name) continue;
    std::string missing;
    for (const std::string& feature : code.features) {
      const std::string lack = Lacking(device, feature);
      if (!lack.empty()) missing += (missing.empty() ? "" : ", ") + lack;
    }
    if (missing.empty()) return i;
    lacking += (lacking.empty() ? "" : "; ") + code.isa + " needs " + missing;
  }
  const std::string where = "device cuda:" + std::to_string(device.index) + " (" + device.name + ")";
  if (!lacking.empty()) {
    return Status(Code::kDeviceUnsupported, 5001, "this GPU cannot run the artifact's code: " + lacking,
                  where, "compile with a --gpu-profiles that it has; qcc targets lists them");
  }
  if (name.empty()) {
    return Status(Code::kDeviceUnsupported, 5002, "the artifact holds no code for CUDA", where,
                  "compile with --target=cuda");
  }
  return Status(Code::kInvalidArgument, 5003,
                "the artifact holds no code variant \"" + std::string(name) + "\"", where,
                known.empty() ? "it holds no code for CUDA" : "it holds: " + known);
}

}  // namespace qrt
