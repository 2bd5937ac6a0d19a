// How much work goes into one launch of a graph: a desktop's watchdog kills what runs too long.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_PACING_H_
#define RUNTIME_DEVICE_CUDA_CUDA_PACING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/artifact/gpu_code.h"

namespace qrt {

// A program cut into pieces, each of which is a graph of its own.
struct CudaCut {
  // The longest context (tokens of the longest sequence) with which every piece stays within the limit; a
  // piece of one dispatch does not count, for it cannot be cut. Infinity: all.
  double most_context;
  std::vector<size_t> ends;  // of the pieces, in dispatches: rising, the last is their number
};

// Estimates the time of dispatches from what they move and compute. Graphs are recorded once, so nothing is
// learned from what a step took.
class CudaPacing {
 public:
  // `bytes_per_second`: of the device's memory, by its data sheet. `max_ms` <= 0: no limit.
  CudaPacing(double bytes_per_second, double max_ms);

  // The longest context with which a full bucket's work stays within the limit. Negative: none does;
  // infinity: every one.
  double MostContext(const GpuCost& cost) const;

  // Cuts for contexts of up to `longest` tokens, with rising most_context, each into as few pieces as
  // possible. A step takes the first that its context fits, the last where none does.
  std::vector<CudaCut> Cuts(std::span<const GpuDispatch> dispatches, uint64_t longest) const;

 private:
  CudaCut CutFor(std::span<const GpuDispatch> dispatches, double context) const;

  double max_bytes_;  // that the device moves within the limit; infinity: no limit
};

// Of a program: its bucket, and the longest context with which each of its dispatches stays within the limit.
struct CudaBucket {
  CudaBucket(uint32_t bucket, std::span<const GpuDispatch> dispatches, const CudaPacing& pacing);

  uint32_t rows;
  double most_context;
};

// Among `programs`, places in `buckets`: the rows of the largest whose dispatches stay within the limit at
// `context`; of the smallest, where none does; no limit without programs.
uint32_t MostBucketRows(std::span<const CudaBucket> buckets, std::span<const uint32_t> programs,
                        uint64_t context);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_PACING_H_
