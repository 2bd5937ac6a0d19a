// gated_delta against the plain rule in double; any split of a sequence and any company give equal bits in
// outputs and states. In chunks: splits at multiples of 16 rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tests/device/delta_rule.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr float kL2Eps = 1e-6f, kNormEps = 1e-6f;
constexpr int64_t kFront = 16;  // values of another layer's state before this one's

using Shape = DeltaShape;

struct Weights {
  std::vector<float> conv, a, dt, norm;
};
Weights MakeWeights(const Shape& s) {
  Random random(5);
  Weights w{random.Normals(s.taps * s.channels()), random.Normals(s.value_heads),
            random.Normals(s.value_heads), random.Normals(s.value_dim)};
  for (float& x : w.conv) x *= 0.5f;
  for (float& x : w.a) x = -std::abs(x);
  return w;
}

struct Sequence {
  int64_t tokens;
  std::vector<float> qkv, z, alpha, beta;  // alpha, beta: [tokens][value_heads]
  std::vector<float> state;                // kFront, conv, delta, kFront
  std::vector<float> out;
};
Sequence MakeSequence(const Shape& s, int64_t tokens, uint64_t seed) {
  Random random(seed);
  Sequence x{tokens,
             random.Normals(tokens * s.channels()),
             random.Normals(tokens * s.values()),
             random.Normals(tokens * s.value_heads),
             random.Normals(tokens * s.value_heads),
             std::vector<float>(static_cast<size_t>(2 * kFront + s.conv_values() + s.delta_values())),
             std::vector<float>(static_cast<size_t>(tokens * s.values()))};
  for (float& v : x.alpha) v *= 2.f;
  AddRareDeltaRows(s, tokens, s.value_heads, x.qkv, x.alpha);
  return x;
}

struct Piece {
  Sequence* seq;
  int64_t past, count;
};

struct Form {
  bool l2_max = false, chunks = false;
  std::string name() const {
    return std::string(l2_max ? ", l2 norm max" : ", l2 norm sum") + (chunks ? ", in chunks" : "");
  }
};

