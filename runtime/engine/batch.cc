// One append: cuts what sessions feed into steps, runs them, and hands out what they give.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/model_drafter.h"

namespace qrt {
namespace {

Status TooManyPenalties(uint64_t penalties, const Device& device) {
  return Status(Code::kInvalidArgument, 5323,
                "the samplers of this append look back at " + std::to_string(penalties) +
                    " different tokens, expected at most " + std::to_string(QRT_GPU_MAX_PENALTIES),
                "device " + device.name(), "use a smaller penalty window, or fewer sessions");
}

Status FaultIn(const std::string& program, const Device& device, int32_t found, uint64_t position) {
  return Status(Code::kNumericFault, 5325,
                std::string(Sampler::FaultOf(found)) + " after the token at position " +
                    std::to_string(position) + ", expected numbers that differ",
                "program " + program + ", device " + device.name(),
                "the model's output is damaged: check the artifact (qrun check), compile it again");
}

template <typename T>
T* As(const Memory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

Status Batch::NumericFault(const Engine& engine, int32_t found, uint64_t position) {
  const Schedule::Choice& step = engine.schedule().ForTokens(1);
  const uint32_t program = step.gives_logits ? step.program : engine.schedule().ForStream(1).program;
  return FaultIn(engine.plan().programs[program].name, engine.device(), found, position);
}

Status Batch::CheckTokens(const Engine& engine, std::span<const int32_t> tokens) {
  const uint32_t vocabulary = engine.plan().vocab_size;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (static_cast<uint32_t>(tokens[i]) < vocabulary) continue;
    return Status(Code::kInvalidArgument, 5304,
                  "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", expected 0 to " +
                      std::to_string(vocabulary - 1));
  }
  return Status();
}

Status Batch::CheckSampler(const Engine& engine, const Sampler& sampler) {
  const uint32_t vocabulary = engine.plan().vocab_size;
  if (sampler.vocab_size() == vocabulary) return Status();
  return Status(Code::kInvalidArgument, 5355,
                "the sampler chooses from a vocabulary of " + std::to_string(sampler.vocab_size()) +
                    " tokens, the session's model has " + std::to_string(vocabulary),
                "", "make both from the same artifact");
}

Batch::~Batch() {
  for (Session* session = first_; session != nullptr;) {
    Session* next = session->feed_.next;
    session->feed_ = Session::Feed();
    session = next;
  }
}

Status Batch::Add(Session& session, const int32_t* tokens, size_t count, const qrt_append_options* options,
                  Sampler* sampler, int32_t* next) {
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
  if (sampler != nullptr && next == nullptr) {
    return Status(Code::kInvalidArgument, 5301, "next is NULL, but there is a sampler");
  }
  if (sampler != nullptr && count == 0) {
    return Status(Code::kInvalidArgument, 5305, "a sampler without a token after which it could choose", "",
                  "append at least one token with it");
  }
  if (session.damaged_) return Session::Damaged();
  if (count > session.capacity_ - session.position_) {
    return Status(Code::kContextFull, 5310,
                  std::to_string(count) + " tokens do not fit: the session holds " +
                      std::to_string(session.position_) + " of " + std::to_string(session.capacity_),
                  "", "reset the session, or create one with a larger context");
  }
  QRT_RETURN_IF_ERROR(CheckTokens(engine_, {tokens, count}));
  if (sampler != nullptr) QRT_RETURN_IF_ERROR(CheckSampler(engine_, *sampler));
  if (sampler != nullptr && engine_.device().samples()) {
    penalties_ += sampler->penalties();
    if (penalties_ > QRT_GPU_MAX_PENALTIES) return TooManyPenalties(penalties_, engine_.device());
  }
  if (session.stops_.cancelled.ok() || session.stops_.by_callback.ok()) session.stops_ = Session::Stops();
  session.feed_ = Session::Feed();
  Session::Feed& feed = session.feed_;
  feed.tokens = tokens;
  feed.count = count;
  feed.want = want;
  feed.on_logits = on_logits;
  feed.ctx = options != nullptr ? options->ctx : nullptr;
  feed.sampler = sampler;
  feed.next_token = next;
  feed.active = true;
  if (last_ != nullptr) {
    last_->feed_.next = &session;
  } else {
    first_ = &session;
  }
  last_ = &session;
  return Status();
}

Status Batch::AddGuesses(Session& session, std::span<const int32_t> tokens, Sampler& sampler, int32_t* chosen,
                         size_t* count) {
  *count = 0;
  qrt_append_options options = {};
  options.want = QRT_LOGITS_NONE;
  QRT_RETURN_IF_ERROR(Add(session, tokens.data(), tokens.size(), &options, &sampler, chosen));
  session.feed_.choices = count;
  return Status();
}

bool Batch::Samples(const Engine::OutRow& out) {
  const Session::Feed& feed = out.session->feed_;
  return feed.sampler != nullptr && (out.last || feed.choices != nullptr);
}

std::span<const int32_t> Batch::Ahead(const Engine::OutRow& out) {
  const Session::Feed& feed = out.session->feed_;
  if (feed.choices == nullptr) return {};
  const uint64_t begin = out.session->position_ - feed.done;
  return {feed.tokens + 1, static_cast<size_t>(out.position - begin)};
}

bool Batch::Cancelled() {
  bool cancelled = false;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    if (!session->cancel_.load(std::memory_order_relaxed)) continue;
    session->ForgetCancel();
    cancelled = true;
  }
  return cancelled;
}

Status Batch::Run() {
  for (;;) {
    uint64_t pending = 0;
    for (Session* session = first_; session != nullptr; session = session->feed_.next) {
      pending += session->feed_.count - session->feed_.done;
    }
    // A token that could not be chosen keeps no other session from its own.
    if (pending == 0) return faulty_ == nullptr ? Status() : NamedFault();
    if (Cancelled()) return std::move(first_->stops_.cancelled);
    switch (Step(pending)) {
      case Outcome::kDone:
        break;
      case Outcome::kStopped:
        return std::move(first_->stops_.by_callback);
      case Outcome::kDevice:
        return engine_.Failure(device_part_, device_result_, "a step");
      case Outcome::kSampling:
        return std::move(sampling_);
    }
  }
}

// Reads what the step left, so it comes after the step's lock.
Status Batch::NamedFault() const {
  Status fault =
      FaultIn(engine_.plan().programs[fault_.program].name, engine_.device(), fault_.found, fault_.position);
  for (size_t i = 0; i < engine_.traces().size(); ++i) {
    qrt_layer_trace trace = {};
    if (!faulty_->Trace(i, &trace).ok()) return fault;
    if (trace.nan + trace.infinite == 0) continue;
    return Status(
        fault.code(), fault.number(), fault.message(),
        fault.note() + ", layer " + std::to_string(trace.layer) + " is the first with NaN or infinite values",
        fault.help());
  }
  return fault;
}

Batch::Outcome Batch::Step(uint64_t pending) {
  const Engine::Turn turn(engine_.step_);
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    session->waited_ += turn.waited();
  }
  advanced_ = false;
  const Outcome outcome = ahead_ ? RunAhead() : RunStep(pending);
  if (advanced_) TellDrafters();
  return outcome;
}

