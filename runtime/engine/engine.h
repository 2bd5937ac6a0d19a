// A compiled model on a device: cuts token sequences into steps, runs them, hands out logits.
#ifndef RUNTIME_ENGINE_ENGINE_H_
#define RUNTIME_ENGINE_ENGINE_H_

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/base/checked.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/schedule.h"
#include "runtime/engine/session.h"

namespace qrt {

// The buffers of a step are made once and belong to the engine; a mutex lets one call into the device at a
// time. A device that was lost stays lost: every later call says so.
class Engine {
 public:
  // `allocator` NULL: the system. Throws std::bad_alloc. Errors: artifact incompatible (a program table that
  // cannot serve tokens), out of memory.
  static Status Create(ModelPlan plan, std::unique_ptr<Device> device, const qrt_allocator* allocator,
                       std::unique_ptr<Engine>* out);

  const ModelPlan& plan() const { return plan_; }
  const Schedule& schedule() const { return schedule_; }
  // Only what does not change; for the rest there is counters().
  const Device& device() const { return *device_; }
  DeviceCounters counters() const;
  // Of the device's scratch and the buffers of a step.
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Memory that Create takes for such a plan: rows of logits and the buffers of a step. `samples`: for a
  // device that chooses tokens.
  static Checked MemoryBytes(const ModelPlan& plan, const Schedule& schedule, bool samples);

  // Memory of sessions, see Device. Any thread.
  DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer);
  void Free(DeviceBuffer* buffer);
  DeviceResult Zero(const DeviceBuffer& buffer);
  DeviceResult Read(std::span<const CopyRange> ranges);
  DeviceResult Write(std::span<const CopyRange> ranges);

  // The error behind a result that is not kOk: out of memory, device lost, device failed, internal (refused).
  // `what` names the work, e.g. "a step".
  Status Failure(DeviceResult result, const std::string& what) const;

 private:
  friend class Batch;

  struct OutRow {
    Session* session;
    uint64_t position;
    bool last;  // the last token of its append
  };

  // What Create allocates.
  struct Block {
    Memory Engine::*memory;
    const char* name;
    Checked bytes;
  };
  static std::array<Block, 9> Blocks(const ModelPlan& plan, const Schedule& schedule, bool samples);

  Engine() : process_(getpid()) {}
  // Calls the device, unless it is lost. The lock is held.
  template <typename Call>
  DeviceResult OnDevice(Call call) {
    if (lost_) return DeviceResult::kLost;
    if (!device_->outlives_fork() && getpid() != process_) return DeviceResult::kRefused;
    const DeviceResult result = call(*device_);
    lost_ = result == DeviceResult::kLost;
    return result;
  }

  const pid_t process_;  // that made it
  ModelPlan plan_;
  Schedule schedule_;
  std::unique_ptr<Device> device_;
  uint64_t memory_bytes_ = 0;
  Memory logits_;     // [max_out_rows][logits_stride]
  Memory seqs_;       // qrt_seq [max_rows]
  Memory tokens_;     // i32 [max_rows]
  Memory positions_;  // i32 [max_rows][4]
  Memory out_rows_;   // i32 [max_rows]
  Memory outs_;       // OutRow [max_rows]
  Memory samples_;    // qrt_gpu_sample [max_out_rows]; as the two below only for a device that chooses tokens
  Memory penalties_;  // qrt_gpu_penalty [QRT_GPU_MAX_PENALTIES]
  Memory chosen_;     // i32 [max_out_rows]
  bool lost_ = false;
  mutable std::mutex step_;  // guards everything from logits_ to lost_, and the device
};

// One call of append, over one or several sessions. Lives on the stack of the call; allocates nothing.
class Batch {
 public:
  explicit Batch(Engine& engine) : engine_(engine) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Checks and adds the next tokens of a session (`options` NULL: the last token's logits). With `sampler`
  // the token after the last one is chosen and written to *next; options->sampler and options->next are the C
  // API's business. Both must outlive Run. Errors: invalid argument, context full.
  Status Add(Session& session, const int32_t* tokens, size_t count, const qrt_append_options* options,
             Sampler* sampler = nullptr, int32_t* next = nullptr);

  // Runs steps until all tokens are taken. Errors: cancelled; internal (the thread pool refused); device
  // lost, device failed, out of memory (of the device): the sessions of that step must be reset or restored;
  // numeric fault (a sampler found logits that no model gives, Sampler::SampleStep: all tokens of that step
  // are taken); invalid argument (a callback made the samplers look back at too many tokens: those of the
  // step are taken, or none of them).
  Status Run();

 private:
  // How a step went, without a Status: making one takes memory.
  enum class Outcome { kDone, kStopped, kDevice, kSampling };

  bool Cancelled();
  // Tokens of `feed` for a step that has `rows` rows already and room for `space`: all that are left, or as
  // many as keep the bits independent of the other sessions (Device::cut_rows). 0: it has to wait for the
  // next step.
  uint32_t Take(const Session::Feed& feed, uint32_t rows, uint32_t space) const;
  // One program that takes tokens, and those that its stream needs. `pending`: tokens not yet taken.
  Outcome Step(uint64_t pending);
  // Runs a program and chooses tokens, on the device where it can. `outs`: rows of `request.out_rows`.
  // kSampling: it did not run, because there is no room for what the samplers look back at.
  Outcome RunProgram(StepRequest& request, const Engine::OutRow* outs);
  // `fault`, and the first layer of the faulty session with NaN or infinite values, where the artifact keeps
  // what tells it.
  Status WithBadLayer(Status fault) const;
  // Fills request's samples for rows of `outs`, if any wants one. False: too many penalties; sampling_ says
  // so.
  bool DescribeSamples(StepRequest& request, const Engine::OutRow* outs);
  // Takes the chosen tokens of the device, or chooses them here.
  void TakeChosen(const StepRequest& request, const Engine::OutRow* outs);
  // Hands rows of logits out. `logits`: [count][logits_stride]. False: a callback wants to stop.
  bool Deliver(const Engine::OutRow* outs, uint32_t count, const float* logits);

  Engine& engine_;
  Session* first_ = nullptr;
  Session* last_ = nullptr;
  uint64_t penalties_ = 0;  // of all samplers
  DeviceResult device_result_ = DeviceResult::kOk;
  Status sampling_;                  // why the first token that could not be chosen was not
  const Session* faulty_ = nullptr;  // whose logits were the reason
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_ENGINE_H_
