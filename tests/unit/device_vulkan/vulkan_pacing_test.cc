#include "runtime/device/vulkan/pacing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace qrt::testing {
namespace {

constexpr GpuCost kCost = {uint64_t{1} << 30, uint64_t{1} << 28, uint64_t{1} << 20, uint64_t{1} << 36};

TEST(SubmissionPacingTest, CostsGrowWithRowsAndContext) {
  const SubmissionPacing pacing(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 200);
  EXPECT_DOUBLE_EQ(pacing.max_seconds(), 0.2);
  const double all = pacing.Estimate(kCost, 1, 1000);
  EXPECT_GT(all, pacing.Estimate(kCost, 1, 0));
  EXPECT_GT(all, pacing.Estimate(kCost, 0.5, 1000));
  EXPECT_GT(pacing.Estimate(kCost, 0, 0), 0) << "the weights are read for one row too";
  const SubmissionPacing software(VK_PHYSICAL_DEVICE_TYPE_CPU, 200);
  EXPECT_GT(software.Estimate(kCost, 1, 0), 10 * all);
  EXPECT_TRUE(std::isinf(SubmissionPacing(VK_PHYSICAL_DEVICE_TYPE_CPU, 0).max_seconds()));
}

TEST(SubmissionPacingTest, SlowerIsBelievedAtOnceFasterStepByStep) {
  SubmissionPacing pacing(VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 200);
  const double first = pacing.Estimate(kCost, 1, 0);
  pacing.Measured(first, 3 * first);
  EXPECT_NEAR(pacing.Estimate(kCost, 1, 0), 3 * first, 1e-9 * first);
  pacing.Measured(3 * first, first);
  const double after = pacing.Estimate(kCost, 1, 0);
  EXPECT_LT(after, 3 * first);
  EXPECT_GT(after, 2 * first);
  for (int i = 0; i < 100; ++i) pacing.Measured(pacing.Estimate(kCost, 1, 0), first);
  EXPECT_NEAR(pacing.Estimate(kCost, 1, 0), first, 0.2 * first);
}

TEST(SubmissionPacingTest, ShortSubmissionsMakeNothingSlower) {
  SubmissionPacing pacing(VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 200);
  const double first = pacing.Estimate(kCost, 1, 0);
  pacing.Measured(1e-7, 1e-3);  // ten thousand times slower than estimated, but all of it the driver's
  EXPECT_EQ(pacing.Estimate(kCost, 1, 0), first);
}

// A process that is stopped for a minute within a step learns that the device is slow; from then on all that
// it hands in is short.
TEST(SubmissionPacingTest, ShortSubmissionsOfLongEstimatesMakeItFaster) {
  SubmissionPacing pacing(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 200);
  const double first = pacing.Estimate(kCost, 1, 0);
  pacing.Measured(first, 500 * first);
  for (int i = 0; i < 100; ++i) pacing.Measured(0.5, 0.5 * first / pacing.Estimate(kCost, 1, 0));
  EXPECT_NEAR(pacing.Estimate(kCost, 1, 0), first, 0.2 * first);
}

TEST(SubmissionPacingTest, LongContextsTakeSmallerPrefillPrograms) {
  std::vector<BucketCosts> programs(3);
  const std::vector<uint32_t> all = {0, 1, 2}, served = {1};
  for (size_t i = 0; i < 3; ++i) {
    programs[i].rows = 16u << (2 * i);
    // Attention: rows times context. And many of one cheap kind.
    programs[i].Add({0, 0, uint64_t{1000} * programs[i].rows, 0});
    for (int j = 0; j < 9; ++j) programs[i].Add({1000, 1000, 0, 1000});
    EXPECT_EQ(programs[i].dispatches.size(), 2u) << "each kind once";
  }
  SubmissionPacing pacing(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 200);  // 100 GB/s until it is measured
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 1000), 256u);
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 78000), 256u) << "256 * 78000 * 1000 bytes: 0.1997 s";
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 79000), 64u);
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 400000), 16u);
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 9000000), 16u) << "no smaller one";
  EXPECT_EQ(MostBucketRows(pacing, programs, {}, 79000), UINT32_MAX);
  EXPECT_EQ(MostBucketRows(pacing, programs, served, 1000), 64u) << "another model's are not asked";
  EXPECT_EQ(MostBucketRows(pacing, programs, served, 9000000), 64u);
  for (int i = 0; i < 100; ++i) pacing.Measured(0.1, 0.01);
  EXPECT_EQ(MostBucketRows(pacing, programs, all, 79000), 256u) << "the device turned out to be faster";
  const SubmissionPacing no_limit(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 0);
  EXPECT_EQ(MostBucketRows(no_limit, programs, all, 9000000), 256u);
}

}  // namespace
}  // namespace qrt::testing
