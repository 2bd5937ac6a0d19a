// One sequence: recurrent and conv state, KV, position.
#ifndef RUNTIME_ENGINE_SESSION_H_
#define RUNTIME_ENGINE_SESSION_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/checked.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/draft_length.h"
#include "runtime/engine/drafter.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/tokens_ahead.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

class Batch;
class Checkpoint;
class Engine;

// Used by one thread at a time, Cancel excepted. The engine must outlive it.
class Session {
 public:
  // Memory is taken in Init. `handle` is what callbacks receive.
  Session(Engine& engine, qrt_session* handle) : engine_(engine), handle_(handle) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // What a session is asked for.
  struct Options {
    uint64_t context_tokens = 0;
    // Most tokens that it steps back at once, of those that a model with recurrent state has seen: at most a
    // block of its state. 0: less memory, and no way back.
    uint32_t max_rewind = 0;
    // Who guesses tokens (speculation.h), and how many at once: max_rewind is at least that.
    // QRT_DRAFT_TOKENS_AUTO: as many as pay (draft_length.h).
    qrt_draft draft = QRT_DRAFT_NONE;
    uint32_t draft_tokens = 0;
    // Without a draft: how many tokens a device decodes before the host looks at them (tokens_ahead.h):
    // max_rewind is at least one less. QRT_TOKENS_AHEAD_AUTO: as many as it takes no time to wait for, and
    // max_rewind allows.
    uint64_t tokens_ahead = 0;
  };
  static constexpr uint32_t kMaxDraftTokens = DraftLength::kMost;

  // Bytes that a session takes: state and KV of a part, logits.
  struct Sizes {
    Checked state = 0, kv = 0, logits = 0;
    Checked total() const { return state + kv + logits; }
  };
  static Sizes SizesFor(const ModelPlan& plan, const Options& options);

  // Takes the memory: the engine's devices give state and KV, `allocator` (NULL: the system) the logits.
  // Throws std::bad_alloc. Errors: out of memory, invalid argument, unavailable (the model has no draft),
  // device lost, device failed.
  Status Init(const Options& options, const qrt_allocator* allocator);

  // What Init was asked for.
  const Options& options() const { return options_; }
  uint64_t position() const { return position_; }
  uint64_t capacity() const { return capacity_; }
  Engine& engine() const { return engine_; }

  // What the last row behind layer `index` of the plan's traces holds; out->struct_size stays. Errors:
  // unavailable (none is kept), invalid argument (no such layer; a step failed), device lost, device failed.
  Status Trace(size_t index, qrt_layer_trace* out) const;
  // The last row of value `index` of the engine's. Errors: as those.
  Status Value(size_t index, float* row) const;

  // Logits [vocab_size] of the last token when its append wanted them, else nullptr.
  const float* logits() const {
    return has_logits_ ? reinterpret_cast<const float*>(logits_.data()) : nullptr;
  }

  void DropLogits() { has_logits_ = false; }

  // Whether a step failed on its device, and what is said of such a session.
  bool damaged() const { return damaged_; }
  static Status Damaged();

  // Whether other devices or code, which round otherwise, computed some of the sequence: it was restored from
  // their snapshot. It goes on, but is not what this engine makes of its tokens.
  bool foreign() const { return foreign_; }

  // Back to the empty sequence; a Cancel stays. Errors: device lost, device failed.
  Status Reset();

  // Rises whenever the sequence becomes another one: who knows what it was sees whether it still is.
  uint64_t moves() const { return moves_; }

  // How many tokens Rewind can take back now. With KV alone, all; with recurrent state, those of the last
  // max_rewind tokens that the state has seen and that were not taken back yet; none after Restore.
  uint64_t rewindable() const { return damaged_ ? 0 : position_ - floor_; }
  // Takes the last `tokens` tokens back: the session is as it was before them, but for logits and traces, of
  // which there are none until the next append. Copies nothing. Errors: invalid argument (more than
  // rewindable(); a step failed).
  Status Rewind(uint64_t tokens);

  // The same back to where a checkpoint was taken of this session. What Rewind can take back from there is
  // what it leaves, where it reaches that far, else nothing, but for a model of KV alone. Errors: invalid
  // argument (another session's; it does not hold any more; a step failed), device lost, device failed: the
  // session must be reset.
  Status RewindTo(const Checkpoint& checkpoint);

