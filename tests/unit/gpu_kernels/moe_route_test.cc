// moe_route and moe_group on the interpreter.
#include <cmath>
#include <limits>

#include "dialects/layouts/layouts.h"
#include "tests/device/moe_lists.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Profile> MoeProfiles() {
  std::vector<Profile> profiles = TestProfiles();
  profiles.push_back(FindProfile("sm61")->profile);
  return profiles;
}

class MoeTest : public testing::TestWithParam<Profile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, MoeTest, testing::ValuesIn(MoeProfiles()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// [rows][ld] logits, of which some rows have equal ones, zeros of both signs, infinities and NaNs.
std::vector<float> Logits(int64_t rows, int64_t experts, uint64_t seed) {
  const int64_t ld = layouts::AlignUp(experts, 16);
  Random random(seed);
  std::vector<float> logits = random.Normals(rows * ld);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = logits.data() + r * ld;
    for (int64_t e = 0; e < experts; ++e) {
      if (r % 7 == 1) row[e] = 0.5f;
      if (r % 7 == 2) row[e] = std::round(row[e]);
      if (r % 7 == 3) row[e] = (e & 1) != 0 ? 0.f : -0.f;
      if (r % 7 == 4 && e % 3 == 0) row[e] = NAN;
      if (r % 7 == 5 && e % 2 == 0) row[e] = e % 4 == 2 ? -kInfinity : -100.f;
      if (r % 7 == 6) row[e] = NAN;
    }
    for (int64_t e = experts; e < ld; ++e) row[e] = NAN;
  }
  return logits;
}

struct Route {
  int64_t experts, top_k;
  bool softmax, normalise, shared;
  float floor, scale;
};

double Gate(const Route& c, const float* logits, int32_t id) {
  if (!c.softmax) return 1 / (1 + std::exp(-double{logits[id]}));
  double most = -kInfinity, sum = 0;
  for (int64_t e = 0; e < c.experts; ++e) most = std::max(most, double{logits[e]});
  for (int64_t e = 0; e < c.experts; ++e) sum += std::exp(logits[e] - most);
  return std::exp(logits[id] - most) / sum;
}

void ExpectWeights(const Route& c, const float* logits, const int32_t* ids, const float* weights) {
  for (int64_t e = 0; e < c.experts; ++e) {
    if (std::isnan(logits[e])) return;
  }
  std::vector<double> want;
  for (int64_t i = 0; i < c.top_k; ++i) want.push_back(Gate(c, logits, ids[i]));
  const double sum = std::accumulate(want.begin(), want.end(), 0.);
  for (int64_t i = 0; i < c.top_k; ++i) {
    const double v = want[i] / (c.normalise ? std::max(sum, double{c.floor}) : 1) * c.scale;
    ASSERT_NEAR(weights[i], v, 2e-6 * std::abs(v) + 1e-35) << "slot " << i;
  }
}

const Route kRoutes[] = {{128, 8, true, true, false, 6e-5f, 1.f}, {256, 8, true, false, true, 0, 2.5f},
                         {512, 10, true, true, true, 0.9f, 1.f},  {64, 6, false, true, false, 1e-20f, 2.5f},
                         {37, 37, false, false, true, 0, 1.f},    {1, 1, true, true, true, 0, 1.f},
                         {160, 128, true, false, false, 0, 1.f},  {1000, 16, false, true, false, 0, 0.5f}};

TEST_P(MoeTest, Route) {
  const int64_t rows = 9, bucket = 11, cols = 96;
  for (const Route& c : kRoutes) {
    SCOPED_TRACE(std::to_string(c.experts) + " experts, " + std::to_string(c.top_k) + " of a row");
    Sandbox box(GetParam(), bucket);
    Random random(7);
    const std::vector<float> logits = Logits(bucket, c.experts, 3), x = random.Normals(bucket * cols),
                             router = random.Normals(cols);
    Dispatch<plan::MoeRouteSpec> d;
    d.spec = {.experts = c.experts,
              .top_k = c.top_k,
              .gating = c.softmax ? plan::Gating::Softmax : plan::Gating::Sigmoid,
              .normalise = c.normalise,
              .norm_floor = c.floor,
              .scale = c.scale,
              .shared = c.shared,
              .cols = cols};
    d.rows = bucket;
    d.bindings.logits = box.Arena(logits);
    if (c.shared) {
      d.bindings.x = box.Arena(x);
      d.bindings.shared_router = box.Weights(router);
      d.bindings.factor = box.Arena(std::vector<float>(bucket, -7.f));
    }
    d.bindings.ids = box.Arena(std::vector<int32_t>(static_cast<size_t>(bucket * c.top_k), -7));
    d.bindings.weights = box.Arena(std::vector<float>(static_cast<size_t>(bucket * c.top_k), -7.f));
    SetRows(box, rows);
    ASSERT_EQ(box.Run(Expand_moe_route, d), "");
    const auto ids = box.Read<int32_t>(*d.bindings.ids);
    const auto weights = box.Read<float>(*d.bindings.weights);
    for (int64_t r = 0; r < rows; ++r) {
      SCOPED_TRACE("row " + std::to_string(r));
      const float* of_row = logits.data() + r * layouts::AlignUp(c.experts, 16);
      const std::vector<int32_t> got(ids.begin() + r * c.top_k, ids.begin() + (r + 1) * c.top_k);
      ASSERT_EQ(got, RoutedIds(of_row, c.experts, c.top_k));
      ExpectWeights(c, of_row, got.data(), weights.data() + r * c.top_k);
    }
    EXPECT_TRUE(std::all_of(ids.begin() + rows * c.top_k, ids.end(), [](int32_t v) { return v == -7; }));
    EXPECT_TRUE(
        std::all_of(weights.begin() + rows * c.top_k, weights.end(), [](float v) { return v == -7.f; }));
    if (!c.shared) continue;
    const auto factor = box.Read<float>(*d.bindings.factor);
    for (int64_t r = 0; r < rows; ++r) {
      double dot = 0;
      for (int64_t i = 0; i < cols; ++i) dot += double{x[r * cols + i]} * router[i];
      EXPECT_NEAR(factor[r], 1 / (1 + std::exp(-dot)), 2e-6);
    }
    EXPECT_EQ(factor[rows], -7.f);
  }
}

