// moe_route and moe_group on every device: the ids that the logits say, weights against double, lists.
#include <cmath>
#include <limits>
#include <random>

#include "dialects/layouts/layouts.h"
#include "tests/device/conformance.h"
#include "tests/device/moe_lists.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kRows = 16, kCols = 96;

std::string Integer(const char* key, int64_t v) {
  return std::string(key) + " = " + std::to_string(v) + " : i64, ";
}
std::string Float(const char* key, float v) {
  char text[64];
  std::snprintf(text, sizeof(text), "%s = %.9e : f32, ", key, static_cast<double>(v));
  return text;
}
std::string Flag(const char* key, bool v) {
  return std::string(key) + " = " + (v ? "true, " : "false, ");
}

struct Route {
  int64_t experts, top_k;
  bool softmax, normalise, shared;
  float floor, scale;
  int64_t rows = kRows;  // one: with lists

  bool lists() const { return rows == 1; }
  int64_t ld() const { return layouts::AlignUp(experts, 16); }
  std::string Name() const {
    return "route_" + std::to_string(experts) + "_" + std::to_string(top_k) + (lists() ? "_lists" : "");
  }
};
// Every expert of a row, one expert, more than the threads of a workgroup; floors above and below the sums.
const Route kRoutes[] = {{128, 8, true, true, false, 6e-5f, 1.f}, {256, 8, true, false, true, 0.f, 2.5f},
                         {512, 10, true, true, true, 0.9f, 1.f},  {64, 6, false, true, false, 1e-20f, 2.5f},
                         {37, 37, false, false, true, 0.f, 1.f},  {1, 1, true, true, true, 0.f, 1.f},
                         {128, 8, true, true, true, 0.f, 1.f, 1}, {40, 5, false, true, false, 0.f, 0.5f, 1}};

struct Group {
  int64_t experts, top_k, rows;
  std::string Name() const { return "group_" + std::to_string(experts) + "_" + std::to_string(rows); }
};
const Group kGroups[] = {{128, 8, 64}, {128, 8, 300}, {512, 10, 17}, {1024, 16, 150}, {3, 3, 40}};

std::vector<float> Router() {
  return Random(4).normals(static_cast<size_t>(kCols));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Route& r : kRoutes) {
    Case c;
    c.name = r.Name();
    c.family = "moe_route";
    c.spec = "{" + Integer("experts", r.experts) + Integer("top_k", r.top_k) + "gating = \"" +
             (r.softmax ? "softmax" : "sigmoid") + "\", " + Flag("normalise", r.normalise) +
             Float("norm_floor", r.floor) + Float("scale", r.scale) + Flag("shared", r.shared) +
             "cols = " + std::to_string(kCols) + " : i64}";
    c.rows = r.rows;
    if (!r.lists()) c.without = {"groups", "order"};
    if (r.shared) c.weights["shared_router"] = AsBytes(Router());
    cases.push_back(std::move(c));
  }
  for (const Group& g : kGroups) {
    cases.push_back({g.Name(), "moe_group",
                     "{" + Integer("experts", g.experts) + "top_k = " + std::to_string(g.top_k) + " : i64}",
                     g.rows});
  }
  return cases;
}

const Suite& MoeSuite() {
  static const auto* suite = new Suite("moe", Cases());
  return *suite;
}

// [rows][ld], of which some rows have equal ones, zeros of both signs, infinities and NaNs.
std::vector<float> Logits(const Route& r) {
  std::vector<float> logits = Random(3).normals(static_cast<size_t>(r.rows * r.ld()));
  for (int64_t row = 0; row < r.rows; ++row) {
    float* of_row = logits.data() + row * r.ld();
    for (int64_t e = 0; e < r.experts; ++e) {
      if (row % 7 == 1) of_row[e] = 0.5f;
      if (row % 7 == 2) of_row[e] = std::round(of_row[e]);
      if (row % 7 == 3) of_row[e] = (e & 1) != 0 ? 0.f : -0.f;
      if (row % 7 == 4 && e % 3 == 0) of_row[e] = NAN;
      if (row % 7 == 5 && e % 2 == 0) of_row[e] = e % 4 == 2 ? -kInfinity : -100.f;
      if (row % 7 == 6) of_row[e] = NAN;
    }
    for (int64_t e = r.experts; e < r.ld(); ++e) of_row[e] = NAN;
  }
  return logits;
}

double GateOf(const Route& r, const float* logits, int32_t id) {
  if (!r.softmax) return 1 / (1 + std::exp(-double{logits[id]}));
  double most = -kInfinity, sum = 0;
  for (int64_t e = 0; e < r.experts; ++e) most = std::max(most, double{logits[e]});
  for (int64_t e = 0; e < r.experts; ++e) sum += std::exp(logits[e] - most);
  return std::exp(logits[id] - most) / sum;
}

