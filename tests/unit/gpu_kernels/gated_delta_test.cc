// gated_delta against the plain rule in double; any split of a sequence, any bucket and any company give
// equal bits in outputs and states; the last 16 tokens can be taken back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "codegen/gpu/kernels/gated_delta.h"
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

// Numbers of a block's state: another layer's, the convolution's, the rule's, another layer's.
int64_t ConvFloats(const Shape& s) {
  return layouts::kStateBlock * s.channels();
}
int64_t StateFloats(const Shape& s) {
  const layouts::DeltaEntry entry(s.key_heads, s.value_heads, s.key_dim, s.value_dim);
  return 2 * kFront + ConvFloats(s) + s.delta_values() + layouts::kStateBlock * entry.floats;
}

struct Sequence {
  Shape shape;
  int64_t tokens;
  bool apart;                              // even and odd blocks have memory of their own
  std::vector<float> qkv, z, alpha, beta;  // alpha, beta: [tokens][value_heads]
  std::vector<float> state;                // of even blocks, then of odd ones
  std::vector<float> out;

  int64_t odd_floats() const { return apart ? StateFloats(shape) : 0; }
  const float* conv(int64_t position) const {
    return state.data() + (position / layouts::kStateBlock % 2) * odd_floats() + kFront;
  }
  const float* delta(int64_t position) const { return conv(position) + ConvFloats(shape); }
  // What tokens from `position` on depend on.
  std::vector<double> Live(int64_t position) const {
    std::vector<double> live = DeltaStateAt(shape, delta(position), position);
    for (int64_t p = std::max<int64_t>(0, position - shape.taps + 1); p < position; ++p) {
      const float* column = conv(p) + p % layouts::kStateBlock * shape.channels();
      live.insert(live.end(), column, column + shape.channels());
    }
    return live;
  }
};
// What a sequence begins with is zeros; the rest of its state is NaN, for nobody may use it.
Sequence MakeSequence(const Shape& s, int64_t tokens, uint64_t seed, bool apart = true) {
  Random random(seed);
  Sequence x{s,
             tokens,
             apart,
             random.Normals(tokens * s.channels()),
             random.Normals(tokens * s.values()),
             random.Normals(tokens * s.value_heads),
             random.Normals(tokens * s.value_heads),
             std::vector<float>(static_cast<size_t>((apart ? 2 : 1) * StateFloats(s)), NAN),
             std::vector<float>(static_cast<size_t>(tokens * s.values()))};
  std::fill_n(x.state.begin() + kFront + ConvFloats(s), s.delta_values(), 0.f);
  std::fill_n(x.state.begin() + x.odd_floats() + kFront + ConvFloats(s) - s.conv_values(), s.conv_values(),
              0.f);
  for (float& v : x.alpha) v *= 2.f;
  AddRareDeltaRows(s, tokens, s.value_heads, x.qkv, x.alpha);
  return x;
}

struct Piece {
  Sequence* seq;
  int64_t past, count;
};