  // Who guesses from now on, at most `tokens` at once, which Rewind must be able to take back.
  void Use(std::unique_ptr<Drafter> drafter, uint32_t tokens) {
    drafter_ = std::move(drafter);
    draft_tokens_ = std::min(tokens, kMaxDraftTokens);
  }
  // From now on `length` says how many at once.
  void Adapt(const DraftLength& length) { draft_length_ = length; }
  // Null: nobody guesses. How many tokens at once, and who says it, where that is not always so many.
  Drafter* drafter() const { return drafter_.get(); }
  uint32_t draft_tokens() const { return draft_tokens_; }
  DraftLength* draft_length() { return draft_length_ ? &*draft_length_ : nullptr; }

  // Who says how many tokens are decoded at a time, and how many of them can be taken back.
  TokensAhead& tokens_ahead() { return tokens_ahead_; }
  void DecodeAhead(const TokensAhead& ahead) { tokens_ahead_ = ahead; }
  uint64_t most_back() const { return most_back_; }
  // Nanoseconds that its steps and its draft's have waited for those of others.
  uint64_t waited() const { return waited_ + (drafter_ != nullptr ? drafter_->waited() : 0); }

  // Stops the append now running, or the next one. Any thread, async-signal-safe.
  void Cancel() { cancel_.store(true, std::memory_order_relaxed); }
  void ForgetCancel() { cancel_.store(false, std::memory_order_relaxed); }

  // Snapshots: header, of each part the state at the position (sequence_state.h) without traces, then the
  // used rows of each KV plane but a draft's, with an XXH3-128 over all of it. So equal sequences give equal
  // snapshots, whatever was taken back.
  uint64_t SaveSize() const;
  // `bytes` holds SaveSize(). Errors: invalid argument (a step failed), device lost, device failed.
  Status Save(uint8_t* bytes) const;
  // Throws std::bad_alloc. Errors: snapshot mismatch, context full: the session is unchanged then, as without
  // memory; device lost, device failed: it must be reset. There are no traces until the next append.
  Status Restore(const uint8_t* bytes, uint64_t size);

  // What the first `tokens` tokens left besides KV and traces, Engine::StateBytes(tokens) bytes, whatever the
  // session's context and way back are. `tokens`: position(), or one that Rewind reaches. Errors: invalid
  // argument (a step failed), device lost, device failed.
  Status ReadState(uint64_t tokens, uint8_t* bytes) const;
  // The KV of `blocks.size()` runs of `run` tokens each, the first at token `begin`, each to
  // Engine::KvBytes(run) bytes. Errors: as of ReadState.
  Status ReadKv(uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks) const;
  // The session becomes the sequence of `blocks.size()` runs of `run` tokens that were read so, and their
  // state. They fit its context. Throws std::bad_alloc. Errors: device lost, device failed. After both it
  // must be reset.
  Status Become(uint64_t run, std::span<uint8_t* const> blocks, const uint8_t* state);

  // The sequence of `other`, of the same engine and made with the same options, and its logits; what Rewind
  // reaches and guesses are as after Restore. Copies what is in use, by way of 256 KiB of `allocator`'s
  // memory at most, 8 MiB where copies wait for the device. Throws std::bad_alloc. Errors: invalid argument
  // (a step of `other` failed), device lost, device failed: it must be reset.
  Status CopyOf(const Session& other, const qrt_allocator* allocator);

 private:
  friend class Batch;
  friend class Checkpoint;

  // What an append of this session still has to do.
  struct Feed {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    size_t done = 0;
    qrt_logits_want want = QRT_LOGITS_NONE;
    qrt_logits_fn on_logits = nullptr;
    void* ctx = nullptr;
    Sampler* sampler = nullptr;
    int32_t* next_token = nullptr;  // where the sampler's choice goes
    Session* next = nullptr;
    bool active = false;
    bool stopped = false;       // its callback wants no more
    uint32_t taken = 0;         // in the running step
    size_t* choices = nullptr;  // so many are at next_token, one behind each token; null: behind the last
  };

  // Memory on the device of a part.
  struct Area {
    DeviceBuffer state, kv;
  };

