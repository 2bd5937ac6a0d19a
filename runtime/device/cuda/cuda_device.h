// An NVIDIA GPU as a device, through the CUDA driver: what there is, which code variant it can run, how to
// make one.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H_
#define RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_wait.h"
#include "runtime/device/device.h"

namespace qrt {

// The way into the driver: found when the program runs, so that no build and no machine needs it. Cheap to
// copy; the last copy closes the library, so devices keep one.
class CudaLoader {
 public:
  using GetSymbol = void* (*)(const char* name);

  // Opens libcuda.so.1. Errors: device unsupported Q5012, it is not installed.
  static Result<CudaLoader> Open();
  // For programs that bring their own, and for tests.
  explicit CudaLoader(GetSymbol get_symbol) : get_symbol_(get_symbol) {}

  // Null when the driver has no such function.
  void* Symbol(const char* name) const;

 private:
  CudaLoader() = default;
  GetSymbol get_symbol_ = nullptr;
  std::shared_ptr<void> library_;
};

struct CudaOptions {
  int index = 0;  // as in ListCudaDevices
  double max_dispatch_ms =
      200;  // longest launch without logits to aim for: a watchdog kills long ones. <= 0: no limit
  std::chrono::nanoseconds longest_wait = cuda::kLongestWait;    // then the device is lost
  std::function<void(bool warning, std::string_view line)> log;  // empty: silence
  std::function<bool(uint64_t done, uint64_t total)> progress;   // of the weights; false stops; empty: none
};

struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  std::string driver;  // "CUDA 12.4"
  uint64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  double bytes_per_second = 0;  // of its memory, by its data sheet; a low guess where the driver does not say
  bool usable = false;
  std::string why_not;
};

// In the driver's order; may be none. Errors: Q5011 the driver failed or lacks a function.
Result<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaLoader& loader);

// The code variant to run: with `name` empty the first of target "cuda" whose features ("sm-80": at least
// compute capability 8.0; "subgroup-32", "int-dot", "matrix" come with it) the device has, else the one
// called so. Errors: Q5001 (says what each variant lacks), Q5002 no code for CUDA, Q5003 no variant of that
// name.
Result<size_t> ChooseCudaCode(const Manifest& manifest, const CudaDeviceInfo& device, std::string_view name);

// Uploads the weights, lets the driver compile the kernels, and records the programs as graphs. TimeStages
// reads its code again, so the artifact must outlive the device. Errors: those of ListCudaDevices and
// GpuCode::Read; Q5010 the device was lost, Q5014 no such index, Q5016 stopped by `progress`, Q6001 out of
// device memory.
Result<std::unique_ptr<Device>> CreateCudaDevice(const Artifact& artifact, size_t variant,
                                                 const CudaOptions& options, const CudaLoader& loader);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_DEVICE_H_
