// gated_delta on every device: the plain rule in double; bits of outputs and states that do not depend on how
// a sequence is cut, on who is beside it and on where its blocks lie; steps back by up to 16 tokens.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/device/conformance.h"
#include "tests/device/delta_rule.h"
#include "tests/device/reference.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr float kL2Eps = 1e-6f, kNormEps = 1e-6f;
constexpr int64_t kPrefill = 40;
constexpr int64_t kFew = 4;

struct Shape {
  std::string name;
  int64_t key_heads, value_heads, key_dim, value_dim, taps;
  bool l2_max;
  bool grouped = false;

  DeltaShape Plain() const { return {key_heads, value_heads, key_dim, value_dim, taps, grouped}; }
  int64_t Values() const { return Plain().values(); }
  int64_t Channels() const { return Plain().channels(); }
  // Most of the time goes to drivers that compile kernels.
  std::vector<int64_t> Buckets() const {
    return key_dim > 64 ? std::vector<int64_t>{1, kPrefill} : std::vector<int64_t>{1, kFew, kPrefill};
  }
  int64_t Ld() const { return 2 * value_heads + 4; }  // alpha, beta and columns of something else
};
const Shape kShapes[] = {{"grouped", 3, 6, 64, 40, 4, false},       {"real", 2, 4, 128, 128, 4, false},
                         {"taps", 1, 2, 8, 72, 6, false},           {"wide", 1, 1, 256, 256, 2, true},
                         {"by_group", 2, 6, 32, 40, 4, true, true}, {"small", 1, 2, 8, 8, 4, false}};
const Shape& kSmall = kShapes[5];

struct Weights {
  explicit Weights(const Shape& s) {
    Random random(5);
    conv = random.normals(static_cast<size_t>(s.taps * s.Channels()), 0.5f);
    a = random.normals(static_cast<size_t>(s.value_heads));
    dt = random.normals(static_cast<size_t>(s.value_heads));
    norm = random.normals(static_cast<size_t>(s.value_dim));
    for (float& x : a) x = -std::abs(x);
  }
  std::vector<float> conv, a, dt, norm;  // conv: [taps][channels]
};

std::string Float(float v) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.9e : f32", static_cast<double>(v));
  return text;
}

Suite* MakeSuite() {
  std::vector<Case> cases;
  for (const Shape& s : kShapes) {
    const Weights w(s);
    for (int64_t rows : s.Buckets()) {
      Case c;
      c.name = "delta_" + s.name + "_r" + std::to_string(rows);
      c.family = "gated_delta";
      const auto integer = [](const char* key, int64_t v) {
        return std::string(key) + " = " + std::to_string(v) + " : i64, ";
      };
      c.spec = "{" + integer("key_heads", s.key_heads) + integer("value_heads", s.value_heads) +
               integer("key_dim", s.key_dim) + integer("value_dim", s.value_dim) + integer("taps", s.taps) +
               integer("ld_ab", s.Ld()) + "l2_eps = " + Float(kL2Eps) + ", l2_form = \"" +
               (s.l2_max ? "max" : "sum") + "\", norm_eps = " + Float(kNormEps) +
               ", scale = " + Float(1.f / std::sqrt(static_cast<float>(s.key_dim))) + ", heads = \"" +
               (s.grouped ? "grouped" : "tiled") + "\"}";
      c.rows = rows;
      c.weights["conv_w"] = AsBytes(w.conv);
      c.weights["ssm_a"] = AsBytes(w.a);
      c.weights["dt_bias"] = AsBytes(w.dt);
      c.weights["norm_w"] = AsBytes(w.norm);
      cases.push_back(std::move(c));
    }
  }
  return new Suite("gated_delta", std::move(cases));
}

const Suite& DeltaSuite() {
  static const auto* suite = MakeSuite();
  return *suite;
}

