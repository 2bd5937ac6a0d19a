#include "runtime/capi/device_candidates.h"
#include "runtime/device/cuda/cuda_device.h"

namespace qrt::capi {
namespace {

// `index`, or with -1 the first usable one. Errors: device unsupported Q5013, invalid argument Q5014.
Result<CudaDeviceInfo> ChooseCudaDevice(const std::vector<CudaDeviceInfo>& devices, int index) {
  std::string reasons;
  for (const CudaDeviceInfo& device : devices) {
    if (index >= 0 && device.index != index) continue;
    if (device.usable) return device;
    reasons += (reasons.empty() ? "" : "; ") + ("cuda:" + std::to_string(device.index)) + " (" + device.name +
               "): " + device.why_not;
  }
  if (reasons.empty() && !devices.empty()) {
    return Status(
        Code::kInvalidArgument, 5014,
        "there is no device cuda:" + std::to_string(index) + ", only " + std::to_string(devices.size()), "",
        "qrun devices lists them");
  }
  return Status(
      Code::kDeviceUnsupported, 5013,
      reasons.empty() ? "the CUDA driver finds no device" : "no CUDA device can be used: " + reasons, "",
      "qrun devices lists them");
}

}  // namespace

Result<Candidate> FindCuda(const Request& request, int index) {
  Result<CudaLoader> loader = CudaLoader::Open();
  if (!loader.ok()) return loader.status();
  Result<std::vector<CudaDeviceInfo>> devices = ListCudaDevices(*loader);
  if (!devices.ok()) return devices.status();
  Result<CudaDeviceInfo> device = ChooseCudaDevice(*devices, index);
  if (!device.ok()) return device.status();
  const CudaDeviceInfo info = *device;
  const Manifest& manifest = request.artifact.manifest();
  Result<size_t> variant = ChooseCudaCode(manifest, info, request.variant_name());
  if (!variant.ok()) return variant.status();
  Candidate candidate;
  candidate.variant = *variant;
  candidate.why_not = [info, &manifest](size_t other) {
    return ChooseCudaCode(manifest, info, manifest.code[other].isa).status();
  };
  candidate.make = [request, info, chosen = *variant, loader = *loader] {
    CudaOptions options;
    options.index = info.index;
    options.max_dispatch_ms = DispatchMsOf(request.options);
    options.log = LogOf(request.services);
    options.progress = ProgressOf(request.options);
    return CreateCudaDevice(request.artifact, chosen, options, loader);
  };
  return candidate;
}

std::vector<qrt_device_info> ListCuda() {
  std::vector<qrt_device_info> result;
  Result<CudaLoader> loader = CudaLoader::Open();
  Result<std::vector<CudaDeviceInfo>> devices =
      loader.ok() ? ListCudaDevices(*loader) : Result<std::vector<CudaDeviceInfo>>(loader.status());
  if (!devices.ok() || devices->empty()) {
    result.push_back(
        Missing("cuda", devices.ok() ? "the CUDA driver finds no device" : devices.status().message()));
    return result;
  }
  for (const CudaDeviceInfo& device : *devices) {
    qrt_device_info& out = result.emplace_back();
    CopyText(out.id, "cuda:" + std::to_string(device.index));
    CopyText(out.name, device.name);
    CopyText(out.facts, "driver for " + device.driver + ", compute capability " +
                            std::to_string(device.capability_major) + "." +
                            std::to_string(device.capability_minor) + ", " +
                            std::to_string(device.multiprocessors) + " multiprocessors, " +
                            Megabytes(device.memory_bytes));
    out.usable = device.usable;
    CopyText(out.why_not, device.why_not);
    out.memory_bytes = device.memory_bytes;
  }
  return result;
}

std::string WhyNotCuda(const Artifact& artifact, const CodeInfo& code) {
  Result<CudaLoader> loader = CudaLoader::Open();
  if (!loader.ok()) return loader.status().message();
  const Result<std::vector<CudaDeviceInfo>> devices = ListCudaDevices(*loader);
  if (!devices.ok()) return devices.status().message();
  std::string why;
  for (const CudaDeviceInfo& device : *devices) {
    const Result<size_t> found = device.usable
                                     ? ChooseCudaCode(artifact.manifest(), device, code.isa)
                                     : Result<size_t>(Status(Code::kDeviceUnsupported, 5013, device.why_not));
    if (found.ok()) return "";
    if (!why.empty()) why += "; ";
    why += "cuda:" + std::to_string(device.index) + ": " + found.status().message();
  }
  return why.empty() ? "there is no CUDA device" : why;
}

}  // namespace qrt::capi
