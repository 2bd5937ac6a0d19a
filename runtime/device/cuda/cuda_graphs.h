// The artifact's programs as CUDA graphs, recorded once.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_
#define RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/artifact/manifest.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/cuda/cuda_pacing.h"
#include "runtime/device/cuda/cuda_stage_timer.h"

namespace qrt {

struct CudaGraph {
  cuda::CUgraphExec exec;
  std::vector<uint32_t> stages;  // of its launches, where a timer is told of them
};

// Owns the graphs; made and destroyed with the context current.
class CudaGraphs {
 public:
  // What follows the program's rows of logits in the same graph.
  enum class After : uint8_t { kNothing, kGreedy, kDraw, kGuess, kDrawFew };
  static constexpr size_t kAfters = 5;

  // One graph per program that gives logits, and one with each kind of sampling behind it; any other is cut
  // where `pacing` finds it too long, once for each range of contexts that needs other cuts. `functions`:
  // one per kernel; `spaces`: the address of each; `overlap`: whether launches do, which their code has to
  // allow; `timer`: is told when each launch is over; null: nobody is. Errors: Q5010, Q5011, Q6001.
  static Result<std::unique_ptr<CudaGraphs>> Record(const cuda::Driver& driver, cuda::CUstream stream,
                                                    const GpuCode& code, const Manifest& manifest,
                                                    const std::vector<cuda::CUfunction>& functions,
                                                    const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces,
                                                    const CudaPacing& pacing, bool overlap,
                                                    const CudaStageTimer* timer = nullptr);
  ~CudaGraphs();
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // To be launched one behind the other by a step whose longest sequence will hold `context` tokens. Empty:
  // there is no such sampling behind this program. Few tokens are drawn as many are where there is nothing
  // shorter.
  std::span<const CudaGraph> Of(uint32_t program, After after, uint64_t context) const;

  // See Device.
  uint32_t MostRows(std::span<const uint32_t> programs, uint64_t context) const {
    return MostBucketRows(buckets_, programs, context);
  }

 private:
  explicit CudaGraphs(const cuda::Driver& driver) : driver_(driver) {}

  struct Cut {
    double most_context;  // as in CudaCut
    std::vector<CudaGraph> graphs;
  };
  // By After; rising most_context.
  using Program = std::array<std::vector<Cut>, kAfters>;
  struct Recording;
  // Dispatches of a list (GpuStages), from the `begin`-th on.
  struct Piece {
    std::span<const GpuDispatch> dispatches;
    size_t list, begin;
  };
  Status Add(const Recording& recording, std::initializer_list<Piece> sequence, Cut* out);

  const cuda::Driver& driver_;
  std::vector<Program> programs_;
  std::vector<CudaBucket> buckets_;  // by program
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_GRAPHS_H_