struct Sequence {
  Sequence(Lab& lab, const Shape& s, int64_t tokens, uint32_t seed, bool apart = true)
      : s(s), tokens(tokens), memory(lab, 1, /*poison=*/false, apart) {
    Random random(seed);
    qkv = random.normals(static_cast<size_t>(tokens * s.Channels()));
    z = random.normals(static_cast<size_t>(tokens * s.Values()));
    alpha = random.normals(static_cast<size_t>(tokens * s.Ld()), 2.f);
    beta = random.normals(static_cast<size_t>(tokens * s.Ld()), 2.f);
    AddRareDeltaRows(s.Plain(), tokens, s.Ld(), qkv, alpha);
    out.resize(static_cast<size_t>(tokens * s.Values()));
  }
  // The block's of the token at `position`.
  std::vector<float> Area(Lab& lab, const char* role, int64_t position) const {
    const Place& place = lab.suite->program("delta_" + s.name + "_r1").places.at(role);
    return As<float>(memory.Read(place, position / layouts::kStateBlock % 2 != 0));
  }
  // The delta states before the token at `position`.
  std::vector<double> State(Lab& lab, int64_t position) const {
    return DeltaStateAt(s.Plain(), Area(lab, "delta_state", position).data(), position);
  }
  // The inputs of the convolution that the token at `position` still needs.
  std::vector<float> Columns(Lab& lab, int64_t position) const {
    const std::vector<float> own = Area(lab, "conv_state", position),
                             before = Area(lab, "conv_state", position + layouts::kStateBlock);
    std::vector<float> columns;
    for (int64_t p = std::max<int64_t>(0, position - s.taps + 1); p < position; ++p) {
      const bool same = p / layouts::kStateBlock == position / layouts::kStateBlock;
      AppendRows(columns, same ? own : before, s.Channels(), p % layouts::kStateBlock, 1);
    }
    return columns;
  }
  const Shape& s;
  int64_t tokens;
  Memory memory;
  std::vector<float> qkv, z, alpha, beta;  // alpha, beta: [tokens][ld]
  std::vector<float> out;
};

struct Piece {
  Sequence* sequence;
  int64_t past, count;
};

void StepOver(Lab& lab, const std::vector<Piece>& pieces, int64_t bucket) {
  const Shape& s = pieces[0].sequence->s;
  Step step;
  std::vector<float> qkv, z, alpha, beta;
  for (const Piece& p : pieces) {
    step.sequences.push_back({&p.sequence->memory, p.past, p.count});
    AppendRows(qkv, p.sequence->qkv, s.Channels(), p.past, p.count);
    AppendRows(z, p.sequence->z, s.Values(), p.past, p.count);
    AppendRows(alpha, p.sequence->alpha, s.Ld(), p.past, p.count);
    AppendRows(beta, p.sequence->beta, s.Ld(), p.past, p.count);
  }
  const std::vector<float> out = As<float>(RunCase(
      lab, "delta_" + s.name + "_r" + std::to_string(bucket), step,
      {{"qkv", AsBytes(qkv)}, {"z", AsBytes(z)}, {"alpha", AsBytes(alpha)}, {"beta", AsBytes(beta)}})["out"]);
  ASSERT_EQ(static_cast<int64_t>(out.size()), step.rows() * s.Values());
  int64_t row = 0;
  for (const Piece& p : pieces) {
    std::copy_n(out.begin() + row * s.Values(), p.count * s.Values(),
                p.sequence->out.begin() + p.past * s.Values());
    row += p.count;
  }
}

int64_t BucketOf(const Shape& s, int64_t rows) {
  const std::vector<int64_t> buckets = s.Buckets();
  return *std::lower_bound(buckets.begin(), buckets.end(), rows);
}

// From `begin` on.
void Feed(Lab& lab, Sequence& x, int64_t length, int64_t begin = 0) {
  for (int64_t t = begin; t < x.tokens; t += length)
    StepOver(lab, {{&x, t, std::min(length, x.tokens - t)}}, BucketOf(x.s, length));
}

// Outputs and delta states of the first `tokens`.
DeltaAnswer Want(const Sequence& x, int64_t tokens) {
  const Weights w(x.s);
  return DeltaRule(DeltaProblemOf(x.s.Plain(), x.s.l2_max, kL2Eps, kNormEps, w, x, tokens, x.s.Ld()));
}

// After all tokens of both.
void ExpectSame(Lab& lab, const Sequence& got, const Sequence& want) {
  EXPECT_TRUE(SameBits(AsBytes(got.out), AsBytes(want.out))) << "outputs";
  EXPECT_EQ(got.State(lab, got.tokens), want.State(lab, want.tokens)) << "delta state";
  EXPECT_EQ(got.Columns(lab, got.tokens), want.Columns(lab, want.tokens)) << "conv state";
}

class GatedDeltaConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(GatedDeltaConformance);

// Where a processor plays the GPU it compiles the kernels of each shape for 4 s: each of its two profiles has
// half of them.
bool IsOn(const std::string& variant, const Shape& s) {
  const bool first_half = &s < &kShapes[3];
  if (variant == "sg8-dot") return first_half;
  return variant != "none" || !first_half;
}

