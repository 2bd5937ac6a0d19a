#include "runtime/device/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/cuda/cuda_graphs.h"
#include "runtime/device/cuda/cuda_module.h"
#include "runtime/device/cuda/cuda_pacing.h"
#include "runtime/device/cuda/cuda_upload.h"
#include "runtime/device/cuda/cuda_wait.h"
#include "runtime/device/gpu/gpu_context.h"
#include "runtime/device/gpu/gpu_step_block.h"

namespace qrt {
namespace {

using cuda::CUdeviceptr;
using cuda::CUresult;
using cuda::kSuccess;

// Makes a context current while it lives.
class Current {
 public:
  Current(const cuda::Functions& call, cuda::CUcontext context) : call_(call) {
    result_ = call_.CtxPushCurrent(context);
  }
  ~Current() {
    cuda::CUcontext popped = nullptr;
    if (result_ == kSuccess) call_.CtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  CUresult result() const { return result_; }

 private:
  const cuda::Functions& call_;
  CUresult result_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(cuda::Driver driver, CudaDeviceInfo info, const Artifact& artifact, size_t place)
      : driver_(std::move(driver)), info_(std::move(info)), artifact_(artifact), place_(place) {}
  ~CudaDevice() override;

  Status Init(const CudaOptions& options);

  const std::string& name() const override { return name_; }
  const std::string& variant() const override { return variant_; }
  uint32_t threads() const override { return 1; }
  uint64_t code_bytes() const override { return code_bytes_; }
  uint64_t scratch_bytes() const override { return scratch_bytes_; }
  uint64_t device_weight_bytes() const override { return weight_bytes_; }
  bool samples() const override { return samples_; }
  bool copies_wait() const override { return true; }
  uint32_t MostRows(std::span<const uint32_t> programs, uint64_t context) const override {
    return graphs_->MostRows(programs, context);
  }
  uint64_t most_context() const override { return most_context_; }
  DeviceResult Run(const StepRequest& step) override;
  bool chains() const override { return samples_; }
  bool chains_guesses() const override { return guesses_too_; }
  DeviceResult RunChain(std::span<const ChainStep> steps, int32_t* handed) override;
  DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer) override;
  void Free(DeviceBuffer* buffer) override;
  DeviceResult Zero(const DeviceBuffer& buffer) override;
  DeviceResult Read(std::span<const CopyRange> ranges) override { return Transfer(ranges, true); }
  DeviceResult Write(std::span<const CopyRange> ranges) override { return Transfer(ranges, false); }
  const DeviceBuffer& arena() const override { return arena_; }
  DeviceResult TimeStages() override;
  std::span<const DeviceStage> stages() const override {
    return timer_ != nullptr ? timer_->stages().stages() : std::span<const DeviceStage>();
  }
  StageTime stage_time(uint32_t, size_t stage) const override { return timer_->stages().time(stage); }
  DeviceCounters counters() const override { return counters_; }
  std::string last_error() const override {
    if (refused_ != nullptr) return refused_;
    if (last_error_ == cuda::kNotReady) {
      const auto seconds = std::chrono::duration<double>(longest_wait_).count();
      return "no answer within " + std::to_string(static_cast<int64_t>(seconds)) + " s";
    }
    return last_error_ != kSuccess ? driver_.Text(last_error_) : "";
  }

