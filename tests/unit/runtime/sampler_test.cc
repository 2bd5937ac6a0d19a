#include "runtime/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "runtime/engine/random_numbers.h"

namespace qrt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Sampler Make(uint32_t vocab, const SamplerOptions& options) {
  Result<Sampler> sampler = Sampler::Create(vocab, options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return *std::move(sampler);
}

int32_t Sample(Sampler& sampler, const std::vector<float>& logits) {
  int32_t token = -1;
  const Status status = sampler.Sample(logits, &token);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return token;
}

std::map<int32_t, int> Histogram(Sampler& sampler, const std::vector<float>& logits, int draws) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[Sample(sampler, logits)];
  return counts;
}

std::vector<float> RandomLogits(size_t n, uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::vector<float> logits(n);
  for (float& l : logits) l = spread * (static_cast<float>(random()) / 4294967296.0f - 0.5f);
  return logits;
}

// Probabilities by the definition, in double, over all tokens.
std::vector<double> Reference(const std::vector<float>& logits, const SamplerOptions& o) {
  std::vector<size_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(o.top_k)));
  const double highest = logits[order[0]];
  auto probability = [&](size_t i, double t) { return std::exp((logits[i] - highest) / t); };
  double total = 0, sum = 0;
  for (size_t i : order) total += probability(i, 1);
  std::vector<size_t> kept;
  for (size_t i : order) {
    kept.push_back(i);
    sum += probability(i, 1);
    if (sum >= o.top_p * total) break;
  }
  kept.erase(std::remove_if(kept.begin(), kept.end(), [&](size_t i) { return probability(i, 1) < o.min_p; }),
             kept.end());
  total = 0;
  for (size_t i : kept) total += probability(i, o.temperature);
  std::vector<double> p(logits.size(), 0);
  for (size_t i : kept) p[i] = probability(i, o.temperature) / total;
  return p;
}

// Pearson's chi-square against the reference; classes of less than 5 expected draws are put together.
void ExpectDistribution(const std::vector<float>& logits, const SamplerOptions& options, int draws) {
  Sampler sampler = Make(static_cast<uint32_t>(logits.size()), options);
  const auto counts = Histogram(sampler, logits, draws);
  const std::vector<double> p = Reference(logits, options);
  double chi = 0, rest_expected = 0, rest_found = 0;
  int classes = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const auto it = counts.find(static_cast<int32_t>(i));
    const double found = it == counts.end() ? 0 : it->second, expected = p[i] * draws;
    if (p[i] == 0) {
      EXPECT_EQ(found, 0) << "token " << i << " was filtered out but drawn";
    } else if (expected < 5) {
      rest_expected += expected;
      rest_found += found;
    } else {
      chi += (found - expected) * (found - expected) / expected;
      ++classes;
    }
  }
  if (rest_expected > 5) {
    chi += (rest_found - rest_expected) * (rest_found - rest_expected) / rest_expected;
    ++classes;
  }
  // Wilson and Hilferty's cube-root approximation: about N(0, 1).
  const double df = std::max(classes - 1, 1);
  const double z = (std::cbrt(chi / df) - (1 - 2 / (9 * df))) / std::sqrt(2 / (9 * df));
  EXPECT_LT(z, 4) << "chi-square " << chi << " over " << df << " degrees of freedom";
}

TEST(Sampler, GreedyTakesTheHighestAndTheLowestIdOfEquals) {
  SamplerOptions options;
  options.temperature = 0;
  Sampler sampler = Make(5, options);
  EXPECT_EQ(Sample(sampler, {1, 5, 2, 5, -kInf}), 1);
  EXPECT_EQ(Sample(sampler, {-3, -3, -3, -3, -3}), 0);
  EXPECT_EQ(Sample(sampler, {-kInf, -kInf, -kInf, -7, -kInf}), 3);
}

TEST(Sampler, TopKOneIsGreedy) {
  SamplerOptions options;
  options.top_k = 1;
  options.temperature = 2;
  Sampler sampler = Make(4, options);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Sample(sampler, {1, 3, 3, 2}), 1);
}

TEST(Sampler, AVanishingTemperatureIsGreedy) {
  SamplerOptions options;
  options.temperature = 0;
  Sampler greedy = Make(500, options);
  for (const float temperature : {1e-8f, 1e-30f}) {
    options.temperature = temperature;
    Sampler cold = Make(500, options);
    for (uint32_t seed = 0; seed < 200; ++seed) {
      const std::vector<float> logits = RandomLogits(500, seed, 6);
      ASSERT_EQ(Sample(cold, logits), Sample(greedy, logits)) << temperature << ", logits " << seed;
    }
  }
}

