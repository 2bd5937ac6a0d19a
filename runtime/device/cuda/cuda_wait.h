// Waits that end.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_WAIT_H_
#define RUNTIME_DEVICE_CUDA_CUDA_WAIT_H_

#include <chrono>

#include "runtime/device/cuda/cuda_api.h"

namespace qrt::cuda {

// How long nobody has waited for a step of any model: a GPU that has not answered by then never will.
inline constexpr std::chrono::seconds kLongestWait{60};

// Waits until all that `stream` was given is done. kNotReady: it is not after `longest`, and may still use
// what it was given.
CUresult WaitFor(const Functions& call, CUstream stream, std::chrono::nanoseconds longest);

// From now on `call` gives nothing back to the driver: it would wait for what never ends.
void KeepAll(Functions& call);

}  // namespace qrt::cuda

#endif  // RUNTIME_DEVICE_CUDA_CUDA_WAIT_H_
