// A compiled model on a device, or its layers on several: cuts token sequences into steps, runs them, hands
// out logits.
#ifndef RUNTIME_ENGINE_ENGINE_H_
#define RUNTIME_ENGINE_ENGINE_H_

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/checked.h"
#include "runtime/base/fair_mutex.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/draft_schedule.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/prefix_store.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/schedule.h"
#include "runtime/engine/session.h"

namespace qrt {

// What an engine has done so far, its devices together.
struct EngineCounters : DeviceCounters {
  uint64_t transfers = 0;          // from one device to the next: one a step and boundary
  uint64_t bytes_transferred = 0;  // rows of f32
};

// The buffers of a step are made once and belong to the engine; a mutex lets one call into the device at a
// time. A device that was lost stays lost: every later call says so.
//
// Where several devices run the model's layers, a step runs on each in turn: the first takes the tokens, each
// hands its rows to the next, and the last, the main one, gives logits and chooses tokens. Sessions have
// memory on each.
class Engine {
 public:
  // Some layers of the model, and the device that runs them.
  struct Part {
    ModelPlan plan;
    std::unique_ptr<Device> device;
  };

  // `allocator` NULL: the system. Throws std::bad_alloc. Errors: artifact incompatible (a program table that
  // cannot serve tokens), out of memory.
  static Status Create(ModelPlan plan, std::unique_ptr<Device> device, const qrt_allocator* allocator,
                       std::unique_ptr<Engine>* out);
  // The same for several parts of a model, at least one, in the order of their layers. Errors also: artifact
  // incompatible (parts that do not fit each other).
  static Status Create(std::vector<Part> parts, const qrt_allocator* allocator, std::unique_ptr<Engine>* out);

  size_t part_count() const { return parts_.size(); }
  const ModelPlan& plan(size_t part) const { return stage(part).plan; }
  // Only what does not change; for the rest there is counters().
  const Device& device(size_t part) const { return *stage(part).device; }
  // Of the last part, whose device is the main one.
  const ModelPlan& plan() const { return parts_.back().plan; }
  const Schedule& schedule() const { return parts_.back().schedule; }
  const Device& device() const { return *parts_.back().device; }
  // Names what rounds, devices and code: sessions of engines with the same have the same bits.
  const Hash128& arithmetic() const { return arithmetic_; }
  // Whether the model, or the one that was linked, drafts tokens.
  bool drafts() const { return second_model_ != nullptr || !draft_schedule().empty(); }
  const DraftSchedule& draft_schedule() const { return linked_ != nullptr ? linked_draft_ : own_draft_; }
  // The part that drafts; of a linked model part_count().
  size_t draft_part() const { return linked_ != nullptr ? parts_.size() : parts_.size() - 1; }
  // Whether the device that drafts is the one that checks, and runs both without the host in between.
  bool chains_drafts() const {
    return parts_.size() == 1 && linked_ == nullptr && second_model_ == nullptr && drafts() &&
           device().chains_guesses();
  }
  // Whether a KV plane of a part belongs to its draft alone: a sequence is the same without.
  bool IsDraftsOwn(size_t part, const KvPlane& plane) const {
    return part >= parts_.size() || (part + 1 == parts_.size() && own_draft_.Owns(plane));
  }
  // Bytes that Session::ReadState gives of `tokens` tokens, and ReadKv: of a part, and of all.
  uint64_t StateBytes(size_t part, uint64_t tokens) const;
  uint64_t KvBytes(size_t part, uint64_t tokens) const;
  uint64_t StateBytes(uint64_t tokens) const;
  uint64_t KvBytes(uint64_t tokens) const;
  // 0, or the length of a state's blocks that do not end where a prefix may: then no prefix can be kept, as
  // that state would not have the bytes of another.
  uint32_t block_beside_prefixes() const;
  // Before there are sessions: prefixes are kept from now on, where they can, in at most `bytes` bytes of
  // `allocator`'s memory (NULL: the system's). Throws std::bad_alloc.
  void KeepPrefixes(uint64_t bytes, const qrt_allocator* allocator);
  // Null: none are kept.
  PrefixStore* prefixes() const { return prefixes_.get(); }
  // Before there are sessions: `draft` drafts for this model from now on. Throws std::bad_alloc. Errors:
  // artifact incompatible (it drafts nothing; its rows, its vocabulary differ; this model's steps do not
  // leave the rows), out of memory.
  Status Link(Part draft, const qrt_allocator* allocator);
  // The same of a model by itself that has the same tokens (second_model.h).
  void Link(std::unique_ptr<Engine> model);
  // Null: none was linked.
  Engine* second_model() const { return second_model_.get(); }

