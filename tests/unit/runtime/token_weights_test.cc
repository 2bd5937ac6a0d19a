#include "runtime/engine/token_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/engine/sampling_fixed.h"

namespace qrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t FixedOf(float logit) {
  return sampling::FixedOf(std::bit_cast<uint32_t>(logit));
}

// Weights by the definition, with every way of finding them that this machine has.
void ExpectExact(const std::vector<float>& logits, float highest, uint64_t scale) {
  std::vector<uint64_t> expected;
  uint64_t sum = 0;
  for (const float x : logits) {
    expected.push_back(x == -kInfinity ? 0 : sampling::Weight(FixedOf(highest) - FixedOf(x), scale));
    sum += expected.back();
  }
  for (const TokenPasses& passes : AllTokenPasses()) {
    std::vector<uint64_t> found(logits.size() + 1, 7);
    EXPECT_EQ(passes.weigh(logits.data(), logits.size(), FixedOf(highest), scale, found.data()), sum)
        << passes.vectors;
    EXPECT_EQ(found.back(), 7u) << passes.vectors << " wrote behind the last weight";
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_EQ(found[i], expected[i]) << passes.vectors << ", logit " << logits[i] << " of " << logits.size()
                                       << " beside " << highest << ", scale " << scale;
    }
  }
}

uint64_t Scale(double temperature) {
  return static_cast<uint64_t>(std::min(QRT_SAMPLING_LOG2E / temperature, 0x1p62));
}

TEST(TokenWeights, AreTheIntegersOfTheDefinition) {
  std::mt19937 random(3);
  for (const double temperature : {1e-9, 0.01, 0.3, 1.0, 1.7, 100.0, 1e9}) {
    for (const float spread : {0.f, 0.001f, 1.f, 8.f, 60.f, 1e4f, 1e30f}) {
      std::normal_distribution<float> normal(0, 1);
      for (int round = 0; round < 8; ++round) {
        std::vector<float> logits(1 + random() % kWeighedTogether);
        for (float& x : logits) x = spread * normal(random);
        const float highest = *std::max_element(logits.begin(), logits.end());
        if (round == 1) logits[random() % logits.size()] = -kInfinity;
        if (round == 2) logits.assign(kWeighedTogether, highest);
        ExpectExact(logits, round == 3 ? highest + spread : highest, Scale(temperature));
      }
    }
  }
}

// Where a double's number of halvings may be one less, or one more.
TEST(TokenWeights, AreExactBesideWholeHalvings) {
  for (const float highest : {0.f, 20.f, -20.f, 127.9999f, 128.f, -128.f}) {
    std::vector<float> logits;
    for (int halvings = 0; halvings <= 45; ++halvings) {
      float x = highest - static_cast<float>(halvings * 0.6931471805599453);
      for (int step = 0; step < 3; ++step) x = std::nextafter(x, -kInfinity);
      for (int step = 0; step < 5; ++step, x = std::nextafter(x, kInfinity))
        logits.push_back(std::min(x, highest));
    }
    ExpectExact(logits, highest, QRT_SAMPLING_LOG2E);
  }
}

// Of some of these, which are heavy and have scales with more bits than doubles, the double is beyond an
// integer that the weight is not.
TEST(TokenWeights, AreExactWhereDoublesAreNot) {
  std::vector<float> logits(kWeighedTogether);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i) * -0x1p-24f;
  std::mt19937_64 random(1);
  for (int round = 0; round < 4000; ++round)
    ExpectExact(logits, 0, (uint64_t{1} << 57) + random() % (uint64_t{1} << 56));
}

TEST(TokenWeights, AreExactAtTheEndsOfFloats) {
  constexpr float kMost = std::numeric_limits<float>::max(),
                  kLeast = std::numeric_limits<float>::denorm_min();
  ExpectExact({kMost, -kMost, 0, -0.f, kLeast, -kLeast, -kInfinity, 127.99999f, 128, -128, -127.99999f},
              kMost, QRT_SAMPLING_LOG2E);
  ExpectExact({0, -0.f, -kLeast, -1e-38f, -0x1p-24f, -0x1p-25f, -kMost, -kInfinity, -64, -1, -0.5f}, 0,
              Scale(5));
  ExpectExact({-kInfinity, -kInfinity, -kInfinity}, 0, QRT_SAMPLING_LOG2E);
}

TEST(TokenWeights, CopiesWithTheRange) {
  std::mt19937 random(5);
  for (const TokenPasses& passes : AllTokenPasses()) {
    for (size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{33}, kWeighedTogether}) {
      for (size_t odd = 0; odd <= count; ++odd) {
        std::vector<float> logits(count), copy(count + 1, 9);
        for (float& x : logits) x = static_cast<float>(random() % 2000) - 1000;
        const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
        const float lowest = *low, highest = *high;
        // The last round without.
        const float odds[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
        if (odd < count) logits[odd] = odds[odd % 3];
        const LogitRange range = passes.copy(logits.data(), count, copy.data());
        ASSERT_EQ(range.numbers, odd == count) << passes.vectors << ", " << odd << " of " << count;
        ASSERT_EQ(copy[count], 9) << passes.vectors << " wrote behind the last logit";
        if (odd != count) continue;
        copy.pop_back();
        EXPECT_EQ(copy, logits) << passes.vectors;
        EXPECT_EQ(range.lowest, lowest) << passes.vectors;
        EXPECT_EQ(range.highest, highest) << passes.vectors;
      }
    }
  }
}

TEST(TokenWeights, PassesOverWhatNobodyNeedsToSee) {
  constexpr size_t kWords = 6;
  for (const TokenPasses& passes : AllTokenPasses()) {
    std::vector<float> logits(kWords * kGlance, 1);
    logits[0] = -5;
    logits[kGlance] = -0.f;
    const auto passed = [&](const uint32_t* all, const uint32_t* none, LogitRange* range) {
      *range = LogitRange();
      return passes.pass_over(logits.data(), kWords, 1, all, none, range);
    };
    LogitRange range;
    EXPECT_EQ(passed(nullptr, nullptr, &range), kWords) << passes.vectors << ": the bound itself is low";
    EXPECT_EQ(range.lowest, -5) << passes.vectors;
    EXPECT_EQ(range.highest, 1) << passes.vectors;
    for (const float odd :
         {std::nextafter(1.f, kInfinity), kInfinity, -kInfinity, std::nanf(""), -std::nanf("")}) {
      for (size_t at = 0; at < logits.size(); ++at) {
        const float before = std::exchange(logits[at], odd);
        EXPECT_EQ(passed(nullptr, nullptr, &range), at / kGlance)
            << passes.vectors << ": " << odd << " at " << at;
        logits[at] = before;
      }
    }
    std::vector<uint32_t> all(kWords, ~uint32_t{0}), none(kWords, 0);
    EXPECT_EQ(passed(all.data(), none.data(), &range), kWords) << passes.vectors;
    all[4] = ~uint32_t{0} >> 1;
    EXPECT_EQ(passed(all.data(), none.data(), &range), 4u) << passes.vectors << ": not all may be chosen";
    none[2] = 1;
    EXPECT_EQ(passed(all.data(), none.data(), &range), 2u) << passes.vectors << ": one is to be penalized";
    logits[0] = 2;
    EXPECT_EQ(passed(all.data(), none.data(), &range), 0u) << passes.vectors;
    EXPECT_EQ(range.lowest, kInfinity) << passes.vectors << ": nothing was passed over";
  }
}

}  // namespace
}  // namespace qrt