Batch::Outcome Batch::RunStep(uint64_t pending) {
  for (Session* session = first_; session != nullptr; session = session->feed_.next) session->feed_.taken = 0;
  // What is never cut need not be shortened either.
  const uint64_t most = guesser_ != nullptr ? pending : MostRows(pending);
  const Schedule::Choice& choice = engine_.schedule().ForTokens(most);
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
    const auto take = static_cast<uint32_t>(std::min<uint64_t>(feed.count - feed.done, choice.rows - rows));
    if (take == 0) continue;
    feed.taken = take;
    // AimAt says where the memory is.
    seqs[n_seqs++] = {nullptr,
                      0,
                      nullptr,
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
    if (feed.want == QRT_LOGITS_ALL || feed.choices != nullptr) {
      first_out = 0;
    } else if (ends && (feed.want == QRT_LOGITS_LAST || feed.sampler != nullptr)) {
      first_out = take - 1;
    }
    for (uint32_t i = first_out; i < take; ++i) {
      out_rows[n_out] = static_cast<int32_t>(rows + i);
      outs[n_out++] = {session, session->position_ + i, ends && i + 1 == take, 0};
    }
    rows += take;
  }

  StepRequest request;
  request.program = choice.program;
  request.seqs = seqs;
  request.n_seqs = n_seqs;
  request.n_rows = rows;
  request.tokens = tokens;
  request.positions = positions;
  request.out_rows = out_rows;
  request.n_out = choice.gives_logits ? n_out : 0;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    if (session->feed_.done < session->feed_.count) session->has_logits_ = false;
  }
  Outcome ran = Prepare(request, outs);
  if (ran == Outcome::kDone) ran = RunEarlierParts(request, seqs);
  if (ran == Outcome::kDone) {
    AimAt(engine_.part_count() - 1, seqs);
    ran = RunProgram(request, outs);
  }
  const bool done = ran == Outcome::kDone;
  const bool refused = device_result_ == DeviceResult::kRefused && device_part_ == 0;
  const bool started = done || (ran == Outcome::kDevice && !refused);
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    Session::Feed& feed = session->feed_;
    if (done) {
      feed.done += feed.taken;
      session->Advance(feed.taken);
    } else if (started) {
      session->damaged_ = session->damaged_ || feed.taken != 0;
    } else {
      feed.taken = 0;  // no drafter is told of them
    }
  }
  if (!done) return ran;
  advanced_ = true;
  if (choice.gives_logits) Deliver(outs, n_out, request.logits);
  for (uint32_t at = choice.gives_logits ? n_out : 0; at < n_out;) {
    if (outs[at].session->feed_.stopped) {
      ++at;
      continue;
    }
    const Schedule::Choice& last = engine_.schedule().ForStream(n_out - at);
    const uint32_t count = std::min(last.rows, n_out - at);
    request.program = last.program;
    request.n_seqs = 0;
    request.n_rows = count;
    request.out_rows = out_rows + at;
    request.n_out = count;
    Outcome last_ran = Prepare(request, outs + at);
    if (last_ran == Outcome::kDone) last_ran = RunProgram(request, outs + at);
    if (last_ran != Outcome::kDone) return last_ran;
    Deliver(outs + at, count, request.logits);
    at += count;
  }
  return stopped_ ? Outcome::kStopped : Outcome::kDone;
}