  // The traced layers of all parts, by layer; empty: the artifact is not traceable.
  std::span<const TracedLayer> traces() const { return traces_; }
  // All values that states keep.
  std::span<const TracedLayer> values() const { return values_; }
  EngineCounters counters() const;
  // Of the devices' scratch and the buffers of a step.
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Memory that Create takes for such a plan: rows of logits and the buffers of a step. `samples`: for a
  // device that chooses tokens.
  static Checked MemoryBytes(const ModelPlan& plan, const Schedule& schedule, bool samples);

  // Memory of sessions on the device of a part, see Device. Any thread. Where it is not the host's, steps of
  // others come between pieces of long copies.
  DeviceResult Allocate(size_t part, uint64_t bytes, DeviceBuffer* buffer);
  void FillsInParts(size_t part, const DeviceBuffer& buffer);
  void Free(size_t part, DeviceBuffer* buffer);
  DeviceResult Zero(size_t part, const DeviceBuffer& buffer);
  DeviceResult Read(size_t part, std::span<const CopyRange> ranges);
  DeviceResult Write(size_t part, std::span<const CopyRange> ranges);

  // See Device: of the parts whose devices can. Any thread. Errors: unavailable (none can), out of memory.
  Status TimeStages();
  bool times_stages(size_t part) const;
  // Of a part that does.
  StageTime StageTimeOf(size_t part, uint32_t thread, size_t stage) const;

  // The error behind a result of a part's device that is not kOk: out of memory, device lost, device failed,
  // internal (refused). `what` names the work, e.g. "a step".
  Status Failure(size_t part, DeviceResult result, const std::string& what) const;

 private:
  friend class Batch;
  friend class ModelDrafter;

  struct OutRow {
    Session* session;
    uint64_t position;
    bool last;       // the last token of its append
    int32_t chosen;  // behind it, where that is done here: as Sampler::SampleStep says it
  };

  // What Create allocates.
  struct Block {
    Memory Engine::*memory;
    const char* name;
    Checked bytes;
  };
  static std::array<Block, 10> Blocks(const ModelPlan& plan, const Schedule& schedule, bool samples);

  struct Stage : Part {
    Schedule schedule;
    bool lost = false;
    bool timed = false;  // stages are
  };

  Engine() : process_(getpid()) {}
  // That every part has programs for the same steps and room for the rows that it takes and leaves.
  Status CheckParts() const;
  Status TakeMemory(const qrt_allocator* allocator);
  // Calls the device of a part, unless it is lost. The lock is held, as below.
  template <typename Call>
  DeviceResult OnDevice(size_t part, Call call) {
    Stage& stage = part < parts_.size() ? parts_[part] : *linked_;
    if (stage.lost) return DeviceResult::kLost;
    if (!stage.device->outlives_fork() && getpid() != process_) return DeviceResult::kRefused;
    const DeviceResult result = call(*stage.device);
    stage.lost = result == DeviceResult::kLost;
    return result;
  }
  // The lock, and how long it was waited for.
  class Turn {
   public:
    explicit Turn(FairMutex& mutex) : mutex_(mutex), waited_(mutex.lock()) {}
    ~Turn() { mutex_.unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    uint64_t waited() const { return static_cast<uint64_t>(waited_.count()); }  // nanoseconds

   private:
    FairMutex& mutex_;
    const std::chrono::nanoseconds waited_;
  };
  // Calls the device of a part for memory of sessions. The lock is not held.
  template <typename Call>
  DeviceResult OnMemory(size_t part, Call call) {
    if (stage(part).device->has_host_memory()) return call(*stage(part).device);
    const std::lock_guard<FairMutex> lock(step_);
    return OnDevice(part, call);
  }
  using Copy = DeviceResult (Device::*)(std::span<const CopyRange>);
  DeviceResult CopyInPieces(size_t part, std::span<const CopyRange> ranges, Copy copy);
  // Copies the rows that `part` left to the device of the next one. Which of both failed goes to *failed.
  DeviceResult HandOn(size_t part, uint64_t rows, size_t* failed);
  uint64_t row_bytes() const { return uint64_t{plan().embedding_length} * sizeof(float); }
  const Stage& stage(size_t part) const { return part < parts_.size() ? parts_[part] : *linked_; }