// One step; bucket 0: as many rows as the step has.
void Step(const Profile& profile, const Shape& s, const Weights& w, const std::vector<Piece>& pieces,
          int64_t bucket = 0, const Form& form = {}) {
  const int64_t ld = 2 * s.value_heads + 3;
  int64_t rows = 0;
  for (const Piece& p : pieces) rows += p.count;
  if (bucket == 0) bucket = rows;
  Sandbox box(profile, bucket);
  box.chunks = form.chunks;
  std::vector<float> qkv, z, ab;
  for (const Piece& p : pieces) {
    StepRows::Sequence seq;
    seq.past = static_cast<uint32_t>(p.past);
    seq.rows = static_cast<uint32_t>(p.count);
    auto* state = box.Outside<float>(4 * p.seq->state.size());
    std::copy(p.seq->state.begin(), p.seq->state.end(), state);
    seq.state = state;
    box.step.sequences.push_back(seq);
    qkv.insert(qkv.end(), p.seq->qkv.begin() + p.past * s.channels(),
               p.seq->qkv.begin() + (p.past + p.count) * s.channels());
    z.insert(z.end(), p.seq->z.begin() + p.past * s.values(),
             p.seq->z.begin() + (p.past + p.count) * s.values());
    for (int64_t t = p.past; t < p.past + p.count; ++t) {
      ab.insert(ab.end(), p.seq->alpha.begin() + t * s.value_heads,
                p.seq->alpha.begin() + (t + 1) * s.value_heads);
      ab.insert(ab.end(), p.seq->beta.begin() + t * s.value_heads,
                p.seq->beta.begin() + (t + 1) * s.value_heads);
      ab.insert(ab.end(), 3, NAN);
    }
  }
  qkv.resize(static_cast<size_t>(bucket * s.channels()), NAN);
  z.resize(static_cast<size_t>(bucket * s.values()), NAN);
  ab.resize(static_cast<size_t>(bucket * ld), NAN);
  Dispatch<plan::GatedDeltaSpec> d;
  d.spec = {.key_heads = s.key_heads,
            .value_heads = s.value_heads,
            .key_dim = s.key_dim,
            .value_dim = s.value_dim,
            .taps = s.taps,
            .l2_eps = static_cast<float>(kL2Eps),
            .l2_form = form.l2_max ? plan::L2Form::Max : plan::L2Form::Sum,
            .norm_eps = static_cast<float>(kNormEps),
            .scale = 1.f / std::sqrt(static_cast<float>(s.key_dim)),
            .ld_ab = ld,
            .heads = s.grouped ? plan::HeadOrder::Grouped : plan::HeadOrder::Tiled};
  d.rows = bucket;
  d.bindings.qkv = box.Arena(qkv);
  d.bindings.z = box.Arena(z);
  d.bindings.alpha = d.bindings.beta = box.Arena(ab);
  d.bindings.beta->value += static_cast<uint64_t>(4 * s.value_heads);
  d.bindings.beta->bytes -= static_cast<uint64_t>(4 * s.value_heads);
  d.bindings.conv_w = box.Weights(w.conv);
  d.bindings.ssm_a = box.Weights(w.a);
  d.bindings.dt_bias = box.Weights(w.dt);
  d.bindings.norm_w = box.Weights(w.norm);
  d.bindings.conv_state = Number(4 * kFront);
  d.bindings.delta_state = Number(static_cast<uint64_t>(4 * (kFront + s.conv_values())));
  d.bindings.out = box.Arena(static_cast<uint64_t>(4 * bucket * s.values()));
  ASSERT_EQ(box.Run(Expand_gated_delta, d), "");
  const std::vector<float> out = box.Read<float>(*d.bindings.out);
  int64_t row = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Sequence& seq = *pieces[i].seq;
    std::copy_n(static_cast<const float*>(box.step.sequences[i].state), seq.state.size(), seq.state.begin());
    std::copy_n(out.begin() + row * s.values(), pieces[i].count * s.values(),
                seq.out.begin() + pieces[i].past * s.values());
    row += pieces[i].count;
  }
  for (size_t i = static_cast<size_t>(rows * s.values()); i < out.size(); ++i) {
    ASSERT_TRUE(std::isnan(out[i])) << "written beyond the step's rows, at " << i;
  }
}

// Outputs, and the delta states after the last token.
std::vector<double> Reference(const Shape& s, const Weights& w, const Sequence& x, bool l2_max,
                              std::vector<double>* state) {
  DeltaAnswer answer = DeltaRule({.shape = s,
                                  .l2_max = l2_max,
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
                                  .ld = s.value_heads});
  *state = std::move(answer.state);
  return std::move(answer.out);
}

// || got - want ||^2 / || want ||^2
double Nmse(const float* got, const std::vector<double>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return error / size;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const Shape kShapes[] = {{2, 2, 32, 32, 4}, {2, 4, 64, 40, 4},  {1, 1, 128, 128, 2},
                         {1, 3, 8, 72, 6},  {1, 1, 256, 16, 4}, {2, 6, 16, 24, 4, true}};

class GatedDelta : public testing::TestWithParam<Profile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, GatedDelta, testing::ValuesIn(TestProfiles()),
                         [](const auto& info) { return "p" + std::to_string(info.param.subgroup); });