TEST(Sampler, TopKKeepsTheLowestIdsOfEquals) {
  for (int32_t k : {3, 600}) {
    SamplerOptions options;
    options.top_k = k;
    Sampler sampler = Make(1000, options);
    const auto counts = Histogram(sampler, std::vector<float>(1000, 0.5f), 1500);
    EXPECT_LT(counts.rbegin()->first, k) << "top_k " << k;
    if (k == 3) {
      EXPECT_EQ(counts.size(), 3u);
    }
  }
}

TEST(Sampler, TopPKeepsTheShortestFront) {
  SamplerOptions options;
  options.top_p = 0.6f;
  Sampler sampler = Make(4, options);
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.25f), std::log(0.125f)};
  auto counts = Histogram(sampler, logits, 500);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.count(1) && counts.count(2));
  options.top_p = 0;
  sampler = Make(4, options);
  counts = Histogram(sampler, logits, 100);
  EXPECT_EQ(counts.size(), 1u) << "at least one token stays";
}

TEST(Sampler, MinPIsRelativeToTheHighest) {
  SamplerOptions options;
  options.min_p = 0.4f;
  Sampler sampler = Make(3, options);
  const auto counts = Histogram(sampler, {std::log(1.0f), std::log(0.41f), std::log(0.39f)}, 500);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts.count(2), 0u);
}

TEST(Sampler, FiltersLookAtProbabilitiesBeforeTheTemperature) {
  SamplerOptions options;
  options.min_p = 0.4f;
  options.temperature = 100;
  Sampler sampler = Make(3, options);
  EXPECT_EQ(Histogram(sampler, {std::log(1.0f), std::log(0.41f), std::log(0.39f)}, 500).count(2), 0u)
      << "a high temperature must not bring back what min-p removed";
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplerOptions options;
  options.seed = 1;
  ExpectDistribution(RandomLogits(40, 1, 6), options, 20000);
  options.temperature = 0.7f;
  ExpectDistribution(RandomLogits(40, 2, 6), options, 20000);
  options.temperature = 3;
  ExpectDistribution(RandomLogits(40, 3, 12), options, 20000);
  options.temperature = 1;
  options.top_k = 20;
  ExpectDistribution(RandomLogits(300, 4, 10), options, 20000);
  options.top_p = 0.95f;
  ExpectDistribution(RandomLogits(300, 5, 20), options, 20000);
  options.min_p = 0.05f;
  options.temperature = 1.3f;
  ExpectDistribution(RandomLogits(300, 6, 20), options, 20000);
  options = {};
  options.top_p = 0.9f;  // hundreds of tokens: more than the first part that is sorted
  ExpectDistribution(RandomLogits(1500, 7, 8), options, 1500);
  options.top_p = 1;
  options.top_k = 700;
  ExpectDistribution(RandomLogits(1500, 8, 8), options, 1500);
}

TEST(Sampler, SeedDecidesTheSequence) {
  SamplerOptions options;
  options.seed = 7;
  options.top_k = 40;
  const std::vector<float> logits = RandomLogits(500, 9, 8);
  Sampler a = Make(500, options), b = Make(500, options);
  std::vector<int32_t> first, second, again;
  for (int i = 0; i < 50; ++i) first.push_back(Sample(a, logits));
  for (int i = 0; i < 50; ++i) second.push_back(Sample(b, logits));
  a.Reset();
  for (int i = 0; i < 50; ++i) again.push_back(Sample(a, logits));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, again) << "Reset starts the random sequence again";
  options.seed = 8;
  Sampler c = Make(500, options);
  std::vector<int32_t> other;
  for (int i = 0; i < 50; ++i) other.push_back(Sample(c, logits));
  EXPECT_NE(first, other);
}

TEST(Sampler, KnownTokensForAKnownSeed) {
  // Fixed once: another machine, compiler or libm must give the same.
  SamplerOptions options;
  options.seed = 20240229;
  options.temperature = 0.8f;
  options.top_k = 50;
  options.top_p = 0.95f;
  options.min_p = 0.01f;
  options.repeat_penalty = 1.1f;
  options.presence_penalty = 0.3f;
  options.frequency_penalty = 0.1f;
  Sampler sampler = Make(1000, options);
  const std::vector<float> logits = RandomLogits(1000, 10, 12);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 16; ++i) {
    tokens.push_back(Sample(sampler, logits));
    sampler.Accept(tokens.back());
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{926, 311, 544, 607, 630, 628, 395, 251, 95, 639, 999, 987, 654, 870,
                                          323, 777}));
}

