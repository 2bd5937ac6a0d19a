#include "runtime/device/cuda/cuda_pacing.h"

#include <algorithm>
#include <limits>

namespace qrt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A kernel reaches about half of what the data sheet says; arithmetic counts as if every byte of bandwidth
// came with eight operations, less than any device of this decade has.
constexpr double kShareOfBandwidth = 0.5;
constexpr double kOpsPerByte = 8;
// Below any device that has compute capability 6; only so that a limit never becomes 0.
constexpr double kLeastBytesPerSecond = 5e9;
// The first contexts share one cut: reading so little KV is nothing beside the weights.
constexpr double kFirstContext = 4096;

}  // namespace

CudaPacing::CudaPacing(double bytes_per_second, double max_ms)
    : max_bytes_(max_ms > 0
                     ? max_ms * 1e-3 * kShareOfBandwidth * std::max(bytes_per_second, kLeastBytesPerSecond)
                     : kInfinity) {}

double CudaPacing::MostContext(const GpuCost& cost) const {
  const double left = max_bytes_ - static_cast<double>(cost.read_bytes) -
                      static_cast<double>(cost.write_bytes) - static_cast<double>(cost.ops) / kOpsPerByte;
  if (left < 0) return -1;
  return cost.kv_bytes == 0 ? kInfinity : left / static_cast<double>(cost.kv_bytes);
}

CudaCut CudaPacing::CutFor(std::span<const GpuDispatch> dispatches, double context) const {
  CudaCut cut = {kInfinity, {}};
  for (size_t at = 0; at < dispatches.size();) {
    GpuCost piece = dispatches[at].cost;
    double most = kInfinity;
    for (++at; at < dispatches.size(); ++at) {
      GpuCost longer = piece;
      longer += dispatches[at].cost;
      const double fits = MostContext(longer);
      if (fits < context) break;
      piece = longer;
      most = fits;
    }
    cut.most_context = std::min(cut.most_context, most);
    cut.ends.push_back(at);
  }
  return cut;
}

std::vector<CudaCut> CudaPacing::Cuts(std::span<const GpuDispatch> dispatches, uint64_t longest) const {
  const double last = static_cast<double>(longest);
  std::vector<CudaCut> cuts;
  // A cut holds at least for the context it is made for, and the next is made for twice what it holds for:
  // there are few, and a step finds one that is made for at most twice its context.
  double context = std::min(kFirstContext, last);
  for (;;) {
    cuts.push_back(CutFor(dispatches, context));
    if (cuts.back().most_context >= last) return cuts;
    context = std::min(2 * cuts.back().most_context, last);
  }
}

CudaBucket::CudaBucket(uint32_t bucket, std::span<const GpuDispatch> dispatches, const CudaPacing& pacing)
    : rows(bucket), most_context(kInfinity) {
  for (const GpuDispatch& dispatch : dispatches) {
    most_context = std::min(most_context, pacing.MostContext(dispatch.cost));
  }
}

uint32_t MostBucketRows(std::span<const CudaBucket> buckets, std::span<const uint32_t> programs,
                        uint64_t context) {
  uint32_t most = 0, least = std::numeric_limits<uint32_t>::max();
  for (uint32_t place : programs) {
    const CudaBucket& program = buckets[place];
    least = std::min(least, program.rows);
    if (static_cast<double>(context) <= program.most_context) most = std::max(most, program.rows);
  }
  return most != 0 ? most : least;
}

}  // namespace qrt
