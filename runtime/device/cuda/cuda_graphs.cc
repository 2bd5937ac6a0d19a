#include "runtime/device/cuda/cuda_graphs.h"

#include <algorithm>
#include <string>

namespace qrt {
namespace {

using cuda::CUresult;
using cuda::kSuccess;

// A kernel reaches about half of what the data sheet says; arithmetic counts as if every byte of bandwidth
// came with eight operations, less than any device of this decade has.
constexpr double kShareOfBandwidth = 0.5;
constexpr double kOpsPerByte = 8;
// Tokens of context for which KV reads are counted: the estimate is made before the context is known.
constexpr double kContext = 8192;

double Seconds(const GpuCost& cost, double bytes_per_second) {
  const double bytes = static_cast<double>(cost.read_bytes) + static_cast<double>(cost.write_bytes) +
                       kContext * static_cast<double>(cost.kv_bytes);
  const double rate = kShareOfBandwidth * std::max(bytes_per_second, 1e9);
  return std::max(bytes / rate, static_cast<double>(cost.ops) / (kOpsPerByte * rate));
}

}  // namespace

struct CudaGraphs::Recording {
  cuda::CUstream stream;
  const GpuCode& code;
  const std::vector<cuda::CUfunction>& functions;
  const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces;
  double max_seconds;  // 0: no limit
  double bytes_per_second;
};

CudaGraphs::~CudaGraphs() {
  for (const auto& variants : programs_) {
    for (const auto& graphs : variants) {
      for (cuda::CUgraphExec graph : graphs) driver_.call.GraphExecDestroy(graph);
    }
  }
}

Result<std::unique_ptr<CudaGraphs>> CudaGraphs::Record(
    const cuda::Driver& driver, cuda::CUstream stream, const GpuCode& code, const Manifest& manifest,
    const std::vector<cuda::CUfunction>& functions, const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces,
    double max_ms, double bytes_per_second) {
  std::unique_ptr<CudaGraphs> graphs(new CudaGraphs(driver));
  const Recording recording = {stream,          code, functions, spaces, std::max(0.0, max_ms / 1e3),
                               bytes_per_second};
  graphs->programs_.resize(code.programs.size());
  for (size_t i = 0; i < code.programs.size(); ++i) {
    Sequence dispatches;
    for (const GpuDispatch& dispatch : code.programs[i].dispatches) dispatches.push_back(&dispatch);
    QRT_RETURN_IF_ERROR(graphs->Add(recording, dispatches, &graphs->programs_[i][0]));
    if (manifest.programs[i].phase == Phase::kPrefill) continue;
    for (GpuSampling kind : {GpuSampling::kGreedy, GpuSampling::kDraw}) {
      const GpuSampleProgram* sample = code.FindSampleProgram(kind, manifest.programs[i].rows);
      if (sample == nullptr) continue;
      Sequence sampled = dispatches;
      for (const GpuDispatch& dispatch : sample->dispatches) sampled.push_back(&dispatch);
      const After after = kind == GpuSampling::kGreedy ? After::kGreedy : After::kDraw;
      QRT_RETURN_IF_ERROR(graphs->Add(recording, sampled, &graphs->programs_[i][static_cast<size_t>(after)]));
    }
  }
  return graphs;
}

Status CudaGraphs::Add(const Recording& recording, const Sequence& dispatches,
                       std::vector<cuda::CUgraphExec>* out) {
  const cuda::Functions& call = driver_.call;
  for (size_t at = 0; at < dispatches.size();) {
    CUresult result = call.StreamBeginCapture(recording.stream, cuda::kCaptureThreadLocal);
    if (result != kSuccess) return driver_.Error(result, "recording a graph");
    double seconds = 0;
    for (const size_t first = at; at < dispatches.size(); ++at) {
      const GpuDispatch& dispatch = *dispatches[at];
      seconds += Seconds(dispatch.cost, recording.bytes_per_second);
      if (recording.max_seconds > 0 && seconds > recording.max_seconds && at != first) break;
      uint64_t values[kMaxGpuArgs];
      void* parameters[kMaxGpuArgs];
      for (size_t i = 0; i < dispatch.args.size(); ++i) {
        const GpuArg& arg = dispatch.args[i];
        values[i] = recording.spaces[static_cast<size_t>(arg.space)] + arg.value;
        parameters[i] = &values[i];
      }
      // Kernels of one stream run in order and see what came before: barriers need nothing more.
      result = call.LaunchKernel(recording.functions[dispatch.kernel], dispatch.grid[0], dispatch.grid[1],
                                 dispatch.grid[2], recording.code.kernels[dispatch.kernel].workgroup_size, 1,
                                 1, 0, recording.stream, parameters, nullptr);
      if (result != kSuccess) break;
    }
    cuda::CUgraph graph = nullptr;
    const CUresult ended = call.StreamEndCapture(recording.stream, &graph);
    if (result == kSuccess) result = ended;
    cuda::CUgraphExec exec = nullptr;
    if (result == kSuccess) result = call.GraphInstantiate(&exec, graph, 0);
    if (graph != nullptr) call.GraphDestroy(graph);
    if (result != kSuccess) return driver_.Error(result, "recording a graph");
    out->push_back(exec);
  }
  return Status();
}

}  // namespace qrt