 private:
  Status MakeContext();
  Status LoadKernels(const GpuCode& code);
  Status Place(const GpuCode& code, std::span<const uint8_t> weights, const CudaOptions& options);
  Status Upload(CUdeviceptr to, std::span<const uint8_t> from, const CudaOptions& options);
  Status TakeMemory(const char* what, uint64_t bytes, CUdeviceptr* address);
  static CudaGraphs::After AfterOf(const ChainStep& link);
  std::span<const CudaGraph> GraphsOf(const StepRequest& step, CudaGraphs::After after) const;
  CUresult RunStep(const StepRequest& step, std::span<const CudaGraph> graphs);
  // Of a step, one behind the other.
  CUresult Launch(std::span<const CudaGraph> graphs);
  // Writes a step's block at step_block_ + `from` and sends it: one copy a step.
  CUresult SendBlock(const StepRequest& step, uint64_t from);
  CUresult Copy(const DeviceCopy& copy);
  // Of step `i`; `made`: tokens handed on before it, which it counts on.
  CUresult RunLink(std::span<const ChainStep> steps, size_t i, uint32_t* made);
  // Between a buffer and memory that is not pinned. For such a copy the driver may wait until the stream
  // comes to it, however long that takes: it gets one only when nothing else is under way.
  CUresult CopyToHost(void* to, CUdeviceptr from, uint64_t bytes);
  CUresult CopyFromHost(CUdeviceptr to, const void* from, uint64_t bytes);
  DeviceResult Transfer(std::span<const CopyRange> ranges, bool to_host);
  // Waits for all that was begun. A device that does not end it is lost, with all that it was given.
  CUresult Finish();
  DeviceResult Settle(CUresult result);
  // The request cannot be: a bug of the caller, and nothing was started.
  DeviceResult Refuse(const char* what) {
    refused_ = what;
    return DeviceResult::kFailed;
  }

