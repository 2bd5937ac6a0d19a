#include "runtime/device/cuda/cuda_stage_timer.h"

#include <algorithm>

namespace qrt {

CudaStageTimer::CudaStageTimer(const cuda::Functions& call, const GpuCode& code, const Manifest& manifest)
    : call_(call), stages_(code, manifest) {
  size_t program = 0, choice = 0;
  for (size_t list = 0; list < stages_.lists(); ++list) {
    size_t& most = list < code.programs.size() ? program : choice;
    most = std::max(most, stages_.Of(list).size());
  }
  most_ = program + choice + 1;
}

CudaStageTimer::~CudaStageTimer() {
  for (cuda::CUevent event : events_) call_.EventDestroy(event);
}

cuda::CUresult CudaStageTimer::Init() {
  events_.reserve(most_);
  while (events_.size() < most_) {
    cuda::CUevent event = nullptr;
    const cuda::CUresult result = call_.EventCreate(&event, 0);
    if (result != cuda::kSuccess) return result;
    events_.push_back(event);
  }
  return cuda::kSuccess;
}

cuda::CUresult CudaStageTimer::Collect(std::span<const uint32_t> stages) {
  for (size_t i = 0; i < stages.size(); ++i) {
    float milliseconds = 0;
    const cuda::CUresult result = call_.EventElapsedTime(&milliseconds, events_[i], events_[i + 1]);
    if (result != cuda::kSuccess) return result;
    stages_.Add(stages[i], static_cast<double>(milliseconds) * 1e-3);
  }
  return cuda::kSuccess;
}

}  // namespace qrt