// A program of one row has the lists from here.
TEST_P(MoeTest, RouteLeavesTheListsOfItsRow) {
  for (uint32_t rows : {1u, 0u}) {
    Sandbox box(GetParam(), 1);
    const int64_t experts = 40, top_k = 5;
    const std::vector<float> logits = Logits(1, experts, 9);
    Dispatch<plan::MoeRouteSpec> d;
    d.spec = {.experts = experts, .top_k = top_k, .scale = 1.f, .cols = 32};
    d.rows = 1;
    d.bindings.logits = box.Arena(logits);
    d.bindings.ids = box.Arena(std::vector<int32_t>(top_k, -1));
    d.bindings.weights = box.Arena(uint64_t{4 * top_k});
    d.bindings.groups = box.Arena(std::vector<int32_t>(2 * experts + 2, -1));
    d.bindings.order = box.Arena(std::vector<int32_t>(top_k, -1));
    SetRows(box, rows);
    ASSERT_EQ(box.Run(Expand_moe_route, d), "");
    MoeLists want =
        GroupedSlots(rows ? RoutedIds(logits.data(), experts, top_k) : std::vector<int32_t>(), experts);
    want.order.resize(top_k, -1);
    EXPECT_EQ(box.Read<int32_t>(*d.bindings.groups), want.groups);
    EXPECT_EQ(box.Read<int32_t>(*d.bindings.order), want.order);
    d.rows = 2;
    EXPECT_TRUE(Expand_moe_route(d, box).empty()) << "of more rows, lists are moe_group's";
  }
}

TEST_P(MoeTest, Group) {
  struct Shape {
    int64_t experts, top_k, bucket, rows;
  };
  for (const Shape& s :
       {Shape{128, 8, 64, 64}, Shape{128, 8, 300, 299}, Shape{16, 4, 5, 0}, Shape{3, 3, 40, 33},
        Shape{512, 10, 17, 9}, Shape{1024, 16, 150, 150}, Shape{1, 1, 12, 11}}) {
    SCOPED_TRACE(std::to_string(s.experts) + " experts, rows " + std::to_string(s.rows));
    Sandbox box(GetParam(), s.bucket);
    Random random(static_cast<uint64_t>(s.experts));
    // Most rows like some experts, so that others have none.
    std::vector<int32_t> ids = RandomIds(s.rows, s.experts, s.top_k, [&] {
      return s.experts > 2 * s.top_k && random.Bits() % 4 ? random.Bits() % static_cast<uint32_t>(2 * s.top_k)
                                                          : random.Bits();
    });
    const MoeLists want = GroupedSlots(ids, s.experts);
    ids.resize(static_cast<size_t>(s.bucket * s.top_k), -1);
    Dispatch<plan::MoeGroupSpec> d;
    d.spec = {.experts = s.experts, .top_k = s.top_k};
    d.rows = s.bucket;
    d.bindings.ids = box.Arena(ids);
    d.bindings.groups = box.Arena(std::vector<int32_t>(static_cast<size_t>(2 * s.experts + 2), -1));
    d.bindings.order = box.Arena(std::vector<int32_t>(ids.size(), -1));
    SetRows(box, static_cast<uint32_t>(s.rows));
    ASSERT_EQ(box.Run(Expand_moe_group, d), "");
    EXPECT_EQ(box.Read<int32_t>(*d.bindings.groups), want.groups);
    std::vector<int32_t> order = want.order;
    order.resize(ids.size(), -1);
    EXPECT_EQ(box.Read<int32_t>(*d.bindings.order), order);
  }
}

}  // namespace
}  // namespace qcc::gpu