  // For drafters (engine_drafts.cc); the lock is held. False: the device did not do it.
  // The rows that the last step's program left, f32 [rows][embedding_length]; null: the device did not do it.
  const float* StreamRows(uint64_t rows);
  // Puts rows where the draft's programs are given them.
  bool PlaceDraftRows(const float* rows, uint64_t count);
  // Brings row `i` of those that the draft left to where its next program takes it.
  bool KeepDraftRow(uint64_t i);
  // Runs a draft's program for seq.row_count tokens, the first at `position`; with `logits` those of every
  // row.
  bool RunDraft(uint32_t program, const qrt_seq& seq, uint64_t position, const int32_t* tokens, bool logits);
  std::span<const float> draft_logits(uint64_t row) const {
    const uint32_t cols = draft_schedule().logits_cols();
    const uint64_t stride = cols != 0 ? cols : stage(draft_part()).plan.logits_stride;
    return {reinterpret_cast<const float*>(logits_.data()) + row * stride,
            cols != 0 ? cols : plan().vocab_size};
  }

  const pid_t process_;  // that made it
  std::vector<Stage> parts_;
  Hash128 arithmetic_ = {};
  DraftSchedule own_draft_;        // of the model, in the last part
  std::unique_ptr<Stage> linked_;  // drafts instead
  DraftSchedule linked_draft_;
  std::unique_ptr<Engine> second_model_;  // or this does
  std::vector<TracedLayer> traces_, values_;
  std::unique_ptr<PrefixStore> prefixes_;
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
  Memory handed_;     // f32 [max_rows][embedding_length]; only between devices of which the host sees neither
  Memory stream_;     // f32 [max_rows][embedding_length], for a drafter; only where there is a draft
  uint64_t transfers_ = 0, bytes_transferred_ = 0;
  // Guards everything from logits_ to bytes_transferred_, and the devices but for the memory of those that
  // have it in the host. Fair, so that a long prompt keeps nobody from more than a step.
  mutable FairMutex step_;
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

  // Whether tokens and sampler are of the engine's vocabulary. Errors: invalid argument.
  static Status CheckTokens(const Engine& engine, std::span<const int32_t> tokens);
  static Status CheckSampler(const Engine& engine, const Sampler& sampler);

  // The error of a step of the one token at `position`, whose logits are `found`, negative, to SampleStep.
  static Status NumericFault(const Engine& engine, int32_t found, uint64_t position);

  // Guesses to check, for a device that chooses tokens: as Add, but the sampler chooses behind each of
  // `tokens`, as if it had recorded those from the second on up to there. What comes behind tokens[i] goes to
  // chosen[i] as SampleStep says it, faults too: none of them is an error of Run. *count says how many there
  // are, also after an error.
  Status AddGuesses(Session& session, std::span<const int32_t> tokens, Sampler& sampler, int32_t* chosen,
                    size_t* count);

  // Lets `drafter` make the guesses, those that were added alone, in one run of the device with the step:
  // they go to `guesses`, tokens[1] on. It must be able to (ModelDrafter::ChainsTo), and a program that gives
  // logits to take all of the tokens.
  void Guess(ModelDrafter& drafter, std::span<int32_t> guesses) {
    guesser_ = &drafter;
    guesses_ = guesses;
  }

  // Decodes ahead, for a device that runs chains, of a session alone in the batch and a sampler that
  // penalizes nothing: as AddGuesses, but each token from the second on, whatever `tokens` says, is what was
  // chosen behind the one before. At most kMostChainSteps.
  Status AddAhead(Session& session, std::span<const int32_t> tokens, Sampler& sampler, int32_t* chosen,
                  size_t* count);