TEST_P(GatedDelta, Values) {
  for (const Shape& s : kShapes) {
    for (const Form& form : {Form{false, false}, Form{true, false}, Form{false, true}}) {
      SCOPED_TRACE(s.name() + form.name());
      const int64_t tokens = 41;
      const Weights w = MakeWeights(s);
      Sequence whole = MakeSequence(s, tokens, 11);
      Step(GetParam(), s, w, {{&whole, 0, tokens}}, 0, form);
      std::vector<double> state, other_state;
      const std::vector<double> want = Reference(s, w, whole, form.l2_max, &state);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(whole.out[i], want[i], 2e-4)
            << "token " << i / s.values() << ", value " << i % s.values();
      }
      EXPECT_LT(Nmse(whole.out.data(), want), 1e-11);
      EXPECT_LT(Nmse(whole.state.data() + kFront + s.conv_values(), state), 1e-11);
      EXPECT_GT(Nmse(whole.out.data(), Reference(s, w, whole, !form.l2_max, &other_state)), 1e-6)
          << "the other form of the l2 norm gives the same";
      EXPECT_TRUE(
          std::equal(whole.qkv.end() - s.conv_values(), whole.qkv.end(), whole.state.begin() + kFront))
          << "conv state";
      for (int64_t i = 0; i < kFront; ++i) {
        EXPECT_EQ(whole.state[i], 0.f) << "another layer's state";
        EXPECT_EQ(whole.state[whole.state.size() - 1 - i], 0.f) << "another layer's state";
      }
    }
  }
}

// In steps of these lengths, the last one again and again.
Sequence Split(const Profile& profile, const Shape& s, const Weights& w, int64_t tokens,
               const std::vector<int64_t>& lengths, const Form& form) {
  Sequence x = MakeSequence(s, tokens, 11);
  size_t i = 0;
  for (int64_t t = 0; t < tokens;) {
    const int64_t n = std::min(lengths[std::min(i++, lengths.size() - 1)], tokens - t);
    Step(profile, s, w, {{&x, t, n}}, n <= 8 ? 8 : 0, form);
    t += n;
  }
  return x;
}

TEST_P(GatedDelta, SplitsGiveEqualBits) {
  for (const Shape& s : {kShapes[0], kShapes[3]}) {
    SCOPED_TRACE(s.name());
    const int64_t tokens = 41;
    const Weights w = MakeWeights(s);
    Sequence whole = MakeSequence(s, tokens, 11);
    Step(GetParam(), s, w, {{&whole, 0, tokens}});
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{1}, {2}, {3, 1, 16}, {15, 17}, {40, 1}, {5}}) {
      const Sequence split = Split(GetParam(), s, w, tokens, lengths, {});
      ASSERT_TRUE(SameBits(split.out, whole.out)) << "outputs, steps of " << lengths[0];
      ASSERT_TRUE(SameBits(split.state, whole.state)) << "states, steps of " << lengths[0];
    }
  }
}

TEST_P(GatedDelta, SplitsAtChunksGiveEqualBits) {
  const Shape& s = kShapes[0];
  const Form form = {.chunks = true};
  const int64_t tokens = 41;
  const Weights w = MakeWeights(s);
  const Sequence whole = Split(GetParam(), s, w, tokens, {tokens}, form);
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{16}, {32}, {16, 25}, {40, 1}, {32, 3}}) {
    const Sequence split = Split(GetParam(), s, w, tokens, lengths, form);
    EXPECT_TRUE(SameBits(split.out, whole.out)) << "outputs, steps of " << lengths[0];
    EXPECT_TRUE(SameBits(split.state, whole.state)) << "states, steps of " << lengths[0];
  }
  // Steps that are too short for a chunk are as without chunks.
  const Sequence serial = Split(GetParam(), s, w, tokens, {15}, form),
                 exact = Split(GetParam(), s, w, tokens, {tokens}, {});
  EXPECT_TRUE(SameBits(serial.out, exact.out));
  EXPECT_FALSE(SameBits(whole.out, exact.out)) << "whole chunks were not taken as such";
  std::vector<double> state;
  const std::vector<double> want = Reference(s, w, whole, false, &state);
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{15, 17}, {1, 40}, {8, 16}}) {
    const Sequence split = Split(GetParam(), s, w, tokens, lengths, form);
    EXPECT_LT(Nmse(split.out.data(), want), 1e-11) << "steps of " << lengths[0];
    EXPECT_LT(Nmse(split.state.data() + kFront + s.conv_values(), state), 1e-11) << "steps of " << lengths[0];
  }
}

