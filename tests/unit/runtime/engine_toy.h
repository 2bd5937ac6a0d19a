// A toy model whose logits depend on every token, its position, the recurrent state and all of the KV, and a
// device that runs it as C++ and checks the calling contract of runtime/abi/program.h on the way.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_TOY_H_
#define TESTS_UNIT_RUNTIME_ENGINE_TOY_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cpu/barrier.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/device.h"
#include "runtime/engine/engine.h"

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
  plan.kv_bytes_per_token = kKvBytesPerToken;
  plan.kv_planes = {{0, kKvRow}, {16, kKvRow}};
  plan.programs = std::move(programs);
  return plan;
}

inline std::vector<qrt::Program> Ladder() {
  using qrt::Phase;
  return {{Phase::kDecode, 1, 4096}, {Phase::kDecode, 2, 4096},   {Phase::kDecode, 4, 4096},
          {Phase::kDecode, 8, 4096}, {Phase::kPrefill, 16, 4096}, {Phase::kPrefill, 64, 8192},
          {Phase::kHead, 8, 4096}};
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
  Device(std::vector<qrt::Program> programs, std::unique_ptr<qrt::Workers> workers, const uint8_t* weights)
      : programs_(std::move(programs)), workers_(std::move(workers)), weights_(weights) {
    qrt::InitBarrier(&barrier_);
    steps.reserve(1 << 16);
    violation.reserve(256);
  }

  uint32_t threads() const override { return workers_->threads(); }

  bool Run(uint32_t program, qrt_step_args* args) override {
    if (refuse_after == 0) return false;
    if (refuse_after > 0) --refuse_after;
    args->barrier = &barrier_;
    Check(program, *args);
    steps.push_back({program, args->n_rows, args->n_seqs, args->n_out});
    current_ = &programs_[program];
    args_ = args;
    return workers_->Run([](void* self, uint32_t i, uint32_t n) { static_cast<Device*>(self)->Thread(i, n); },
                         this);
  }

  std::vector<Step> steps;
  std::string violation;  // the first breach of the calling contract
  int refuse_after = -1;  // steps until Run refuses; negative: never

 private:
  void Breach(bool broken, const char* what) {
    if (broken && violation.empty()) violation = what;
  }

  void Check(uint32_t program, const qrt_step_args& args) {
    Breach(program >= programs_.size(), "program outside the table");
    const qrt::Program& p = programs_[program];
    const bool head = p.phase == qrt::Phase::kHead;
    Breach(args.weights != weights_, "weights");
    Breach(reinterpret_cast<uintptr_t>(args.arena) % 64 != 0, "arena not aligned");
    Breach(reinterpret_cast<uintptr_t>(args.logits) % 64 != 0, "logits not aligned");
    Breach(args.n_rows < 1 || (!head && args.n_rows > p.rows), "rows over the bucket");
    Breach(p.phase == qrt::Phase::kPrefill && args.n_out != 0, "prefill with output rows");
    Breach(args.n_out > p.rows, "output rows over the bucket");
    Breach(head && args.n_out < 1, "head without output rows");
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
    Breach(row != args.n_rows, "sequences do not cover the rows");
    for (int64_t i = 0; i < args.n_rows; ++i) {
      Breach(args.tokens[i] < 0 || args.tokens[i] >= static_cast<int32_t>(kVocab),
             "token outside the vocabulary");
    }
    for (int64_t i = 0; i < args.n_out; ++i) {
      Breach(args.out_rows[i] < 0 || args.out_rows[i] >= args.n_rows, "output row outside the step");
    }
  }

  void Thread(uint32_t thread, uint32_t threads) {
    const qrt_step_args& args = *args_;
    uint64_t* residual = reinterpret_cast<uint64_t*>(args.arena);
    if (current_->phase != qrt::Phase::kHead) {
      for (int64_t s = thread; s < args.n_seqs; s += threads) Trunk(args, args.seqs[s], residual);
      qrt::ArriveAndWait(args.barrier, threads, 50);
    }
    // Columns are split, so that every row needs every thread.
    for (int64_t o = 0; o < args.n_out; ++o) {
      const uint64_t value = residual[args.out_rows[o]];
      for (uint32_t v = thread; v < kVocab; v += threads) args.logits[o * kStride + v] = Logit(value, v);
    }
    qrt::ArriveAndWait(args.barrier, threads, 50);
  }

  static void Trunk(const qrt_step_args& args, const qrt_seq& seq, uint64_t* residual) {
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

  const std::vector<qrt::Program> programs_;
  const std::unique_ptr<qrt::Workers> workers_;
  const uint8_t* const weights_;
  alignas(64) qrt_barrier barrier_;
  const qrt::Program* current_ = nullptr;
  const qrt_step_args* args_ = nullptr;
};

inline std::vector<int32_t> Tokens(size_t count, uint64_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(Mix(seed, i) % kVocab));
  return tokens;
}

// An engine over the toy device, which stays visible.
struct Toy {
  explicit Toy(std::vector<qrt::Program> programs = Ladder(), uint32_t threads = 1,
               const qrt_allocator* allocator = nullptr) {
    auto made = std::make_unique<Device>(programs, qrt::ThreadPool::Create(threads, 64), weights);
    device = made.get();
    status = qrt::Engine::Create(Plan(std::move(programs)), weights, std::move(made), allocator, &engine);
  }

  uint8_t weights[64] = {};
  Device* device = nullptr;
  qrt::Status status;
  std::unique_ptr<qrt::Engine> engine;
};

// A session of `capacity` tokens.
struct ToySession {
  explicit ToySession(Toy& toy, uint64_t capacity = 512, const qrt_allocator* allocator = nullptr)
      : session(*toy.engine, nullptr), status(session.Init(capacity, allocator)) {}
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

inline qrt::Status Append(qrt::Session& session, const std::vector<int32_t>& tokens,
                          qrt_logits_want want = QRT_LOGITS_LAST, Rows* rows = nullptr) {
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = want;
  options.on_logits = rows != nullptr ? Rows::Take : nullptr;
  options.ctx = rows;
  qrt::Batch batch(session.engine());
  QRT_RETURN_IF_ERROR(batch.Add(session, tokens.data(), tokens.size(), &options));
  return batch.Run();
}

}  // namespace toy

#endif  // TESTS_UNIT_RUNTIME_ENGINE_TOY_H_
