// gated_delta on every device: the plain rule in double; bits of outputs and states that do not depend on how
// a sequence is cut and on who is beside it. GPUs in chunks: on cuts at multiples of 16 rows.
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
const int64_t kBuckets[] = {1, 4, kPrefill};

struct Shape {
  std::string name;
  int64_t key_heads, value_heads, key_dim, value_dim, taps;
  bool l2_max;
  bool grouped = false;

  DeltaShape Plain() const { return {key_heads, value_heads, key_dim, value_dim, taps, grouped}; }
  int64_t Values() const { return Plain().values(); }
  int64_t Channels() const { return Plain().channels(); }
  int64_t Ld() const { return 2 * value_heads + 4; }  // alpha, beta and columns of something else
};
const Shape kShapes[] = {{"square", 2, 2, 32, 32, 4, false},        {"grouped", 3, 6, 64, 40, 4, false},
                         {"real", 2, 4, 128, 128, 4, false},        {"real_max", 2, 4, 128, 128, 4, true},
                         {"taps", 1, 2, 8, 72, 6, false},           {"wide", 1, 1, 256, 256, 2, true},
                         {"by_group", 2, 6, 32, 40, 4, false, true}};

const Shape kChunkShapes[] = {kShapes[1], kShapes[2], kShapes[6]};

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

