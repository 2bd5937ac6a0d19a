// Texts by guessing and checking with the toy model of engine_drafting_toy.h.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TEXT_H_
#define TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TEXT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "runtime/engine/drafter.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session.h"
#include "runtime/engine/speculation.h"
#include "tests/unit/runtime/engine_drafting_toy.h"

namespace drafting {

inline std::vector<int32_t> TokensOf(size_t count, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(toy::Mix(seed, i) % kVocab));
  return tokens;
}

inline std::vector<uint8_t> SavedBytes(const qrt::Session& session) {
  std::vector<uint8_t> bytes(session.SaveSize());
  EXPECT_TRUE(session.Save(bytes.data()).ok());
  return bytes;
}

inline std::vector<qrt::SamplerOptions> SomeSamplers() {
  std::vector<qrt::SamplerOptions> all(6);
  all[0].temperature = 0;
  all[1].seed = 7;
  all[2].temperature = 1000;
  all[2].top_k = 8;
  all[2].seed = 8;
  all[3].temperature = 3000;
  all[3].repeat_penalty = 1.3f;
  all[3].frequency_penalty = 100;
  all[3].seed = 9;
  all[4].temperature = 20000;
  all[4].min_p = 0.01f;
  all[4].presence_penalty = -300;
  all[4].penalty_window = 5;
  all[4].seed = 10;
  all[5].temperature = 5000;
  all[5].top_p = 0.9f;
  all[5].penalty_window = -1;
  all[5].presence_penalty = 5000;
  all[5].seed = 11;
  return all;
}

constexpr size_t kSpeculatedText = 120;

// The text behind `prompt`, by steps of Generate.
inline std::vector<int32_t> TextOf(qrt::Session& session, const qrt::SamplerOptions& options,
                                   const std::vector<int32_t>& prompt, qrt::Generated* sum = nullptr) {
  qrt::Sampler sampler = toy::MakeSampler(options);
  for (const int32_t token : prompt) sampler.Accept(token);
  int32_t token = 0;
  EXPECT_TRUE(toy::AppendSampled(session, prompt, &sampler, &token).ok());
  std::vector<int32_t> text = {token};
  int32_t chosen[16];
  while (text.size() < kSpeculatedText) {
    sampler.Accept(text.back());
    qrt::Generated generated;
    const size_t room = std::min<size_t>(16, kSpeculatedText - text.size());
    const qrt::Status status = qrt::Generate(session, text.back(), sampler, {}, {chosen, room}, &generated);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok() || generated.tokens == 0) break;
    text.insert(text.end(), chosen, chosen + generated.tokens);
    if (sum == nullptr) continue;
    sum->tokens += generated.tokens;
    sum->steps += generated.steps;
    sum->guessed += generated.guessed;
    sum->accepted += generated.accepted;
  }
  EXPECT_EQ(session.position(), prompt.size() + text.size() - 1) << "tokens in the session";
  EXPECT_EQ(session.logits(), nullptr);
  return text;
}

// Guesses what `truth` says, and now and then something else.
class Scripted final : public qrt::Drafter {
 public:
  Scripted(std::vector<int32_t> truth, unsigned right_of_8, uint32_t seed)
      : truth_(std::move(truth)), right_(right_of_8), random_(seed) {}
  bool wants_rows() const override { return false; }
  void Follow(uint64_t, std::span<const int32_t>, const float*) override {}
  void BackTo(uint64_t) override {}
  void Forget(uint64_t) override {}
  size_t Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) override {
    EXPECT_LT(position, truth_.size());
    EXPECT_EQ(token, truth_[position]);
    const size_t count = random_() % (guesses.size() + 1);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = position + 1 + i;
      guesses[i] = at < truth_.size() ? truth_[at] : 0;
      if (random_() % 8 >= right_) guesses[i] = static_cast<int32_t>(random_() % kVocab);
    }
    return count;
  }

 private:
  const std::vector<int32_t> truth_;
  const unsigned right_;
  std::mt19937 random_;
};

// A clock that goes on by less than `most` ns each time it is looked at.
struct AnyTicks {
  uint64_t most;
  uint64_t now = 0;
  std::mt19937 random{3};
};
inline uint64_t Tick(void* ctx) {
  auto* ticks = static_cast<AnyTicks*>(ctx);
  return ticks->now += ticks->random() % ticks->most;
}

}  // namespace drafting

#endif  // TESTS_UNIT_RUNTIME_ENGINE_DRAFTING_TEXT_H_
