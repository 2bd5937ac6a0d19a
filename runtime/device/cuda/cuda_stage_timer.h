// How long each stage of a device's programs takes, by events in their graphs.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_STAGE_TIMER_H_
#define RUNTIME_DEVICE_CUDA_CUDA_STAGE_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/artifact/manifest.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/gpu/gpu_stages.h"

namespace qrt {

// Owns the events, which all graphs share: one is to end before the next begins. Everything with the context
// current; outlived by it and by `call`.
class CudaStageTimer {
 public:
  CudaStageTimer(const cuda::Functions& call, const GpuCode& code, const Manifest& manifest);
  ~CudaStageTimer();
  CudaStageTimer(const CudaStageTimer&) = delete;
  CudaStageTimer& operator=(const CudaStageTimer&) = delete;

  // Makes the events.
  cuda::CUresult Init();
  const GpuStages& stages() const { return stages_; }
  void Restart() { stages_.Restart(); }
  // Into the graph that the stream records: the `place`-th event, 0 at its begin.
  cuda::CUresult Mark(cuda::CUstream stream, size_t place) const {
    return call_.EventRecordWithFlags(events_[place], stream, cuda::kEventRecordExternal);
  }
  // A graph that has ended; `stages` of its launches.
  cuda::CUresult Collect(std::span<const uint32_t> stages);

 private:
  const cuda::Functions& call_;
  GpuStages stages_;
  std::vector<cuda::CUevent> events_;
  size_t most_ = 1;  // events of a graph
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_STAGE_TIMER_H_
