// What an engine runs its programs on: memory, programs, and where supported the choice of the next token.
#ifndef RUNTIME_DEVICE_DEVICE_H_
#define RUNTIME_DEVICE_DEVICE_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "runtime/abi/gpu_step.h"
#include "runtime/abi/program.h"

namespace qrt {

// How a call on a device went, without a Status: making one takes memory, and steps allocate nothing.
enum class DeviceResult : uint8_t {
  kOk,
  kRefused,      // the step was not started (an injected thread pool refused)
  kOutOfMemory,  // of the device
  kLost,         // the device is gone: every later call says so too; make another engine
  kFailed,       // the driver reported something else; Device::last_error() says what
};

// A block of device memory, zeroed when made. `address` is what programs see: a pointer on the CPU, a device
// address on a GPU. Only the device that made it can free and copy it.
struct DeviceBuffer {
  uint64_t address = 0;
  uint64_t bytes = 0;
  void* handle = nullptr;  // the device's own

  bool empty() const { return bytes == 0; }
};

// A copy between host memory and a range of a buffer.
struct CopyRange {
  const DeviceBuffer* buffer;
  uint64_t offset;
  void* host;
  uint64_t bytes;
};

// One step. Host memory, valid during the call.
struct StepRequest {
  uint32_t program = 0;           // place in the artifact's program table
  const qrt_seq* seqs = nullptr;  // [n_seqs]; state and kv hold device addresses (DeviceBuffer::address)
  int64_t n_seqs = 0;
  int64_t n_rows = 0;
  const int32_t* tokens = nullptr;     // [n_rows]
  const int32_t* positions = nullptr;  // [n_rows][4]
  const int32_t* out_rows = nullptr;   // [n_out]
  int64_t n_out = 0;
  float* logits = nullptr;  // [n_out][logits_stride]; null: they are not wanted on the host
  // Sampling on the device, for Device::samples(): one token per row of logits, into `chosen`; null: none.
  // With `samples` null every row takes its highest logit, the lowest id of equals (the greedy sample
  // programs).
  const qrt_gpu_sample* samples = nullptr;  // [n_out]
  const qrt_gpu_penalty* penalties = nullptr;
  uint32_t n_penalties = 0;
  int32_t* chosen = nullptr;  // [n_out]; below 0: no token can be chosen, QRT_GPU_SAMPLE_... says why
};

// A copy between two buffers of a device, or inside one where the ranges do not meet.
struct DeviceCopy {
  const DeviceBuffer* from = nullptr;
  uint64_t from_offset = 0;
  const DeviceBuffer* to = nullptr;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;  // 0: none
};

// Which token a step of a chain hands to those behind it, of those behind its last row of logits.
enum class Hands : uint8_t {
  kNothing,
  kGuess,   // a draft's likeliest
  kChoice,  // the one that its samples choose; without penalties
};

// A step of a chain: of steps that run one behind the other without the host in between, so that they are fed
// what those before chose.
struct ChainStep {
  StepRequest step;  // without logits; `chosen`: of the last one, and only there
  uint32_t fed =
      0;  // its last `fed` rows take the last `fed` tokens handed, in order, whatever step.tokens says
  Hands hands = Hands::kNothing;
  DeviceCopy before, after;
};

// Most steps of a chain: a draft's, and the one that checks what they guess.
inline constexpr uint32_t kMostChainSteps = 16;

struct DeviceCounters {
  uint64_t submissions = 0;    // to the device's queue, by steps
  uint64_t bytes_to_host = 0;  // copied back by steps
  uint64_t cpu_steps = 0;      // of a CPU
  uint64_t step_threads = 0;   // that they ran on, together
};

// What a thread's time went into, of one place in the code of its programs.
struct StageTime {
  uint64_t runs = 0;
  double seconds = 0;
};

// A stage of a device whose code is not the CPU's: launches of one kernel in a program.
struct DeviceStage {
  std::string program, kernel;
  std::string specification;  // family, then what tells it from others of the kernel
  uint64_t weight_bytes = 0;  // that one run reads with a full bucket
  bool is_head = false;       // it makes the program's logits
};

// Runs the programs of one artifact, addressed by their place in its program table. Weights and scratch
// belong to the device object. One call at a time, but for has_host_memory: the engine serialises. Run
// allocates nothing.
class Device {
 public:
  virtual ~Device() = default;

