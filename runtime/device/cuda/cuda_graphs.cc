#include "runtime/device/cuda/cuda_graphs.h"

#include <limits>
#include <utility>

namespace qrt {

using cuda::CUresult;
using cuda::kSuccess;

namespace {

// Workgroups that begin early go wherever those before them have ended, and where they do not fill the
// device, some multiprocessors get several and others none. Of programs of many rows that costs more than
// there is to gain: prefill of 512 tokens on an H100, 2b Q4_K_M: 30.7 ms with overlapping launches, 21.2
// without.
constexpr uint32_t kMostOverlapRows = 8;

}  // namespace

struct CudaGraphs::Recording {
  cuda::CUstream stream;
  const GpuCode& code;
  const std::vector<cuda::CUfunction>& functions;
  const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces;
  bool overlap;
  const CudaStageTimer* timer;  // null: none

  // `first`: of its graph.
  CUresult Launch(const cuda::Functions& call, const GpuDispatch& dispatch, bool first) const {
    // The driver copies the values before it returns.
    uint64_t values[kMaxGpuArgs];
    void* parameters[kMaxGpuArgs];
    for (size_t i = 0; i < dispatch.args.size(); ++i) {
      const GpuArg& arg = dispatch.args[i];
      values[i] = spaces[static_cast<size_t>(arg.space)] + arg.value;
      parameters[i] = &values[i];
    }
    const cuda::CUfunction function = functions[dispatch.kernel];
    const auto& grid = dispatch.grid;
    const unsigned threads = code.kernels[dispatch.kernel].workgroup_size;
    if (overlap && !first) {
      cuda::CUlaunchAttribute allow = {};
      allow.id = cuda::kAllowOverlap;
      allow.value.allowed = 1;
      const cuda::CUlaunchConfig config = {grid[0], grid[1], grid[2], threads, 1, 1, 0, stream, &allow, 1};
      return call.LaunchKernelEx(&config, function, parameters, nullptr);
    }
    // Kernels of one stream run in order and see what came before: barriers need nothing more.
    return call.LaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream, parameters,
                             nullptr);
  }
};

CudaGraphs::~CudaGraphs() {
  for (const Program& program : programs_) {
    for (const std::vector<Cut>& cuts : program) {
      for (const Cut& cut : cuts) {
        for (const CudaGraph& graph : cut.graphs) driver_.call.GraphExecDestroy(graph.exec);
      }
    }
  }
}

Result<std::unique_ptr<CudaGraphs>> CudaGraphs::Record(
    const cuda::Driver& driver, cuda::CUstream stream, const GpuCode& code, const Manifest& manifest,
    const std::vector<cuda::CUfunction>& functions, const std::array<cuda::CUdeviceptr, kGpuSpaces>& spaces,
    const CudaPacing& pacing, bool overlap, const CudaStageTimer* timer) {
  std::unique_ptr<CudaGraphs> graphs(new CudaGraphs(driver));
  Recording recording = {stream, code, functions, spaces, overlap, timer};
  graphs->programs_.resize(code.programs.size());
  for (size_t i = 0; i < code.programs.size(); ++i) {
    const ProgramInfo& info = manifest.programs[i];
    recording.overlap = overlap && info.rows <= kMostOverlapRows;
    const std::span<const GpuDispatch> dispatches = code.programs[i].dispatches;
    const auto cut_of = [&, i](After after, double most_context) {
      return &graphs->programs_[i][static_cast<size_t>(after)].emplace_back(Cut{most_context, {}});
    };
    graphs->buckets_.emplace_back(info.rows, dispatches, pacing);
    // Nobody waits for a token of a program that gives none: it may be long, and is cut.
    if (!info.facts.gives_logits()) {
      for (const CudaCut& cut : pacing.Cuts(dispatches, manifest.model.context_length)) {
        Cut* out = cut_of(After::kNothing, cut.most_context);
        size_t begin = 0;
        for (size_t end : cut.ends) {
          QRT_RETURN_IF_ERROR(
              graphs->Add(recording, {{dispatches.subspan(begin, end - begin), i, begin}}, out));
          begin = end;
        }
      }
      continue;
    }
    // Never cut: one launch a token.
    constexpr double kAny = std::numeric_limits<double>::infinity();
    QRT_RETURN_IF_ERROR(graphs->Add(recording, {{dispatches, i, 0}}, cut_of(After::kNothing, kAny)));
    constexpr std::pair<GpuSampling, After> kChoices[] = {{GpuSampling::kGreedy, After::kGreedy},
                                                          {GpuSampling::kDraw, After::kDraw},
                                                          {GpuSampling::kGuess, After::kGuess},
                                                          {GpuSampling::kDrawFew, After::kDrawFew}};
    for (const auto& [kind, after] : kChoices) {
      if (kind == GpuSampling::kGuess && info.facts.gives != Output::kLogits) continue;
      const GpuSampleProgram* sample = code.FindSampleProgram(kind, info.rows);
      if (sample == nullptr) continue;
      const size_t choice = code.programs.size() + static_cast<size_t>(sample - code.sample_programs.data());
      QRT_RETURN_IF_ERROR(
          graphs->Add(recording, {{dispatches, i, 0}, {sample->dispatches, choice, 0}}, cut_of(after, kAny)));
    }
  }
  return graphs;
}