// Token by token, in one step, and in chunks: around the lengths at which forms that work in chunks change.
TEST(GatedDeltaForms, LengthsDoNotMatter) {
  const Profile profile = TestProfiles()[0];
  const Shape s = {1, 1, 8, 16, 4};
  const Weights w = MakeWeights(s);
  for (int64_t tokens : {1, 2, 63, 64, 65, 129, 1000}) {
    const Sequence whole = Split(profile, s, w, tokens, {tokens}, {});
    const Sequence chunks = Split(profile, s, w, tokens, {tokens}, {.chunks = true});
    if (tokens < 1000) {  // a step takes the interpreter long
      const Sequence single = Split(profile, s, w, tokens, {1}, {});
      EXPECT_TRUE(SameBits(single.out, whole.out)) << tokens << " tokens one by one";
      EXPECT_TRUE(SameBits(single.state, whole.state)) << "state after " << tokens << " tokens one by one";
    }
    std::vector<double> state;
    const std::vector<double> want = Reference(s, w, whole, false, &state);
    for (const Sequence* form : {&whole, &chunks}) {
      const char* name = form == &whole ? "in one step" : "in chunks";
      EXPECT_LT(Nmse(form->out.data(), want), 1e-8) << tokens << " tokens " << name;
      EXPECT_LT(Nmse(form->state.data() + kFront + s.conv_values(), state), 1e-8)
          << "state after " << tokens << " tokens " << name;
    }
  }
}

// Keys that are nearly parallel, written with nearly all of their weight and hardly forgotten: every token of
// a chunk takes back nearly all that the one before wrote.
TEST_P(GatedDelta, ParallelKeysInChunks) {
  const Shape s = kShapes[1];
  const Weights w = MakeWeights(s);
  Sequence x = MakeSequence(s, 41, 3);
  const int64_t keys = s.key_heads * s.key_dim;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t i = 0; i < keys; ++i) {
      float& key = x.qkv[static_cast<size_t>(t * s.channels() + keys + i)];
      key = 3.f * (i % 3 == 0 ? 1.f : 0.5f) + 0.01f * key;
    }
    for (int64_t i = 0; i < s.value_heads; ++i) {
      x.beta[static_cast<size_t>(t * s.value_heads + i)] = 9.f;
      x.alpha[static_cast<size_t>(t * s.value_heads + i)] = -9.f;
    }
  }
  std::vector<double> state;
  const std::vector<double> want = Reference(s, w, x, false, &state);
  Step(GetParam(), s, w, {{&x, 0, x.tokens}}, 0, {.chunks = true});
  EXPECT_LT(Nmse(x.out.data(), want), 1e-10);
  EXPECT_LT(Nmse(x.state.data() + kFront + s.conv_values(), state), 1e-10);
}

TEST_P(GatedDelta, SequencesDoNotMeet) {
  const Shape s = kShapes[1];
  const Weights w = MakeWeights(s);
  // More than have workgroups of their own; chunks that begin anywhere.
  const int64_t lengths[] = {20, 7, 1, 35, 3, 2, 18};
  for (const Form& form : {Form{false, false}, Form{false, true}}) {
    SCOPED_TRACE(form.name());
    std::vector<Sequence> alone, together;
    for (size_t i = 0; i < std::size(lengths); ++i) {
      alone.push_back(MakeSequence(s, lengths[i], i));
      together.push_back(MakeSequence(s, lengths[i], i));
    }
    for (Sequence& x : alone) Step(GetParam(), s, w, {{&x, 0, x.tokens}}, 0, form);
    // 82 rows, then the last tokens of those that have some, one each.
    std::vector<Piece> first, second;
    for (Sequence& x : together) {
      const int64_t rest = x.tokens > 4 ? 1 : 0;
      first.push_back({&x, 0, x.tokens - rest});
      if (rest) second.push_back({&x, x.tokens - rest, rest});
    }
    Step(GetParam(), s, w, first, 96, form);
    Step(GetParam(), s, w, second, 8, form);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(SameBits(together[i].out, alone[i].out)) << "sequence " << i;
      EXPECT_TRUE(SameBits(together[i].state, alone[i].state)) << "state of sequence " << i;
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
