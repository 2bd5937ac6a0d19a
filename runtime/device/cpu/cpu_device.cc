#include "runtime/device/cpu/cpu_device.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/float_environment.h"
#include "runtime/base/memory.h"
#include "runtime/device/cpu/barrier.h"
#include "runtime/device/cpu/read_ahead.h"

namespace qrt {
namespace {

constexpr std::string_view kTarget = "cpu";

std::string MissingNames(const CpuFeatures& cpu, const CodeInfo& code) {
  std::string names;
  for (const std::string& name : cpu.Missing(code.features)) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

struct Step {
  qrt_step_fn run;
  const qrt_step_args* args;
  std::atomic<int64_t> running_ns{0};  // of the threads together, where that is asked for
};

void RunStep(void* arg, uint32_t index, uint32_t count) {
  const Step& step = *static_cast<const Step*>(arg);
  const FloatEnvironment floats;
  step.run(step.args, index, count);
}

// For how long this thread had a core. getrusage would know it up to the last tick only.
int64_t RunningNs() {
  timespec time;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

void RunStepOnTheClock(void* arg, uint32_t index, uint32_t count) {
  Step& step = *static_cast<Step*>(arg);
  const int64_t before = RunningNs();
  RunStep(arg, index, count);
  step.running_ns.fetch_add(RunningNs() - before, std::memory_order_relaxed);
}

// Of one thread.
uint64_t StageClockBytes(const CodeImage& code) {
  const uint64_t bytes = sizeof(qrt_stage_clock) + uint64_t{code.stages()} * sizeof(qrt_stage_time);
  return (bytes + 63) / 64 * 64;
}

}  // namespace

Result<size_t> ChooseCode(const Manifest& manifest, const CpuFeatures& cpu, std::string_view name) {
  std::string known;
  std::string lacking;
  for (size_t i = 0; i < manifest.code.size(); ++i) {
    const CodeInfo& code = manifest.code[i];
    if (code.target != kTarget) continue;
    if (!known.empty()) known += ", ";
    known += code.isa;
    if (!name.empty() && code.isa != name) continue;
    const std::string missing = MissingNames(cpu, code);
    if (missing.empty()) return i;
    if (!lacking.empty()) lacking += "; ";
    lacking += code.isa + " needs " + missing;
  }
  if (!lacking.empty()) {
    return Status(Code::kDeviceUnsupported, 5001, "this CPU cannot run the artifact's code: " + lacking,
                  "device cpu", "compile with a --cpu that it has, for example --cpu=native on this machine");
  }
  if (name.empty()) {
    return Status(Code::kDeviceUnsupported, 5002, "the artifact holds no code for CPUs", "device cpu",
                  "compile with --target=cpu");
  }
  return Status(Code::kInvalidArgument, 5003,
                "the artifact holds no code variant \"" + std::string(name) + "\"", "device cpu",
                known.empty() ? "it holds no code for CPUs" : "it holds: " + known);
}

Result<size_t> TakeCode(const Manifest& manifest, CpuFeatures* cpu, std::string_view name,
                        bool (*request)()) {
  constexpr std::string_view kOnRequest = "xtiledata";
  Result<size_t> chosen = ChooseCode(manifest, *cpu, name);
  if (!chosen.ok()) return chosen;
  const std::vector<std::string>& needs = manifest.code[*chosen].features;
  if (std::find(needs.begin(), needs.end(), kOnRequest) == needs.end() || request()) return chosen;
  *cpu = cpu->Without(kOnRequest);
  return ChooseCode(manifest, *cpu, name);
}

CpuDevice::CpuDevice(std::shared_ptr<Workers> workers, const qrt_allocator* allocator)
    : memory_(allocator), workers_(std::move(workers)), step_threads_(workers_->threads()) {
  InitBarrier(&barrier_);
}

uint64_t CpuDevice::ArenaBytes(const Manifest& manifest) {
  uint64_t bytes = 64;  // never empty, so that there is always an address
  for (const ProgramInfo& program : manifest.programs) bytes = std::max(bytes, program.arena_bytes);
  return bytes;
}

uint64_t CpuDevice::ScratchBytes(const Artifact& artifact, size_t variant, uint32_t threads) {
  return CodeImage::ScratchOf(artifact.code(variant)).bytes(threads);
}

Result<std::unique_ptr<CpuDevice>> CpuDevice::Create(const Artifact& artifact, size_t variant,
                                                     std::shared_ptr<Workers> workers,
                                                     const qrt_allocator* allocator) {
  std::unique_ptr<CpuDevice> device(new CpuDevice(std::move(workers), allocator));
  Result<CodeImage> code = CodeImage::Load(artifact.code(variant), artifact.code_hash(variant),
                                           artifact.manifest().programs.size());
  if (!code.ok()) return code.status();
  device->code_ = std::move(*code);
  device->variant_ = artifact.manifest().code[variant].isa;
  device->weights_ = artifact.weights(variant).data();
  device->read_ahead_ = ReadAhead(DetectCpuModel());
  const uint64_t arena = ArenaBytes(artifact.manifest());
  if (device->Allocate(arena, &device->arena_) != DeviceResult::kOk) {
    return Status(Code::kOutOfMemory, 6001, "no memory for the arena: " + std::to_string(arena) + " bytes",
                  "device cpu", "compile with a ladder of smaller buckets, or free memory");
  }
  const uint64_t scratch = device->code_.scratch().bytes(device->workers_->threads());
  if (scratch != 0 && device->Allocate(scratch, &device->scratch_) != DeviceResult::kOk) {
    return Status(Code::kOutOfMemory, 6001, "no memory for scratch: " + std::to_string(scratch) + " bytes",
                  "device cpu", "use fewer threads, or free memory");
  }
  return device;
}

DeviceResult CpuDevice::Run(const StepRequest& step) {
  // Of work behind the last barrier of the step before.
  std::memset(barrier_.tickets, 0, sizeof barrier_.tickets);
  std::memset(barrier_.taken, 0, sizeof barrier_.taken);
  qrt_step_args args = {};
  args.weights = weights_;
  args.arena = HostMemory::Data(arena_);
  args.seqs = step.seqs;
  args.n_seqs = step.n_seqs;
  args.n_rows = step.n_rows;
  args.tokens = step.tokens;
  args.positions = step.positions;
  args.out_rows = step.out_rows;
  args.n_out = step.n_out;
  args.logits = step.logits;
  args.barrier = &barrier_;
  args.scratch = HostMemory::Data(scratch_);
  args.scratch_stride = static_cast<int64_t>(code_.scratch().thread);
  args.shared_scratch = args.scratch + code_.scratch().thread * workers_->threads();
  args.read_ahead = read_ahead_;
  Step run = {code_.entry(step.program), &args};
  // Times of stages are compared between all threads.
  const bool timed = !stage_clocks_.empty();
  const bool chooses = workers_->divisible() && workers_->threads() > 1 && !timed;
  const uint32_t count = chooses ? step_threads_.count() : workers_->threads();
  if (timed) {
    args.stage_clocks = HostMemory::Data(stage_clocks_);
    args.stage_clock_stride = static_cast<int64_t>(StageClockBytes(code_));
  }
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t ticks = __builtin_ia32_rdtsc();
  if (!workers_->Run(chooses ? RunStepOnTheClock : RunStep, &run, count)) return DeviceResult::kRefused;
  const uint64_t took = __builtin_ia32_rdtsc() - ticks;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (timed) {
    timed_ticks_ += took;
    timed_seconds_ += seconds;
  }
  if (chooses) {
    step_threads_.Took({step.program, step.n_rows},
                       {seconds, 1e-9 * static_cast<double>(run.running_ns.load())});
  }
  ++counters_.cpu_steps;
  counters_.step_threads += count;
  return DeviceResult::kOk;
}

bool CpuDevice::RunTasks(void (*task)(void* arg, uint32_t i), void* arg, uint32_t count) {
  // As many threads as a step has: others would be asleep, and those left out be so for the next. An
  // embedder's threads have stack for steps alone.
  const uint32_t threads = step_threads_.count();
  if (threads < 2 || !workers_->divisible()) return false;
  struct Tasks {
    void (*task)(void* arg, uint32_t i);
    void* arg;
    uint32_t count;
    std::atomic<uint32_t> next{0};
  } tasks = {task, arg, count};
  const PoolTask take = [](void* all, uint32_t, uint32_t) {
    Tasks& tasks = *static_cast<Tasks*>(all);
    for (uint32_t i; (i = tasks.next.fetch_add(1, std::memory_order_relaxed)) < tasks.count;) {
      tasks.task(tasks.arg, i);
    }
  };
  return workers_->Run(take, &tasks, threads);
}

DeviceResult CpuDevice::TimeStages() {
  timed_seconds_ = 0;
  timed_ticks_ = 0;
  if (!stage_clocks_.empty()) return memory_.Zero(stage_clocks_);
  return memory_.Allocate(StageClockBytes(code_) * workers_->threads(), &stage_clocks_);
}

StageTime CpuDevice::stage_time(uint32_t thread, size_t stage) const {
  if (stage_clocks_.empty() || timed_ticks_ == 0) return {};
  qrt_stage_time time;
  const size_t at = StageClockBytes(code_) * thread + sizeof(qrt_stage_clock) + stage * sizeof time;
  std::memcpy(&time, HostMemory::Data(stage_clocks_) + at, sizeof time);
  const double tick = timed_seconds_ / static_cast<double>(timed_ticks_);
  return {time.runs, static_cast<double>(time.ticks) * tick};
}

}  // namespace qrt
