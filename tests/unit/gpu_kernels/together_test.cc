// Launches as parts of one: the same results, bit for bit, and what may not be joined.
#include "codegen/gpu/kernels/together.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr TogetherLimits kLimits{.args = 16, .grid = {65535, 65535, 65535}, .shared_bytes = 16384};

// A matrix that takes the step's rows, as int8 rows where `int8`.
struct Side {
  Format format;
  bool int8;
  int64_t n;
};

struct Sides {
  std::vector<Launch> launches;
  std::vector<Arg> outputs;
};

Sides Expand(Sandbox& box, const std::vector<Side>& sides, int64_t rows, int64_t k) {
  const std::vector<float> x = Random(11).Normals(rows * k);
  const Arg plain = box.Arena(x), rounded = box.Arena(QuantizedRows(x, rows, k));
  SetRows(box, static_cast<uint32_t>(rows));
  Sides result;
  for (size_t i = 0; i < sides.size(); ++i) {
    const auto [format, int8, n] = sides[i];
    Dispatch<plan::LinearSpec> d{.spec = {.format = format,
                                          .numerics = int8 ? plan::Numerics::Int8 : plan::Numerics::F32,
                                          .k = k,
                                          .n = n,
                                          .epilogue = plan::Epilogue::Store,
                                          .rows = plan::RowsFrom::Rows},
                                 .bindings = {},
                                 .rows = rows};
    (int8 ? d.bindings.xq : d.bindings.x) = int8 ? rounded : plain;
    d.bindings.w = box.Weights(RandomMatrix(format, n, k, i).Packed());
    d.bindings.y = box.Arena(static_cast<uint64_t>(rows * 4 * layouts::AlignUp(n, layouts::kGroupRows)));
    result.outputs.push_back(*d.bindings.y);
    for (Launch& launch : Expand_linear(d, box)) result.launches.push_back(std::move(launch));
  }
  return result;
}

std::vector<std::vector<float>> Results(const Sandbox& box, const Sides& sides) {
  std::vector<std::vector<float>> results;
  for (const Arg& y : sides.outputs) results.push_back(box.Read<float>(y));
  return results;
}

// Query, key, value and two small matrices, as a layer has them side by side: two formats, two numerics, one
// kernel twice.
const std::vector<Side> kLayer = {{Format::Q4_K, true, 96},
                                  {Format::Q4_K, true, 32},
                                  {Format::Q6_K, true, 48},
                                  {Format::F32, false, 20},
                                  {Format::F32, false, 20}};

class TogetherTest : public testing::TestWithParam<int64_t> {};

