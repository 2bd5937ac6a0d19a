// moe_route against double arithmetic, moe_group against a plain sort.
#include <limits>

#include "dialects/layouts/layouts.h"
#include "tests/unit/codegen_cpu/moe_lists.h"

namespace qcc::cpu {
namespace {

using layouts::AlignUp;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// ---- moe_route ----

struct RouteCase {
  int64_t experts, top_k;
  int64_t gating = QK_Gating_Softmax;
  bool normalise = true;
  float norm_floor = 6e-5f, scale = 1.f;
  int64_t cols = 0;  // of a shared expert's router; 0: none
  std::string name() const {
    return std::to_string(top_k) + " of " + std::to_string(experts) + (gating ? ", sigmoid" : ", softmax") +
           (normalise ? ", normalised" : "") + ", scale " + std::to_string(scale) + ", cols " +
           std::to_string(cols);
  }
};

struct Routed {
  Guarded<int32_t> ids;
  Guarded<float> weights, factor;
};

// In two calls: rows before `cut`, and the others. logits: [rows][experts].
Routed route(const Kernels& k, const RouteCase& c, const std::vector<float>& logits, int64_t cut,
             const float* x = nullptr, const float* router = nullptr) {
  const int64_t rows = static_cast<int64_t>(logits.size()) / c.experts, ld = AlignUp(c.experts, 16);
  // What is behind a row's last logit is none.
  Guarded<float> padded(static_cast<size_t>(rows * ld));
  std::fill(padded.begin(), padded.end(), 1e30f);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(logits.begin() + r * c.experts, c.experts, padded.begin() + r * ld);
  Routed out{Guarded<int32_t>(static_cast<size_t>(rows * c.top_k)),
             Guarded<float>(static_cast<size_t>(rows * c.top_k)), Guarded<float>(static_cast<size_t>(rows))};
  moe_route_args args = {.experts = c.experts,
                         .top_k = c.top_k,
                         .gating = c.gating,
                         .normalise = c.normalise,
                         .norm_floor = c.norm_floor,
                         .scale = c.scale,
                         .shared = c.cols > 0,
                         .cols = std::max<int64_t>(c.cols, 1),
                         .logits = padded.data(),
                         .x = x,
                         .shared_router = router,
                         .ids = out.ids.data(),
                         .weights = out.weights.data(),
                         .factor = c.cols > 0 ? out.factor.data() : nullptr,
                         .groups = nullptr,
                         .order = nullptr,
                         .n_rows = rows,
                         .begin = 0,
                         .end = cut};
  k.qk_moe_route(&args);
  args.begin = cut;
  args.end = rows;
  k.qk_moe_route(&args);
  return out;
}

std::vector<double> gates(const RouteCase& c, const float* logits, const std::vector<int32_t>& ids) {
  std::vector<double> v;
  const double top = *std::max_element(logits, logits + c.experts);
  double all = 0;
  for (int64_t e = 0; e < c.experts; ++e) all += std::exp(logits[e] - top);
  for (int32_t id : ids) {
    v.push_back(c.gating == QK_Gating_Softmax ? std::exp(logits[id] - top) / all
                                              : 1 / (1 + std::exp(-static_cast<double>(logits[id]))));
  }
  const double sum = std::accumulate(v.begin(), v.end(), 0.);
  for (double& g : v) {
    if (c.normalise) g /= std::max<double>(sum, c.norm_floor);
    g *= c.scale;
  }
  return v;
}

class KernelMoe : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelMoe);

const RouteCase kRouteCases[] = {
    {1, 1},
    {2, 1},
    {5, 5},
    {16, 4},
    {40, 3, QK_Gating_Sigmoid},
    {128, 8, QK_Gating_Softmax, false, 0.f, 2.5f},
    {256, 8, QK_Gating_Sigmoid, true, 1e-20f, 2.5f, 100},
    {512, 10, QK_Gating_Softmax, true, 6e-5f, 1.f, 2048},
    {33, 33, QK_Gating_Sigmoid, false, 0.f, 1.f, 7},
    {1024, 16, QK_Gating_Softmax, true, 0.9f, 1.f, 64},
};

TEST_P(KernelMoe, RouteValues) {
  uint32_t seed = 1;
  for (const RouteCase& c : kRouteCases) {
    SCOPED_TRACE(c.name());
    const int64_t rows = 5;
    Random random(seed++);
    std::vector<float> logits = random.normals(static_cast<size_t>(rows * c.experts), 3.f);
    for (int64_t e = 0; e < c.experts; ++e) {
      logits[static_cast<size_t>(c.experts + e)] *= 20;                            // one has it all
      logits[static_cast<size_t>(2 * c.experts + e)] = static_cast<float>(e % 3);  // ties
      logits[static_cast<size_t>(3 * c.experts + e)] = 0.25f;
    }
    const auto x = random.guarded(static_cast<size_t>(rows * c.cols)),
               router = random.guarded(static_cast<size_t>(c.cols), 0.2f);
    const Routed got = route(*k, c, logits, 3, x.data(), router.data());
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = logits.data() + r * c.experts;
      const std::vector<int32_t> ids = used_experts(row, c.experts, c.top_k);
      const std::vector<double> want = gates(c, row, ids);
      for (int64_t i = 0; i < c.top_k; ++i) {
        ASSERT_EQ(got.ids[r * c.top_k + i], ids[i]) << "row " << r << ", " << i;
        ASSERT_NEAR(got.weights[r * c.top_k + i], want[i], 2e-6 * want[i] + 1e-37)
            << "row " << r << ", " << i;
      }
      if (c.cols == 0) continue;
      double dot = 0;
      for (int64_t i = 0; i < c.cols; ++i) dot += static_cast<double>(x[r * c.cols + i]) * router[i];
      ASSERT_NEAR(got.factor[r], 1 / (1 + std::exp(-dot)), 3e-6) << "row " << r;
    }
    const Routed again = route(*k, c, logits, 0, x.data(), router.data());
    EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), again.ids.begin()));
    EXPECT_TRUE(same_bits(got.weights.data(), again.weights.data(), got.weights.size()));
    if (c.cols > 0) {
      EXPECT_TRUE(same_bits(got.factor.data(), again.factor.data(), got.factor.size()));
    }
  }
}

