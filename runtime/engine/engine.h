// A compiled model on a device: cuts token sequences into steps, runs them, hands out logits.
#ifndef RUNTIME_ENGINE_ENGINE_H_
#define RUNTIME_ENGINE_ENGINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/base/checked.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/memory.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/schedule.h"
#include "runtime/engine/session.h"

namespace qrt {

// The arena and the buffers of a step are made once and belong to the engine; a mutex lets one step run at a
// time.
class Engine {
 public:
  // `weights`: base of the packed weights, must outlive the engine. `allocator` NULL: the system. Throws
  // std::bad_alloc. Errors: artifact incompatible (a program table that cannot serve tokens), out of memory.
  static Status Create(ModelPlan plan, const uint8_t* weights, std::unique_ptr<Device> device,
                       const qrt_allocator* allocator, std::unique_ptr<Engine>* out);

  const ModelPlan& plan() const { return plan_; }
  const Schedule& schedule() const { return schedule_; }
  const Device& device() const { return *device_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Memory that Create takes for such a plan: the arena, rows of logits and the buffers of a step.
  static Checked MemoryBytes(const ModelPlan& plan, const Schedule& schedule);

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
  static std::array<Block, 7> Blocks(const ModelPlan& plan, const Schedule& schedule);

  Engine() = default;

  ModelPlan plan_;
  Schedule schedule_;
  std::unique_ptr<Device> device_;
  const uint8_t* weights_ = nullptr;
  uint64_t memory_bytes_ = 0;
  Memory arena_;
  Memory logits_;     // [max_out_rows][logits_stride]
  Memory seqs_;       // qrt_seq [max_rows]
  Memory tokens_;     // i32 [max_rows]
  Memory positions_;  // i32 [max_rows][4]
  Memory out_rows_;   // i32 [max_rows]
  Memory outs_;       // OutRow [max_rows]
  std::mutex step_;   // guards everything from arena_ to outs_ and the device
};

// One call of append, over one or several sessions. Lives on the stack of the call; allocates nothing.
class Batch {
 public:
  explicit Batch(Engine& engine) : engine_(engine) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Checks and adds the next tokens of a session (`options` NULL: the last token's logits). Errors: invalid
  // argument, context full.
  Status Add(Session& session, const int32_t* tokens, size_t count, const qrt_append_options* options);

  // Runs steps until all tokens are taken. Errors: cancelled, internal (the thread pool refused).
  Status Run();

 private:
  // How a step went, without a Status: making one takes memory.
  enum class Outcome { kDone, kStopped, kRefused };

  bool Cancelled();
  // One trunk step and the heads it needs. `pending`: tokens not yet taken.
  Outcome Step(uint64_t pending);
  // Hands rows of logits out. `logits`: [count][logits_stride]. False: a callback wants to stop.
  bool Deliver(const Engine::OutRow* outs, uint32_t count, const float* logits);

  Engine& engine_;
  Session* first_ = nullptr;
  Session* last_ = nullptr;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_ENGINE_H_
