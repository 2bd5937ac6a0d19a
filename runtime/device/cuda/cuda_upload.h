// Large copies to the device's memory.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_UPLOAD_H_
#define RUNTIME_DEVICE_CUDA_CUDA_UPLOAD_H_

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/device/cuda/cuda_api.h"

namespace qrt::cuda {

// Of each of the two pieces of pinned memory that a copy goes by way of.
inline constexpr uint64_t kUploadPiece = uint64_t{32} << 20;

// Copies `from`, pages of a file say, to `to`, and returns when all is there: while the device fetches one
// piece of pinned memory, threads fill the other. `wait` waits for the stream; `progress` is told the bytes
// that went off, and stops the copy with false: *stopped. Throws std::bad_alloc; what was begun has ended
// then, too.
CUresult Upload(const Functions& call, CUstream stream, CUdeviceptr to, std::span<const uint8_t> from,
                const std::function<CUresult()>& wait, const std::function<bool(uint64_t bytes)>& progress,
                bool* stopped);

}  // namespace qrt::cuda

#endif  // RUNTIME_DEVICE_CUDA_CUDA_UPLOAD_H_