uint64_t Batch::MostRows(uint64_t pending) const {
  uint64_t context = 0;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    const uint64_t left = session->feed_.count - session->feed_.done;
    context = std::max(context, session->position_ + std::min<uint64_t>(left, engine_.schedule().max_rows()));
  }
  uint64_t most = pending;
  for (const Engine::Stage& part : engine_.parts_) {
    most = std::min<uint64_t>(most, part.device->MostRows(part.schedule.without_logits(), context));
  }
  return std::max<uint64_t>(most, 1);
}

void Batch::AimAt(size_t part, qrt_seq* seqs) const {
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    if (session->feed_.taken == 0) continue;
    const Session::Area& area = session->areas_[part];
    seqs->state = reinterpret_cast<uint8_t*>(area.state.address);
    seqs->odd_offset = static_cast<int64_t>(session->AreasOf(part).odd_offset);
    seqs->kv = reinterpret_cast<uint8_t*>(area.kv.address);
    ++seqs;
  }
}

Batch::Outcome Batch::RunEarlierParts(const StepRequest& request, qrt_seq* seqs) {
  StepRequest step = request;
  step.n_out = 0;
  step.logits = nullptr;
  step.samples = nullptr;
  step.n_penalties = 0;
  step.chosen = nullptr;
  for (size_t part = 0; part + 1 < engine_.part_count(); ++part) {
    step.program = engine_.parts_[part].schedule.ForTokens(static_cast<uint64_t>(step.n_rows)).program;
    AimAt(part, seqs);
    device_part_ = part;
    device_result_ = engine_.OnDevice(part, [&](Device& device) { return device.Run(step); });
    if (device_result_ != DeviceResult::kOk) return Outcome::kDevice;
    device_result_ = engine_.HandOn(part, static_cast<uint64_t>(step.n_rows), &device_part_);
    if (device_result_ != DeviceResult::kOk) return Outcome::kDevice;
  }
  return Outcome::kDone;
}

Batch::Outcome Batch::Prepare(StepRequest& request, const Engine::OutRow* outs) {
  const bool on_device = engine_.device().samples();
  bool wanted = false;
  bool sampled = false;
  for (int64_t i = 0; i < request.n_out; ++i) {
    const Session::Feed& feed = outs[i].session->feed_;
    const bool samples = Samples(outs[i]);
    sampled = sampled || samples;
    wanted = wanted || feed.want != QRT_LOGITS_NONE || (samples && !on_device);
  }
  request.logits = nullptr;
  if (wanted) {
    // The usual step, one sequence that wants its last row, writes where the session reads.
    const bool direct = request.n_out == 1 && outs[0].last;
    request.logits = direct ? outs[0].session->mutable_logits() : As<float>(engine_.logits_);
  }
  request.samples = nullptr;
  request.n_penalties = 0;
  request.chosen = nullptr;
  if (sampled && on_device && !DescribeSamples(request, outs)) return Outcome::kSampling;
  return Outcome::kDone;
}

Batch::Outcome Batch::RunProgram(const StepRequest& request, Engine::OutRow* outs) {
  device_part_ = engine_.part_count() - 1;
  device_result_ = guesser_ != nullptr
                       ? guesser_->RunChain(request, guesses_)
                       : engine_.OnDevice(device_part_, [&](Device& device) { return device.Run(request); });
  if (device_result_ != DeviceResult::kOk) return Outcome::kDevice;
  TakeChosen(request, outs);
  return Outcome::kDone;
}

