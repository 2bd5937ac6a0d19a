// Sums of powers of logits against the C library's, in long double.
#include "runtime/qrun/log_sum_exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace qrun {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

long double Expected(const std::vector<float>& logits) {
  long double highest = -std::numeric_limits<long double>::infinity(), sum = 0;
  for (float logit : logits) highest = std::fmax(highest, static_cast<long double>(logit));
  for (float logit : logits) sum += std::exp(logit - highest);
  return highest + std::log(sum);
}

void ExpectRight(const std::vector<float>& logits, const char* what) {
  const long double want = Expected(logits);
  const double tolerance = 1e-11 + 1e-15 * std::fabs(static_cast<double>(want));
  for (const LogSumExp& found : {LogSumExpOf(logits), LogSumExpOnAny(logits)}) {
    EXPECT_EQ(found.bad, logits.size()) << what;
    EXPECT_NEAR(found.value, static_cast<double>(want), tolerance) << what << ", " << logits.size();
  }
}

TEST(LogSumExp, IsThatOfTheLogits) {
  std::mt19937 random(1);
  for (const float spread : {1e-9f, 0.01f, 3.0f, 40.0f, 1000.0f, 1e30f}) {
    for (const size_t count : {1, 2, 7, 8, 9, 15, 16, 17, 272, 4099}) {
      std::normal_distribution<float> normal(2.5f, spread);
      std::vector<float> logits(count);
      for (float& logit : logits) logit = normal(random);
      ExpectRight(logits, "normal");
    }
  }
}

TEST(LogSumExp, TakesLogitsOfAllSizes) {
  ExpectRight({-0.0f}, "zero");
  ExpectRight({-kInfinity, 3, -kInfinity}, "impossible tokens");
  ExpectRight({std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()}, "both ends");
  ExpectRight({-std::numeric_limits<float>::max()}, "the lowest");
  ExpectRight({1e-40f, -1e-40f}, "denormals");
  ExpectRight(std::vector<float>(1000, -650.0f), "far below 0");
  std::vector<float> apart(100, -599.9f);
  apart[57] = 0;
  ExpectRight(apart, "nothing beside the highest");
}

TEST(LogSumExp, SaysWhichLogitIsNone) {
  for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0, 7, 8, 12, 18}) {
      std::vector<float> logits(19, -1);
      logits[at] = bad;
      logits[18] = bad;
      EXPECT_EQ(LogSumExpOf(logits).bad, at);
      EXPECT_EQ(LogSumExpOnAny(logits).bad, at);
    }
  }
}

}  // namespace
}  // namespace qrun
