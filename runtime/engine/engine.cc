#include "runtime/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace qrt {
namespace {

Status BadPrograms(std::string message) {
  return Status(Code::kArtifactIncompatible, 5320, std::move(message), "manifest, programs",
                "compile the model again with this release's qcc");
}

template <typename T>
T* As(const Memory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

std::array<Engine::Block, 7> Engine::Blocks(const ModelPlan& plan, const Schedule& schedule) {
  uint64_t arena = 64;  // never empty, so that there is always an address
  for (const Program& program : plan.programs) arena = std::max(arena, program.arena_bytes);
  const Checked rows = schedule.max_rows();
  return {{
      {&Engine::arena_, "the arena", arena},
      {&Engine::logits_, "rows of logits",
       Checked(schedule.max_out_rows()) * plan.logits_stride * sizeof(float)},
      {&Engine::seqs_, "sequences", rows * sizeof(qrt_seq)},
      {&Engine::tokens_, "tokens", rows * sizeof(int32_t)},
      {&Engine::positions_, "positions", rows * (4 * sizeof(int32_t))},
      {&Engine::out_rows_, "output rows", rows * sizeof(int32_t)},
      {&Engine::outs_, "output rows", rows * sizeof(OutRow)},
  }};
}

Checked Engine::MemoryBytes(const ModelPlan& plan, const Schedule& schedule) {
  Checked total = 0;
  for (const Block& block : Blocks(plan, schedule)) total = total + block.bytes;
  return total;
}

Status Engine::Create(ModelPlan plan, const uint8_t* weights, std::unique_ptr<Device> device,
                      const qrt_allocator* allocator, std::unique_ptr<Engine>* out) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->schedule_ = Schedule(plan.programs);
  const Schedule& schedule = engine->schedule_;
  if (schedule.empty()) return BadPrograms("no program takes tokens, expected a prefill or a decode program");
  if (schedule.needs_heads() && !schedule.has_heads()) {
    return BadPrograms("prefill programs without a head program, which would turn their rows into logits");
  }
  if (plan.logits_stride < plan.vocab_size || plan.vocab_size == 0) {
    return BadPrograms("rows of logits lie " + std::to_string(plan.logits_stride) +
                       " apart, expected at least " + std::to_string(plan.vocab_size) + ", and at least 1");
  }
  for (const Block& block : Blocks(plan, schedule)) {
    if (!block.bytes.ok() || !(*engine.*block.memory).Allocate(allocator, block.bytes.value())) {
      return Status(
          Code::kOutOfMemory, 6001,
          std::string("no memory for ") + block.name + ": " + std::to_string(block.bytes.value()) + " bytes",
          "engine", "compile with a ladder of smaller buckets, or free memory");
    }
    engine->memory_bytes_ += block.bytes.value();
  }
  engine->plan_ = std::move(plan);
  engine->weights_ = weights;
  engine->device_ = std::move(device);
  *out = std::move(engine);
  return Status();
}

Batch::~Batch() {
  for (Session* session = first_; session != nullptr;) {
    Session* next = session->feed_.next;
    session->feed_ = Session::Feed();
    session = next;
  }
}

Status Batch::Add(Session& session, const int32_t* tokens, size_t count, const qrt_append_options* options) {
  const ModelPlan& plan = engine_.plan_;
  const qrt_logits_want want = options != nullptr ? options->want : QRT_LOGITS_LAST;
  const qrt_logits_fn on_logits = options != nullptr ? options->on_logits : nullptr;
  if (&session.engine_ != &engine_) {
    return Status(Code::kInvalidArgument, 5307, "the session belongs to another engine");
  }
  if (session.feed_.active) {
    return Status(Code::kInvalidArgument, 5306, "the session is already part of an append", "",
                  "give each session once, and do not append from a callback");
  }
  if (want != QRT_LOGITS_NONE && want != QRT_LOGITS_LAST && want != QRT_LOGITS_ALL) {
    return Status(Code::kInvalidArgument, 5305,
                  "want is " + std::to_string(want) + ", expected a QRT_LOGITS value");
  }
  if (want == QRT_LOGITS_ALL && on_logits == nullptr) {
    return Status(Code::kInvalidArgument, 5305, "QRT_LOGITS_ALL without on_logits");
  }
  if (tokens == nullptr && count != 0) {
    return Status(Code::kInvalidArgument, 5301, "tokens is NULL with a count of " + std::to_string(count));
  }
  if (count > session.capacity_ - session.position_) {
    return Status(Code::kContextFull, 5310,
                  std::to_string(count) + " tokens do not fit: the session holds " +
                      std::to_string(session.position_) + " of " + std::to_string(session.capacity_),
                  "", "reset the session, or create one with a larger context");
  }
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= plan.vocab_size) {
      return Status(Code::kInvalidArgument, 5304,
                    "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", expected 0 to " +
                        std::to_string(plan.vocab_size - 1));
    }
  }
  session.feed_ = {tokens,  count, 0, want, on_logits, options != nullptr ? options->ctx : nullptr,
                   nullptr, true};
  if (last_ != nullptr) {
    last_->feed_.next = &session;
  } else {
    first_ = &session;
  }
  last_ = &session;
  return Status();
}