TEST(Sampler, DescribeTellsTheDeviceTheSameDraw) {
  SamplerOptions options;
  options.seed = 3;
  options.temperature = 0.5f;
  options.top_k = 40;
  options.top_p = 0.75f;
  options.min_p = 0.5f;
  options.repeat_penalty = 1.25f;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = -0.25f;
  options.penalty_window = 4;
  Sampler sampler = Make(10, options);
  EXPECT_EQ(sampler.penalties(), 0u);
  for (int32_t token : {9, 1, 5, 1, 7}) sampler.Accept(token);
  ASSERT_EQ(sampler.penalties(), 3u) << "9 has left the window";
  qrt_gpu_sample sample = {};
  sample.penalty_begin = 17;
  qrt_gpu_penalty penalties[3];
  sampler.Describe(70, &sample, penalties);
  EXPECT_EQ(sample.random, RandomAt(3, 70));
  EXPECT_EQ(sample.top_k, 40u);
  EXPECT_EQ(sample.top_p, uint64_t{3} << 62);
  EXPECT_EQ(sample.max_distance, static_cast<int64_t>(std::log(2.0) * (1 << 24)));
  EXPECT_EQ(sample.scale, static_cast<uint64_t>(2 * 1586259972792));
  EXPECT_EQ(sample.repeat, uint64_t{5} << 30);
  EXPECT_EQ(sample.repeat_inverse, (uint64_t{1} << 34) / 5);
  EXPECT_EQ(sample.presence, 1 << 23);
  EXPECT_EQ(sample.frequency, -(1 << 22));
  EXPECT_EQ(sample.penalty_begin, 17u);
  ASSERT_EQ(sample.penalty_count, 3u);
  std::map<uint32_t, uint32_t> counts;
  for (const qrt_gpu_penalty& p : penalties) counts[p.token] = p.count;
  EXPECT_EQ(counts, (std::map<uint32_t, uint32_t>{{1, 2}, {5, 1}, {7, 1}}));

  // Greedy, with penalties: nothing is drawn.
  options.temperature = 0;
  Sampler greedy = Make(10, options);
  greedy.Describe(70, &sample, nullptr);
  EXPECT_EQ(sample.random, 0u);
}

// What is described with tokens ahead is what a sampler describes that has recorded them.
TEST(Sampler, DescribesWhatTokensAheadWillChange) {
  constexpr int32_t kTokens = 12;
  std::mt19937 random(6);
  const auto table = [](const Sampler& sampler, std::span<const int32_t> ahead) {
    std::vector<qrt_gpu_penalty> penalties(sampler.penalties() + ahead.size());
    qrt_gpu_sample sample = {};
    sampler.Describe(9, &sample, penalties.data(), ahead);
    std::map<uint32_t, uint32_t> counts;
    for (uint32_t i = 0; i < sample.penalty_count; ++i) {
      EXPECT_TRUE(counts.emplace(penalties[i].token, penalties[i].count).second) << "each once";
    }
    return counts;
  };
  for (const int32_t window : {-1, 0, 1, 4, 9, 40}) {
    for (int turn = 0; turn < 100; ++turn) {
      SamplerOptions options;
      options.temperature = static_cast<float>(turn % 2);
      options.frequency_penalty = 1;
      options.penalty_window = window;
      Sampler before = Make(kTokens, options), after = Make(kTokens, options);
      for (size_t i = random() % 30; i > 0; --i) {
        const auto token = static_cast<int32_t>(random() % kTokens);
        before.Accept(token);
        after.Accept(token);
      }
      std::vector<int32_t> ahead(random() % 16);
      for (int32_t& token : ahead) {
        token = static_cast<int32_t>(random() % kTokens);
        after.Accept(token);
      }
      EXPECT_EQ(table(before, ahead), table(after, {})) << "window " << window << ", turn " << turn;
      EXPECT_EQ(before.plain_greedy(ahead), after.plain_greedy()) << "window " << window << ", turn " << turn;
    }
  }
}