void ExpectWeights(const Route& r, const float* logits, const std::vector<int32_t>& ids,
                   const float* weights) {
  if (std::any_of(logits, logits + r.experts, [](float v) { return std::isnan(v); })) return;
  std::vector<double> want;
  for (int32_t id : ids) want.push_back(GateOf(r, logits, id));
  const double sum = std::accumulate(want.begin(), want.end(), 0.);
  for (size_t i = 0; i < want.size(); ++i) {
    const double v = want[i] / (r.normalise ? std::max(sum, double{r.floor}) : 1) * r.scale;
    ASSERT_NEAR(weights[i], v, 2e-6 * std::abs(v) + 1e-35) << "slot " << i;
  }
}

// The lists up to their ends; what is behind them is anything.
void ExpectLists(const std::vector<int32_t>& ids, int64_t experts, const Bytes& groups, const Bytes& order) {
  const MoeLists want = GroupedSlots(ids, experts);
  const std::vector<int32_t> got = As<int32_t>(groups);
  ASSERT_EQ(got.size(), want.groups.size());
  ASSERT_EQ(got[0], want.groups[0]);
  const auto part = [&](const std::vector<int32_t>& list, int64_t first, int64_t more) {
    return std::vector<int32_t>(list.begin() + first, list.begin() + first + want.groups[0] + more);
  };
  EXPECT_EQ(part(got, 1, 0), part(want.groups, 1, 0)) << "experts";
  EXPECT_EQ(part(got, 1 + experts, 1), part(want.groups, 1 + experts, 1)) << "begins";
  EXPECT_EQ(As<int32_t>(order), want.order);
}

class MoeConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(MoeConformance);

TEST_P(MoeConformance, Route) {
  QCC_OPEN_OR_SKIP(lab, MoeSuite());
  for (const Route& r : kRoutes) {
    SCOPED_TRACE(r.Name());
    const std::vector<float> logits = Logits(r), x = Random(5).normals(static_cast<size_t>(r.rows * kCols)),
                             router = Router();
    std::map<std::string, Bytes> whole;
    for (int64_t rows : {r.rows, (r.rows + 1) / 2}) {
      std::map<std::string, Bytes> inputs = {{"logits", AsBytes(logits)}};
      if (r.shared) inputs["x"] = AsBytes(x);
      Step step;
      step.sequences = {{nullptr, 0, rows}};
      auto got = RunCase(lab, r.Name(), step, inputs);
      const std::vector<int32_t> ids = As<int32_t>(got["ids"]);
      ASSERT_EQ(static_cast<int64_t>(ids.size()), rows * r.top_k);
      if (whole.empty()) whole = got;
      for (const char* role : {"ids", "weights", "factor"}) {
        const Bytes& all = whole[role];
        EXPECT_TRUE(
            SameBits(got[role], Bytes(all.begin(), all.begin() + static_cast<int64_t>(got[role].size()))));
      }
      for (int64_t row = 0; row < rows; ++row) {
        SCOPED_TRACE("row " + std::to_string(row));
        const std::vector<int32_t> own(ids.begin() + row * r.top_k, ids.begin() + (row + 1) * r.top_k);
        ASSERT_EQ(own, RoutedIds(logits.data() + row * r.ld(), r.experts, r.top_k));
        ExpectWeights(r, logits.data() + row * r.ld(), own, As<float>(got["weights"]).data() + row * r.top_k);
        if (!r.shared) continue;
        double dot = 0;
        for (int64_t c = 0; c < kCols; ++c) dot += double{x[row * kCols + c]} * router[c];
        EXPECT_NEAR(As<float>(got["factor"])[row], 1 / (1 + std::exp(-dot)), 2e-6);
      }
      if (r.lists()) ExpectLists(ids, r.experts, got["groups"], got["order"]);
      if (HasFailure()) return;
    }
  }
}

TEST_P(MoeConformance, Group) {
  QCC_OPEN_OR_SKIP(lab, MoeSuite());
  for (const Group& g : kGroups) {
    for (int64_t rows : {g.rows, g.rows / 2 + 1, int64_t{1}}) {
      SCOPED_TRACE(g.Name() + ", rows " + std::to_string(rows));
      std::mt19937 bits(static_cast<uint32_t>(rows));
      // Most rows like some experts, so that others have none.
      const std::vector<int32_t> ids = RandomIds(rows, g.experts, g.top_k, [&] {
        const uint32_t any = static_cast<uint32_t>(bits());
        const bool some = g.experts > 2 * g.top_k && bits() % 4 != 0;
        return some ? any % static_cast<uint32_t>(2 * g.top_k) : any;
      });
      Step step;
      step.sequences = {{nullptr, 0, rows}};
      auto got = RunCase(lab, g.Name(), step, {{"ids", AsBytes(ids)}});
      ExpectLists(ids, g.experts, got["groups"], got["order"]);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace qcc::conformance
