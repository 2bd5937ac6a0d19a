// A toy model whose logits depend on every token, its position, the recurrent state and all of the KV, and a
// device that runs it as C++ and checks the calling contract of runtime/abi/program.h on the way.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_TOY_H_
#define TESTS_UNIT_RUNTIME_ENGINE_TOY_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cpu/barrier.h"
#include "runtime/device/cpu/host_memory.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/device.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/sampler.h"
#include "tests/unit/runtime/program_facts.h"

namespace toy {

constexpr uint32_t kVocab = 37;
constexpr uint32_t kStride = 48;
constexpr uint64_t kStateBytes = 128;  // the state is a u64 at byte 64
constexpr uint64_t kKvRow = 8;
constexpr uint64_t kKvBytesPerToken = 40;  // plane A at 0, a gap of 8, plane B at 16, a gap of 16

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u);
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

inline float Logit(uint64_t residual, uint32_t v) {
  return static_cast<float>(Mix(residual, v) & 0xFFFFu);
}

// The model, straight: logits of every position.
inline std::vector<std::vector<float>> Reference(const std::vector<int32_t>& tokens) {
  std::vector<std::vector<float>> rows;
  std::vector<uint64_t> a, b;
  uint64_t state = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    state = Mix(state, static_cast<uint64_t>(tokens[i]) * 1000003 + i);
    a.push_back(Mix(static_cast<uint64_t>(tokens[i]), i));
    b.push_back(Mix(state, i));
    uint64_t residual = state;
    for (size_t j = 0; j <= i; ++j) residual += a[j] * (j + 1) ^ b[j];
    std::vector<float> row(kVocab);
    for (uint32_t v = 0; v < kVocab; ++v) row[v] = Logit(residual, v);
    rows.push_back(row);
  }
  return rows;
}

inline qrt::ModelPlan Plan(std::vector<qrt::Program> programs) {
  qrt::ModelPlan plan;
  plan.identity[0] = 42;
  plan.vocab_size = kVocab;
  plan.logits_stride = kStride;
  plan.context_length = 4096;
  plan.state_bytes = kStateBytes;
  plan.states = {{0, kStateBytes}};
  plan.kv_bytes_per_token = kKvBytesPerToken;
  plan.kv_planes = {{0, kKvRow}, {16, kKvRow}};
  plan.programs = std::move(programs);
  return plan;
}

inline std::vector<qrt::Program> Ladder() {
  const qrt::ProgramFacts decode = qrt::DecodeFacts(), prefill = qrt::PrefillFacts();
  return {{decode, 1, 4096},   {decode, 2, 4096},   {decode, 4, 4096},          {decode, 8, 4096},
          {prefill, 16, 4096}, {prefill, 64, 8192}, {qrt::HeadFacts(), 8, 4096}};
}

// What the toy device chooses where the highest logit is `best`.
inline int32_t SampledToken(uint32_t best, const qrt_gpu_sample& sample, const qrt_gpu_penalty* penalties) {
  uint64_t token = best + sample.random;
  for (uint32_t i = 0; i < sample.penalty_count; ++i) {
    const qrt_gpu_penalty& penalty = penalties[sample.penalty_begin + i];
    token += Mix(penalty.token, penalty.count);
  }
  return static_cast<int32_t>(token % kVocab);
}

// One run of a program.
struct Step {
  uint32_t program;
  int64_t rows;
  int64_t seqs;
  int64_t out;
  bool operator==(const Step& other) const {
    return program == other.program && rows == other.rows && seqs == other.seqs && out == other.out;
  }
};

class Device final : public qrt::Device {
 public:
  Device(std::vector<qrt::Program> programs, std::unique_ptr<qrt::Workers> workers,
         const qrt_allocator* allocator = nullptr)
      : programs_(std::move(programs)), workers_(std::move(workers)), memory_(allocator) {
    qrt::InitBarrier(&barrier_);
    steps.reserve(1 << 16);
    violation.reserve(256);
    uint64_t arena = 64;
    for (const qrt::Program& program : programs_) arena = std::max(arena, program.arena_bytes);
    if (memory_.Allocate(arena, &arena_) != qrt::DeviceResult::kOk) throw std::bad_alloc();
  }
  ~Device() override {
    if (buffers != 0) std::abort();  // memory of a session outlived the engine
    memory_.Free(&arena_);
  }

