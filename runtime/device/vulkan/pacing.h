// How much work goes into one submission: a desktop's watchdog kills what runs too long.
#ifndef RUNTIME_DEVICE_VULKAN_PACING_H_
#define RUNTIME_DEVICE_VULKAN_PACING_H_

#include <cstdint>

#include "runtime/device/gpu/gpu_code.h"
#include "runtime/device/vulkan/functions.h"

namespace qrt {

// Estimates the time of dispatches from what they move and compute, first with numbers of a slow device of
// the type, then with what this one was measured to do.
class SubmissionPacing {
 public:
  // `max_ms` <= 0: no limit.
  SubmissionPacing(VkPhysicalDeviceType type, double max_ms);

  // Seconds that `cost` takes when `share` (0..1) of the bucket's rows are there and the longest sequence
  // holds `context` tokens.
  double Estimate(const GpuCost& cost, double share, uint64_t context) const;
  // What a submission that was estimated so took.
  void Measured(double estimated, double seconds);

  double max_seconds() const { return max_seconds_; }  // infinity: no limit

 private:
  double max_seconds_;
  double bytes_per_second_, ops_per_second_;
  double factor_ = 1;  // of the first numbers
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_PACING_H_