bool Batch::Cancelled() {
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    if (session->cancel_.load(std::memory_order_relaxed)) {
      session->cancel_.store(false, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

Status Batch::Run() {
  for (;;) {
    uint64_t pending = 0;
    for (Session* session = first_; session != nullptr; session = session->feed_.next) {
      pending += session->feed_.count - session->feed_.done;
    }
    if (pending == 0) return Status();
    if (Cancelled()) return Status(Code::kCancelled, 5311, "the append was cancelled");
    switch (Step(pending)) {
      case Outcome::kDone:
        break;
      case Outcome::kStopped:
        return Status(Code::kCancelled, 5311, "a logits callback asked to stop");
      case Outcome::kRefused:
        return Status(Code::kInternal, 5321, "the thread pool did not run a step", "",
                      "see the qrt_thread_pool that the engine was given");
    }
  }
}

Batch::Outcome Batch::Step(uint64_t pending) {
  const std::lock_guard<std::mutex> lock(engine_.step_);
  const Schedule::Choice& choice = engine_.schedule_.Trunk(pending);
  qrt_seq* seqs = As<qrt_seq>(engine_.seqs_);
  int32_t* tokens = As<int32_t>(engine_.tokens_);
  int32_t* positions = As<int32_t>(engine_.positions_);
  int32_t* out_rows = As<int32_t>(engine_.out_rows_);
  Engine::OutRow* outs = As<Engine::OutRow>(engine_.outs_);
  int64_t n_seqs = 0;
  uint32_t rows = 0;
  uint32_t n_out = 0;
  for (Session* session = first_; session != nullptr && rows < choice.rows; session = session->feed_.next) {
    Session::Feed& feed = session->feed_;
    const uint32_t take =
        static_cast<uint32_t>(std::min<uint64_t>(feed.count - feed.done, choice.rows - rows));
    if (take == 0) continue;
    seqs[n_seqs++] = {session->state_.data(),
                      session->kv_.data(),
                      static_cast<int64_t>(session->kv_capacity_),
                      static_cast<int64_t>(session->position_),
                      rows,
                      take};
    std::memcpy(tokens + rows, feed.tokens + feed.done, take * sizeof(int32_t));
    for (uint32_t i = 0; i < take; ++i) {
      std::fill_n(positions + 4 * (rows + i), 4, static_cast<int32_t>(session->position_ + i));
    }
    const bool ends = feed.done + take == feed.count;
    uint32_t first_out = take;  // of this session's rows
    if (feed.want == QRT_LOGITS_ALL) {
      first_out = 0;
    } else if (feed.want == QRT_LOGITS_LAST && ends) {
      first_out = take - 1;
    }
    for (uint32_t i = first_out; i < take; ++i) {
      out_rows[n_out] = static_cast<int32_t>(rows + i);
      outs[n_out++] = {session, session->position_ + i, ends && i + 1 == take};
    }
    rows += take;
  }

  // The usual step, one sequence that wants its last row, writes where the session reads.
  float* logits = n_out == 1 && outs[0].last ? outs[0].session->mutable_logits() : As<float>(engine_.logits_);
  qrt_step_args args = {};
  args.weights = engine_.weights_;
  args.arena = engine_.arena_.data();
  args.seqs = seqs;
  args.n_seqs = n_seqs;
  args.n_rows = rows;
  args.tokens = tokens;
  args.positions = positions;
  args.out_rows = out_rows;
  args.n_out = choice.has_head ? n_out : 0;
  args.logits = logits;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    if (session->feed_.done < session->feed_.count) session->has_logits_ = false;
  }
  if (!engine_.device_->Run(choice.program, &args)) return Outcome::kRefused;

  uint32_t left = rows;
  for (Session* session = first_; left != 0; session = session->feed_.next) {
    Session::Feed& feed = session->feed_;
    const uint32_t took = static_cast<uint32_t>(std::min<uint64_t>(feed.count - feed.done, left));
    feed.done += took;
    session->position_ += took;
    left -= took;
  }
  if (choice.has_head) return Deliver(outs, n_out, logits) ? Outcome::kDone : Outcome::kStopped;
  for (uint32_t at = 0; at < n_out;) {
    const Schedule::Choice& head = engine_.schedule_.Head(n_out - at);
    const uint32_t count = std::min(head.rows, n_out - at);
    args.out_rows = out_rows + at;
    args.n_out = count;
    if (!engine_.device_->Run(head.program, &args)) return Outcome::kRefused;
    if (!Deliver(outs + at, count, logits)) return Outcome::kStopped;
    at += count;
  }
  return Outcome::kDone;
}

bool Batch::Deliver(const Engine::OutRow* outs, uint32_t count, const float* logits) {
  const ModelPlan& plan = engine_.plan_;
  for (uint32_t i = 0; i < count; ++i) {
    Session& session = *outs[i].session;
    const float* row = logits + static_cast<uint64_t>(i) * plan.logits_stride;
    if (outs[i].last) {
      if (row != session.mutable_logits()) {
        std::memcpy(session.mutable_logits(), row, plan.vocab_size * sizeof(float));
      }
      session.has_logits_ = true;
    }
    const Session::Feed& feed = session.feed_;
    if (feed.on_logits != nullptr &&
        feed.on_logits(feed.ctx, session.handle_, outs[i].position, row, plan.vocab_size) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace qrt