  const std::string& name() const override { return name_; }
  const std::string& variant() const override { return code; }
  uint32_t threads() const override { return workers_->threads(); }
  uint64_t code_bytes() const override { return 0; }
  uint64_t scratch_bytes() const override { return arena_.bytes; }
  uint64_t device_weight_bytes() const override { return 0; }
  bool samples() const override { return chooses; }
  bool has_integer_rows() const override { return integers; }
  bool copies_wait() const override { return waits; }
  uint32_t MostRows(std::span<const uint32_t> programs, uint64_t context) const override {
    asked_programs = programs;
    asked_context = context;
    return most_rows;
  }
  uint64_t most_context() const override { return most_tokens; }
  const qrt::DeviceBuffer& arena() const override { return arena_; }
  qrt::DeviceCounters counters() const override { return counters_; }
  std::string last_error() const override { return "the toy's driver says no"; }

  qrt::DeviceResult Run(const qrt::StepRequest& request) override {
    if (fail_after == 0) return Failing();
    if (fail_after > 0) --fail_after;
    Check(request);
    steps.push_back({request.program, request.n_rows, request.n_seqs, request.n_out});
    request_ = &request;
    const bool ran =
        workers_->Run([](void* self, uint32_t i, uint32_t n) { static_cast<Device*>(self)->Thread(i, n); },
                      this, workers_->threads());
    if (!ran) return qrt::DeviceResult::kRefused;
    ++counters_.submissions;
    if (request.chosen != nullptr) Choose(request);
    counters_.bytes_to_host += (request.logits != nullptr ? request.n_out * kStride * sizeof(float) : 0) +
                               (request.chosen != nullptr ? request.n_out * sizeof(int32_t) : 0);
    return qrt::DeviceResult::kOk;
  }
  qrt::DeviceResult Allocate(uint64_t bytes, qrt::DeviceBuffer* buffer) override {
    if (fail_after == 0) return Failing();
    const qrt::DeviceResult result = memory_.Allocate(bytes, buffer);
    buffers += result == qrt::DeviceResult::kOk;
    return result;
  }
  void Free(qrt::DeviceBuffer* buffer) override {
    buffers -= !buffer->empty();
    memory_.Free(buffer);
  }
  qrt::DeviceResult Zero(const qrt::DeviceBuffer& buffer) override {
    return fail_after == 0 ? Failing() : memory_.Zero(buffer);
  }
  qrt::DeviceResult Read(std::span<const qrt::CopyRange> ranges) override {
    ++copies;
    copied_ranges += ranges.size();
    return fail_after == 0 ? Failing() : memory_.Read(ranges);
  }
  qrt::DeviceResult Write(std::span<const qrt::CopyRange> ranges) override {
    ++copies;
    copied_ranges += ranges.size();
    return fail_after == 0 ? Failing() : memory_.Write(ranges);
  }

  std::string code = "toy";
  std::vector<Step> steps;
  std::string violation;  // the first breach of the calling contract
  int fail_after = -1;    // steps until calls answer `failure`; negative: never
  qrt::DeviceResult failure = qrt::DeviceResult::kRefused;
  int failures = 0;          // calls so answered
  int copies = 0;            // calls of Read and Write
  size_t copied_ranges = 0;  // in them
  uint64_t most_tokens = UINT64_MAX;
  int buffers = 0;  // not yet freed
  uint32_t most_rows = std::numeric_limits<uint32_t>::max();
  mutable std::span<const uint32_t> asked_programs;  // of the last MostRows; the engine's
  mutable uint64_t asked_context = 0;
  bool chooses = false;                              // serves StepRequest::chosen
  bool integers = false;                             // has_integer_rows
  bool waits = false;                                // copies_wait
  float (*bend)(float logit, uint32_t v) = nullptr;  // changes the logits
  std::vector<float> keeps;  // what a step leaves at the begin of each state, at most 16

 private:
  void Breach(bool broken, const char* what) {
    if (broken && violation.empty()) violation = what;
  }

  qrt::DeviceResult Failing() {
    ++failures;
    return failure;
  }