bool Batch::DescribeSamples(StepRequest& request, const Engine::OutRow* outs) {
  qrt_gpu_sample* samples = As<qrt_gpu_sample>(engine_.samples_);
  qrt_gpu_penalty* penalties = As<qrt_gpu_penalty>(engine_.penalties_);
  request.chosen = As<int32_t>(engine_.chosen_);
  bool greedy = true;
  uint64_t count = 0;
  for (int64_t i = 0; i < request.n_out; ++i) {
    if (!Samples(outs[i])) continue;
    const Sampler& sampler = *outs[i].session->feed_.sampler;
    const std::span<const int32_t> ahead = Ahead(outs[i]);
    count += sampler.penalties() + ahead.size();
    if (!sampler.plain_greedy(ahead)) greedy = false;
  }
  if (greedy) return true;
  // Add counted them, but a callback of a step since then may have recorded more.
  if (count > QRT_GPU_MAX_PENALTIES) {
    sampling_ = TooManyPenalties(count, engine_.device());
    faulty_ = nullptr;
    return false;
  }
  int64_t described = -1;
  for (int64_t i = 0; i < request.n_out; ++i) {
    if (!Samples(outs[i])) continue;
    outs[i].session->feed_.sampler->Describe(outs[i].position + 1, &samples[i],
                                             penalties + request.n_penalties, Ahead(outs[i]));
    samples[i].penalty_begin = request.n_penalties;
    request.n_penalties += samples[i].penalty_count;
    described = i;
  }
  // Rows that nobody samples need a description too: any will do.
  for (int64_t i = 0; i < request.n_out; ++i) {
    if (!Samples(outs[i])) samples[i] = samples[described];
  }
  request.samples = samples;
  request.penalties = penalties;
  return true;
}

bool Batch::SamplersDiffer() const {
  for (const Session* a = first_; a != nullptr; a = a->feed_.next) {
    if (a->feed_.sampler == nullptr) continue;
    for (const Session* b = a->feed_.next; b != nullptr; b = b->feed_.next) {
      if (b->feed_.sampler == a->feed_.sampler) return false;
    }
  }
  return true;
}

void Batch::Choose(const StepRequest& request, Engine::OutRow* outs) {
  struct Rows {
    const float* logits;
    uint64_t stride, vocab_size;
    Engine::OutRow* outs;
  } rows = {request.logits, engine_.plan().logits_stride, engine_.plan().vocab_size, outs};
  const auto choose = [](void* arg, uint32_t i) {
    const Rows& rows = *static_cast<const Rows*>(arg);
    Engine::OutRow& out = rows.outs[i];
    if (!Samples(out)) return;
    out.chosen = out.session->feed_.sampler->SampleStep(
        out.position + 1, {rows.logits + i * rows.stride, static_cast<size_t>(rows.vocab_size)});
  };
  const auto count = static_cast<uint32_t>(request.n_out);
  if (count > 1 && SamplersDiffer() && engine_.parts_.back().device->RunTasks(choose, &rows, count)) return;
  for (uint32_t i = 0; i < count; ++i) choose(&rows, i);
}

void Batch::TakeChosen(const StepRequest& request, Engine::OutRow* outs) {
  if (request.chosen == nullptr) Choose(request, outs);
  for (int64_t i = 0; i < request.n_out; ++i) {
    const Session::Feed& feed = outs[i].session->feed_;
    if (!Samples(outs[i])) continue;
    const int32_t token = request.chosen != nullptr ? request.chosen[i] : outs[i].chosen;
    if (feed.choices != nullptr) {
      feed.next_token[(*feed.choices)++] = token;
    } else if (token >= 0) {
      *feed.next_token = token;
    } else if (faulty_ == nullptr) {
      fault_ = {request.program, token, outs[i].position};
      faulty_ = outs[i].session;
    }
  }
}

void Batch::Deliver(const Engine::OutRow* outs, uint32_t count, const float* logits) {
  const ModelPlan& plan = engine_.plan();
  for (uint32_t i = 0; i < count; ++i) {
    Session& session = *outs[i].session;
    Session::Feed& feed = session.feed_;
    if (feed.want == QRT_LOGITS_NONE || feed.stopped) continue;
    const float* row = logits + static_cast<uint64_t>(i) * plan.logits_stride;
    if (outs[i].last) {
      if (row != session.mutable_logits()) {
        std::memcpy(session.mutable_logits(), row, plan.vocab_size * sizeof(float));
      }
      session.has_logits_ = true;
    }
    if (feed.on_logits != nullptr) {
      feed.stopped = feed.on_logits(feed.ctx, session.handle_, outs[i].position, row, plan.vocab_size) != 0;
      stopped_ = stopped_ || feed.stopped;
    }
  }
}

}  // namespace qrt