  // Errors: the session is damaged or stepped back, device lost or failed.
  Status ReadTraced(const TracedLayer& traced, float* row) const;
  // Whether and how far the session steps back. Errors: invalid argument.
  Status InitRewind(uint32_t max_rewind);
  Status InitDraft(const Options& options, const qrt_allocator* allocator);
  // The most guesses at once that every part's recurrent state can take back.
  uint32_t MostDraftTokens() const;
  // Memory of the session on the device of a part.
  Status Take(size_t part, const char* what, Checked bytes, DeviceBuffer* buffer);
  StateAreas AreasOf(size_t part) const;
  // The position moved forward: what can be taken back from there.
  void Advance(uint64_t tokens);
  // What a snapshot of `tokens` tokens holds of a part, without traces, in order.
  std::vector<CopyRange> Ranges(size_t part, uint8_t* payload, uint64_t tokens) const;
  // Between the state of `tokens` tokens, without traces, and the host's bytes, in order.
  std::vector<CopyRange> StateRanges(size_t part, uint8_t* bytes, uint64_t tokens) const;
  void AppendKvRanges(size_t part, uint64_t begin, uint64_t run, uint8_t* bytes,
                      std::vector<CopyRange>* ranges) const;
  // `ranges`: of each part; `what` names the work for people.
  Status WriteRanges(std::span<const std::vector<CopyRange>> ranges, const char* what);
  Status WriteState(uint64_t tokens, const uint8_t* bytes, const char* what);
  // A part's KV of `tokens` tokens out of a snapshot in the other form (kv_form.h), by way of `staging`,
  // which holds a row of each plane that has two.
  Status WriteOtherForm(size_t part, const uint8_t* kv, uint64_t tokens, std::span<uint8_t> staging);
  // KV as ReadKv describes it, either way, some runs at a time.
  enum class Way { kToHost, kToDevice };
  Status CopyKv(uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks, Way way,
                const char* what) const;
  // A part's, which lies `offset` bytes into each block: a range for each plane of each run, or, through the
  // host's memory, one for each plane (Device::copies_wait).
  DeviceResult CopyKvDirectly(size_t part, uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks,
                              uint64_t offset, Way way) const;
  DeviceResult CopyKvByPlane(size_t part, uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks,
                             uint64_t offset, Way way) const;
  void EndCheckpointsAbove(uint64_t tokens);
  // Another sequence is here, of `tokens` tokens: what can be taken back from there.
  void Arrived(uint64_t tokens);
  // The bytes of these ranges. Of all parts together: what lies behind a snapshot's header.
  Checked PayloadOf(size_t part, uint64_t tokens) const;
  Checked Payload(uint64_t tokens) const;
  float* mutable_logits() { return reinterpret_cast<float*>(logits_.data()); }

  Engine& engine_;
  qrt_session* const handle_;
  Options options_;
  std::vector<Area> areas_;  // of the parts, in their order
  DeviceBuffer draft_kv_;    // of a draft that was linked
  std::unique_ptr<Drafter> drafter_;
  uint32_t draft_tokens_ = 0;
  std::optional<DraftLength> draft_length_;
  TokensAhead tokens_ahead_{0};
  Memory logits_;
  uint64_t capacity_ = 0;     // tokens the caller asked for
  uint64_t kv_capacity_ = 0;  // tokens the KV is laid out for, >= capacity_
  uint64_t position_ = 0;
  uint64_t moves_ = 0;
  uint64_t waited_ = 0;      // nanoseconds
  uint64_t floor_ = 0;       // the lowest position that Rewind reaches
  uint64_t most_back_ = 0;   // tokens that a step forward leaves within reach
  bool steps_back_ = false;  // the state has two areas
  bool untraced_ = false;    // what the traces hold is not of the last token
  bool has_logits_ = false;
  bool foreign_ = false;
  bool damaged_ = false;                   // a step failed on the way: state and KV are undefined
  Checkpoint* last_checkpoint_ = nullptr;  // of those that hold, the one furthest on; they live elsewhere
  std::atomic<bool> cancel_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "Cancel runs in signal handlers");
  // What an append says that was stopped, made ahead: one that took tokens cannot say that memory ran out.
  struct Stops {
    Status cancelled = Status(Code::kCancelled, 5311, "the append was cancelled");
    Status by_callback = Status(Code::kCancelled, 5311, "a logits callback asked to stop");
  };
  Stops stops_;
  Feed feed_;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SESSION_H_
