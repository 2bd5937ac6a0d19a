#include "runtime/device/vulkan/vulkan_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/base/checked.h"
#include "runtime/device/gpu/gpu_pieces.h"
#include "runtime/device/gpu/gpu_context.h"
#include "runtime/device/gpu/gpu_step_block.h"
#include "runtime/device/vulkan/context.h"
#include "runtime/device/vulkan/facts.h"
#include "runtime/device/vulkan/instance.h"
#include "runtime/device/vulkan/kernels.h"
#include "runtime/device/vulkan/pacing.h"
#include "runtime/device/vulkan/pipeline_cache.h"
#include "runtime/device/vulkan/recorder.h"
#include "runtime/device/vulkan/stage_timer.h"
#include "runtime/device/vulkan/transfer.h"
#include "runtime/device/vulkan/variant.h"

namespace qrt {
namespace {

// Parts into which a program without logits can be cut; so many that no part of a real model's is long.
constexpr size_t kMostSegments = 64;

class VulkanDevice final : public Device {
 public:
  VulkanDevice(std::unique_ptr<VulkanContext> context, const Artifact& artifact, size_t place,
               const VulkanOptions& options)
      : context_(std::move(context)),
        artifact_(artifact),
        place_(place),
        kernels_(*context_),
        transfer_(*context_),
        pacing_(context_->facts().type, options.max_dispatch_ms) {
    const VulkanDeviceInfo& info = context_->facts().info;
    name_ = "vulkan:" + std::to_string(info.index) + " (" + info.name + ")";
  }

  // Everything that can fail.
  Status Init(const GpuCode& code, const VulkanOptions& options);