  cuda::Driver driver_;
  const CudaDeviceInfo info_;
  const Artifact& artifact_;
  const size_t place_;  // of the code
  std::string name_, variant_;
  uint64_t code_bytes_ = 0, scratch_bytes_ = 0, weight_bytes_ = 0;
  std::chrono::nanoseconds longest_wait_{};
  double max_dispatch_ms_ = 0;
  bool samples_ = false, guesses_too_ = false;
  uint32_t max_rows_ = 0;
  uint64_t most_context_ = 0;
  std::vector<uint32_t> out_rows_;          // most rows of logits of each program
  std::vector<uint64_t> logits_row_bytes_;  // by program
  cuda::CUcontext context_ = nullptr;
  cuda::CUmodule module_ = nullptr;
  cuda::CUstream stream_ = nullptr;
  std::array<CUdeviceptr, kGpuSpaces> spaces_{};  // all owned; kImmediate is 0
  DeviceBuffer arena_;
  uint8_t* step_block_ = nullptr;  // pinned; qrt_gpu_step_bytes(max_rows_), and the blocks of a chain
  int32_t* results_ = nullptr;     // pinned; [max_rows_], then the tokens that a chain's steps hand on
  CUdeviceptr handed_ = 0;         // those: i32 [kMostChainSteps]
  std::vector<cuda::CUfunction> functions_;  // by kernel
  std::unique_ptr<CudaGraphs> graphs_;
  std::unique_ptr<CudaStageTimer> timer_;  // that the graphs tell; null: none
  DeviceCounters counters_;
  bool lost_ = false;
  CUresult last_error_ = kSuccess;
  const char* refused_ = nullptr;  // why the last step was
};

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  {
    const Current current(driver_.call, context_);
    graphs_.reset();
    timer_.reset();
    for (CUdeviceptr space : spaces_) {
      if (space != 0) driver_.call.MemFree(space);
    }
    if (handed_ != 0) driver_.call.MemFree(handed_);
    if (step_block_ != nullptr) driver_.call.MemFreeHost(step_block_);
    if (results_ != nullptr) driver_.call.MemFreeHost(results_);
    if (module_ != nullptr) driver_.call.ModuleUnload(module_);
    if (stream_ != nullptr) driver_.call.StreamDestroy(stream_);
  }
  driver_.call.CtxDestroy(context_);
}

Status CudaDevice::Init(const CudaOptions& options) {
  const Manifest& manifest = artifact_.manifest();
  Result<GpuCode> code = GpuCode::Read(artifact_, place_, GpuTarget::kCuda);
  if (!code.ok()) return code.status();
  name_ = "cuda:" + std::to_string(info_.index) + " (" + info_.name + ")";
  variant_ = manifest.code[place_].isa;
  code_bytes_ = code->ptx.size();
  max_rows_ = code->max_rows;
  longest_wait_ = options.longest_wait;
  most_context_ = MostGpuContext(manifest);
  samples_ = code->Samples(manifest);
  guesses_too_ = samples_ && code->Guesses(manifest);
  for (const ProgramInfo& program : manifest.programs) {
    out_rows_.push_back(program.facts.gives_logits() ? program.rows : 0);
    logits_row_bytes_.push_back(uint64_t{manifest.logits_stride(program)} * sizeof(float));
  }

  QRT_RETURN_IF_ERROR(MakeContext());
  const Current current(driver_.call, context_);
  if (current.result() != kSuccess) return driver_.Error(current.result(), "cuCtxPushCurrent");
  QRT_RETURN_IF_ERROR(LoadKernels(*code));
  QRT_RETURN_IF_ERROR(Place(*code, artifact_.weights(place_), options));
  max_dispatch_ms_ = options.max_dispatch_ms;
  const CudaPacing pacing(info_.bytes_per_second, max_dispatch_ms_);
  const auto record = [&](bool overlap) {
    return CudaGraphs::Record(driver_, stream_, *code, manifest, functions_, spaces_, pacing, overlap);
  };
  const bool overlap = code->overlap && driver_.overlaps();
  Result<std::unique_ptr<CudaGraphs>> graphs = record(overlap);
  if (overlap && !graphs.ok() && graphs.status().code() == Code::kDeviceFailed) {
    // A driver that cannot record overlapping launches after all runs the same kernels one after the other.
    if (options.log) options.log(true, name_ + ": launches do not overlap: " + graphs.status().message());
    graphs = record(false);
  }
  if (!graphs.ok()) return graphs.status();
  graphs_ = std::move(*graphs);
  return Status();
}

// A context of its own: what poisons it (a fault of a kernel) leaves other engines of the process alone.
Status CudaDevice::MakeContext() {
  cuda::CUdevice device = 0;
  CUresult result = driver_.call.DeviceGet(&device, info_.index);
  if (result == kSuccess) result = driver_.call.CtxCreate(&context_, 0, device);
  if (result != kSuccess) {
    context_ = nullptr;
    return driver_.Error(result, "cuCtxCreate");
  }
  cuda::CUcontext popped = nullptr;
  driver_.call.CtxPopCurrent(&popped);
  const Current current(driver_.call, context_);
  // Else the stream would belong to whatever context the caller's thread has.
  result = current.result();
  if (result == kSuccess) result = driver_.call.StreamCreate(&stream_, cuda::kStreamNonBlocking);
  return result == kSuccess ? Status() : driver_.Error(result, "cuStreamCreate");
}

Status CudaDevice::LoadKernels(const GpuCode& code) {
  Result<cuda::CUmodule> module = LoadCudaModule(driver_, code.ptx);
  if (!module.ok()) return module.status();
  module_ = *module;
  for (const GpuKernel& kernel : code.kernels) {
    cuda::CUfunction function = nullptr;
    const CUresult result = driver_.call.ModuleGetFunction(&function, module_, kernel.entry.c_str());
    if (result != kSuccess) return driver_.Error(result, "kernel " + kernel.name);
    functions_.push_back(function);
  }
  return Status();
}

Status CudaDevice::TakeMemory(const char* what, uint64_t bytes, CUdeviceptr* address) {
  if (bytes == 0) return Status();
  CUresult result = bytes <= std::numeric_limits<size_t>::max() ? driver_.call.MemAlloc(address, bytes)
                                                                : cuda::kOutOfMemory;
  if (result == kSuccess) result = driver_.call.MemsetD8Async(*address, 0, bytes, stream_);
  if (result == kSuccess) return Status();
  if (result != cuda::kOutOfMemory) return driver_.Error(result, std::string("memory for ") + what);
  size_t free_bytes = 0;
  size_t total = 0;
  driver_.call.MemGetInfo(&free_bytes, &total);
  return Status(Code::kOutOfMemory, 6001,
                std::string("no device memory for ") + what + ": " + std::to_string(bytes) + " bytes, " +
                    std::to_string(free_bytes) + " of " + std::to_string(total) + " are free",
                "device " + name_, "use a smaller model or context, or free the device's memory");
}

Status CudaDevice::Place(const GpuCode& code, std::span<const uint8_t> weights, const CudaOptions& options) {
  struct Part {
    GpuSpace space;
    const char* name;
  };
  constexpr Part kParts[] = {{GpuSpace::kWeights, "the weights"},     {GpuSpace::kArena, "the arena"},
                             {GpuSpace::kStep, "the step block"},     {GpuSpace::kLogits, "rows of logits"},
                             {GpuSpace::kConstants, "the constants"}, {GpuSpace::kResults, "the results"},
                             {GpuSpace::kScratch, "sampling"}};
  for (const Part& part : kParts) {
    const uint64_t bytes = code.bytes(part.space);
    QRT_RETURN_IF_ERROR(TakeMemory(part.name, bytes, &spaces_[static_cast<size_t>(part.space)]));
    if (part.space == GpuSpace::kWeights) {
      weight_bytes_ = bytes;
    } else {
      scratch_bytes_ += bytes;
    }
  }
  const CUdeviceptr arena = spaces_[static_cast<size_t>(GpuSpace::kArena)];
  arena_ = {arena, code.bytes(GpuSpace::kArena), nullptr};
  if (chains()) {
    QRT_RETURN_IF_ERROR(TakeMemory("a chain's tokens", kMostChainSteps * sizeof(int32_t), &handed_));
  }
  void* pinned = nullptr;
  CUresult result = driver_.call.MemAllocHost(
      &pinned, chains() ? ChainBlocksBytes(max_rows_) : qrt_gpu_step_bytes(max_rows_));
  step_block_ = result == kSuccess ? static_cast<uint8_t*>(pinned) : nullptr;
  if (result == kSuccess)
    result = driver_.call.MemAllocHost(&pinned, (max_rows_ + kMostChainSteps) * sizeof(int32_t));
  if (result != kSuccess) return driver_.Error(result, "pinned host memory");
  results_ = static_cast<int32_t*>(pinned);
  QRT_RETURN_IF_ERROR(Upload(spaces_[static_cast<size_t>(GpuSpace::kConstants)], code.constants, {}));
  return Upload(spaces_[static_cast<size_t>(GpuSpace::kWeights)], weights, options);
}

Status CudaDevice::Upload(CUdeviceptr to, std::span<const uint8_t> from, const CudaOptions& options) {
  bool stopped = false;
  const CUresult result = cuda::Upload(
      driver_.call, stream_, to, from, [&] { return Finish(); },
      [&](uint64_t bytes) { return !options.progress || options.progress(bytes, from.size()); }, &stopped);
  if (result != kSuccess) return driver_.Error(result, "uploading");
  if (!stopped) return Status();
  return Status(Code::kCancelled, 5016, "the upload of the weights was stopped", "device " + name_);
}

CUresult CudaDevice::Finish() {
  if (lost_) return last_error_;
  const CUresult result = cuda::WaitFor(driver_.call, stream_, longest_wait_);
  if (result != cuda::kNotReady) return result;
  lost_ = true;
  last_error_ = result;
  cuda::KeepAll(driver_.call);
  driver_.KeepOpen();
  return result;
}

DeviceResult CudaDevice::Settle(CUresult result) {
  if (result == kSuccess) return DeviceResult::kOk;
  refused_ = nullptr;
  last_error_ = result;
  if (cuda::Driver::Lost(result)) lost_ = true;
  if (lost_) return DeviceResult::kLost;
  return result == cuda::kOutOfMemory ? DeviceResult::kOutOfMemory : DeviceResult::kFailed;
}

CudaGraphs::After CudaDevice::AfterOf(const ChainStep& link) {
  const std::optional<GpuSampling> chooses = ChoosesIn(link);
  if (!chooses || link.step.n_out == 0) return CudaGraphs::After::kNothing;
  switch (*chooses) {
    case GpuSampling::kGreedy:
      return CudaGraphs::After::kGreedy;
    case GpuSampling::kGuess:
      return CudaGraphs::After::kGuess;
    case GpuSampling::kDrawFew:
      return CudaGraphs::After::kDrawFew;
    default:
      return CudaGraphs::After::kDraw;
  }
}

std::span<const CudaGraph> CudaDevice::GraphsOf(const StepRequest& step, CudaGraphs::After after) const {
  uint64_t context = 0;
  for (int64_t s = 0; s < step.n_seqs; ++s) {
    context = std::max(context, static_cast<uint64_t>(step.seqs[s].past + step.seqs[s].row_count));
  }
  return graphs_->Of(step.program, after, context);
}

DeviceResult CudaDevice::Run(const StepRequest& step) {
  if (lost_) return DeviceResult::kLost;
  if (step.program >= out_rows_.size() || !FitsStepBlock(step, max_rows_) ||
      step.n_out > out_rows_[step.program]) {
    return Refuse("the step does not fit its program");
  }
  ChainStep alone;
  alone.step = step;
  const CudaGraphs::After after = AfterOf(alone);
  const std::span<const CudaGraph> graphs = GraphsOf(step, after);
  if (after != CudaGraphs::After::kNothing && graphs.empty()) {
    return Refuse("the artifact has no kernels to choose so many tokens");
  }
  refused_ = nullptr;
  const Current current(driver_.call, context_);
  return Settle(current.result() == kSuccess ? RunStep(step, graphs) : current.result());
}

CUresult CudaDevice::RunStep(const StepRequest& step, std::span<const CudaGraph> graphs) {
  CUresult result = SendBlock(step, 0);
  if (result == kSuccess) result = Launch(graphs);
  const uint64_t rows = static_cast<uint64_t>(step.n_out);
  if (result == kSuccess && step.chosen != nullptr && rows != 0) {
    result = driver_.call.MemcpyDtoHAsync(results_, spaces_[static_cast<size_t>(GpuSpace::kResults)],
                                          rows * sizeof(int32_t), stream_);
    counters_.bytes_to_host += rows * sizeof(int32_t);
  }
  if (result == kSuccess && step.logits != nullptr && rows != 0) {
    const uint64_t bytes = rows * logits_row_bytes_[step.program];
    result = CopyToHost(step.logits, spaces_[static_cast<size_t>(GpuSpace::kLogits)], bytes);
    counters_.bytes_to_host += bytes;
  }
  // Also after a failure: what was begun reads and writes the caller's memory.
  const CUresult finished = Finish();
  if (result == kSuccess) result = finished;
  if (result == kSuccess && step.chosen != nullptr)
    std::memcpy(step.chosen, results_, rows * sizeof(int32_t));
  return result;
}

CUresult CudaDevice::Launch(std::span<const CudaGraph> graphs) {
  CUresult result = kSuccess;
  for (const CudaGraph& graph : graphs) {
    if (result != kSuccess) break;
    result = driver_.call.GraphLaunch(graph.exec, stream_);
    ++counters_.submissions;
    if (timer_ == nullptr || result != kSuccess) continue;
    // All graphs have the same events.
    result = Finish();
    if (result == kSuccess) result = timer_->Collect(graph.stages);
  }
  return result;
}

DeviceResult CudaDevice::TimeStages() {
  if (lost_) return DeviceResult::kLost;
  if (timer_ != nullptr) {
    timer_->Restart();
    return DeviceResult::kOk;
  }
  Result<GpuCode> code = GpuCode::Read(artifact_, place_, GpuTarget::kCuda);
  if (!code.ok()) return Refuse("the artifact's code cannot be read any more");
  refused_ = nullptr;
  const Current current(driver_.call, context_);
  if (current.result() != kSuccess) return Settle(current.result());
  auto timer = std::make_unique<CudaStageTimer>(driver_.call, *code, artifact_.manifest());
  const CUresult result = timer->Init();
  if (result != kSuccess) return Settle(result);
  const CudaPacing pacing(info_.bytes_per_second, max_dispatch_ms_);
  Result<std::unique_ptr<CudaGraphs>> graphs = CudaGraphs::Record(
      driver_, stream_, *code, artifact_.manifest(), functions_, spaces_, pacing, false, timer.get());
  if (!graphs.ok()) {
    if (graphs.status().code() == Code::kDeviceLost) lost_ = true;
    return lost_ ? DeviceResult::kLost : Refuse("graphs with events cannot be recorded");
  }
  graphs_ = std::move(*graphs);
  timer_ = std::move(timer);
  return DeviceResult::kOk;
}

CUresult CudaDevice::SendBlock(const StepRequest& step, uint64_t from) {
  uint8_t* block = step_block_ + from;
  const uint64_t bytes = WriteStepBlock(step, block);
  return driver_.call.MemcpyHtoDAsync(spaces_[static_cast<size_t>(GpuSpace::kStep)], block, bytes, stream_);
}

CUresult CudaDevice::Copy(const DeviceCopy& copy) {
  if (copy.bytes == 0) return kSuccess;
  return driver_.call.MemcpyDtoDAsync(copy.to->address + copy.to_offset,
                                      copy.from->address + copy.from_offset, copy.bytes, stream_);
}

DeviceResult CudaDevice::RunChain(std::span<const ChainStep> steps, int32_t* handed) {
  if (lost_) return DeviceResult::kLost;
  bool fits = chains() && FitsChain(steps, max_rows_);
  for (size_t i = 0; fits && i < steps.size(); ++i) {
    const StepRequest& step = steps[i].step;
    fits = step.program < out_rows_.size() && step.n_out <= out_rows_[step.program] &&
           !GraphsOf(step, AfterOf(steps[i])).empty();
  }
  if (!fits) return Refuse("the steps are no chain");
  refused_ = nullptr;
  const Current current(driver_.call, context_);
  CUresult result = current.result();
  if (result != kSuccess) return Settle(result);
  uint32_t made = 0;
  for (size_t i = 0; i < steps.size() && result == kSuccess; ++i) result = RunLink(steps, i, &made);
  const uint64_t n_out = static_cast<uint64_t>(steps.back().step.n_out);
  int32_t* passed = results_ + max_rows_;
  if (result == kSuccess) {
    result = driver_.call.MemcpyDtoHAsync(results_, spaces_[static_cast<size_t>(GpuSpace::kResults)],
                                          n_out * sizeof(int32_t), stream_);
  }
  if (result == kSuccess && made != 0) {
    result = driver_.call.MemcpyDtoHAsync(passed, handed_, made * sizeof(int32_t), stream_);
  }
  // Also after a failure: what was begun reads the blocks.
  const CUresult finished = Finish();
  if (result == kSuccess) result = finished;
  if (result != kSuccess) return Settle(result);
  std::memcpy(steps.back().step.chosen, results_, n_out * sizeof(int32_t));
  std::memcpy(handed, passed, made * sizeof(int32_t));
  counters_.bytes_to_host += (n_out + made) * sizeof(int32_t);
  return DeviceResult::kOk;
}

CUresult CudaDevice::RunLink(std::span<const ChainStep> steps, size_t i, uint32_t* made) {
  const ChainStep& link = steps[i];
  const cuda::Functions& call = driver_.call;
  const uint64_t from = ChainBlockOffset(i, steps.size(), max_rows_);
  CUresult result = SendBlock(link.step, from);
  if (result == kSuccess) result = Copy(link.before);
  for (uint32_t row = 0; row < link.fed && result == kSuccess; ++row) {
    result =
        call.MemcpyDtoDAsync(spaces_[static_cast<size_t>(GpuSpace::kStep)] + FedTokenOffset(link, row),
                             handed_ + (*made - link.fed + row) * sizeof(int32_t), sizeof(int32_t), stream_);
  }
  if (result == kSuccess) result = Launch(GraphsOf(link.step, AfterOf(link)));
  if (result == kSuccess && link.hands != Hands::kNothing) {
    const uint64_t row = static_cast<uint64_t>(link.step.n_out - 1);
    result = call.MemcpyDtoDAsync(handed_ + (*made)++ * sizeof(int32_t),
                                  spaces_[static_cast<size_t>(GpuSpace::kResults)] + row * sizeof(int32_t),
                                  sizeof(int32_t), stream_);
  }
  return result == kSuccess ? Copy(link.after) : result;
}

DeviceResult CudaDevice::Allocate(uint64_t bytes, DeviceBuffer* buffer) {
  *buffer = {};
  if (lost_) return DeviceResult::kLost;
  if (bytes == 0) return DeviceResult::kOk;  // the driver refuses to allocate nothing
  if (bytes > std::numeric_limits<size_t>::max()) return DeviceResult::kOutOfMemory;
  const Current current(driver_.call, context_);
  CUdeviceptr address = 0;
  CUresult result = current.result();
  if (result == kSuccess) result = driver_.call.MemAlloc(&address, bytes);
  if (result != kSuccess) return Settle(result);
  result = driver_.call.MemsetD8Async(address, 0, bytes, stream_);
  if (result == kSuccess) result = Finish();
  if (result != kSuccess) {
    driver_.call.MemFree(address);
    return Settle(result);
  }
  *buffer = {address, bytes, nullptr};
  return DeviceResult::kOk;
}

void CudaDevice::Free(DeviceBuffer* buffer) {
  if (!buffer->empty()) {
    const Current current(driver_.call, context_);
    driver_.call.MemFree(buffer->address);
  }
  *buffer = {};
}

DeviceResult CudaDevice::Zero(const DeviceBuffer& buffer) {
  if (lost_) return DeviceResult::kLost;
  if (buffer.empty()) return DeviceResult::kOk;
  const Current current(driver_.call, context_);
  CUresult result = current.result();
  if (result == kSuccess) result = driver_.call.MemsetD8Async(buffer.address, 0, buffer.bytes, stream_);
  if (result == kSuccess) result = Finish();
  return Settle(result);
}

CUresult CudaDevice::CopyToHost(void* to, CUdeviceptr from, uint64_t bytes) {
  const CUresult result = Finish();
  return result == kSuccess ? driver_.call.MemcpyDtoHAsync(to, from, bytes, stream_) : result;
}

CUresult CudaDevice::CopyFromHost(CUdeviceptr to, const void* from, uint64_t bytes) {
  const CUresult result = Finish();
  return result == kSuccess ? driver_.call.MemcpyHtoDAsync(to, from, bytes, stream_) : result;
}

DeviceResult CudaDevice::Transfer(std::span<const CopyRange> ranges, bool to_host) {
  if (lost_) return DeviceResult::kLost;
  const Current current(driver_.call, context_);
  CUresult result = current.result();
  if (result != kSuccess) return Settle(result);
  for (const CopyRange& range : ranges) {
    if (result != kSuccess) break;
    if (range.bytes == 0) continue;
    const CUdeviceptr address = range.buffer->address + range.offset;
    result = to_host ? CopyToHost(range.host, address, range.bytes)
                     : CopyFromHost(address, range.host, range.bytes);
  }
  const CUresult finished = Finish();
  return Settle(result != kSuccess ? result : finished);
}

}  // namespace

Result<std::unique_ptr<Device>> CreateCudaDevice(const Artifact& artifact, size_t variant,
                                                 const CudaOptions& options, const CudaLoader& loader) {
  Result<std::vector<CudaDeviceInfo>> devices = ListCudaDevices(loader);
  if (!devices.ok()) return devices.status();
  if (options.index < 0 || static_cast<size_t>(options.index) >= devices->size()) {
    return Status(Code::kInvalidArgument, 5014,
                  "there is no CUDA device " + std::to_string(options.index) + ", expected less than " +
                      std::to_string(devices->size()),
                  "device cuda", "qrun devices lists them");
  }
  const CudaDeviceInfo& info = (*devices)[static_cast<size_t>(options.index)];
  if (!info.usable)
    return Status(Code::kDeviceUnsupported, 5011, info.why_not,
                  "device cuda:" + std::to_string(info.index) + " (" + info.name + ")");
  Result<cuda::Driver> driver = cuda::Driver::Load(loader);
  if (!driver.ok()) return driver.status();
  auto device = std::make_unique<CudaDevice>(std::move(*driver), info, artifact, variant);
  QRT_RETURN_IF_ERROR(device->Init(options));
  if (options.log) options.log(false, device->name() + ", profile " + device->variant());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace qrt
