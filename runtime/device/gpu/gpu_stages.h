// The stages of GPU code, of which a device with clocks of its own says how long they took.
#ifndef RUNTIME_DEVICE_GPU_GPU_STAGES_H_
#define RUNTIME_DEVICE_GPU_GPU_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/artifact/manifest.h"
#include "runtime/device/device.h"

namespace qrt {

// A stage is what the layers of a program have in common: launches of one kernel by as many workgroups.
// Sample programs are programs like others. Lists of dispatches are numbered as the programs are, with the
// sample programs behind them.
class GpuStages {
 public:
  GpuStages(const GpuCode& code, const Manifest& manifest);

  std::span<const DeviceStage> stages() const { return stages_; }
  // Of each dispatch of a list.
  std::span<const uint32_t> Of(size_t list) const { return lists_[list]; }
  size_t lists() const { return lists_.size(); }

  void Add(uint32_t stage, double seconds) {
    ++times_[stage].runs;
    times_[stage].seconds += seconds;
  }
  // From 0 on.
  void Restart() { times_.assign(stages_.size(), {}); }
  StageTime time(size_t stage) const { return times_[stage]; }

 private:
  void AddList(const std::string& program, bool gives_logits, const GpuCode& code,
               const std::vector<GpuDispatch>& dispatches);

  std::vector<DeviceStage> stages_;
  std::vector<std::vector<uint32_t>> lists_;
  std::vector<StageTime> times_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_GPU_GPU_STAGES_H_
