// How much work goes into one submission: a desktop's watchdog kills what runs too long.
#ifndef RUNTIME_DEVICE_VULKAN_PACING_H_
#define RUNTIME_DEVICE_VULKAN_PACING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/artifact/gpu_code.h"
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

// Of a program: its bucket, and what its dispatches cost, each kind once.
struct BucketCosts {
  uint32_t rows = 0;
  std::vector<GpuCost> dispatches;
  void Add(const GpuCost& cost);
};

// Among `programs`, places in `costs`: the rows of the largest none of whose dispatches is estimated to take
// longer than `pacing` allows, as a submission can be cut between dispatches only. Of the smallest, where
// even it is too long; no limit without programs.
uint32_t MostBucketRows(const SubmissionPacing& pacing, std::span<const BucketCosts> costs,
                        std::span<const uint32_t> programs, uint64_t context);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_PACING_H_