TEST_P(TogetherTest, GivesTheBitsOfEach) {
  const int64_t rows = GetParam(), k = 512;
  std::vector<Profile> profiles = TestProfiles();
  if (rows <= 8) profiles.push_back(FindProfile("sm80")->profile);
  for (const Profile& profile : profiles) {
    Sandbox apart(profile, rows), together(profile, rows);
    const Sides own = Expand(apart, kLayer, rows, k), joined = Expand(together, kLayer, rows, k);
    ASSERT_EQ(own.launches.size(), kLayer.size());
    // Grids differ in two dimensions: few rows of f32 have a workgroup each, unless matrix units take them,
    // and without dot products tiles have 4 rows instead of 8.
    const bool apart_by_rows = rows == 5 ? profile.name != "sm80" : rows > 5 && profile.name == "none";
    EXPECT_EQ(own.launches[0].grid[1] != own.launches[3].grid[1], apart_by_rows) << profile.name;
    std::vector<Launch> side = {joined.launches.front()};
    for (size_t i = 1; i < joined.launches.size(); ++i) {
      ASSERT_TRUE(GoTogether(side, joined.launches[i], kLimits)) << profile.name << ", launch " << i;
      side.push_back(joined.launches[i]);
    }
    const Launch one = Together(side);
    // x twice, the count of rows, and a matrix and a result of each: numbers are none.
    EXPECT_EQ(one.args.size(), 3 + 2 * kLayer.size()) << profile.name;
    int at_once = own.launches[0].at_once;
    for (const Launch& launch : own.launches) at_once = std::min(at_once, launch.at_once);
    EXPECT_EQ(one.at_once, at_once) << profile.name << ": the least; none where one leaves it to ptxas";
    ASSERT_EQ(apart.Run(own.launches), "") << profile.name;
    ASSERT_EQ(together.Run({one}), "") << profile.name << ": " << one.name;
    EXPECT_EQ(Results(together, joined), Results(apart, own)) << profile.name << ": " << one.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, TogetherTest, testing::Values(1, 5, 40));

// Kernels of many rows beside those of few workgroups, each with other tiles and workgroup memory: together
// they have no more of it, be it of floats or of integers, than the one that has most.
TEST(Together, TilesOfAllSizes) {
  const Profile profile = FindProfile("sm80")->profile;
  const int64_t rows = 130, k = 512;
  const std::vector<Side> sides = {{Format::Q4_K, true, 96},
                                   {Format::Q6_K, true, 144},
                                   {Format::Q2_K, true, 48},
                                   {Format::F32, false, 20}};
  Sandbox apart(profile, rows), together(profile, rows);
  const Sides own = Expand(apart, sides, rows, k);
  Sides joined = Expand(together, sides, rows, k);
  for (size_t i = 0; i < 3; ++i) {
    LinearSpec spec;
    spec.format = sides[i].format;
    spec.int8 = true;
    spec.k = k;
    Launch tiles = LinearMatrixShared(spec, i == 1 ? 128 : 64, sides[i].n / layouts::kGroupRows, rows);
    tiles.args = joined.launches[i].args;
    joined.launches[i] = std::move(tiles);
  }
  int most = 0;
  for (const Launch& launch : joined.launches) most = std::max(most, launch.shared_bytes);
  TogetherLimits limits = kLimits, fewer = kLimits;
  limits.shared_bytes = most;
  fewer.shared_bytes = most - 4;
  std::vector<Launch> side = {joined.launches.front()};
  for (size_t i = 1; i < joined.launches.size(); ++i) {
    ASSERT_TRUE(GoTogether(side, joined.launches[i], limits)) << "launch " << i;
    side.push_back(joined.launches[i]);
  }
  EXPECT_FALSE(GoTogether(joined.launches, joined.launches.back(), fewer));
  const Launch one = Together(side);
  EXPECT_EQ(one.shared_bytes, most);
  ASSERT_EQ(apart.Run(own.launches), "");
  ASSERT_EQ(together.Run({one}), "") << one.name;
  EXPECT_EQ(Results(together, joined), Results(apart, own)) << one.name;
}

// Query and key of a prompt: many workgroups by tiles of 128 rows, and few whose subgroups share the parts.
TEST(Together, WideTilesBesideSharedParts) {
  const Profile profile = FindProfile("sm80")->profile;
  LinearSpec spec;
  spec.format = Format::Q4_K;
  spec.int8 = true;
  spec.k = 4096;
  const auto launch = [&](int64_t n) {
    Launch chosen = ChooseLinear(spec, profile, n / layouts::kGroupRows, 512);
    chosen.args.resize(6);
    return chosen;
  };
  const Launch query = launch(4096), key = launch(1024);
  EXPECT_TRUE(query.name.ends_with(".ms128")) << query.name;
  EXPECT_TRUE(key.name.ends_with(".mp32")) << key.name;
  TogetherLimits limits = kLimits;
  limits.shared_bytes = profile.max_shared;
  EXPECT_TRUE(GoTogether({query}, key, limits)) << query.shared_bytes << " and " << key.shared_bytes;
}

TEST(Together, OneStaysItself) {
  Sandbox box(TestProfiles()[1], 1);
  const Sides sides = Expand(box, {{Format::Q8_0, true, 32}}, 1, 256);
  const Launch one = Together(sides.launches);
  EXPECT_EQ(one.name, sides.launches[0].name);
  EXPECT_EQ(one.args.size(), sides.launches[0].args.size());
}

// Kernels are shared by name: what another grid, another number or another sharing of arguments changes in
// the code stands in it.
TEST(Together, NamesTellCodesApart) {
  const Profile profile = TestProfiles()[1];
  std::set<std::string> names;
  const auto name = [&](const std::vector<Side>& sides, bool twice_one_output = false) {
    Sandbox box(profile, 2);
    Sides expanded = Expand(box, sides, 2, 256);
    if (twice_one_output) expanded.launches[1].args[2] = expanded.launches[0].args[2];
    return Together(expanded.launches).name;
  };
  const std::vector<Side> pair = {{Format::Q8_0, true, 32}, {Format::Q8_0, true, 64}};
  EXPECT_EQ(name(pair), name(pair));
  for (const auto& sides : std::vector<std::vector<Side>>{
           pair, {pair[1], pair[0]}, {pair[0], pair[0]}, {pair[0], {Format::Q8_0, true, 48}}}) {
    EXPECT_TRUE(names.insert(name(sides)).second) << name(sides);
  }
  EXPECT_TRUE(names.insert(name(pair, true)).second);
}

TEST(Together, CostsAreSums) {
  Sandbox box(TestProfiles()[1], 2);
  const Sides sides = Expand(box, kLayer, 2, 512);
  uint64_t read = 0, written = 0, ops = 0;
  for (const Launch& launch : sides.launches) {
    read += launch.read_bytes;
    written += launch.write_bytes;
    ops += launch.ops;
  }
  const Launch one = Together(sides.launches);
  EXPECT_EQ(one.read_bytes, read);
  EXPECT_EQ(one.write_bytes, written);
  EXPECT_EQ(one.ops, ops);
}

TEST(Together, WhatDoesNotFitStaysApart) {
  Sandbox box(TestProfiles()[1], 1);
  const Sides sides = Expand(box, {{Format::Q8_0, true, 32}, {Format::Q6_K, true, 32}}, 1, 256);
  const Launch &first = sides.launches[0], &second = sides.launches[1];
  ASSERT_TRUE(GoTogether({first}, second, kLimits));
  const auto with = [](auto change) {
    TogetherLimits limits = kLimits;
    change(limits);
    return limits;
  };
  EXPECT_FALSE(GoTogether({first}, second, with([](auto& l) { l.args = 5; })))
      << "xq, count, w and y of each";
  EXPECT_TRUE(GoTogether({first}, second, with([](auto& l) { l.args = 6; })));
  EXPECT_FALSE(GoTogether({first}, second, with([&](auto& l) { l.grid[0] = first.grid[0]; })));
  EXPECT_FALSE(GoTogether({first}, second, with([&](auto& l) { l.shared_bytes = first.shared_bytes - 4; })));
  Launch other = second;
  other.workgroup_size = 64;
  EXPECT_FALSE(GoTogether({first}, other, kLimits)) << "workgroups of other sizes";
  other = second;
  other.beside = false;
  EXPECT_FALSE(GoTogether({first}, other, kLimits)) << "numbers that do not follow from the shape";
}

}  // namespace
}  // namespace qcc::gpu