TEST(Sampler, ATokenDependsOnSeedAndPositionAndNotOnWhatWasDrawnBefore) {
  const std::vector<float> logits = RandomLogits(500, 1, 2);
  SamplerOptions options;
  options.seed = 77;
  Sampler in_order = Make(500, options), at_random = Make(500, options);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 200; ++i) tokens.push_back(Sample(in_order, logits));
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    const uint64_t position = random() % tokens.size();
    EXPECT_EQ(at_random.SampleStep(position, logits), tokens[position]) << "at position " << position;
    if (random() % 3 != 0) continue;
    at_random.Seek(position);
    EXPECT_EQ(Sample(at_random, logits), tokens[position]) << "after a seek to " << position;
    if (position + 1 == tokens.size()) continue;
    EXPECT_EQ(Sample(at_random, logits), tokens[position + 1]) << "behind a seek to " << position;
  }
  // What is refused takes no turn.
  int32_t token = -1;
  at_random.Seek(3);
  EXPECT_FALSE(at_random.Sample(std::vector<float>(499), &token).ok());
  EXPECT_EQ(Sample(at_random, logits), tokens[3]);
  EXPECT_FALSE(at_random.Sample(std::vector<float>(500, kInf), &token).ok());
  EXPECT_EQ(Sample(at_random, logits), tokens[4]);
}

TEST(Sampler, PlainGreedyUntilATokenIsPenalized) {
  SamplerOptions options;
  EXPECT_FALSE(Make(3, options).plain_greedy());
  options.temperature = 0;
  EXPECT_TRUE(Make(3, options).plain_greedy());
  options.presence_penalty = 1;
  Sampler sampler = Make(3, options);
  EXPECT_TRUE(sampler.plain_greedy());
  sampler.Accept(0);
  EXPECT_FALSE(sampler.plain_greedy());
  sampler.Reset();
  EXPECT_TRUE(sampler.plain_greedy());
}

TEST(Sampler, LogitsOfAStepAreNumbersThatDiffer) {
  for (const float temperature : {0.f, 1.f}) {
    SamplerOptions options;
    options.temperature = temperature;
    options.presence_penalty = 2;
    Sampler sampler = Make(3, options);
    sampler.Accept(1);
    const auto step = [&](std::vector<float> logits) { return sampler.SampleStep(0, logits); };
    EXPECT_EQ(step({0, std::nanf(""), -kInf}), QRT_GPU_SAMPLE_BAD_LOGIT);
    EXPECT_EQ(step({0, 1, kInf}), QRT_GPU_SAMPLE_BAD_LOGIT);
    EXPECT_EQ(step({0, 1, -kInf}), QRT_GPU_SAMPLE_MINUS_INFINITY);
    EXPECT_EQ(step({-kInf, -kInf, -kInf}), QRT_GPU_SAMPLE_MINUS_INFINITY);
    EXPECT_EQ(step({0, -0.f, 0}), QRT_GPU_SAMPLE_ALL_EQUAL);
    EXPECT_EQ(step({4, 4, 4}), QRT_GPU_SAMPLE_ALL_EQUAL) << "whatever the penalties make of them";
    EXPECT_GE(step({4, 6, 4}), 0) << "equal only after the penalty of token 1";
    int32_t token = -1;
    EXPECT_TRUE(sampler.Sample(std::vector<float>{4, 4, 4}, &token).ok()) << "a caller's logits may be equal";
  }
  EXPECT_EQ(Make(1, {}).SampleStep(0, std::vector<float>{3}), 0) << "the only token";
}

TEST(Sampler, OnlyChoosableTokensAreChosenAndLookedAt) {
  std::vector<uint32_t> choosable(2);
  choosable[0] = 1u << 5;
  choosable[1] = 1u << 3;
  for (const float temperature : {0.f, 1.f, 50.f}) {
    for (const int32_t top_k : {0, 1, 600}) {
      SamplerOptions options;
      options.temperature = temperature;
      options.top_k = top_k;
      Result<Sampler> made = Sampler::Create(40, options, choosable);
      ASSERT_TRUE(made.ok());
      std::vector<float> logits(40, 90.f);  // of what is no token: higher
      logits[7] = std::nanf("");
      logits[8] = -kInf;
      logits[5] = 1;
      logits[35] = 2;
      for (int i = 0; i < 50; ++i) {
        const int32_t token = made->SampleStep(static_cast<uint64_t>(i), logits);
        ASSERT_TRUE(token == 35 || (token == 5 && temperature != 0 && top_k != 1)) << token;
        int32_t sampled = -1;
        ASSERT_TRUE(made->Sample(logits, &sampled).ok());
        ASSERT_TRUE(sampled == 35 || sampled == 5) << sampled;
      }
      logits[5] = 2;
      EXPECT_EQ(made->SampleStep(0, logits), QRT_GPU_SAMPLE_ALL_EQUAL) << "of those that can be chosen";
    }
  }
}

