#include "runtime/device/cuda/cuda_pacing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace qrt {
namespace {

constexpr double kBytesPerSecond = 200e9;  // kernels reach half of it: 100 MB in a millisecond

GpuDispatch Dispatch(uint64_t read, uint64_t write, uint64_t kv, uint64_t ops) {
  GpuDispatch dispatch = {};
  dispatch.cost = {read, write, kv, ops};
  return dispatch;
}

TEST(CudaPacing, CostsGrowWithEverythingThatADispatchDoes) {
  const CudaPacing pacing(kBytesPerSecond, 1);
  EXPECT_TRUE(std::isinf(pacing.MostContext({40'000'000, 60'000'000, 0, 0})));
  EXPECT_LT(pacing.MostContext({40'000'001, 60'000'000, 0, 0}), 0);
  EXPECT_LT(pacing.MostContext({0, 0, 0, 801'000'000}), 0) << "eight operations for a byte";
  EXPECT_DOUBLE_EQ(pacing.MostContext({20'000'000, 30'000'000, 1000, 80'000'000}), 40'000);
  EXPECT_GT(CudaPacing(2 * kBytesPerSecond, 1).MostContext({0, 0, 1000, 0}), 100'000);
  EXPECT_TRUE(std::isinf(CudaPacing(kBytesPerSecond, 0).MostContext({UINT64_MAX, 0, UINT64_MAX, 0})));
  EXPECT_TRUE(std::isinf(CudaPacing(kBytesPerSecond, -1).MostContext({UINT64_MAX, 0, UINT64_MAX, 0})));
  EXPECT_GT(CudaPacing(0, 1).MostContext({1'000'000, 0, 0, 0}), 0) << "a speed that nobody knows";
}

TEST(CudaPacing, ShortProgramsStayWhole) {
  const std::vector<GpuDispatch> dispatches(10, Dispatch(1'000'000, 0, 0, 0));
  const auto cuts = CudaPacing(kBytesPerSecond, 1).Cuts(dispatches, 1'000'000);
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_TRUE(std::isinf(cuts[0].most_context));
  EXPECT_EQ(cuts[0].ends, std::vector<size_t>{10});
  EXPECT_EQ(CudaPacing(kBytesPerSecond, 1).Cuts({}, 1'000'000).size(), 1u);
}

TEST(CudaPacing, LongProgramsAreCutBetweenDispatches) {
  std::vector<GpuDispatch> dispatches(10, Dispatch(30'000'000, 0, 0, 0));
  dispatches[4] = Dispatch(500'000'000, 0, 0, 0);
  const auto cuts = CudaPacing(kBytesPerSecond, 1).Cuts(dispatches, 1'000'000);
  ASSERT_EQ(cuts.size(), 1u) << "no context changes it";
  EXPECT_EQ(cuts[0].ends, (std::vector<size_t>{3, 4, 5, 8, 10})) << "the long one alone";
  EXPECT_EQ(CudaPacing(kBytesPerSecond, 0).Cuts(dispatches, 1'000'000)[0].ends, std::vector<size_t>{10});
}

TEST(CudaPacing, LongContextsAreCutMore) {
  std::vector<GpuDispatch> dispatches(8, Dispatch(1'000'000, 0, 0, 0));
  for (size_t i : {1, 3, 5, 7}) dispatches[i] = Dispatch(0, 0, 1000, 0);
  const CudaPacing pacing(kBytesPerSecond, 1);
  const auto cuts = pacing.Cuts(dispatches, 90'000);
  ASSERT_GE(cuts.size(), 2u);
  ASSERT_LE(cuts.size(), 4u);
  EXPECT_EQ(cuts[0].ends, std::vector<size_t>{8});
  EXPECT_DOUBLE_EQ(cuts[0].most_context, 24'000) << "4 MB and four times 24000 KB";
  EXPECT_EQ(cuts.back().ends.size(), 4u);
  EXPECT_GE(cuts.back().most_context, 90'000);
  for (size_t i = 1; i < cuts.size(); ++i) {
    EXPECT_GE(cuts[i].most_context,
              2 * cuts[i - 1].most_context < 90'000 ? 2 * cuts[i - 1].most_context : 90'000);
    EXPECT_GT(cuts[i].ends.size(), cuts[i - 1].ends.size());
  }
  // Of one dispatch each: nothing is left to cut.
  const auto longest = pacing.Cuts(dispatches, 10'000'000);
  EXPECT_EQ(longest.back().ends.size(), 8u);
  EXPECT_TRUE(std::isinf(longest.back().most_context));
}

TEST(CudaPacing, LongContextsTakeSmallerPrefillPrograms) {
  std::vector<CudaBucket> programs, unlimited;
  const std::vector<uint32_t> all = {0, 1, 2}, served = {1};
  const CudaPacing pacing(kBytesPerSecond, 200), no_limit(kBytesPerSecond, 0);
  for (uint32_t rows : {16u, 64u, 256u}) {
    // Attention: rows times context. And much that is cheap, of which a limit is not the sum.
    std::vector<GpuDispatch> dispatches(9, Dispatch(4'000'000'000, 1000, 0, 1000));
    dispatches.push_back(Dispatch(0, 0, uint64_t{1000} * rows, 0));
    programs.emplace_back(rows, dispatches, pacing);
    unlimited.emplace_back(rows, dispatches, no_limit);
  }
  EXPECT_EQ(MostBucketRows(programs, all, 1000), 256u);
  EXPECT_EQ(MostBucketRows(programs, all, 78'000), 256u) << "256 * 78000 * 1000 bytes: 0.1997 s";
  EXPECT_EQ(MostBucketRows(programs, all, 79'000), 64u);
  EXPECT_EQ(MostBucketRows(programs, all, 400'000), 16u);
  EXPECT_EQ(MostBucketRows(programs, all, 90'000'000), 16u) << "no smaller one";
  EXPECT_EQ(MostBucketRows(programs, {}, 79'000), UINT32_MAX);
  EXPECT_EQ(MostBucketRows(programs, served, 1000), 64u) << "another model's are not asked";
  EXPECT_EQ(MostBucketRows(programs, served, 90'000'000), 64u);
  EXPECT_EQ(MostBucketRows(unlimited, all, 90'000'000), 256u);
}

}  // namespace
}  // namespace qrt