  const std::string& name() const override { return name_; }
  const std::string& variant() const override { return variant_; }
  uint32_t threads() const override { return 1; }
  uint64_t code_bytes() const override { return code_bytes_; }
  uint64_t scratch_bytes() const override { return scratch_bytes_; }
  uint64_t device_weight_bytes() const override { return weight_bytes_; }
  bool samples() const override { return samples_; }
  bool copies_wait() const override { return true; }
  uint32_t MostRows(std::span<const uint32_t> programs, uint64_t context) const override {
    return MostBucketRows(pacing_, costs_, programs, context);
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
  std::string last_error() const override { return refused_ != nullptr ? refused_ : context_->last_error(); }

 private:
  struct Program {
    VulkanProgram segments;
    uint32_t rows = 0;      // bucket
    uint32_t out_rows = 0;  // most rows of logits
    uint64_t logits_row_bytes = 0;
  };
  struct Sample {
    GpuSampling kind;
    uint32_t rows;
    VulkanProgram segments;
  };

  static const VulkanBuffer& BufferOf(const DeviceBuffer& buffer) {
    return *static_cast<const VulkanBuffer*>(buffer.handle);
  }
  // The request cannot be: a bug of the caller, and nothing was started.
  DeviceResult Refuse(const char* what) {
    refused_ = what;
    return DeviceResult::kFailed;
  }
  DeviceResult Fail(VkResult result, const char* what) {
    refused_ = nullptr;
    return context_->Fail(result, what);
  }

  Status TakeMemory(const GpuCode& code);
  bool ImportWeights(std::span<const uint8_t> weights, const std::vector<GpuPiece>& pieces);
  Status TakeSpace(const GpuCode& code, GpuSpace space, std::vector<GpuPiece> pieces);
  Status Upload(const GpuCode& code, const VulkanOptions& options);
  Status Record(const Manifest& manifest, const GpuCode& code);

  // Null: there is none. Few tokens are drawn as many are where there is nothing shorter.
  const Sample* FindSample(GpuSampling kind, int64_t rows) const;
  DeviceResult Transfer(std::span<const CopyRange> ranges, bool to_host);
  // Copies into commands_: a step's block at step_host_ + `from`, and between buffers.
  void CopyBlock(uint64_t bytes, uint64_t from);
  void Copy(const VulkanBuffer& from, uint64_t from_offset, const VulkanBuffer& to, uint64_t to_offset,
            uint64_t bytes);
  void Copy(const DeviceCopy& copy);
  // Of step `i`; `made`: tokens handed on before it, which it counts on.
  void RecordLink(std::span<const ChainStep> steps, size_t i, uint32_t* made);
  VkResult RecordChain(std::span<const ChainStep> steps, uint32_t* made);
  VkResult RecordGroup(const Program& program, size_t begin, size_t end, const StepRequest& step,
                       uint64_t block_bytes, const Sample* sample, bool last);

  // Begins the recording of commands_.
  VkResult Begin();
  // Records the running of a segment of a list (GpuStages).
  void Execute(const VulkanSegment& segment, size_t list);
  void Execute(const Sample& sample) {
    const size_t list = programs_.size() + static_cast<size_t>(&sample - sample_programs_.data());
    for (const VulkanSegment& s : sample.segments) Execute(s, list);
  }
  // Submits commands_ and waits.
  VkResult Submit();

  // Destroyed in the reverse order: the context, which waits for the device, last.
  const std::unique_ptr<VulkanContext> context_;
  const Artifact& artifact_;
  const size_t place_;  // of the code
  std::string name_, variant_;
  VulkanKernels kernels_;
  VulkanTransfer transfer_;
  SubmissionPacing pacing_;
  std::array<std::vector<VulkanBuffer>, kGpuSpaces> buffers_;
  VulkanBuffer step_host_;  // the block as the host writes it, and those of a chain
  VulkanBuffer handed_;     // by a chain's steps: i32 [kMostChainSteps]
  VulkanBuffer readback_;   // results, then logits
  VulkanSpaces spaces_;
  DeviceBuffer arena_;
  std::vector<Program> programs_;
  std::vector<BucketCosts> costs_;  // by program; of those without logits
  std::vector<Sample> sample_programs_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  std::unique_ptr<VulkanStageTimer> timer_;  // null: nobody asks
  uint32_t max_rows_ = 0;
  uint64_t most_context_ = 0;
  uint64_t logits_offset_ = 0;  // in readback_
  uint64_t code_bytes_ = 0, scratch_bytes_ = 0, weight_bytes_ = 0;
  bool imported_ = false;  // kernels read the weights in the artifact's mapping
  bool samples_ = false, guesses_too_ = false;
  DeviceCounters counters_;
  const char* refused_ = nullptr;
};

Status VulkanDevice::Init(const GpuCode& code, const VulkanOptions& options) {
  const Manifest& manifest = artifact_.manifest();
  const CodeInfo& info = manifest.code[place_];
  variant_ = info.isa;
  code_bytes_ = artifact_.code(place_).size();
  samples_ = code.Samples(manifest);
  guesses_too_ = samples_ && code.Guesses(manifest);
  max_rows_ = code.max_rows;
  most_context_ = MostGpuContext(manifest);
  QRT_RETURN_IF_ERROR(TakeMemory(code));
  const PipelineCacheFile cache(options.pipeline_cache_dir, context_->facts(), artifact_.code_hash(place_));
  QRT_RETURN_IF_ERROR(kernels_.Init(code, SubgroupSizeOf(info), cache, options.log));
  QRT_RETURN_IF_ERROR(Upload(code, options));
  return Record(manifest, code);
}

// False: the driver cannot take this memory, and nothing is left of the attempt.
bool VulkanDevice::ImportWeights(std::span<const uint8_t> weights, const std::vector<GpuPiece>& pieces) {
  std::vector<VulkanBuffer>& buffers = buffers_[static_cast<size_t>(GpuSpace::kWeights)];
  for (const GpuPiece& piece : pieces) {
    const VkResult result =
        buffers.emplace_back().Import(context_.get(), weights.data() + piece.begin, piece.bytes());
    if (result == VK_SUCCESS) continue;
    buffers.clear();
    return false;
  }
  VulkanSpaces::Space& out = spaces_.spaces[static_cast<size_t>(GpuSpace::kWeights)];
  out.pieces = pieces;
  for (const VulkanBuffer& buffer : buffers) out.addresses.push_back(buffer.address());
  return true;
}

Status VulkanDevice::TakeMemory(const GpuCode& code) {
  std::array<std::vector<GpuPiece>, kGpuSpaces> pieces;
  Checked total = 0;
  for (size_t s = 0; s < kGpuSpaces; ++s) {
    const auto space = static_cast<GpuSpace>(s);
    uint64_t bytes = code.bytes(space);
    // Never empty, so that there is always an address to show.
    if (space == GpuSpace::kArena) bytes = std::max<uint64_t>(bytes, 64);
    if (space == GpuSpace::kImmediate || bytes == 0) continue;
    if (space != GpuSpace::kWeights && space != GpuSpace::kArena) {
      pieces[s] = {{0, bytes}};
      total = total + bytes;
      continue;
    }
    Result<std::vector<GpuPiece>> cut = CutSpace(code, space, context_->max_buffer_bytes());
    if (!cut.ok()) return cut.status();
    pieces[s] = std::move(*cut);
    if (pieces[s].empty()) pieces[s] = {{0, bytes}};
    if (space == GpuSpace::kWeights && context_->can_import() &&
        ImportWeights(artifact_.weights(place_), pieces[s])) {
      imported_ = true;
      pieces[s].clear();
      continue;
    }
    total = total + bytes;
  }
  const uint64_t left = context_->device_bytes_left();
  if (!total.fits(left)) {
    return Status(
        Code::kDeviceUnsupported, 5015,
        "the model takes " + std::to_string(total.value()) + " bytes of device memory" +
            (imported_ ? " besides its weights, which are read in the host's"
                       : ", its weights " + std::to_string(code.bytes(GpuSpace::kWeights)) + " of them") +
            ", " + std::to_string(left) + " are free",
        name_, "use another device, a smaller model, or a ladder of smaller buckets");
  }
  for (size_t s = 0; s < kGpuSpaces; ++s) {
    if (!pieces[s].empty()) {
      QRT_RETURN_IF_ERROR(TakeSpace(code, static_cast<GpuSpace>(s), std::move(pieces[s])));
    }
  }
  logits_offset_ = Checked(code.bytes(GpuSpace::kResults)).aligned(256).value();
  const uint64_t readback = std::max<uint64_t>(logits_offset_ + code.bytes(GpuSpace::kLogits), 64);
  const uint64_t blocks = chains() ? ChainBlocksBytes(max_rows_) : code.bytes(GpuSpace::kStep);
  VkResult result = step_host_.Allocate(context_.get(), VulkanMemoryKind::kHost, blocks);
  if (result == VK_SUCCESS && chains()) {
    result = handed_.Allocate(context_.get(), VulkanMemoryKind::kDevice, kMostChainSteps * sizeof(int32_t));
  }
  if (result == VK_SUCCESS) result = readback_.Allocate(context_.get(), VulkanMemoryKind::kHost, readback);
  if (result == VK_SUCCESS) result = transfer_.Init();
  if (result == VK_SUCCESS) {
    result = context_->AllocateCommands(VK_COMMAND_BUFFER_LEVEL_PRIMARY, &commands_);
  }
  if (result != VK_SUCCESS) return VulkanError(result, "to take memory for steps");
  scratch_bytes_ += step_host_.bytes() + handed_.bytes() + readback_.bytes() + transfer_.host_bytes();
  const std::vector<VulkanBuffer>& arena = buffers_[static_cast<size_t>(GpuSpace::kArena)];
  arena_ = {arena[0].address(), arena[0].bytes(), const_cast<VulkanBuffer*>(&arena[0])};
  return Status();
}

Status VulkanDevice::TakeSpace(const GpuCode& code, GpuSpace space, std::vector<GpuPiece> pieces) {
  VulkanSpaces::Space& out = spaces_.spaces[static_cast<size_t>(space)];
  std::vector<VulkanBuffer>& buffers = buffers_[static_cast<size_t>(space)];
  out.pieces = std::move(pieces);
  for (const GpuPiece& piece : out.pieces) {
    const VkResult result =
        buffers.emplace_back().Allocate(context_.get(), VulkanMemoryKind::kDevice, piece.bytes());
    if (result != VK_SUCCESS) {
      return VulkanError(result, "to take " + std::to_string(piece.bytes()) + " bytes of device memory");
    }
    out.addresses.push_back(buffers.back().address());
    (space == GpuSpace::kWeights ? weight_bytes_ : scratch_bytes_) += piece.bytes();
  }
  return Status();
}

Status VulkanDevice::Upload(const GpuCode& code, const VulkanOptions& options) {
  const std::span<const uint8_t> weights = artifact_.weights(place_);
  const auto& weight_buffers = buffers_[static_cast<size_t>(GpuSpace::kWeights)];
  const auto& pieces = spaces_.spaces[static_cast<size_t>(GpuSpace::kWeights)].pieces;
  for (size_t i = 0; i < pieces.size() && !imported_; ++i) {
    const GpuPiece& piece = pieces[i];
    std::function<bool(uint64_t)> done;
    if (options.progress) {
      done = [&](uint64_t bytes) { return options.progress(piece.begin + bytes, weights.size()); };
    }
    const VkResult result =
        transfer_.Write(weight_buffers[i], 0, weights.data() + piece.begin, piece.bytes(), done);
    if (result == VK_INCOMPLETE) {
      return Status(Code::kCancelled, 5016, "the upload of the weights was stopped", name_);
    }
    if (result != VK_SUCCESS) return VulkanError(result, "to upload the weights");
  }
  if (imported_ && options.progress && !options.progress(weights.size(), weights.size())) {
    return Status(Code::kCancelled, 5016, "the upload of the weights was stopped", name_);
  }
  VkResult result = VK_SUCCESS;
  for (const VulkanBuffer& b : buffers_[static_cast<size_t>(GpuSpace::kConstants)]) {
    result = transfer_.Write(b, 0, code.constants.data(), code.constants.size());
  }
  for (const GpuSpace space :
       {GpuSpace::kArena, GpuSpace::kStep, GpuSpace::kLogits, GpuSpace::kResults, GpuSpace::kScratch}) {
    for (const VulkanBuffer& b : buffers_[static_cast<size_t>(space)]) {
      if (result == VK_SUCCESS) result = transfer_.Zero(b);
    }
  }
  return result == VK_SUCCESS ? Status() : VulkanError(result, "to prepare device memory");
}

Status VulkanDevice::Record(const Manifest& manifest, const GpuCode& code) {
  programs_.resize(code.programs.size());
  costs_.resize(code.programs.size());
  for (size_t i = 0; i < code.programs.size(); ++i) {
    const ProgramInfo& info = manifest.programs[i];
    // Nobody waits for a token of a program that gives none: it may be long, and is cut.
    const bool cut = !info.facts.gives_logits();
    programs_[i].rows = info.rows;
    programs_[i].logits_row_bytes = uint64_t{manifest.logits_stride(info)} * sizeof(float);
    programs_[i].out_rows = cut ? 0 : info.rows;
    if (cut) {
      costs_[i].rows = info.rows;
      for (const GpuDispatch& d : code.programs[i].dispatches) costs_[i].Add(d.cost);
    }
    QRT_RETURN_IF_ERROR(RecordProgram(*context_, code, kernels_, spaces_, code.programs[i].dispatches,
                                      cut ? kMostSegments : 1, &programs_[i].segments));
  }
  for (const GpuSampleProgram& p : code.sample_programs) {
    Sample& sample = sample_programs_.emplace_back(Sample{p.kind, p.rows, {}});
    QRT_RETURN_IF_ERROR(RecordProgram(*context_, code, kernels_, spaces_, p.dispatches, 1, &sample.segments));
  }
  return Status();
}

const VulkanDevice::Sample* VulkanDevice::FindSample(GpuSampling kind, int64_t rows) const {
  const Sample* best = nullptr;
  for (const Sample& s : sample_programs_) {
    if (s.kind == kind && s.rows >= rows && (best == nullptr || s.rows < best->rows)) best = &s;
  }
  if (best == nullptr && kind == GpuSampling::kDrawFew) return FindSample(GpuSampling::kDraw, rows);
  return best;
}

DeviceResult VulkanDevice::Run(const StepRequest& step) {
  if (context_->lost()) return DeviceResult::kLost;
  if (step.program >= programs_.size() || !FitsStepBlock(step, max_rows_) ||
      step.n_out > programs_[step.program].out_rows) {
    return Refuse("the step does not fit its program");
  }
  const Program& program = programs_[step.program];
  const Sample* sample = nullptr;
  if (step.chosen != nullptr && step.n_out != 0) {
    sample = FindSample(SamplingOf(step), step.n_out);
    if (sample == nullptr) return Refuse("the artifact has no kernels to choose so many tokens");
  }
  refused_ = nullptr;
  const uint64_t block_bytes = WriteStepBlock(step, step_host_.mapped());
  uint64_t context = 0;
  for (int64_t s = 0; s < step.n_seqs; ++s) {
    context = std::max(context, static_cast<uint64_t>(step.seqs[s].past + step.seqs[s].row_count));
  }
  const double share = std::min(1.0, static_cast<double>(step.n_rows) / program.rows);

  // A program that gives logits is one segment, and so one submission.
  for (size_t begin = 0, end = 0; begin < program.segments.size() || begin == 0; begin = end) {
    double estimate = 0;
    while (end < program.segments.size()) {
      const double more = pacing_.Estimate(program.segments[end].cost, share, context);
      if (end != begin && estimate + more > pacing_.max_seconds()) break;
      estimate += more;
      ++end;
    }
    const bool last = end == program.segments.size();
    const auto start = std::chrono::steady_clock::now();
    VkResult result = RecordGroup(program, begin, end, step, begin == 0 ? block_bytes : 0, sample, last);
    if (result == VK_SUCCESS) result = Submit();
    if (result != VK_SUCCESS) return Fail(result, "a step");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    pacing_.Measured(estimate, seconds.count());
    if (last) break;
  }
  if (sample != nullptr) {
    const uint64_t bytes = static_cast<uint64_t>(step.n_out) * sizeof(int32_t);
    std::memcpy(step.chosen, readback_.mapped(), bytes);
    counters_.bytes_to_host += bytes;
  }
  if (step.logits != nullptr && step.n_out != 0) {
    const uint64_t bytes = static_cast<uint64_t>(step.n_out) * program.logits_row_bytes;
    std::memcpy(step.logits, readback_.mapped() + logits_offset_, bytes);
    counters_.bytes_to_host += bytes;
  }
  return DeviceResult::kOk;
}

DeviceResult VulkanDevice::TimeStages() {
  if (context_->lost()) return DeviceResult::kLost;
  if (timer_ != nullptr) {
    timer_->Restart();
    return DeviceResult::kOk;
  }
  if (context_->facts().timestamp_bits == 0) {
    refused_ = "its queue has no timestamps";
    return DeviceResult::kRefused;
  }
  Result<std::unique_ptr<VulkanStageTimer>> timer = VulkanStageTimer::Create(*context_, artifact_, place_);
  if (timer.ok()) {
    timer_ = std::move(*timer);
    return DeviceResult::kOk;
  }
  return timer.status().code() == Code::kOutOfMemory ? DeviceResult::kOutOfMemory
                                                     : Refuse("no timestamps can be made");
}

VkResult VulkanDevice::Begin() {
  if (timer_ != nullptr) timer_->Begin();
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return context_->vk().BeginCommandBuffer(commands_, &info);
}

void VulkanDevice::Execute(const VulkanSegment& segment, size_t list) {
  if (timer_ != nullptr) return timer_->Record(kernels_, spaces_, list, segment, commands_);
  context_->vk().CmdExecuteCommands(commands_, 1, &segment.commands);
}

VkResult VulkanDevice::Submit() {
  ++counters_.submissions;
  const VkResult result = context_->Run(commands_);
  return result == VK_SUCCESS && timer_ != nullptr ? timer_->Collect() : result;
}

VkResult VulkanDevice::RecordGroup(const Program& program, size_t begin, size_t end, const StepRequest& step,
                                   uint64_t block_bytes, const Sample* sample, bool last) {
  const VkResult result = Begin();
  if (result != VK_SUCCESS) return result;
  context_->FullBarrier(commands_);
  if (block_bytes != 0) {
    CopyBlock(block_bytes, 0);
    context_->FullBarrier(commands_);
  }
  for (size_t i = begin; i < end; ++i) Execute(program.segments[i], step.program);
  if (last && sample != nullptr) {
    context_->FullBarrier(commands_);
    Execute(*sample);
  }
  const auto read_back = [&](GpuSpace space, uint64_t offset, uint64_t bytes) {
    Copy(buffers_[static_cast<size_t>(space)][0], 0, readback_, offset, bytes);
  };
  const bool logits = step.logits != nullptr && step.n_out != 0;
  if (last && (sample != nullptr || logits)) {
    const uint64_t n_out = static_cast<uint64_t>(step.n_out);
    context_->FullBarrier(commands_);
    if (sample != nullptr) read_back(GpuSpace::kResults, 0, n_out * sizeof(int32_t));
    if (logits) read_back(GpuSpace::kLogits, logits_offset_, n_out * program.logits_row_bytes);
  }
  context_->HostBarrier(commands_);
  return context_->vk().EndCommandBuffer(commands_);
}

void VulkanDevice::CopyBlock(uint64_t bytes, uint64_t from) {
  Copy(step_host_, from, buffers_[static_cast<size_t>(GpuSpace::kStep)][0], 0, bytes);
}

void VulkanDevice::Copy(const VulkanBuffer& from, uint64_t from_offset, const VulkanBuffer& to,
                        uint64_t to_offset, uint64_t bytes) {
  const VkBufferCopy copy{from.offset() + from_offset, to.offset() + to_offset, bytes};
  context_->vk().CmdCopyBuffer(commands_, from.buffer(), to.buffer(), 1, &copy);
}

void VulkanDevice::Copy(const DeviceCopy& copy) {
  if (copy.bytes == 0) return;
  Copy(BufferOf(*copy.from), copy.from_offset, BufferOf(*copy.to), copy.to_offset, copy.bytes);
}

DeviceResult VulkanDevice::RunChain(std::span<const ChainStep> steps, int32_t* handed) {
  if (context_->lost()) return DeviceResult::kLost;
  bool fits = chains() && FitsChain(steps, max_rows_);
  for (size_t i = 0; fits && i < steps.size(); ++i) {
    const StepRequest& step = steps[i].step;
    const std::optional<GpuSampling> chooses = ChoosesIn(steps[i]);
    fits = step.program < programs_.size() && step.n_out <= programs_[step.program].out_rows &&
           (!chooses || FindSample(*chooses, step.n_out) != nullptr);
  }
  if (!fits) return Refuse("the steps are no chain");
  refused_ = nullptr;
  uint32_t made = 0;
  VkResult result = RecordChain(steps, &made);
  if (result == VK_SUCCESS) result = Submit();
  if (result != VK_SUCCESS) return Fail(result, "a step");
  const StepRequest& last = steps.back().step;
  const uint64_t n_out = static_cast<uint64_t>(last.n_out);
  std::memcpy(last.chosen, readback_.mapped(), n_out * sizeof(int32_t));
  std::memcpy(handed, readback_.mapped() + logits_offset_, made * sizeof(int32_t));
  counters_.bytes_to_host += (n_out + made) * sizeof(int32_t);
  return DeviceResult::kOk;
}

VkResult VulkanDevice::RecordChain(std::span<const ChainStep> steps, uint32_t* made) {
  const VkResult result = Begin();
  if (result != VK_SUCCESS) return result;
  for (size_t i = 0; i < steps.size(); ++i) RecordLink(steps, i, made);
  context_->FullBarrier(commands_);
  const uint64_t n_out = static_cast<uint64_t>(steps.back().step.n_out);
  Copy(buffers_[static_cast<size_t>(GpuSpace::kResults)][0], 0, readback_, 0, n_out * sizeof(int32_t));
  // Where logits would be, which have room for that: a row has at least 16 of them.
  if (*made != 0) Copy(handed_, 0, readback_, logits_offset_, *made * sizeof(int32_t));
  context_->HostBarrier(commands_);
  return context_->vk().EndCommandBuffer(commands_);
}

void VulkanDevice::RecordLink(std::span<const ChainStep> steps, size_t i, uint32_t* made) {
  const ChainStep& link = steps[i];
  const StepRequest& step = link.step;
  const uint64_t block = ChainBlockOffset(i, steps.size(), max_rows_);
  context_->FullBarrier(commands_);
  CopyBlock(WriteStepBlock(step, step_host_.mapped() + block), block);
  Copy(link.before);
  if (link.fed != 0) context_->FullBarrier(commands_);
  for (uint32_t row = 0; row < link.fed; ++row) {
    Copy(handed_, (*made - link.fed + row) * sizeof(int32_t),
         buffers_[static_cast<size_t>(GpuSpace::kStep)][0], FedTokenOffset(link, row), sizeof(int32_t));
  }
  context_->FullBarrier(commands_);
  for (const VulkanSegment& s : programs_[step.program].segments) Execute(s, step.program);
  if (const std::optional<GpuSampling> chooses = ChoosesIn(link)) {
    context_->FullBarrier(commands_);
    Execute(*FindSample(*chooses, step.n_out));
  }
  context_->FullBarrier(commands_);
  if (link.hands != Hands::kNothing) {
    const uint64_t row = static_cast<uint64_t>(step.n_out - 1);
    Copy(buffers_[static_cast<size_t>(GpuSpace::kResults)][0], row * sizeof(int32_t), handed_,
         (*made)++ * sizeof(int32_t), sizeof(int32_t));
  }
  Copy(link.after);
}

DeviceResult VulkanDevice::Allocate(uint64_t bytes, DeviceBuffer* buffer) {
  *buffer = DeviceBuffer();
  if (context_->lost()) return DeviceResult::kLost;
  auto owned = std::make_unique<VulkanBuffer>();
  VkResult result = owned->Allocate(context_.get(), VulkanMemoryKind::kDevice, std::max<uint64_t>(bytes, 1));
  if (result == VK_SUCCESS) result = transfer_.Zero(*owned);
  refused_ = nullptr;  // what last_error says is of this
  if (result != VK_SUCCESS) return context_->FailAllocation(result, bytes);
  buffer->address = owned->address();
  buffer->bytes = bytes;
  buffer->handle = owned.release();
  return DeviceResult::kOk;
}

void VulkanDevice::Free(DeviceBuffer* buffer) {
  delete static_cast<VulkanBuffer*>(buffer->handle);
  *buffer = DeviceBuffer();
}

DeviceResult VulkanDevice::Zero(const DeviceBuffer& buffer) {
  if (context_->lost()) return DeviceResult::kLost;
  if (buffer.empty()) return DeviceResult::kOk;
  const VkResult result = transfer_.Zero(BufferOf(buffer));
  return result == VK_SUCCESS ? DeviceResult::kOk : Fail(result, "to clear device memory");
}

DeviceResult VulkanDevice::Transfer(std::span<const CopyRange> ranges, bool to_host) {
  if (context_->lost()) return DeviceResult::kLost;
  for (const CopyRange& r : ranges) {
    if (r.bytes == 0) continue;
    const VulkanBuffer& buffer = BufferOf(*r.buffer);
    auto* const host = static_cast<uint8_t*>(r.host);
    const VkResult result = to_host ? transfer_.Read(buffer, r.offset, host, r.bytes)
                                    : transfer_.Write(buffer, r.offset, host, r.bytes);
    if (result != VK_SUCCESS)
      return Fail(result, to_host ? "to read device memory" : "to write device memory");
  }
  return DeviceResult::kOk;
}

}  // namespace

Result<std::unique_ptr<Device>> CreateVulkanDevice(const Artifact& artifact, size_t variant,
                                                   const VulkanOptions& options, const VulkanLoader& loader) {
  const CodeInfo& info = artifact.manifest().code[variant];
  Result<GpuCode> code = GpuCode::Read(artifact, variant, GpuTarget::kVulkan);
  if (!code.ok()) return code.status();
  Result<std::unique_ptr<VulkanInstance>> instance =
      VulkanInstance::Create(loader, options.validation, options.log);
  if (!instance.ok()) return instance.status();
  const Result<VulkanFacts> chosen = ChosenVulkanFacts(**instance, options.index);
  if (!chosen.ok()) return chosen.status();
  const Result<size_t> fits = ChooseVulkanCode(artifact.manifest(), chosen->info, info.isa);
  if (!fits.ok()) return fits.status();
  Result<std::unique_ptr<VulkanContext>> context =
      VulkanContext::Create(std::move(*instance), *chosen, options.separate_memory);
  if (!context.ok()) return context.status();
  auto device = std::make_unique<VulkanDevice>(std::move(*context), artifact, variant, options);
  QRT_RETURN_IF_ERROR(device->Init(*code, options));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace qrt