TEST(Sampler, WhereNoTokenIsChoosableNoneIsChosen) {
  const std::vector<uint32_t> none(2);
  for (const float temperature : {0.f, 1.f}) {
    for (const float top_p : {1.f, 0.5f}) {
      SamplerOptions options;
      options.temperature = temperature;
      options.top_p = top_p;
      Result<Sampler> made = Sampler::Create(40, options, none);
      ASSERT_TRUE(made.ok());
      std::vector<float> logits(40, 1.f);
      logits[3] = 2;
      EXPECT_EQ(made->SampleStep(0, logits), QRT_GPU_SAMPLE_ALL_EQUAL);
      int32_t token = -1;
      EXPECT_FALSE(made->Sample(logits, &token).ok());
    }
  }
}

TEST(Sampler, RepeatPenaltyDividesPositiveAndMultipliesNegative) {
  SamplerOptions options;
  options.temperature = 0;
  options.repeat_penalty = 2;
  Sampler sampler = Make(3, options);
  sampler.Accept(0);
  EXPECT_EQ(Sample(sampler, {4, 2.5f, 0}), 1) << "4 / 2 is below 2.5";
  EXPECT_EQ(Sample(sampler, {4, 1.5f, 0}), 0);
  EXPECT_EQ(Sample(sampler, {-1, -1.5f, -3}), 1) << "-1 * 2 is below -1.5";
}

TEST(Sampler, PresenceCountsOnceFrequencyEachTime) {
  SamplerOptions options;
  options.temperature = 0;
  options.presence_penalty = 1;
  Sampler presence = Make(2, options);
  options.presence_penalty = 0;
  options.frequency_penalty = 1;
  Sampler frequency = Make(2, options);
  for (Sampler* s : {&presence, &frequency}) {
    s->Accept(0);
    s->Accept(0);
    s->Accept(0);
  }
  EXPECT_EQ(Sample(presence, {5, 3.5f}), 0);
  EXPECT_EQ(Sample(frequency, {5, 3.5f}), 1);
}

TEST(Sampler, PenaltiesForgetWhatLeavesTheWindow) {
  SamplerOptions options;
  options.temperature = 0;
  options.presence_penalty = 3;
  options.penalty_window = 2;
  Sampler sampler = Make(4, options);
  sampler.Accept(0);
  EXPECT_EQ(Sample(sampler, {2, 1, 0, 0}), 1);
  sampler.Accept(3);
  EXPECT_EQ(Sample(sampler, {2, 1, 0, 0}), 1);
  sampler.Accept(3);
  EXPECT_EQ(Sample(sampler, {2, 1, 0, 0}), 0) << "token 0 is three tokens back";
  options.penalty_window = -1;
  Sampler all = Make(4, options);
  all.Accept(0);
  for (int i = 0; i < 5000; ++i) all.Accept(3);
  EXPECT_EQ(Sample(all, {2, 1, 0, 0}), 1) << "window -1 never forgets";
  all.Reset();
  EXPECT_EQ(Sample(all, {2, 1, 0, 0}), 0);
  options.penalty_window = 0;
  Sampler off = Make(4, options);
  off.Accept(0);
  EXPECT_EQ(Sample(off, {2, 1, 0, 0}), 0) << "window 0 switches the penalties off";
}

