// The artifact's programs as CUDA graphs, recorded once.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_
#define RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/artifact/manifest.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/gpu/gpu_code.h"

namespace qrt {

// Owns the graphs; made and destroyed with the context current.
class CudaGraphs {
 public:
  // What follows the program's rows of logits in the same graph.
  enum class After : uint8_t { kNothing, kGreedy, kDraw };

  // One graph per program, and for those that give logits one with each kind of sampling behind it; a program
  // that is estimated to take longer than `max_ms` (<= 0: no limit) is cut into several. `functions`: one per
  // kernel; `spaces`: the address of each. Errors: Q5010, Q5011, Q6001.
  static Result<std::unique_ptr<CudaGraphs>> Record(const cuda::Driver& driver, cuda::CUstream stream,
                                                    const GpuCode& code, const Manifest& manifest,
                                                    const std::vector<cuda::CUfunction>& functions,
                                                    const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces,
                                                    double max_ms, double bytes_per_second);
  ~CudaGraphs();
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // To be launched one behind the other. Sampling is recorded for decode and head programs only.
  std::span<const cuda::CUgraphExec> Of(uint32_t program, After after) const {
    return programs_[program][static_cast<size_t>(after)];
  }

 private:
  explicit CudaGraphs(const cuda::Driver& driver) : driver_(driver) {}

  using Sequence = std::vector<const GpuDispatch*>;
  struct Recording;
  Status Add(const Recording& recording, const Sequence& dispatches, std::vector<cuda::CUgraphExec>* out);

  const cuda::Driver& driver_;
  std::vector<std::array<std::vector<cuda::CUgraphExec>, 3>> programs_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_
