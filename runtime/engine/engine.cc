#include "runtime/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <utility>

namespace qrt {
namespace {

Status BadPrograms(std::string message) {
  return Status(Code::kArtifactIncompatible, 5320, std::move(message), "manifest, programs",
                "compile the model again with this release's qcc");
}

template <typename Parts>
Hash128 ArithmeticOf(const Parts& parts) {
  std::string text;
  for (const auto& part : parts) text += "|" + part.device->name() + "|" + part.device->variant();
  return HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

std::array<Engine::Block, 10> Engine::Blocks(const ModelPlan& plan, const Schedule& schedule, bool samples) {
  const Checked rows = schedule.max_rows();
  const Checked out_rows = schedule.max_out_rows();
  const Checked sampled = samples ? out_rows : Checked(0);
  const Checked penalties = samples ? Checked(QRT_GPU_MAX_PENALTIES) : Checked(0);
  const Checked drafted = schedule.leaves_every_row() && !DraftSchedule(plan).empty() ? rows : Checked(0);
  return {{
      {&Engine::logits_, "rows of logits", out_rows * plan.logits_stride * sizeof(float)},
      {&Engine::seqs_, "sequences", rows * sizeof(qrt_seq)},
      {&Engine::tokens_, "tokens", rows * sizeof(int32_t)},
      {&Engine::positions_, "positions", rows * (4 * sizeof(int32_t))},
      {&Engine::out_rows_, "output rows", rows * sizeof(int32_t)},
      {&Engine::outs_, "output rows", rows * sizeof(OutRow)},
      {&Engine::samples_, "samples", sampled * sizeof(qrt_gpu_sample)},
      {&Engine::penalties_, "penalties", penalties * sizeof(qrt_gpu_penalty)},
      {&Engine::chosen_, "chosen tokens", sampled * sizeof(int32_t)},
      {&Engine::stream_, "rows for drafts", drafted * plan.embedding_length * sizeof(float)},
  }};
}

Checked Engine::MemoryBytes(const ModelPlan& plan, const Schedule& schedule, bool samples) {
  Checked total = 0;
  for (const Block& block : Blocks(plan, schedule, samples)) total = total + block.bytes;
  return total;
}

Status Engine::Create(ModelPlan plan, std::unique_ptr<Device> device, const qrt_allocator* allocator,
                      std::unique_ptr<Engine>* out) {
  std::vector<Part> parts;
  parts.push_back({std::move(plan), std::move(device)});
  return Create(std::move(parts), allocator, out);
}

Status Engine::Create(std::vector<Part> parts, const qrt_allocator* allocator, std::unique_ptr<Engine>* out) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->parts_.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Stage& stage = engine->parts_.emplace_back();
    static_cast<Part&>(stage) = std::move(parts[i]);
    stage.schedule = Schedule(stage.plan.programs, {i == 0, i + 1 == parts.size()});
    engine->traces_.insert(engine->traces_.end(), stage.plan.traces.begin(), stage.plan.traces.end());
    engine->values_.insert(engine->values_.end(), stage.plan.values.begin(), stage.plan.values.end());
  }
  engine->arithmetic_ = ArithmeticOf(engine->parts_);
  QRT_RETURN_IF_ERROR(engine->CheckParts());
  if (engine->schedule().leaves_every_row()) engine->own_draft_ = DraftSchedule(engine->plan());
  QRT_RETURN_IF_ERROR(engine->TakeMemory(allocator));
  *out = std::move(engine);
  return Status();
}

Status Engine::CheckParts() const {
  const Schedule& schedule = this->schedule();
  if (schedule.empty() && parts_.size() == 1 && !DraftSchedule(plan()).empty()) {
    return Status(Code::kArtifactIncompatible, 5336,
                  "the artifact only drafts tokens for another one, and makes no text itself",
                  "manifest, programs",
                  "run the model's own artifact with it: qrun MODEL.qbin --draft DRAFT.qbin");
  }
  if (schedule.empty()) {
    return BadPrograms(
        "no program takes tokens and leads to logits, by itself or with one that takes its rows");
  }
  if (schedule.leaves_stream() && !schedule.serves_stream()) {
    return BadPrograms("programs leave rows that no program turns into logits");
  }
  if (plan().logits_stride < plan().vocab_size || plan().vocab_size == 0) {
    return BadPrograms("rows of logits lie " + std::to_string(plan().logits_stride) +
                       " apart, expected at least " + std::to_string(plan().vocab_size) + ", and at least 1");
  }
  for (size_t i = 0; parts_.size() > 1 && i < parts_.size(); ++i) {
    const Stage& part = parts_[i];
    if (part.schedule.max_rows() != schedule.max_rows()) {
      return BadPrograms("the programs of part " + std::to_string(i) + " take at most " +
                         std::to_string(part.schedule.max_rows()) + " rows, those of the last part " +
                         std::to_string(schedule.max_rows()));
    }
    const Checked bytes = Checked(schedule.max_rows()) * row_bytes();
    if (!bytes.fits(part.device->arena().bytes)) {
      return BadPrograms("the arena of part " + std::to_string(i) + " has " +
                         std::to_string(part.device->arena().bytes) +
                         " bytes, the rows that go through it take " + std::to_string(bytes.value()));
    }
  }
  return Status();
}

Status Engine::TakeMemory(const qrt_allocator* allocator) {
  const auto take = [&](Memory* memory, const char* name, Checked bytes) {
    if (bytes.is(0)) return Status();
    if (!bytes.ok() || !memory->Allocate(allocator, bytes.value())) {
      return Status(Code::kOutOfMemory, 6001,
                    std::string("no memory for ") + name + ": " + std::to_string(bytes.value()) + " bytes",
                    "engine", "compile with a ladder of smaller buckets, or free memory");
    }
    memory_bytes_ += bytes.value();
    return Status();
  };
  for (const Block& block : Blocks(plan(), schedule(), device().samples())) {
    QRT_RETURN_IF_ERROR(take(&(this->*block.memory), block.name, block.bytes));
  }
  bool unseen = false;  // by the host, on both sides of a boundary
  for (size_t i = 0; i < parts_.size(); ++i) {
    memory_bytes_ += device(i).scratch_bytes();
    unseen = unseen || (i > 0 && device(i - 1).host_arena() == nullptr && device(i).host_arena() == nullptr);
  }
  const Checked handed = unseen ? Checked(schedule().max_rows()) * row_bytes() : Checked(0);
  return take(&handed_, "rows between devices", handed);
}

DeviceResult Engine::Allocate(size_t part, uint64_t bytes, DeviceBuffer* buffer) {
  return OnMemory(part, [&](Device& device) { return device.Allocate(bytes, buffer); });
}

void Engine::FillsInParts(size_t part, const DeviceBuffer& buffer) {
  OnMemory(part, [&](Device& device) {
    device.FillsInParts(buffer);
    return DeviceResult::kOk;
  });
}

void Engine::Free(size_t part, DeviceBuffer* buffer) {
  if (buffer->empty()) return;
  Device& device = *stage(part).device;
  if (device.has_host_memory()) return device.Free(buffer);
  const std::lock_guard<FairMutex> lock(step_);
  device.Free(buffer);
}

DeviceResult Engine::Zero(size_t part, const DeviceBuffer& buffer) {
  return OnMemory(part, [&](Device& device) { return device.Zero(buffer); });
}

DeviceResult Engine::Read(size_t part, std::span<const CopyRange> ranges) {
  return CopyInPieces(part, ranges, &Device::Read);
}

DeviceResult Engine::Write(size_t part, std::span<const CopyRange> ranges) {
  return CopyInPieces(part, ranges, &Device::Write);
}

DeviceResult Engine::CopyInPieces(size_t part, std::span<const CopyRange> ranges, Copy copy) {
  // Some milliseconds of a link to a GPU.
  constexpr uint64_t kMostBytes = uint64_t{32} << 20;
  if (stage(part).device->has_host_memory()) return (stage(part).device.get()->*copy)(ranges);
  std::array<CopyRange, 64> piece;
  uint64_t done = 0;  // of ranges[i]
  for (size_t i = 0; i < ranges.size();) {
    size_t count = 0;
    for (uint64_t bytes = 0; i < ranges.size() && count < piece.size() && bytes < kMostBytes;) {
      CopyRange& next = piece[count++] = ranges[i];
      next.offset += done;
      next.host = static_cast<uint8_t*>(next.host) + done;
      next.bytes = std::min(next.bytes - done, kMostBytes - bytes);
      bytes += next.bytes;
      done += next.bytes;
      if (done == ranges[i].bytes) ++i, done = 0;
    }
    const DeviceResult result = OnMemory(part, [&](Device& device) {
      return (device.*copy)({piece.data(), count});
    });
    if (result != DeviceResult::kOk) return result;
  }
  return DeviceResult::kOk;
}

uint64_t Engine::StateBytes(size_t part, uint64_t tokens) const {
  return LiveBytes(plan(part).states, plan(part).state_block, tokens).value();
}

uint64_t Engine::KvBytes(size_t part, uint64_t tokens) const {
  uint64_t bytes = 0;
  for (const KvPlane& plane : plan(part).kv_planes) {
    if (!IsDraftsOwn(part, plane)) bytes += plane.row_bytes;
  }
  return tokens * bytes;
}

uint64_t Engine::StateBytes(uint64_t tokens) const {
  uint64_t bytes = 0;
  for (size_t part = 0; part < parts_.size(); ++part) bytes += StateBytes(part, tokens);
  return bytes;
}

uint64_t Engine::KvBytes(uint64_t tokens) const {
  uint64_t bytes = 0;
  for (size_t part = 0; part < parts_.size(); ++part) bytes += KvBytes(part, tokens);
  return bytes;
}

uint32_t Engine::block_beside_prefixes() const {
  for (const Stage& part : parts_) {
    const uint32_t block = part.plan.state_block;
    if (block != 0 && PrefixStore::kBlock % block != 0) return block;
  }
  return 0;
}

void Engine::KeepPrefixes(uint64_t bytes, const qrt_allocator* allocator) {
  if (block_beside_prefixes() != 0) return;
  prefixes_ = std::make_unique<PrefixStore>(*this, bytes, allocator);
}

DeviceResult Engine::HandOn(size_t part, uint64_t rows, size_t* failed) {
  const Device &from = *parts_[part].device, &to = *parts_[part + 1].device;
  const uint64_t bytes = rows * row_bytes();
  // One copy where the host sees one of the sides.
  uint8_t* between = to.host_arena();
  if (between == nullptr) between = from.host_arena();
  if (between == nullptr) between = handed_.data();
  DeviceResult result = DeviceResult::kOk;
  if (between != from.host_arena()) {
    const CopyRange range = {&from.arena(), 0, between, bytes};
    result = OnDevice(*failed = part, [&](Device& device) { return device.Read({&range, 1}); });
  }
  if (result == DeviceResult::kOk && between != to.host_arena()) {
    const CopyRange range = {&to.arena(), 0, between, bytes};
    result = OnDevice(*failed = part + 1, [&](Device& device) { return device.Write({&range, 1}); });
  }
  if (result != DeviceResult::kOk) return result;
  ++transfers_;
  bytes_transferred_ += bytes;
  return result;
}

EngineCounters Engine::counters() const {
  const std::lock_guard<FairMutex> lock(step_);
  EngineCounters counters;
  for (const Stage& stage : parts_) {
    const DeviceCounters own = stage.device->counters();
    counters.submissions += own.submissions;
    counters.bytes_to_host += own.bytes_to_host;
    counters.cpu_steps += own.cpu_steps;
    counters.step_threads += own.step_threads;
  }
  counters.transfers = transfers_;
  counters.bytes_transferred = bytes_transferred_;
  return counters;
}

Status Engine::TimeStages() {
  bool any = false;
  for (size_t part = 0; part < parts_.size(); ++part) {
    DeviceResult result;
    {
      const std::lock_guard<FairMutex> lock(step_);
      result = OnDevice(part, [](Device& device) { return device.TimeStages(); });
      parts_[part].timed = result == DeviceResult::kOk;
    }
    if (result == DeviceResult::kRefused && getpid() == process_) continue;
    if (result != DeviceResult::kOk) return Failure(part, result, "the times of stages");
    any = true;
  }
  if (any) return Status();
  const std::lock_guard<FairMutex> lock(step_);
  return Status(Code::kUnavailable, 5337, "the device cannot time its stages: " + device().last_error(),
                "device " + device().name(), "use --device=cpu, or the tools of the GPU's maker");
}

bool Engine::times_stages(size_t part) const {
  const std::lock_guard<FairMutex> lock(step_);
  return parts_[part].timed;
}

StageTime Engine::StageTimeOf(size_t part, uint32_t thread, size_t stage) const {
  const std::lock_guard<FairMutex> lock(step_);
  return parts_[part].device->stage_time(thread, stage);
}

Status Engine::Failure(size_t part, DeviceResult result, const std::string& what) const {
  const std::string note = "device " + device(part).name();
  std::string cause;
  if (result == DeviceResult::kLost || result == DeviceResult::kFailed ||
      result == DeviceResult::kOutOfMemory) {
    const std::lock_guard<FairMutex> lock(step_);
    cause = device(part).last_error();
    if (!cause.empty()) cause = ": " + cause;
  }
  switch (result) {
    case DeviceResult::kOk:
      return Status();
    case DeviceResult::kRefused:
      if (getpid() != process_) {
        return Status(Code::kInvalidArgument, 5324,
                      "process " + std::to_string(getpid()) + " cannot do " + what + ": process " +
                          std::to_string(process_) + " made the engine, and fork() takes no threads along",
                      note, "make the engine after fork()");
      }
      return Status(Code::kInternal, 5321, "the thread pool did not run " + what, "",
                    "see the qrt_thread_pool that the engine was given");
    case DeviceResult::kOutOfMemory:
      return Status(Code::kOutOfMemory, 6001, "no memory on the device for " + what + cause, note,
                    "ask for a smaller context, or free memory of the device");
    case DeviceResult::kLost:
      return Status(Code::kDeviceLost, 5010, "the device was lost before or during " + what + cause, note,
                    "make another engine; this one and its sessions can only be released");
    case DeviceResult::kFailed:
      break;
  }
  return Status(Code::kDeviceFailed, 5011, "the driver could not do " + what + cause, note,
                "reset or restore the session, or use another device");
}

}  // namespace qrt