  virtual const std::string& name() const = 0;     // "cpu", "vulkan:0 (llvmpipe ...)"
  virtual const std::string& variant() const = 0;  // of the code in use: ISA level, GPU profile
  // Threads that enter a program together; 1 on a GPU.
  virtual uint32_t threads() const = 0;
  // Whether a child of fork() may call it; drivers of GPUs cannot stand that.
  virtual bool outlives_fork() const { return false; }
  virtual uint64_t code_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;        // arena, step buffers
  virtual uint64_t device_weight_bytes() const = 0;  // copied to device memory; 0: mapped from the file
  virtual bool samples() const = 0;                  // whether StepRequest::samples is served
  // Whether KV of Element::kB16 lies in rows of integers (runtime/abi/integer_row.h), not as f16.
  virtual bool has_integer_rows() const { return false; }
  // Whether each range of Read and Write waits for the device: few long ones are better, though the host
  // copies once more.
  virtual bool copies_wait() const { return false; }
  // Whether memory of sessions is the host's: all from Allocate to Write may be called at any time, by any
  // thread, also while steps run on other memory.
  virtual bool has_host_memory() const { return false; }

  // The most rows that a step should have when its longest sequence will hold `context` tokens: larger ones
  // of `programs`, which give no logits, would keep the device busy for too long at a time. Not fewer than
  // the smallest of them has; no limit where there are none.
  virtual uint32_t MostRows([[maybe_unused]] std::span<const uint32_t> programs,
                            [[maybe_unused]] uint64_t context) const {
    return std::numeric_limits<uint32_t>::max();
  }

  // Most tokens of a session's context that its kernels reach.
  virtual uint64_t most_context() const { return std::numeric_limits<uint64_t>::max(); }

  // Runs one step and returns after it is finished.
  virtual DeviceResult Run(const StepRequest& step) = 0;

  // Runs task(arg, i) for each i below `count`, several at a time and in no order, on the threads that run
  // its steps. False: it has none for that, nothing was run.
  virtual bool RunTasks([[maybe_unused]] void (*task)(void* arg, uint32_t i), [[maybe_unused]] void* arg,
                        [[maybe_unused]] uint32_t count) {
    return false;
  }

  // Whether it runs chains, of programs that give logits; and whether steps of them may guess.
  virtual bool chains() const { return false; }
  virtual bool chains_guesses() const { return false; }
  // Runs 1 to kMostChainSteps steps and returns after all are finished; the tokens that they handed on go to
  // `handed`, as in StepRequest::chosen. kRefused: it cannot.
  virtual DeviceResult RunChain([[maybe_unused]] std::span<const ChainStep> steps,
                                [[maybe_unused]] int32_t* handed) {
    return DeviceResult::kRefused;
  }

  // Memory of sessions: state and KV. kOutOfMemory leaves *buffer empty.
  virtual DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer) = 0;
  // Says of a fresh one that its parts fill one by one, and many never: KV, of which each layer and head has
  // a part as long as the context.
  virtual void FillsInParts([[maybe_unused]] const DeviceBuffer& buffer) {}
  virtual void Free(DeviceBuffer* buffer) = 0;  // empty buffers are fine; empties it
  virtual DeviceResult Zero(const DeviceBuffer& buffer) = 0;
  virtual DeviceResult Read(std::span<const CopyRange> ranges) = 0;   // device -> host
  virtual DeviceResult Write(std::span<const CopyRange> ranges) = 0;  // host -> device

  // The arena: residual stream at offset 0 between steps. For the engine, which hands the rows there from one
  // device to the next, and for tests, which place a kernel's inputs there.
  virtual const DeviceBuffer& arena() const = 0;
  // The arena's bytes where the host uses them in place; null: copies go through Read and Write.
  virtual uint8_t* host_arena() const { return nullptr; }

  // From now on the device tells how long each thread was at each stage of its programs, from 0 on, by its
  // own clock. kRefused: it cannot; last_error() may say why.
  virtual DeviceResult TimeStages() { return DeviceResult::kRefused; }
  // Of a device that times them; empty: they are those of the manifest (Manifest::stages).
  virtual std::span<const DeviceStage> stages() const { return {}; }
  // `thread` < threads(), `stage` below their number.
  virtual StageTime stage_time([[maybe_unused]] uint32_t thread, [[maybe_unused]] size_t stage) const {
    return {};
  }

  virtual DeviceCounters counters() const = 0;
  virtual std::string last_error() const = 0;  // of the driver, for people
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_DEVICE_H_
