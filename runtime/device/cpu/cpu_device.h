// The CPU as a device: an artifact's best code variant on a group of threads.
#ifndef RUNTIME_DEVICE_CPU_CPU_DEVICE_H_
#define RUNTIME_DEVICE_CPU_CPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/artifact/artifact.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu/code_image.h"
#include "runtime/device/cpu/host_memory.h"
#include "runtime/device/cpu/step_threads.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/device.h"

namespace qrt {

// The code variant to run: with `name` empty the first CPU variant whose features are all in `cpu`, else the
// one called so. Errors: device unsupported (names each variant and what it lacks), invalid argument (no
// variant of that name).
Result<size_t> ChooseCode(const Manifest& manifest, const CpuFeatures& cpu, std::string_view name);

// The same for a device that is about to be made of it. What a process has only once it asked, it asks for
// here (`request`), where the variant needs it; refused, it is no more in `cpu`, and another variant is
// chosen.
Result<size_t> TakeCode(const Manifest& manifest, CpuFeatures* cpu, std::string_view name,
                        bool (*request)() = RequestTileRegisters);

class CpuDevice final : public Device {
 public:
  // Copies code variant `variant` of the artifact into executable memory, takes the arena and scratch for
  // each thread. The artifact's weights are used where they are mapped: it must outlive the device. Devices
  // of one engine, which run one after the other, may share `workers`.
  // `allocator` NULL: the system; else it serves the arena, the threads' scratch and the memory of sessions.
  // Errors: those of CodeImage::Load, out of memory.
  static Result<std::unique_ptr<CpuDevice>> Create(const Artifact& artifact, size_t variant,
                                                   std::shared_ptr<Workers> workers,
                                                   const qrt_allocator* allocator);

  // Of the arena that Create takes.
  static uint64_t ArenaBytes(const Manifest& manifest);
  // Of the scratch that it takes for code variant `variant` (of target "cpu").
  static uint64_t ScratchBytes(const Artifact& artifact, size_t variant, uint32_t threads);

  ~CpuDevice() override {
    memory_.Free(&arena_);
    memory_.Free(&scratch_);
    memory_.Free(&stage_clocks_);
  }

  const std::string& name() const override { return name_; }
  const std::string& variant() const override { return variant_; }
  uint32_t threads() const override { return workers_->threads(); }
  bool outlives_fork() const override { return true; }  // its workers refuse where they do not
  uint64_t code_bytes() const override { return code_.bytes(); }
  uint64_t scratch_bytes() const override { return arena_.bytes + scratch_.bytes; }
  uint64_t device_weight_bytes() const override { return 0; }
  bool samples() const override { return false; }
  bool has_integer_rows() const override { return true; }
  bool has_host_memory() const override { return true; }
  DeviceResult Run(const StepRequest& step) override;
  bool RunTasks(void (*task)(void* arg, uint32_t i), void* arg, uint32_t count) override;
  DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer) override {
    return memory_.Allocate(bytes, buffer);
  }
  void FillsInParts(const DeviceBuffer& buffer) override { memory_.FillsInParts(buffer); }
  void Free(DeviceBuffer* buffer) override { memory_.Free(buffer); }
  DeviceResult Zero(const DeviceBuffer& buffer) override { return memory_.Zero(buffer); }
  DeviceResult Read(std::span<const CopyRange> ranges) override { return memory_.Read(ranges); }
  DeviceResult Write(std::span<const CopyRange> ranges) override { return memory_.Write(ranges); }
  const DeviceBuffer& arena() const override { return arena_; }
  uint8_t* host_arena() const override { return HostMemory::Data(arena_); }
  DeviceResult TimeStages() override;
  StageTime stage_time(uint32_t thread, size_t stage) const override;
  DeviceCounters counters() const override { return counters_; }
  std::string last_error() const override { return ""; }

 private:
  CpuDevice(std::shared_ptr<Workers> workers, const qrt_allocator* allocator);
  DeviceResult RunTimed(void* step, qrt_step_args* args);

  const std::string name_ = "cpu";
  std::string variant_;
  HostMemory memory_;
  CodeImage code_;
  std::shared_ptr<Workers> workers_;
  StepThreads step_threads_;
  DeviceCounters counters_;
  const uint8_t* weights_ = nullptr;
  int64_t read_ahead_ = 0;  // bytes
  DeviceBuffer arena_;
  DeviceBuffer scratch_;  // of the threads, one after the other
  // Only where stages are timed: one for each thread, and of all steps since what tells the length of a tick.
  DeviceBuffer stage_clocks_;
  double timed_seconds_ = 0;
  uint64_t timed_ticks_ = 0;
  alignas(64) qrt_barrier barrier_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_CPU_DEVICE_H_