  void Check(const qrt::StepRequest& args) {
    Breach(args.program >= programs_.size(), "program outside the table");
    const qrt::Program& p = programs_[args.program];
    const bool head = p.facts.takes == qrt::kStream;
    Breach(args.logits == nullptr && args.n_out != 0 && !chooses, "no place for logits");
    Breach(args.chosen != nullptr && !chooses, "asked to choose");
    Breach(args.chosen == nullptr && args.samples != nullptr, "samples without a place for tokens");
    Breach(reinterpret_cast<uintptr_t>(args.logits) % 64 != 0, "logits not aligned");
    Breach(args.n_rows < 1 || args.n_rows > p.rows, "rows over the bucket");
    Breach(!p.facts.gives_logits() && args.n_out != 0, "output rows of a program without logits");
    Breach(args.n_out > p.rows, "output rows over the bucket");
    Breach(head && args.n_out < 1, "head without output rows");
    Breach(head && (args.n_rows != args.n_out || args.n_seqs != 0), "a head has other rows than its output");
    int64_t row = 0;
    for (int64_t s = 0; s < args.n_seqs; ++s) {
      const qrt_seq& seq = args.seqs[s];
      Breach(seq.row_begin != row || seq.row_count < 1, "sequences do not cover the rows in order");
      Breach(seq.past + seq.row_count > seq.kv_capacity, "past the KV's capacity");
      Breach(
          reinterpret_cast<uintptr_t>(seq.state) % 64 != 0 || reinterpret_cast<uintptr_t>(seq.kv) % 64 != 0,
          "state or KV not aligned");
      for (int64_t i = 0; i < seq.row_count; ++i) {
        for (int k = 0; k < 4; ++k) {
          Breach(args.positions[4 * (row + i) + k] != seq.past + i, "positions are not the sequence's");
        }
      }
      row += seq.row_count;
    }
    if (!head) {
      Breach(row != args.n_rows, "sequences do not cover the rows");
      rows_left_ = args.n_rows;
    }
    for (int64_t i = 0; i < args.n_rows; ++i) {
      Breach(args.tokens[i] < 0 || args.tokens[i] >= static_cast<int32_t>(kVocab),
             "token outside the vocabulary");
    }
    for (int64_t i = 0; i < args.n_out; ++i) {
      Breach(args.out_rows[i] < 0 || args.out_rows[i] >= rows_left_, "output row outside the step");
    }
  }

  void Thread(uint32_t thread, uint32_t threads) {
    const qrt::StepRequest& args = *request_;
    uint64_t* residual = reinterpret_cast<uint64_t*>(arena_.address);
    if (programs_[args.program].facts.takes != qrt::kStream) {
      for (int64_t s = thread; s < args.n_seqs; s += threads) {
        Trunk(args, args.seqs[s], residual);
        if (!keeps.empty()) std::memcpy(args.seqs[s].state, keeps.data(), keeps.size() * sizeof(float));
      }
      qrt::ArriveAndWait(&barrier_, threads, 50);
    }
    // Columns are split, so that every row needs every thread.
    for (int64_t o = 0; o < args.n_out && args.logits != nullptr; ++o) {
      const uint64_t value = residual[args.out_rows[o]];
      for (uint32_t v = thread; v < kVocab; v += threads) args.logits[o * kStride + v] = LogitOf(value, v);
    }
    qrt::ArriveAndWait(&barrier_, threads, 50);
  }

  float LogitOf(uint64_t residual, uint32_t v) const {
    const float logit = Logit(residual, v);
    return bend != nullptr ? bend(logit, v) : logit;
  }

  // A choice that tells whether the description arrived: the highest logit, and with samples the token that
  // lies `random` and the penalties' tokens further.
  void Choose(const qrt::StepRequest& request) {
    const uint64_t* residual = reinterpret_cast<uint64_t*>(arena_.address);
    for (int64_t o = 0; o < request.n_out; ++o) {
      float row[kVocab];
      for (uint32_t v = 0; v < kVocab; ++v) row[v] = LogitOf(residual[request.out_rows[o]], v);
      request.chosen[o] = plain_.SampleStep(0, row);
      if (request.samples == nullptr || request.chosen[o] < 0) continue;
      const auto best = static_cast<uint32_t>(request.chosen[o]);
      const qrt_gpu_sample& sample = request.samples[o];
      Breach(sample.penalty_begin + sample.penalty_count > request.n_penalties,
             "penalties outside the table");
      request.chosen[o] = SampledToken(best, sample, request.penalties);
    }
  }

