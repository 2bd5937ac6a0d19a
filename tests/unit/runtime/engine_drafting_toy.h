// A toy model that has KV alone and a draft: the trunk's rows depend on the last two tokens, the draft's on
// all tokens and on each row that it was given for them.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TOY_H_
#define TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TOY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/unit/runtime/engine_toy.h"
#include "tests/unit/runtime/host_toy_device.h"

namespace drafting {

using toy::kVocab;
using toy::Mix;

constexpr uint32_t kStride = toy::kStride;
constexpr uint32_t kRowFloats = 2;       // a row is a u64
constexpr uint64_t kBytesPerToken = 16;  // of KV: 8 of the trunk, then 8 of the draft
constexpr int32_t kTrunkStream = 0, kDraftStream = 1;

inline uint64_t TrunkRow(uint64_t before, uint64_t token) {
  return Mix(before * 41 + 7, token);
}

// The trunk's row behind each token.
inline std::vector<uint64_t> TrunkRows(const std::vector<int32_t>& tokens) {
  std::vector<uint64_t> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(
        TrunkRow(i == 0 ? 0 : static_cast<uint64_t>(tokens[i - 1]) + 1, static_cast<uint64_t>(tokens[i])));
  }
  return rows;
}

inline uint64_t DraftEntry(uint64_t given, uint64_t token, uint64_t position) {
  return Mix(given, token + 64 * position);
}

inline int32_t Likeliest(uint64_t row) {
  int32_t best = 0;
  for (uint32_t v = 1; v < kVocab; ++v) {
    if (toy::Logit(row, v) > toy::Logit(row, static_cast<uint32_t>(best))) best = static_cast<int32_t>(v);
  }
  return best;
}

// What the draft says behind `tokens`, of which the last is not in the session, from the position `begin` on.
inline std::vector<int32_t> ReferenceGuesses(const std::vector<int32_t>& tokens, size_t count,
                                             size_t begin = 0) {
  const std::vector<uint64_t> rows = TrunkRows(tokens);
  uint64_t fold = 0;
  for (size_t i = begin; i < tokens.size(); ++i) {
    fold = Mix(fold, DraftEntry(i == begin ? 0 : rows[i - 1], static_cast<uint64_t>(tokens[i]), i));
  }
  std::vector<int32_t> guesses;
  while (guesses.size() < count) {
    guesses.push_back(Likeliest(fold));
    fold = Mix(fold,
               DraftEntry(fold, static_cast<uint64_t>(guesses.back()), tokens.size() + guesses.size() - 1));
  }
  return guesses;
}

inline std::vector<qrt::Program> TrunkPrograms(bool leaves = true) {
  const int32_t stream = leaves ? kTrunkStream : -1;
  const qrt::ProgramFacts decode = {qrt::kTokens, 0, -1, stream, qrt::Output::kChosenLogits, {0}};
  const qrt::ProgramFacts prefill = {qrt::kTokens, 0, -1, kTrunkStream, qrt::Output::kNothing, {0}};
  const qrt::ProgramFacts head = {qrt::kStream, 0, kTrunkStream, -1, qrt::Output::kChosenLogits, {}};
  return {{decode, 1, 4096}, {decode, 4, 4096}, {decode, 8, 4096}, {prefill, 32, 4096}, {head, 8, 4096}};
}

inline std::vector<qrt::Program> DraftPrograms(uint32_t state = 1) {
  const uint32_t takes = qrt::kTokens | qrt::kGiven;
  const qrt::ProgramFacts whole = {takes, kRowFloats, -1, kDraftStream, qrt::Output::kLogits, {state}};
  const qrt::ProgramFacts quiet = {takes, kRowFloats, -1, kDraftStream, qrt::Output::kNothing, {state}};
  const qrt::ProgramFacts next = {qrt::kTokens | qrt::kStream, 0,      kDraftStream, kDraftStream,
                                  qrt::Output::kLogits,        {state}};
  return {{whole, 1, 4096}, {whole, 4, 4096}, {quiet, 16, 4096}, {next, 1, 4096}};
}