// One step; bucket 0: as many rows as the step has.
void Step(const Profile& profile, const Shape& s, const Weights& w, const std::vector<Piece>& pieces,
          int64_t bucket = 0, bool l2_max = false) {
  const int64_t ld = 2 * s.value_heads + 3;
  int64_t rows = 0;
  for (const Piece& p : pieces) rows += p.count;
  if (bucket == 0) bucket = rows;
  Sandbox box(profile, bucket);
  std::vector<float> qkv, z, ab;
  for (const Piece& p : pieces) {
    StepRows::Sequence seq;
    seq.past = static_cast<uint32_t>(p.past);
    seq.rows = static_cast<uint32_t>(p.count);
    auto* state = box.Outside<float>(p.seq->state.size());
    std::copy(p.seq->state.begin(), p.seq->state.end(), state);
    seq.state = state;
    seq.odd_offset = static_cast<uint64_t>(4 * p.seq->odd_floats());
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
            .l2_form = l2_max ? plan::L2Form::Max : plan::L2Form::Sum,
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
  d.bindings.delta_state = Number(static_cast<uint64_t>(4 * (kFront + ConvFloats(s))));
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
  DeltaAnswer answer = DeltaRule(DeltaProblemOf(s, l2_max, kL2Eps, kNormEps, w, x, x.tokens, s.value_heads));
  *state = std::move(answer.state);
  return std::move(answer.out);
}

// || got - want ||^2 / || want ||^2
template <typename Got>
double Nmse(const Got& got, const std::vector<double>& want) {
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
// CUDA's rule of prompts has keys and queries in workgroup memory.
INSTANTIATE_TEST_SUITE_P(Cuda, GatedDelta, testing::Values(FindProfile("sm80")->profile),
                         [](const auto& info) { return info.param.name; });

TEST_P(GatedDelta, Values) {
  for (const Shape& s : kShapes) {
    for (bool l2_max : {false, true}) {
      SCOPED_TRACE(s.name() + (l2_max ? ", l2 norm max" : ", l2 norm sum"));
      const int64_t tokens = 41;
      const Weights w = MakeWeights(s);
      Sequence whole = MakeSequence(s, tokens, 11);
      Step(GetParam(), s, w, {{&whole, 0, tokens}}, 0, l2_max);
      std::vector<double> state, other_state;
      const std::vector<double> want = Reference(s, w, whole, l2_max, &state);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(whole.out[i], want[i], 2e-4)
            << "token " << i / s.values() << ", value " << i % s.values();
      }
      EXPECT_LT(Nmse(whole.out.data(), want), 1e-11);
      EXPECT_LT(Nmse(DeltaStateAt(s, whole.delta(tokens), tokens), state), 1e-11);
      EXPECT_GT(Nmse(whole.out.data(), Reference(s, w, whole, !l2_max, &other_state)), 1e-6)
          << "the other form of the l2 norm gives the same";
      const std::vector<double> live = whole.Live(tokens);
      EXPECT_TRUE(
          std::equal(whole.qkv.end() - s.conv_values(), whole.qkv.end(), live.end() - s.conv_values()))
          << "columns of the convolution";
      for (int64_t half = 0; half < 2; ++half) {
        for (int64_t i = 0; i < kFront; ++i) {
          EXPECT_TRUE(std::isnan(whole.state[half * StateFloats(s) + i])) << "another layer's state";
          EXPECT_TRUE(std::isnan(whole.state[(half + 1) * StateFloats(s) - 1 - i]))
              << "another layer's state";
        }
      }
    }
  }
}

// Takes tokens begin .. end - 1 in steps of these lengths, the last one again and again. Short ones in
// buckets of programs of both kinds.
void Feed(const Profile& profile, const Weights& w, Sequence& x, int64_t begin, int64_t end,
          const std::vector<int64_t>& lengths) {
  size_t i = 0;
  for (int64_t t = begin; t < end; ++i) {
    const int64_t n = std::min(lengths[std::min(i, lengths.size() - 1)], end - t);
    const int64_t buckets[] = {n, std::max<int64_t>(n, 8), std::max<int64_t>(n, 20)};
    Step(profile, x.shape, w, {{&x, t, n}}, buckets[i % 3]);
    t += n;
  }
}
Sequence Split(const Profile& profile, const Shape& s, const Weights& w, int64_t tokens,
               const std::vector<int64_t>& lengths, bool apart = true) {
  Sequence x = MakeSequence(s, tokens, 11, apart);
  Feed(profile, w, x, 0, tokens, lengths);
  return x;
}

TEST_P(GatedDelta, SplitsGiveEqualBits) {
  // Of two value heads to a key head, in both orders, programs of one row mix in the rule.
  for (const Shape& s : {kShapes[0], kShapes[3], Shape{2, 4, 16, 32, 4}, Shape{2, 4, 16, 32, 4, true}}) {
    SCOPED_TRACE(s.name());
    const int64_t tokens = 41;
    const Weights w = MakeWeights(s);
    const Sequence whole = Split(GetParam(), s, w, tokens, {tokens});
    using Steps = std::vector<std::vector<int64_t>>;
    for (bool apart : {true, false}) {
      for (const std::vector<int64_t>& lengths :
           apart ? Steps{{1}, {3, 1, 16}, {15, 17}} : Steps{{4}, {16}, {40, 1}}) {
        const Sequence split = Split(GetParam(), s, w, tokens, lengths, apart);
        const char* where = apart ? "" : ", all blocks in one place";
        ASSERT_TRUE(SameBits(split.out, whole.out)) << "outputs, steps of " << lengths[0] << where;
        ASSERT_EQ(split.Live(tokens), whole.Live(tokens)) << "state, steps of " << lengths[0] << where;
      }
    }
  }
}

// Every place in a block at which a step can begin and end.
TEST_P(GatedDelta, CutsInTwoGiveEqualBits) {
  const Shape s = {1, 2, 8, 8, 3};
  const int64_t tokens = 40;
  const Weights w = MakeWeights(s);
  const Sequence whole = Split(GetParam(), s, w, tokens, {tokens});
  for (int64_t cut = 1; cut < tokens; ++cut) {
    const bool apart = cut % 2 != 0;
    SCOPED_TRACE("cut at " + std::to_string(cut) + (apart ? "" : ", all blocks in one place"));
    const Sequence split = Split(GetParam(), s, w, tokens, {cut, tokens - cut}, apart);
    ASSERT_TRUE(SameBits(split.out, whole.out)) << "outputs";
    ASSERT_EQ(split.Live(tokens), whole.Live(tokens)) << "state";
  }
}

// Programs of few rows write what is kept before the rule has read what was: steps of 8 rows in which two
// sequences end a block and begin the next, with convolutions that reach back so far that the norm's launch
// must keep, too.
TEST_P(GatedDelta, FewRowsAcrossBlocksGiveEqualBits) {
  for (const Shape& s : {Shape{1, 2, 8, 8, 3}, Shape{2, 4, 8, 16, 12}}) {
    const int64_t tokens = 36, rows = 8;
    const Weights w = MakeWeights(s);
    const Sequence whole = Split(GetParam(), s, w, tokens, {tokens});
    for (int64_t n : {2, 5, 8}) {
      for (int64_t begin = 17 - n; begin < 16; ++begin) {
        SCOPED_TRACE(s.name() + ", " + std::to_string(n) + " rows from " + std::to_string(begin) + " on");
        Sequence one = MakeSequence(s, tokens, 11, /*apart=*/false),
                 other = MakeSequence(s, tokens, 11, /*apart=*/n % 2 == 0);
        const int64_t other_begin = begin + n - 1;
        Feed(GetParam(), w, one, 0, begin, {begin});
        Feed(GetParam(), w, other, 0, other_begin, {other_begin});
        std::vector<Piece> pieces = {{&one, begin, n}};
        if (n < rows) pieces.push_back({&other, other_begin, rows - n});
        Step(GetParam(), s, w, pieces, rows);
        Feed(GetParam(), w, one, begin + n, tokens, {6});
        Feed(GetParam(), w, other, other_begin + rows - n, tokens, {tokens});
        for (const Sequence* x : {&one, &other}) {
          ASSERT_TRUE(SameBits(x->out, whole.out)) << "outputs";
          ASSERT_EQ(x->Live(tokens), whole.Live(tokens)) << "state";
        }
      }
    }
  }
}

// The norm is one that readers may make where it keeps nothing.
TEST(GatedDeltaForms, LaunchesAheadOfTheNorm) {
  Sandbox box(TestProfiles()[0], 64);
  const auto ahead = [&](int64_t rows, int64_t taps, int64_t value_dim) {
    const plan::GatedDeltaSpec spec = {
        .key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = value_dim, .taps = taps, .ld_ab = 4};
    return ExpandUnnormed(Anywhere(spec, rows, {Space::kArena, 0, 1 << 20}), box).size();
  };
  EXPECT_EQ(ahead(1, 4, 16), 1u);
  EXPECT_EQ(ahead(1, 16, 16), 1u);
  EXPECT_EQ(ahead(1, 4, 8), 2u) << "workgroups of the rule that cannot mix";
  EXPECT_EQ(ahead(2, 4, 16), 2u);
  EXPECT_EQ(ahead(8, 9, 16), 2u);
  EXPECT_EQ(ahead(8, 10, 16), 0u) << "a column that a row replaces may be read by another";
  EXPECT_EQ(ahead(9, 4, 16), 0u);
}

// Back by up to 16 tokens, and the same ones again: in one step, one by one.
TEST_P(GatedDelta, StepsBack) {
  const Shape s = {1, 2, 8, 8, 4};
  const Weights w = MakeWeights(s);
  for (int64_t tokens : {40, 48}) {
    const Sequence whole = Split(GetParam(), s, w, tokens, {tokens});
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{16}, {1}, {5, 3}}) {
      Sequence x = whole;
      for (int64_t back = 1; back <= layouts::kStateBlock; ++back) {
        // After the first it is what a step back left that is stepped back from.
        std::fill(x.out.end() - back * s.values(), x.out.end(), NAN);
        Feed(GetParam(), w, x, tokens - back, tokens, lengths);
        ASSERT_TRUE(SameBits(x.out, whole.out)) << back << " of " << tokens << " tokens again";
        ASSERT_EQ(x.Live(tokens), whole.Live(tokens))
            << "state, " << back << " of " << tokens << " tokens again";
      }
    }
  }
}