  static void Trunk(const qrt::StepRequest& args, const qrt_seq& seq, uint64_t* residual) {
    uint64_t* state = reinterpret_cast<uint64_t*>(seq.state + 64);
    uint64_t* a = reinterpret_cast<uint64_t*>(seq.kv);
    uint64_t* b = reinterpret_cast<uint64_t*>(seq.kv + 16 * seq.kv_capacity);
    for (int64_t i = 0; i < seq.row_count; ++i) {
      const uint64_t position = static_cast<uint64_t>(seq.past + i);
      const uint64_t token = static_cast<uint64_t>(args.tokens[seq.row_begin + i]);
      *state = Mix(*state, token * 1000003 + position);
      a[position] = Mix(token, position);
      b[position] = Mix(*state, position);
      uint64_t sum = *state;
      for (uint64_t j = 0; j <= position; ++j) sum += a[j] * (j + 1) ^ b[j];
      residual[seq.row_begin + i] = sum;
    }
  }

  const std::string name_ = "toy";
  const std::vector<qrt::Program> programs_;
  const std::unique_ptr<qrt::Workers> workers_;
  qrt::HostMemory memory_;
  qrt::Sampler plain_ = *qrt::Sampler::Create(kVocab, [] {
    qrt::SamplerOptions greedy;
    greedy.temperature = 0;
    return greedy;
  }());
  qrt::DeviceBuffer arena_;
  alignas(64) qrt_barrier barrier_;
  const qrt::StepRequest* request_ = nullptr;
  int64_t rows_left_ = 0;  // by the last step that was no head's
  qrt::DeviceCounters counters_;
};

inline std::vector<int32_t> Tokens(size_t count, uint64_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(Mix(seed, i) % kVocab));
  return tokens;
}

// An engine over the toy device, which stays visible. Of a vocabulary beyond the toy's, the device leaves
// further logits alone, and rows behind the first are not where the engine looks.
struct Toy {
  explicit Toy(std::vector<qrt::Program> programs = Ladder(), uint32_t threads = 1,
               const qrt_allocator* allocator = nullptr, bool chooses = false, uint32_t vocab_size = kVocab) {
    auto made = std::make_unique<Device>(programs, qrt::ThreadPool::Create(threads, 64), allocator);
    device = made.get();
    device->chooses = chooses;
    qrt::ModelPlan plan = Plan(std::move(programs));
    if (vocab_size != kVocab) plan.vocab_size = plan.logits_stride = vocab_size;
    status = qrt::Engine::Create(std::move(plan), std::move(made), allocator, &engine);
  }

  Device* device = nullptr;
  qrt::Status status;
  std::unique_ptr<qrt::Engine> engine;
};

// A session of `capacity` tokens.
struct ToySession {
  explicit ToySession(Toy& toy, uint64_t capacity = 512, const qrt_allocator* allocator = nullptr)
      : session(*toy.engine, nullptr), status(session.Init({capacity}, allocator)) {}
  qrt::Session session;
  qrt::Status status;
};

// Rows that a callback received.
struct Rows {
  std::vector<std::pair<uint64_t, std::vector<float>>> rows;
  static int32_t Take(void* self, qrt_session*, uint64_t position, const float* logits, size_t vocab_size) {
    static_cast<Rows*>(self)->rows.emplace_back(position, std::vector<float>(logits, logits + vocab_size));
    return 0;
  }
};

inline qrt_append_options Options(qrt_logits_want want, qrt_logits_fn on_logits = nullptr,
                                  void* ctx = nullptr) {
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = want;
  options.on_logits = on_logits;
  options.ctx = ctx;
  return options;
}

inline qrt::Status Append(qrt::Session& session, const std::vector<int32_t>& tokens,
                          qrt_logits_want want = QRT_LOGITS_LAST, Rows* rows = nullptr) {
  const qrt_append_options options = Options(want, rows != nullptr ? Rows::Take : nullptr, rows);
  qrt::Batch batch(session.engine());
  QRT_RETURN_IF_ERROR(batch.Add(session, tokens.data(), tokens.size(), &options));
  return batch.Run();
}

inline qrt::Sampler MakeSampler(const qrt::SamplerOptions& options) {
  return *qrt::Sampler::Create(kVocab, options);
}

inline qrt::Status AppendSampled(qrt::Session& session, const std::vector<int32_t>& tokens,
                                 qrt::Sampler* sampler, int32_t* next, qrt_logits_want want = QRT_LOGITS_NONE,
                                 Rows* rows = nullptr) {
  const qrt_append_options options = Options(want, rows != nullptr ? Rows::Take : nullptr, rows);
  qrt::Batch batch(session.engine());
  QRT_RETURN_IF_ERROR(batch.Add(session, tokens.data(), tokens.size(), &options, sampler, next));
  return batch.Run();
}

}  // namespace toy

#endif  // TESTS_UNIT_RUNTIME_ENGINE_TOY_H_