inline qrt::ModelPlan PlanOf(std::vector<qrt::Program> programs, uint32_t vocab = kVocab) {
  qrt::ModelPlan plan;
  plan.identity[0] = 43;
  plan.vocab_size = vocab;
  plan.logits_stride = vocab == kVocab ? kStride : vocab;
  plan.context_length = 4096;
  plan.embedding_length = kRowFloats;
  plan.kv_bytes_per_token = kBytesPerToken;
  plan.kv_planes = {{0, 8, 0}, {8, 8, 1}};
  plan.programs = std::move(programs);
  return plan;
}

inline std::vector<qrt::Program> Both() {
  std::vector<qrt::Program> programs = TrunkPrograms();
  for (const qrt::Program& program : DraftPrograms()) programs.push_back(program);
  return programs;
}

// What it leaves to the host: choosing tokens, or nothing but saying where a chain of steps begins.
enum class Does { kLogits, kTokens, kChains };

class Device final : public toy::HostToyDevice {
 public:
  explicit Device(std::vector<qrt::Program> programs, Does does = Does::kLogits, uint32_t vocab = kVocab)
      : HostToyDevice("drafting toy", 4096),
        programs_(std::move(programs)),
        does_(does),
        vocab_(vocab),
        stride_(PlanOf({}, vocab).logits_stride) {
    steps.reserve(1 << 16);
  }

  bool samples() const override { return does_ != Does::kLogits; }
  bool chains() const override { return does_ == Does::kChains; }
  bool chains_guesses() const override { return chains(); }
  uint32_t MostRows(std::span<const uint32_t>, uint64_t) const override { return most_rows; }

  qrt::DeviceResult RunChain(std::span<const qrt::ChainStep> steps, int32_t* handed) override {
    ++chains_run;
    const auto copy = [](const qrt::DeviceCopy& c) {
      if (c.bytes == 0) return;
      std::memmove(reinterpret_cast<uint8_t*>(c.to->address) + c.to_offset,
                   reinterpret_cast<const uint8_t*>(c.from->address) + c.from_offset, c.bytes);
    };
    size_t made = 0;
    for (const qrt::ChainStep& link : steps) {
      copy(link.before);
      std::vector<int32_t> tokens(link.step.tokens, link.step.tokens + link.step.n_rows);
      std::copy(handed + made - link.fed, handed + made, tokens.end() - link.fed);
      qrt::StepRequest step = link.step;
      step.tokens = tokens.data();
      std::vector<int32_t> chosen(static_cast<size_t>(step.n_out));
      if (link.hands == qrt::Hands::kChoice) step.chosen = chosen.data();
      const qrt::DeviceResult result = Run(step);
      if (result != qrt::DeviceResult::kOk) return result;
      const auto* rows = reinterpret_cast<const uint64_t*>(arena_.address);
      if (link.hands == qrt::Hands::kGuess) handed[made++] = Likeliest(rows[step.out_rows[step.n_out - 1]]);
      if (link.hands == qrt::Hands::kChoice) handed[made++] = chosen.back();
      copy(link.after);
    }
    return qrt::DeviceResult::kOk;
  }
  qrt::DeviceResult Read(std::span<const qrt::CopyRange> ranges) override {
    ++copies;
    return HostToyDevice::Read(ranges);
  }
  qrt::DeviceResult Write(std::span<const qrt::CopyRange> ranges) override {
    ++copies;
    return HostToyDevice::Write(ranges);
  }