// Whatever the logits are, ids ascend and are in range: moe_linear reads matrices by them.
TEST_P(KernelMoe, RouteOfAnyLogits) {
  const float specials[] = {kNan, -kNan, kInf, -kInf, 0.f, -0.f, 1.f, -1.f, 1e-40f, -1e-40f, 3e38f, -3e38f};
  Random random(7);
  for (const auto& [experts, top_k] : {std::pair<int64_t, int64_t>{7, 3}, {16, 16}, {40, 8}, {300, 20}}) {
    const RouteCase c{experts, top_k};
    const int64_t rows = 60;
    std::vector<float> logits(static_cast<size_t>(rows * experts));
    for (size_t i = 0; i < logits.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / experts;
      logits[i] = row < 12 ? specials[row] : specials[random.below(row < 30 ? 3 : 12)];
    }
    const Routed got = route(*k, c, logits, 20);
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<int32_t> want = used_experts(logits.data() + r * experts, experts, top_k);
      for (int64_t i = 0; i < top_k; ++i)
        ASSERT_EQ(got.ids[r * top_k + i], want[i]) << "row " << r << ", " << i << " of " << c.name();
    }
  }
}

// What is no number does not become one.
TEST_P(KernelMoe, RouteKeepsNan) {
  const std::vector<float> logits = {1, kNan, 3, 2, 5};
  for (int64_t gating : {QK_Gating_Softmax, QK_Gating_Sigmoid}) {
    const Routed few = route(*k, {5, 2, gating}, logits, 1), all = route(*k, {5, 5, gating}, logits, 1);
    EXPECT_EQ(std::isnan(few.weights[0]), gating == QK_Gating_Softmax) << "of a softmax over all experts";
    for (float w : all.weights) EXPECT_TRUE(std::isnan(w)) << "divided by a sum with NaN";
  }
  const std::vector<float> x = {1, kNan, 2}, router = {1, 1, 1};
  const RouteCase shared{5, 2, QK_Gating_Sigmoid, true, 0.f, 1.f, 3};
  EXPECT_TRUE(std::isnan(route(*k, shared, logits, 1, x.data(), router.data()).factor[0]));
}