  // Runs steps until all tokens are taken. Errors: cancelled; internal (the thread pool refused); device
  // lost, device failed, out of memory (of the device): the sessions of that step must be reset or restored;
  // numeric fault (a sampler found logits that no model gives, Sampler::SampleStep: all tokens of all
  // sessions are taken, and the others' choices made); invalid argument (a callback made the samplers look
  // back at too many tokens: those of the step are taken, or none of them).
  Status Run();

  // After a numeric fault: the first session whose token could not be chosen. Else null.
  const Session* faulty() const { return faulty_; }

 private:
  // How a step went, without a Status: making one takes memory.
  // kStopped: a callback wanted no more; the step is whole, but for that session's rows.
  // kSampling: there is no room for what the samplers look back at.
  enum class Outcome { kDone, kStopped, kDevice, kSampling };

  bool Cancelled();
  // One program of each part, and those that its stream needs. `pending`: tokens not yet taken.
  Outcome Step(uint64_t pending);
  Outcome RunStep(uint64_t pending);
  Outcome RunAhead();
  // Tells the sessions' drafters what the step took.
  void TellDrafters();
  // The most rows that a step of `pending` tokens should have: every device can say that more takes too long.
  uint64_t MostRows(uint64_t pending) const;
  // Runs the parts before the last one on the rows of `request`, each on the sessions' memory of its device.
  Outcome RunEarlierParts(const StepRequest& request, qrt_seq* seqs);
  // Lets the sequences of a step show their memory on the device of a part.
  void AimAt(size_t part, qrt_seq* seqs) const;
  // Says in `request` what is wanted of `outs`, its rows of logits. Only this gives kSampling.
  Outcome Prepare(StepRequest& request, const Engine::OutRow* outs);
  // Runs a prepared program of the last part and chooses tokens, on the device where it can.
  Outcome RunProgram(const StepRequest& request, Engine::OutRow* outs);
  // What fault_ says, and the first layer of the faulty session with NaN or infinite values, where the
  // artifact keeps what tells it.
  Status NamedFault() const;
  // Whether a token is chosen from this row of logits, and the tokens that its sampler has not recorded yet.
  static bool Samples(const Engine::OutRow& out);
  static std::span<const int32_t> Ahead(const Engine::OutRow& out);
  // Fills request's samples for rows of `outs`, if any wants one. False: too many penalties; sampling_ says
  // so.
  bool DescribeSamples(StepRequest& request, const Engine::OutRow* outs);
  // Chooses tokens here, those of several sessions at once.
  void Choose(const StepRequest& request, Engine::OutRow* outs);
  // Whether no two sessions have the same sampler.
  bool SamplersDiffer() const;
  // Takes the chosen tokens of the device, or chooses them here.
  void TakeChosen(const StepRequest& request, Engine::OutRow* outs);
  // Hands rows of logits out, to sessions whose callback has not stopped. `logits`: [count][logits_stride].
  void Deliver(const Engine::OutRow* outs, uint32_t count, const float* logits);

  Engine& engine_;
  Session* first_ = nullptr;
  Session* last_ = nullptr;
  uint64_t penalties_ = 0;  // of all samplers
  DeviceResult device_result_ = DeviceResult::kOk;
  size_t device_part_ = 0;  // whose device gave it
  Status sampling_;         // there is no room for what samplers look back at
  // The first token that could not be chosen: whose, and what FaultIn tells of. To make a Status takes
  // memory, which there may be none of before the sessions know what they took.
  const Session* faulty_ = nullptr;
  struct {
    uint32_t program = 0;
    int32_t found = 0;
    uint64_t position = 0;
  } fault_;
  bool advanced_ = false;            // the last step's tokens are in the sessions
  bool stopped_ = false;             // a callback wants no more
  bool ahead_ = false;               // the tokens from the second on are what is chosen
  ModelDrafter* guesser_ = nullptr;  // who makes them; null: they are known
  std::span<int32_t> guesses_;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_ENGINE_H_
