// The loaded driver and what its results mean.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_
#define RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/cuda_device.h"

namespace qrt::cuda {

class Driver {
 public:
  // Finds every function and initialises the driver. Error Q5011.
  static Result<Driver> Load(const CudaLoader& loader);

  Functions call;

  bool no_device() const { return no_device_; }
  // Whether graphs can launch a kernel while the one before it runs.
  bool overlaps() const;
  // "CUDA_ERROR_...: what it says".
  std::string Text(CUresult result) const;
  // The context is gone: nothing in it can be used any more.
  static bool Lost(CUresult result);
  // Never closes the library: a device that was given up may still be inside.
  void KeepOpen() { new std::shared_ptr<CudaLoader>(loader_); }
  // Q6001 out of memory, Q5010 lost, Q5011 anything else.
  Status Error(CUresult result, std::string_view what) const;

 private:
  std::shared_ptr<CudaLoader> loader_;  // keeps the library open
  bool no_device_ = false;
};

}  // namespace qrt::cuda

#endif  // RUNTIME_DEVICE_CUDA_CUDA_DRIVER_H_
