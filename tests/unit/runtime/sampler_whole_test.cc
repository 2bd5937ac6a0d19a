// What is chosen without a top-k, beside a top-k that keeps all, which sorts them and weighs them one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "runtime/engine/sampler.h"

namespace qrt {
namespace {

// Sorted as far as it is needed, and sorted in full, which top_k has done. Of steps of 1/16 many are equal.
TEST(WholeVocabulary, GivesTopPTheSameAsTheWholeOrder) {
  constexpr int kVocab = 3000;
  std::mt19937 random(7);
  for (const float spread : {0.f, 0.01f, 1.f, 4.f, 30.f}) {
    for (const float top_p : {0.f, 0.001f, 0.5f, 0.95f, 0.9999f}) {
      SamplerOptions options;
      options.temperature = 1.3f;
      options.top_p = top_p;
      options.seed = 11;
      Result<Sampler> part = Sampler::Create(kVocab, options);
      options.top_k = kVocab;
      Result<Sampler> whole = Sampler::Create(kVocab, options);
      ASSERT_TRUE(part.ok() && whole.ok());
      std::normal_distribution<float> normal(0, 1);
      for (int step = 0; step < 20; ++step) {
        std::vector<float> logits(kVocab);
        for (float& x : logits) x = spread * std::round(16 * normal(random)) / 16;
        int32_t a = -1, b = -2;
        ASSERT_TRUE(part->Sample(logits, &a).ok());
        ASSERT_TRUE(whole->Sample(logits, &b).ok());
        ASSERT_EQ(a, b) << "spread " << spread << ", top_p " << top_p << ", step " << step;
      }
    }
  }
}

TEST(WholeVocabulary, GivesTheSameAsATopKOfAll) {
  constexpr uint32_t kVocab = 1337;  // whole blocks and words, and less
  std::mt19937 random(17);
  std::vector<uint32_t> some((kVocab + 31) / 32, ~uint32_t{0});
  some[3] = 0x0F0F0F0F;
  some[40] = 0;
  some.back() >>= 32 * some.size() - kVocab;
  for (int round = 0; round < 400; ++round) {
    SamplerOptions options;
    options.temperature = round % 2 == 0 ? 1 : 0.6f;
    options.top_p = round % 3 == 0 ? 0.9f : 1;
    options.min_p = round % 5 == 0 ? 0.02f : 0;
    options.repeat_penalty = round % 4 == 0 ? 1.3f : 1;
    options.frequency_penalty = round % 8 == 0 ? 0.5f : 0;
    options.seed = static_cast<uint64_t>(round);
    const std::span<const uint32_t> choosable = round % 7 < 3 ? std::span(some) : std::span<const uint32_t>();
    Result<Sampler> whole = Sampler::Create(kVocab, options, choosable);
    options.top_k = kVocab;
    Result<Sampler> sorted = Sampler::Create(kVocab, options, choosable);
    ASSERT_TRUE(whole.ok() && sorted.ok());
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> logits(kVocab);
    for (float& x : logits) x = (round % 11 == 0 ? 150.f : 6.f) * uniform(random);
    if (round % 6 == 0) logits[random() % kVocab] = -std::numeric_limits<float>::infinity();
    if (round % 9 == 0) logits[40 * 32] = std::nanf("");  // not choosable in some rounds
    for (int step = 0; step < 4; ++step) {
      int32_t a = -1, b = -1;
      const Status of_whole = whole->Sample(logits, &a), of_sorted = sorted->Sample(logits, &b);
      ASSERT_EQ(of_whole.ToString(), of_sorted.ToString()) << "round " << round;
      ASSERT_EQ(a, b) << "round " << round << ", step " << step;
      ASSERT_EQ(whole->SampleStep(99, logits), sorted->SampleStep(99, logits)) << "round " << round;
      for (const int32_t token : {a, static_cast<int32_t>(random() % kVocab)}) {
        whole->Accept(token);
        sorted->Accept(token);
      }
    }
  }
}

}  // namespace
}  // namespace qrt