std::span<const CudaGraph> CudaGraphs::Of(uint32_t program, After after, uint64_t context) const {
  const std::vector<Cut>& cuts = programs_[program][static_cast<size_t>(after)];
  if (cuts.empty() && after == After::kDrawFew) return Of(program, After::kDraw, context);
  if (cuts.empty()) return {};
  for (const Cut& cut : cuts) {
    if (static_cast<double>(context) <= cut.most_context) return cut.graphs;
  }
  return cuts.back().graphs;
}

Status CudaGraphs::Add(const Recording& recording, std::initializer_list<Piece> sequence, Cut* out) {
  const cuda::Functions& call = driver_.call;
  const CudaStageTimer* timer = recording.timer;
  // Nothing takes memory while the stream records, as it would go on recording.
  size_t marked = 0;
  for (const Piece& piece : sequence) marked += piece.dispatches.size();
  std::vector<uint32_t> stages;
  if (timer != nullptr) stages.reserve(marked);
  out->graphs.reserve(out->graphs.size() + 1);
  CUresult result = call.StreamBeginCapture(recording.stream, cuda::kCaptureThreadLocal);
  if (result != kSuccess) return driver_.Error(result, "recording a graph");
  bool first = true;
  if (timer != nullptr) result = timer->Mark(recording.stream, 0);
  for (const Piece& piece : sequence) {
    for (size_t i = 0; i < piece.dispatches.size() && result == kSuccess; ++i) {
      result = recording.Launch(call, piece.dispatches[i], std::exchange(first, false));
      if (timer == nullptr) continue;
      stages.push_back(timer->stages().Of(piece.list)[piece.begin + i]);
      if (result == kSuccess) result = timer->Mark(recording.stream, stages.size());
    }
  }
  // Also after a failure: until then the stream takes nothing else.
  cuda::CUgraph graph = nullptr;
  const CUresult ended = call.StreamEndCapture(recording.stream, &graph);
  if (result == kSuccess) result = ended;
  cuda::CUgraphExec exec = nullptr;
  if (result == kSuccess) result = call.GraphInstantiate(&exec, graph, 0);
  if (graph != nullptr) call.GraphDestroy(graph);
  if (result != kSuccess) return driver_.Error(result, "recording a graph");
  out->graphs.push_back({exec, std::move(stages)});
  // Else the first step of each program would carry it to the device.
  result = call.GraphUpload(exec, recording.stream);
  return result == kSuccess ? Status() : driver_.Error(result, "uploading a graph");
}

}  // namespace qrt