// A token's NaN reaches what comes after it, nothing before.
TEST_P(GatedDelta, ANaNStaysBehind) {
  const Shape s = {1, 2, 8, 8, 3};
  const int64_t tokens = 24, bad = 19;
  const Weights w = MakeWeights(s);
  const Sequence clean = Split(GetParam(), s, w, tokens, {tokens});
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{tokens}, {18, 6}}) {
    Sequence x = MakeSequence(s, tokens, 11);
    std::fill_n(x.qkv.begin() + bad * s.channels(), s.channels(), NAN);
    Feed(GetParam(), w, x, 0, tokens, lengths);
    for (int64_t i = 0; i < tokens * s.values(); ++i) {
      ASSERT_EQ(std::isnan(x.out[i]), i >= bad * s.values()) << "token " << i / s.values();
      if (i < bad * s.values()) {
        ASSERT_EQ(x.out[i], clean.out[i]) << "token " << i / s.values();
      }
    }
  }
}

// After any number of tokens the state at each of the last 16 positions can be had, and is that of the plain
// rule, token by token: around the lengths at which forms that work in blocks change.
TEST(GatedDeltaForms, LastPositionsCanBeHad) {
  const Profile profile = TestProfiles()[0];
  const Shape s = {1, 1, 8, 16, 4};
  const Weights w = MakeWeights(s);
  for (int64_t tokens : {1, 2, 63, 64, 65, 129}) {
    const Sequence whole = Split(profile, s, w, tokens, {tokens});
    const Sequence single = Split(profile, s, w, tokens, {1});
    EXPECT_TRUE(SameBits(single.out, whole.out)) << tokens << " tokens one by one";
    std::vector<double> state;
    for (int64_t at = std::max<int64_t>(tokens - layouts::kStateBlock, 0); at <= tokens; ++at) {
      EXPECT_EQ(single.Live(at), whole.Live(at)) << "state at " << at << " after " << tokens << " tokens";
      Sequence before = MakeSequence(s, tokens, 11);
      before.tokens = at;
      Reference(s, w, before, false, &state);
      const std::vector<double> got = DeltaStateAt(s, whole.delta(at), at);
      for (size_t i = 0; i < state.size(); ++i) {
        ASSERT_NEAR(got[i], state[i], 1e-4)
            << "number " << i << " of the state at " << at << " after " << tokens;
      }
    }
  }
}