  qrt::DeviceResult Run(const qrt::StepRequest& request) override {
    const qrt::ProgramFacts& facts = programs_[request.program].facts;
    steps.push_back({request.program, request.n_rows, request.n_seqs, request.n_out});
    if (fails != nullptr && fails(facts)) return qrt::DeviceResult::kRefused;
    auto* rows = reinterpret_cast<uint64_t*>(arena_.address);
    const bool draft = facts.leaves == kDraftStream;
    for (int64_t s = 0; s < request.n_seqs; ++s) {
      const qrt_seq& seq = request.seqs[s];
      for (int64_t i = 0; i < seq.row_count; ++i) {
        uint64_t& row = rows[seq.row_begin + i];
        const auto token = static_cast<uint64_t>(request.tokens[seq.row_begin + i]);
        const int64_t at = seq.past + i;
        if (draft) {
          auto* own = reinterpret_cast<uint64_t*>(seq.kv + 8 * seq.kv_capacity);
          own[at] = DraftEntry(row, token, static_cast<uint64_t>(request.positions[4 * (seq.row_begin + i)]));
          uint64_t fold = 0;
          for (int64_t j = 0; j <= at; ++j) fold = Mix(fold, own[j]);
          row = fold;
        } else {
          auto* own = reinterpret_cast<uint64_t*>(seq.kv);
          own[at] = token + 1;
          row = TrunkRow(at == 0 ? 0 : own[at - 1], token);
        }
      }
    }
    for (int64_t o = 0; o < request.n_out; ++o) {
      const uint64_t row = rows[request.out_rows[o]];
      if (request.chosen != nullptr) request.chosen[o] = Choice(request, row, o);
      if (request.logits == nullptr) continue;
      trunk_rows_read += !draft;
      for (uint32_t v = 0; v < vocab_; ++v) {
        float logit = toy::Logit(row, v);
        if (bend != nullptr && !draft) logit = bend(row, logit);
        request.logits[o * stride_ + v] = logit;
      }
    }
    return qrt::DeviceResult::kOk;
  }

  std::vector<toy::Step> steps;
  uint32_t most_rows = std::numeric_limits<uint32_t>::max();
  uint64_t trunk_rows_read = 0;                        // of its logits
  size_t chains_run = 0, copies = 0;                   // those of Read and Write
  float (*bend)(uint64_t row, float logit) = nullptr;  // the trunk's logits
  bool (*fails)(const qrt::ProgramFacts& facts) = nullptr;

 private:
  // A token that depends on all that a draw does.
  int32_t Choice(const qrt::StepRequest& request, uint64_t row, int64_t o) const {
    if (bend != nullptr && std::isnan(bend(row, 0))) return QRT_GPU_SAMPLE_BAD_LOGIT;
    if (request.samples == nullptr) return Likeliest(row);
    const qrt_gpu_sample& sample = request.samples[o];
    EXPECT_LE(sample.penalty_begin + sample.penalty_count, request.n_penalties);
    uint64_t penalized = 0;  // whatever their order is
    for (uint32_t i = 0; i < sample.penalty_count; ++i) {
      const qrt_gpu_penalty& penalty = request.penalties[sample.penalty_begin + i];
      penalized += Mix(penalty.token, penalty.count);
    }
    return static_cast<int32_t>(Mix(Mix(row, sample.random), penalized) % vocab_);
  }

  const std::vector<qrt::Program> programs_;
  const Does does_;
  const uint32_t vocab_, stride_;
};

struct DraftingToy {
  // `recurrent`: with a state that nothing reads, because of which sessions step back no further than they
  // asked.
  explicit DraftingToy(std::vector<qrt::Program> programs = Both(), Does does = Does::kLogits,
                       uint32_t vocab = kVocab, bool recurrent = false) {
    auto made = std::make_unique<Device>(programs, does, vocab);
    device = made.get();
    qrt::ModelPlan plan = PlanOf(std::move(programs), vocab);
    if (recurrent) {
      plan.state_block = 16;
      plan.state_bytes = 256 + 16 * 64;
      plan.states = {{0, 256, 64}};
    }
    status = qrt::Engine::Create(plan, std::move(made), nullptr, &engine);
  }
  std::unique_ptr<qrt::Session> Make(qrt_draft draft = QRT_DRAFT_NONE, uint32_t tokens = 0,
                                     uint64_t capacity = 600) {
    auto session = std::make_unique<qrt::Session>(*engine, nullptr);
    made = session->Init({capacity, 0, draft, tokens}, nullptr);
    return session;
  }
  Device* device = nullptr;
  qrt::Status status, made;
  std::unique_ptr<qrt::Engine> engine;
};

}  // namespace drafting

#endif  // TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TOY_H_