TEST(KernelMoeLevels, RouteAgreesWhereMultiplyAddIsFused) {
  QCC_TWO_FUSED_LEVELS_OR_SKIP(levels);
  for (const RouteCase& c : kRouteCases) {
    Random random(3);
    const std::vector<float> logits = random.normals(static_cast<size_t>(4 * c.experts), 2.f),
                             x = random.normals(static_cast<size_t>(4 * c.cols)),
                             router = random.normals(static_cast<size_t>(c.cols));
    const Routed first = route(kernels_of(levels[0]), c, logits, 4, x.data(), router.data());
    for (Isa isa : levels) {
      const Routed got = route(kernels_of(isa), c, logits, 4, x.data(), router.data());
      EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), first.ids.begin())) << isa_info(isa).name;
      EXPECT_TRUE(same_bits(got.weights.data(), first.weights.data(), got.weights.size()))
          << isa_info(isa).name;
      if (c.cols > 0) {
        EXPECT_TRUE(same_bits(got.factor.data(), first.factor.data(), 4)) << isa_info(isa).name;
      }
    }
  }
}

// ---- moe_group ----

void expect_lists(const Lists& want, const int32_t* groups, const int32_t* order, int64_t experts) {
  const int32_t active = want.groups[0];
  ASSERT_EQ(groups[0], active);
  EXPECT_TRUE(std::equal(groups + 1, groups + 1 + active, want.groups.begin() + 1)) << "ids";
  EXPECT_TRUE(
      std::equal(groups + 1 + experts, groups + 2 + experts + active, want.groups.begin() + 1 + experts))
      << "begins";
  EXPECT_TRUE(std::equal(want.order.begin(), want.order.end(), order)) << "order";
}

TEST_P(KernelMoe, Group) {
  struct Case {
    int64_t rows, experts, top_k, step;
  };
  Random random(5);
  for (const Case& c : {Case{1, 1, 1, 1},
                        {9, 1, 1, 1},
                        {17, 8, 8, 1},
                        {64, 64, 8, 1},
                        {64, 64, 3, 7},
                        {20, 12, 1, 12},
                        {300, 512, 10, 1},
                        {1, 40, 5, 1},
                        {0, 6, 2, 1}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " rows, " + std::to_string(c.top_k) + " of " +
                 std::to_string(c.experts));
    const auto ids = Guarded<int32_t>::copy_of(random_ids(c.rows, c.experts, c.top_k, c.step, random));
    Guarded<int32_t> groups(static_cast<size_t>(2 * c.experts + 2)), order(ids.size());
    std::fill(groups.begin(), groups.end(), -7);
    moe_group_args args = {.experts = c.experts,
                           .top_k = c.top_k,
                           .ids = ids.data(),
                           .groups = groups.data(),
                           .order = order.data(),
                           .n_rows = c.rows,
                           .begin = 0,
                           .end = 0};
    k->qk_moe_group(&args);
    EXPECT_EQ(groups[0], -7) << "a call without the item writes";
    args.end = 1;
    k->qk_moe_group(&args);
    expect_lists(lists_of({ids.begin(), ids.end()}, c.experts), groups.data(), order.data(), c.experts);
  }
}

TEST_P(KernelMoe, RouteWritesTheListsOfOneRow) {
  Random random(6);
  for (const auto& [experts, top_k] : {std::pair<int64_t, int64_t>{16, 16}, {64, 8}, {1, 1}}) {
    const auto logits = random.guarded(static_cast<size_t>(AlignUp(experts, 16)));
    Guarded<int32_t> ids(static_cast<size_t>(top_k)), groups(static_cast<size_t>(2 * experts + 2)),
        order(static_cast<size_t>(top_k));
    Guarded<float> weights(static_cast<size_t>(top_k));
    const moe_route_args args = {.experts = experts,
                                 .top_k = top_k,
                                 .gating = QK_Gating_Softmax,
                                 .normalise = true,
                                 .norm_floor = 0.f,
                                 .scale = 1.f,
                                 .shared = false,
                                 .cols = 1,
                                 .logits = logits.data(),
                                 .x = nullptr,
                                 .shared_router = nullptr,
                                 .ids = ids.data(),
                                 .weights = weights.data(),
                                 .factor = nullptr,
                                 .groups = groups.data(),
                                 .order = order.data(),
                                 .n_rows = 1,
                                 .begin = 0,
                                 .end = 1};
    k->qk_moe_route(&args);
    expect_lists(lists_of({ids.begin(), ids.end()}, experts), groups.data(), order.data(), experts);
  }
}

}  // namespace
}  // namespace qcc::cpu