// Keys that are nearly parallel, written with nearly all of their weight and hardly forgotten: every token of
// a block takes back nearly all that the one before wrote.
TEST_P(GatedDelta, ParallelKeys) {
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
  Step(GetParam(), s, w, {{&x, 0, x.tokens}});
  EXPECT_LT(Nmse(x.out.data(), want), 1e-10);
  EXPECT_LT(Nmse(DeltaStateAt(s, x.delta(x.tokens), x.tokens), state), 1e-10);
}

TEST_P(GatedDelta, SequencesDoNotMeet) {
  const Shape s = kShapes[1];
  const Weights w = MakeWeights(s);
  // More than have workgroups of their own; blocks that begin anywhere.
  const int64_t lengths[] = {20, 7, 1, 35, 3, 2, 18};
  std::vector<Sequence> alone, together;
  for (size_t i = 0; i < std::size(lengths); ++i) {
    alone.push_back(MakeSequence(s, lengths[i], i));
    together.push_back(MakeSequence(s, lengths[i], i, /*apart=*/i % 2 == 0));
  }
  for (Sequence& x : alone) Step(GetParam(), s, w, {{&x, 0, x.tokens}});
  // 82 rows, then the last tokens of those that have some, one each.
  std::vector<Piece> first, second;
  for (Sequence& x : together) {
    const int64_t rest = x.tokens > 4 ? 1 : 0;
    first.push_back({&x, 0, x.tokens - rest});
    if (rest) second.push_back({&x, x.tokens - rest, rest});
  }
  Step(GetParam(), s, w, first, 96);
  Step(GetParam(), s, w, second, 8);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(SameBits(together[i].out, alone[i].out)) << "sequence " << i;
    EXPECT_EQ(together[i].Live(lengths[i]), alone[i].Live(lengths[i])) << "state of sequence " << i;
  }
}

}  // namespace
}  // namespace qcc::gpu