TEST(Sampler, AcceptIgnoresIdsOutsideTheVocabulary) {
  SamplerOptions options;
  options.presence_penalty = 1;
  Sampler sampler = Make(2, options);
  sampler.Accept(-1);
  sampler.Accept(2);
  sampler.Accept(INT32_MAX);
  EXPECT_GE(Sample(sampler, {0, 0}), 0);
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  for (float temperature : {0.0f, 1.0f}) {
    SamplerOptions options;
    options.temperature = temperature;
    Sampler sampler = Make(3, options);
    int32_t token = 77;
    Status status = sampler.Sample(std::vector<float>{0, std::nanf(""), 0}, &token);
    EXPECT_EQ(status.number(), 7203u);
    EXPECT_NE(status.message().find("token 1"), std::string::npos) << status.ToString();
    EXPECT_EQ(sampler.Sample(std::vector<float>{0, 0, kInf}, &token).number(), 7203u);
    EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, -kInf, -kInf}, &token).number(), 7204u);
    EXPECT_EQ(sampler.Sample(std::vector<float>{0, 0}, &token).number(), 7202u);
    EXPECT_EQ(token, 77) << "a failed Sample must not write";
    EXPECT_EQ(Sample(sampler, {-kInf, 0, -kInf}), 1) << "and the sampler goes on working";
  }
  // What it refused drew nothing.
  SamplerOptions options;
  options.temperature = 1;
  Sampler refusing = Make(64, options), other = Make(64, options);
  const std::vector<float> even(64, 0.5f), none(64, -kInf), wrong(64, std::nanf(""));
  for (int draw = 0; draw < 20; ++draw) {
    int32_t token = 0;
    EXPECT_FALSE(refusing.Sample(draw % 2 == 0 ? none : wrong, &token).ok());
    EXPECT_EQ(Sample(refusing, even), Sample(other, even)) << draw;
  }
}

TEST(Sampler, ExtremeLogitsAndOptionsStayInRange) {
  SamplerOptions options;
  options.temperature = std::numeric_limits<float>::denorm_min();
  options.repeat_penalty = std::numeric_limits<float>::denorm_min();
  options.frequency_penalty = std::numeric_limits<float>::max();
  Sampler sampler = Make(3, options);
  for (int i = 0; i < 3; ++i) sampler.Accept(1);
  EXPECT_EQ(Sample(sampler, {3e38f, 3e38f, -3e38f}), 0);
  options = {};
  options.temperature = 1e38f;
  Sampler hot = Make(3, options);
  EXPECT_EQ(Histogram(hot, {50, 0, -50}, 300).size(), 3u);
}

// A host may have comparisons with what is no number end the process.
TEST(Sampler, NoNumberTrapsNothing) {
#ifdef __x86_64__
  std::vector<float> logits(300, 1.f);
  logits[7] = std::nanf("");
  const unsigned host = _mm_getcsr();
  constexpr unsigned kInvalidTraps = 0x80;
  for (const float temperature : {0.f, 1.f}) {
    SamplerOptions options;
    options.temperature = temperature;
    Sampler sampler = Make(300, options);
    int32_t token = 0;
    _mm_setcsr(host & ~kInvalidTraps);
    const Status status = sampler.Sample(logits, &token);
    const int32_t step = sampler.SampleStep(0, logits);
    _mm_setcsr(host);
    EXPECT_EQ(status.number(), 7203u) << status.ToString();
    EXPECT_EQ(step, QRT_GPU_SAMPLE_BAD_LOGIT);
  }
#else
  GTEST_SKIP() << "what traps is asked of an x86-64 processor";
#endif
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  auto refused = [](auto change, const char* name) {
    SamplerOptions options;
    change(options);
    const auto sampler = Sampler::Create(10, options);
    ASSERT_FALSE(sampler.ok()) << name;
    EXPECT_EQ(sampler.status().number(), 7201u);
    EXPECT_NE(sampler.status().message().find(name), std::string::npos) << sampler.status().ToString();
  };
  const float nan = std::nanf("");
  refused([&](auto& o) { o.temperature = nan; }, "temperature");
  refused([&](auto& o) { o.temperature = -1; }, "temperature");
  refused([&](auto& o) { o.temperature = kInf; }, "temperature");
  refused([&](auto& o) { o.top_k = -1; }, "top_k is -1,");
  refused([&](auto& o) { o.top_p = 1.1f; }, "top_p");
  refused([&](auto& o) { o.top_p = nan; }, "top_p");
  refused([&](auto& o) { o.min_p = -0.1f; }, "min_p");
  refused([&](auto& o) { o.repeat_penalty = 0; }, "repeat_penalty");
  refused([&](auto& o) { o.repeat_penalty = nan; }, "repeat_penalty");
  refused([&](auto& o) { o.presence_penalty = kInf; }, "presence_penalty");
  refused([&](auto& o) { o.frequency_penalty = nan; }, "frequency_penalty");
  refused([&](auto& o) { o.penalty_window = -2; }, "penalty_window");
  EXPECT_FALSE(Sampler::Create(0, {}).ok());
}

}  // namespace
}  // namespace qrt