template <typename Shapes, typename Buckets>
Suite* MakeSuite(const char* name, const Shapes& shapes, const Buckets& buckets) {
  std::vector<Case> cases;
  for (const Shape& s : shapes) {
    const Weights w(s);
    for (int64_t rows : buckets) {
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
  return new Suite(name, std::move(cases));
}

const Suite& DeltaSuite() {
  static const auto* suite = MakeSuite("gated_delta", kShapes, kBuckets);
  return *suite;
}

const Suite& ChunkSuite() {
  static const auto* suite = [] {
    Suite* made = MakeSuite("gated_delta_chunks", kChunkShapes, std::vector<int64_t>{1, kPrefill});
    made->chunked_delta = true;
    return made;
  }();
  return *suite;
}

struct Sequence {
  Sequence(Lab& lab, const Shape& s, int64_t tokens, uint32_t seed) : s(s), tokens(tokens), memory(lab, 1) {
    Random random(seed);
    qkv = random.normals(static_cast<size_t>(tokens * s.Channels()));
    z = random.normals(static_cast<size_t>(tokens * s.Values()));
    alpha = random.normals(static_cast<size_t>(tokens * s.Ld()), 2.f);
    beta = random.normals(static_cast<size_t>(tokens * s.Ld()), 2.f);
    AddRareDeltaRows(s.Plain(), tokens, s.Ld(), qkv, alpha);
    out.resize(static_cast<size_t>(tokens * s.Values()));
  }
  Bytes State(Lab& lab, const char* role) const {
    return memory.Read(lab.suite->program("delta_" + s.name + "_r1").places.at(role));
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

void Feed(Lab& lab, Sequence& x, int64_t length) {
  const int64_t bucket = *std::lower_bound(std::begin(kBuckets), std::end(kBuckets), length);
  for (int64_t t = 0; t < x.tokens; t += length)
    StepOver(lab, {{&x, t, std::min(length, x.tokens - t)}}, bucket);
}

// Outputs, and the delta states after the last token.
std::vector<double> Want(const Sequence& x, std::vector<double>* state) {
  const Weights w(x.s);
  DeltaAnswer answer = DeltaRule({.shape = x.s.Plain(),
                                  .l2_max = x.s.l2_max,
                                  .l2_eps = kL2Eps,
                                  .norm_eps = kNormEps,
                                  .conv_w = w.conv.data(),
                                  .a = w.a.data(),
                                  .dt = w.dt.data(),
                                  .norm = w.norm.data(),
                                  .tokens = x.tokens,
                                  .qkv = x.qkv.data(),
                                  .z = x.z.data(),
                                  .alpha = x.alpha.data(),
                                  .beta = x.beta.data(),
                                  .ld = x.s.Ld()});
  *state = std::move(answer.state);
  return std::move(answer.out);
}

class GatedDeltaConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(GatedDeltaConformance);

TEST_P(GatedDeltaConformance, ValuesAndCuts) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.name);
    Sequence whole(lab, s, 41, 11);
    Feed(lab, whole, kPrefill);
    std::vector<double> state;
    const std::vector<double> want = Want(whole, &state);
    EXPECT_LT(Nmse(whole.out, want), 1e-11);
    EXPECT_LT(Nmse(As<float>(whole.State(lab, "delta_state")), state), 1e-11);
    // The last inputs of the convolution, as they are.
    const std::vector<float> conv = As<float>(whole.State(lab, "conv_state"));
    EXPECT_EQ(conv, std::vector<float>(whole.qkv.end() - (s.taps - 1) * s.Channels(), whole.qkv.end()));
    for (int64_t length : {1, 3, 4, 17}) {
      SCOPED_TRACE("steps of " + std::to_string(length));
      Sequence cut(lab, s, 41, 11);
      Feed(lab, cut, length);
      if (length <= 4) {
        EXPECT_LT(Nmse(cut.out, want), 1e-11);
        EXPECT_LT(Nmse(As<float>(cut.State(lab, "delta_state")), state), 1e-11);
      } else {
        EXPECT_TRUE(SameBits(AsBytes(cut.out), AsBytes(whole.out)));
        EXPECT_TRUE(SameBits(cut.State(lab, "delta_state"), whole.State(lab, "delta_state")));
      }
      EXPECT_TRUE(SameBits(cut.State(lab, "conv_state"), whole.State(lab, "conv_state")));
      if (HasFailure()) return;
    }
  }
}

TEST_P(GatedDeltaConformance, Company) {
  QCC_OPEN_OR_SKIP(lab, DeltaSuite());
  for (const Shape& s : {kShapes[1], kShapes[2]}) {
    SCOPED_TRACE(s.name);
    Sequence alone(lab, s, 20, 1), a(lab, s, 20, 1), b(lab, s, 9, 2);
    StepOver(lab, {{&alone, 0, 17}}, kPrefill);
    for (int64_t t = 17; t < 20; ++t) StepOver(lab, {{&alone, t, 1}}, 1);
    StepOver(lab, {{&b, 0, 1}, {&a, 0, 5}}, kPrefill);
    StepOver(lab, {{&a, 5, 12}, {&b, 1, 2}}, kPrefill);
    StepOver(lab, {{&b, 3, 1}, {&a, 17, 1}}, 4);
    StepOver(lab, {{&a, 18, 1}, {&b, 4, 1}}, 4);
    StepOver(lab, {{&a, 19, 1}}, 4);
    EXPECT_TRUE(SameBits(AsBytes(a.out), AsBytes(alone.out)));
    EXPECT_TRUE(SameBits(a.State(lab, "delta_state"), alone.State(lab, "delta_state")));
    EXPECT_TRUE(SameBits(a.State(lab, "conv_state"), alone.State(lab, "conv_state")));
    if (HasFailure()) return;
  }
}

class GatedDeltaChunks : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE_ON(GatedDeltaChunks, GpuTargets());

TEST_P(GatedDeltaChunks, ValuesCutsAndCompany) {
  QCC_OPEN_OR_SKIP(lab, ChunkSuite());
  for (const Shape& s : kChunkShapes) {
    SCOPED_TRACE(s.name);
    Sequence whole(lab, s, 41, 11);
    Feed(lab, whole, kPrefill);
    std::vector<double> state;
    const std::vector<double> want = Want(whole, &state);
    const auto near = [&](const Sequence& x) {
      EXPECT_LT(Nmse(x.out, want), 1e-11);
      EXPECT_LT(Nmse(As<float>(x.State(lab, "delta_state")), state), 1e-11);
    };
    const auto same = [&](const Sequence& x) {
      EXPECT_TRUE(SameBits(AsBytes(x.out), AsBytes(whole.out)));
      EXPECT_TRUE(SameBits(x.State(lab, "delta_state"), whole.State(lab, "delta_state")));
    };
    near(whole);
    Sequence at_chunk(lab, s, 41, 11), within(lab, s, 41, 11), third(lab, s, 41, 11);
    Feed(lab, at_chunk, 16);
    same(at_chunk);
    Feed(lab, within, 17);
    near(within);
    // Behind two others, where its chunks begin at row 7.
    Sequence a(lab, s, 5, 1), b(lab, s, 2, 2);
    StepOver(lab, {{&a, 0, 5}, {&b, 0, 2}, {&third, 0, 33}}, kPrefill);
    StepOver(lab, {{&third, 33, 8}}, kPrefill);
    same(third);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace qcc::conformance
