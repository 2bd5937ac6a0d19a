#include "runtime/device/vulkan/pacing.h"

#include <algorithm>
#include <limits>

namespace qrt {

SubmissionPacing::SubmissionPacing(VkPhysicalDeviceType type, double max_ms)
    : max_seconds_(max_ms > 0 ? max_ms * 1e-3 : std::numeric_limits<double>::infinity()) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      bytes_per_second_ = 100e9;
      ops_per_second_ = 500e9;
      break;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      bytes_per_second_ = 2e9;
      ops_per_second_ = 2e9;
      break;
    default:
      bytes_per_second_ = 15e9;
      ops_per_second_ = 50e9;
  }
}

double SubmissionPacing::Estimate(const GpuCost& cost, double share, uint64_t context) const {
  // Weights are read whatever the number of rows; arithmetic and KV follow it.
  const double bytes = static_cast<double>(cost.read_bytes) + static_cast<double>(cost.write_bytes) * share +
                       static_cast<double>(cost.kv_bytes) * static_cast<double>(context) * share;
  const double ops = static_cast<double>(cost.ops) * share;
  return factor_ * (bytes / bytes_per_second_ + ops / ops_per_second_);
}

void SubmissionPacing::Measured(double estimated, double seconds) {
  if (estimated <= 0) return;
  const double factor = factor_ * seconds / estimated;
  // Of a short one much is the driver's: it can only say that the device is no slower.
  if (seconds < std::min(5e-3, max_seconds_ / 4) && factor > factor_) return;
  // Slower is believed at once, faster step by step.
  factor_ = std::clamp(std::max(factor, 0.9 * factor_), 1e-3, 1e3);
}

void BucketCosts::Add(const GpuCost& cost) {
  if (std::find(dispatches.begin(), dispatches.end(), cost) == dispatches.end()) dispatches.push_back(cost);
}

uint32_t MostBucketRows(const SubmissionPacing& pacing, std::span<const BucketCosts> costs,
                        std::span<const uint32_t> programs, uint64_t context) {
  uint32_t most = 0, least = std::numeric_limits<uint32_t>::max();
  for (uint32_t place : programs) {
    const BucketCosts& program = costs[place];
    const auto fits = [&](const GpuCost& cost) {
      return pacing.Estimate(cost, 1, context) <= pacing.max_seconds();
    };
    least = std::min(least, program.rows);
    if (std::all_of(program.dispatches.begin(), program.dispatches.end(), fits)) {
      most = std::max(most, program.rows);
    }
  }
  return most != 0 ? most : least;
}

}  // namespace qrt