TEST_P(GatedDeltaConformance, ValuesAndCuts) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (const Shape& s : kShapes) {
    if (!IsOn(GetParam().variant, s)) continue;
    SCOPED_TRACE(s.name);
    Sequence whole(lab, s, 41, 11);
    Feed(lab, whole, kPrefill);
    const DeltaAnswer want = Want(whole, whole.tokens);
    EXPECT_LT(Nmse(whole.out, want.out), 1e-11);
    const std::vector<double> state = whole.State(lab, whole.tokens);
    EXPECT_LT(Nmse({state.begin(), state.end()}, want.state), 1e-11);
    // The last inputs of the convolution, as they are.
    EXPECT_EQ(whole.Columns(lab, whole.tokens),
              std::vector<float>(whole.qkv.end() - (s.taps - 1) * s.Channels(), whole.qkv.end()));
    for (int64_t length : {1, 3, 4, 16, 17}) {
      const bool apart = length == 1 || length == 16;
      SCOPED_TRACE("steps of " + std::to_string(length) + (apart ? "" : ", all blocks in one place"));
      Sequence cut(lab, s, 41, 11, apart);
      Feed(lab, cut, length);
      ExpectSame(lab, cut, whole);
      if (HasFailure()) return;
    }
  }
}

// Every place in a block at which a step can begin and end.
TEST_P(GatedDeltaConformance, EveryCutInTwo) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  Sequence whole(lab, kSmall, kPrefill, 11);
  Feed(lab, whole, kPrefill);
  for (bool apart : {true, false}) {
    for (int64_t cut = 1; cut < whole.tokens; ++cut) {
      SCOPED_TRACE("cut at " + std::to_string(cut) + (apart ? "" : ", all blocks in one place"));
      Sequence x(lab, kSmall, whole.tokens, 11, apart);
      StepOver(lab, {{&x, 0, cut}}, BucketOf(kSmall, cut));
      StepOver(lab, {{&x, cut, x.tokens - cut}}, BucketOf(kSmall, x.tokens - cut));
      ExpectSame(lab, x, whole);
      if (HasFailure()) return;
    }
  }
}

// Back by up to 16 tokens, and the same ones again.
TEST_P(GatedDeltaConformance, StepsBack) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (int64_t tokens : {40, 48}) {
    Sequence whole(lab, kSmall, tokens, 11), x(lab, kSmall, tokens, 11);
    Feed(lab, whole, kPrefill);
    Feed(lab, x, kPrefill);
    for (int64_t length : {16, 1}) {
      for (int64_t back = 1; back <= layouts::kStateBlock; ++back) {
        SCOPED_TRACE(std::to_string(back) + " of " + std::to_string(tokens) + " tokens again, in steps of " +
                     std::to_string(length));
        std::fill(x.out.end() - back * kSmall.Values(), x.out.end(), NAN);
        Feed(lab, x, length, tokens - back);
        ExpectSame(lab, x, whole);
        if (HasFailure()) return;
      }
    }
  }
}

// After any number of tokens the state at each of the last 16 positions can be had, and is that of the plain
// rule, token by token.
TEST_P(GatedDeltaConformance, LastPositionsCanBeHad) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (int64_t tokens : {1, 2, 63, 64, 65, 129}) {
    Sequence x(lab, kSmall, tokens, 11);
    Feed(lab, x, kPrefill);
    for (int64_t at = std::max<int64_t>(0, tokens - layouts::kStateBlock); at <= tokens; ++at) {
      const std::vector<double> got = x.State(lab, at), want = Want(x, at).state;
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-4)
            << "number " << i << " of the state at " << at << " after " << tokens << " tokens";
      }
    }
  }
}

TEST_P(GatedDeltaConformance, Company) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (const Shape& s : {kShapes[0], kShapes[4]}) {
    SCOPED_TRACE(s.name);
    Sequence alone(lab, s, 20, 1), a(lab, s, 20, 1), b(lab, s, 9, 2, /*apart=*/false);
    StepOver(lab, {{&alone, 0, 17}}, kPrefill);
    for (int64_t t = 17; t < 20; ++t) StepOver(lab, {{&alone, t, 1}}, 1);
    StepOver(lab, {{&b, 0, 1}, {&a, 0, 5}}, kPrefill);
    StepOver(lab, {{&a, 5, 12}, {&b, 1, 2}}, kPrefill);
    StepOver(lab, {{&b, 3, 1}, {&a, 17, 1}}, kFew);
    StepOver(lab, {{&a, 18, 1}, {&b, 4, 1}}, kFew);
    StepOver(lab, {{&a, 19, 1}}, kFew);
    ExpectSame(lab, a, alone);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace qcc::conformance
