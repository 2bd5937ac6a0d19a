// gated_delta against the plain rule in double; any split of a sequence, any company and any split of heads
// give equal bits in outputs and states; tokens that were taken back leave nothing behind.
#include <cmath>

#include "tests/device/delta_rule.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

using Shape = DeltaShape;

struct Weights {
  Guarded<float> conv, a, dt, norm;
};
Weights make_weights(const Shape& s) {
  Random random(5);
  Weights w{random.guarded(static_cast<size_t>(s.taps * s.channels()), 0.5f),
            random.guarded(static_cast<size_t>(s.value_heads)),
            random.guarded(static_cast<size_t>(s.value_heads)),
            random.guarded(static_cast<size_t>(s.value_dim))};
  for (float& a : w.a) a = -std::abs(a);
  return w;
}

constexpr int64_t kBlock = layouts::kStateBlock;

// Floats of a block's memory: conv, then delta.
int64_t conv_floats(const Shape& s) {
  return kBlock * s.channels();
}
int64_t area_floats(const Shape& s) {
  const layouts::DeltaEntry entry(s.key_heads, s.value_heads, s.key_dim, s.value_dim);
  return conv_floats(s) + s.delta_values() + kBlock * entry.floats;
}

struct Sequence {
  int64_t tokens;
  std::vector<float> qkv, z, alpha, beta;  // alpha, beta: [tokens][value_heads]
  Guarded<float> state;                    // one value in front, then one or two areas
  std::vector<float> out;
  int64_t odd;  // floats from the first area to that of odd blocks

  float* area(int64_t position) { return state.data() + 1 + position / kBlock % 2 * odd; }
  // The input of the convolution at a position, also before the first token.
  float* column(const Shape& s, int64_t position) {
    return area(position + 2 * kBlock) + (position + kBlock) % kBlock * s.channels();
  }
  std::vector<double> state_at(const Shape& s, int64_t position) {
    return DeltaStateAt(s, area(position) + conv_floats(s), position);
  }
};
Sequence make_sequence(const Shape& s, int64_t tokens, uint32_t seed, bool steps_back = false) {
  Random random(seed);
  Sequence x{tokens,
             random.normals(static_cast<size_t>(tokens * s.channels())),
             random.normals(static_cast<size_t>(tokens * s.values())),
             random.normals(static_cast<size_t>(tokens * s.value_heads), 2.f),
             random.normals(static_cast<size_t>(tokens * s.value_heads), 2.f),
             Guarded<float>(static_cast<size_t>(1 + (steps_back ? 2 : 1) * area_floats(s))),
             std::vector<float>(static_cast<size_t>(tokens * s.values())),
             steps_back ? area_floats(s) : 0};
  std::fill(x.state.begin(), x.state.end(), 0.f);
  AddRareDeltaRows(s, tokens, s.value_heads, x.qkv, x.alpha);
  return x;
}

constexpr float kL2Eps = 1e-6f, kNormEps = 1e-6f;

struct Piece {
  Sequence* seq;
  int64_t past, count;
};

void step(const Kernels& k, const Shape& s, const Weights& w, const std::vector<Piece>& pieces, int64_t cuts,
          bool l2_max = false, int64_t heads = QK_HeadOrder_Tiled) {
  const int64_t ld = 2 * s.value_heads + 3;
  std::vector<qrt_seq> seqs;
  std::vector<float> qkv, z, ab;
  int64_t rows = 0;
  for (const Piece& p : pieces) {
    seqs.push_back(
        {reinterpret_cast<uint8_t*>(p.seq->state.data()), 4 * p.seq->odd, nullptr, 0, p.past, rows, p.count});
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
    rows += p.count;
  }
  const Guarded<float> g_qkv = Guarded<float>::copy_of(qkv), g_z = Guarded<float>::copy_of(z),
                       g_ab = Guarded<float>::copy_of(ab);
  Guarded<float> out(static_cast<size_t>(rows * s.values()));
  Guarded<uint8_t> scratch = used_scratch(DeltaScratch(s.key_dim, s.value_dim).bytes);
  gated_delta_args args = {.key_heads = s.key_heads,
                           .value_heads = s.value_heads,
                           .key_dim = s.key_dim,
                           .value_dim = s.value_dim,
                           .taps = s.taps,
                           .l2_eps = kL2Eps,
                           .l2_form = l2_max ? QK_L2Form_Max : QK_L2Form_Sum,
                           .norm_eps = kNormEps,
                           .scale = 1.f / std::sqrt(static_cast<float>(s.key_dim)),
                           .ld_ab = ld,
                           .heads = heads,
                           .qkv = g_qkv.data(),
                           .z = g_z.data(),
                           .alpha = g_ab.data(),
                           .beta = g_ab.data() + s.value_heads,
                           .conv_w = w.conv.data(),
                           .ssm_a = w.a.data(),
                           .dt_bias = w.dt.data(),
                           .norm_w = w.norm.data(),
                           .conv_state_offset = 4,
                           .delta_state_offset = 4 + 4 * conv_floats(s),
                           .out = out.data(),
                           .seqs = seqs.data(),
                           .n_seqs = static_cast<int64_t>(seqs.size()),
                           .scratch = scratch.data(),
                           .n_rows = rows,
                           .begin = 0,
                           .end = 0};
  for (int64_t c = 0; c < cuts; ++c) {
    args.begin = s.key_heads * c / cuts;
    args.end = s.key_heads * (c + 1) / cuts;
    k.qk_gated_delta(&args);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::copy_n(out.data() + seqs[i].row_begin * s.values(), pieces[i].count * s.values(),
                pieces[i].seq->out.begin() + pieces[i].past * s.values());
  }
}

// `start`: conv columns and delta states before the first token; none: zeros.
DeltaAnswer reference(const Shape& s, const Weights& w, const Sequence& x, bool l2_max,
                      const float* start = nullptr) {
  DeltaProblem problem = DeltaProblemOf(s, l2_max, kL2Eps, kNormEps, w, x, x.tokens, s.value_heads);
  problem.start = start;
  return DeltaRule(problem);
}

class KernelGatedDelta : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelGatedDelta);

// The last four: more value heads than the arrays of a single token, or of a few, hold at once: of several
// key heads, and of one.
const Shape kShapes[] = {{2, 2, 32, 32, 4}, {3, 6, 64, 40, 4},   {2, 2, 128, 128, 2},
                         {1, 3, 8, 72, 6},  {1, 1, 256, 256, 4}, {19, 19, 8, 8, 4},
                         {9, 18, 8, 16, 3}, {2, 34, 8, 8, 4},    {2, 10, 8, 8, 4}};

// || got - want ||^2 / || want ||^2
template <class Number>
double nmse(const Number* got, const std::vector<double>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return error / size;
}

void expect_values_and_splits(const Kernels& k, const Shape& s, bool l2_max) {
  const int64_t tokens = 41;
  const Weights w = make_weights(s);
  Sequence whole = make_sequence(s, tokens, 11);
  step(k, s, w, {{&whole, 0, tokens}}, 1, l2_max);
  const DeltaAnswer answer = reference(s, w, whole, l2_max);
  const std::vector<double>& want = answer.out;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(whole.out[i], want[i], 2e-4) << "token " << i / s.values() << ", value " << i % s.values();
  }
  EXPECT_LT(nmse(whole.out.data(), want), 1e-11);
  EXPECT_LT(nmse(whole.state_at(s, tokens).data(), answer.state), 1e-12);
  EXPECT_GT(nmse(whole.out.data(), reference(s, w, whole, !l2_max).out), 1e-6)
      << "the other form of the l2 norm gives the same";
  for (int64_t position = tokens - kBlock; position < tokens; ++position) {
    ASSERT_TRUE(
        same_bits(whole.column(s, position), whole.qkv.data() + position * s.channels(), s.channels()))
        << "input of the convolution at " << position;
  }
  EXPECT_EQ(whole.state[0], 0.f) << "another layer's state";

  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, {2}, {3, 1, 16}, {15, 17}, {40, 1}, {4}, {5}, {7}}) {
    for (const bool steps_back : {false, true}) {
      const int64_t cuts = steps_back ? s.key_heads : 1;
      Sequence split = make_sequence(s, tokens, 11, steps_back);
      size_t i = 0;
      for (int64_t t = 0; t < tokens;) {
        const int64_t n = std::min(lengths[std::min(i++, lengths.size() - 1)], tokens - t);
        step(k, s, w, {{&split, t, n}}, cuts, l2_max);
        t += n;
      }
      ASSERT_TRUE(same_bits(split.out.data(), whole.out.data(), whole.out.size()))
          << "outputs, steps of " << lengths[0] << ", " << cuts << " calls each";
      if (steps_back) {
        ASSERT_EQ(split.state_at(s, tokens), whole.state_at(s, tokens))
            << "states in two areas, steps of " << lengths[0];
      } else {
        ASSERT_TRUE(same_bits(split.state.data(), whole.state.data(), whole.state.size()))
            << "states, steps of " << lengths[0];
      }
    }
  }
}

TEST_P(KernelGatedDelta, ValuesAndSplits) {
  for (const Shape& s : kShapes) {
    for (bool l2_max : {false, true}) {
      SCOPED_TRACE(s.name() + (l2_max ? ", l2 norm max" : ", l2 norm sum"));
      expect_values_and_splits(*k, s, l2_max);
    }
  }
}

// One token after the other, and all in one step: around the lengths at which implementations that work in
// chunks (of 16, of 64) change their form.
TEST_P(KernelGatedDelta, LengthsDoNotMatter) {
  const Shape s = {1, 2, 32, 32, 4};
  const Weights w = make_weights(s);
  for (int64_t tokens : {1, 2, 63, 64, 65, 129, 1000}) {
    Sequence whole = make_sequence(s, tokens, 23), single = make_sequence(s, tokens, 23);
    step(*k, s, w, {{&whole, 0, tokens}}, 1);
    for (int64_t t = 0; t < tokens; ++t) step(*k, s, w, {{&single, t, 1}}, 1);
    EXPECT_TRUE(same_bits(single.out.data(), whole.out.data(), whole.out.size())) << tokens << " tokens";
    EXPECT_TRUE(same_bits(single.state.data(), whole.state.data(), whole.state.size()))
        << "state after " << tokens << " tokens";
    EXPECT_LT(nmse(whole.out.data(), reference(s, w, whole, false).out), 1e-8) << tokens << " tokens";
  }
}

// Every way to cut 64 tokens in two.
TEST_P(KernelGatedDelta, EveryCut) {
  const Shape s = {1, 2, 16, 24, 4};
  const Weights w = make_weights(s);
  constexpr int64_t kTokens = 64;
  Sequence whole = make_sequence(s, kTokens, 29);
  step(*k, s, w, {{&whole, 0, kTokens}}, 1);
  for (int64_t cut = 1; cut < kTokens; ++cut) {
    Sequence parts = make_sequence(s, kTokens, 29);
    step(*k, s, w, {{&parts, 0, cut}}, 1);
    step(*k, s, w, {{&parts, cut, kTokens - cut}}, 1);
    ASSERT_TRUE(same_bits(parts.out.data(), whole.out.data(), whole.out.size())) << "outputs, cut at " << cut;
    ASSERT_TRUE(same_bits(parts.state.data(), whole.state.data(), whole.state.size()))
        << "state, cut at " << cut;
  }
}

// What two areas keep: the states before each of the last 16 tokens are those of single steps, and going on
// from any of them gives what went on from there before.
TEST_P(KernelGatedDelta, StepsBack) {
  const Shape s = {2, 4, 16, 24, 4};
  const Weights w = make_weights(s);
  for (const int64_t tokens : {1, 2, 15, 16, 17, 30, 31, 32, 33, 63, 64, 65, 129}) {
    Sequence x = make_sequence(s, tokens, 31, true);
    step(*k, s, w, {{&x, 0, tokens}}, 1);
    for (int64_t back = 0; back <= std::min(tokens, kBlock); ++back) {
      const int64_t position = tokens - back;
      SCOPED_TRACE(std::to_string(tokens) + " tokens, " + std::to_string(back) + " back");
      Sequence prefix = make_sequence(s, tokens, 31);
      prefix.tokens = position;
      const std::vector<double> state = x.state_at(s, position);
      if (position != 0) {
        EXPECT_LT(nmse(state.data(), reference(s, w, prefix, false).state), 1e-11);
      }
      Sequence again = make_sequence(s, tokens, 31, true);
      std::copy(x.state.begin(), x.state.end(), again.state.begin());
      std::copy_n(x.out.begin(), position * s.values(), again.out.begin());
      for (int64_t t = position; t < tokens; ++t) step(*k, s, w, {{&again, t, 1}}, 1);
      ASSERT_TRUE(same_bits(again.out.data(), x.out.data(), x.out.size())) << "outputs";
      ASSERT_EQ(again.state_at(s, tokens), x.state_at(s, tokens)) << "state";
      // Other tokens in between leave nothing behind.
      Sequence other = make_sequence(s, tokens, 77, true);
      std::copy(x.state.begin(), x.state.end(), other.state.begin());
      for (int64_t t = position; t < tokens; ++t) step(*k, s, w, {{&other, t, 1}}, 1);
      std::copy(other.state.begin(), other.state.end(), again.state.begin());
      step(*k, s, w, {{&again, position, back}}, 1);
      ASSERT_TRUE(same_bits(again.out.data(), x.out.data(), x.out.size())) << "outputs, after other tokens";
      ASSERT_EQ(again.state_at(s, tokens), x.state_at(s, tokens)) << "state, after other tokens";
    }
  }
}

// alpha for which a head with these weights decays by exp(g), g <= 0; the inverse of softplus.
float alpha_of(double g, double a, double dt) {
  const double y = g / a;
  return static_cast<float>(y + std::log(-std::expm1(-y)) - dt);
}

// One token on top of any state: every kind of g from "forgets nothing" to "forgets everything" (below -87
// exp(g) is no normal float, below -104 it is 0), of beta from 0 to 1, of small and large states.
// Gives the state: columns of the convolution, then S.
std::vector<float> randomise(Random& random, const Shape& s, const Weights& w, Sequence& x) {
  const float scales[] = {0.01f, 1.f, 30.f};
  const float scale = scales[random.below(3)];
  std::vector<float> start;
  for (int64_t i = 0; i < s.conv_values(); ++i) start.push_back(random.normal());
  for (int64_t i = 0; i < s.delta_values(); ++i) start.push_back(random.normal(scale));
  for (int64_t i = 0; i < s.taps - 1; ++i) {
    std::copy_n(start.begin() + i * s.channels(), s.channels(), x.column(s, i - (s.taps - 1)));
  }
  std::copy(start.begin() + s.conv_values(), start.end(), x.area(0) + conv_floats(s));
  for (int64_t vh = 0; vh < s.value_heads; ++vh) {
    const double share = (1 + random.below(1000)) / 1000.0;
    const double gs[] = {-1e-30, -1e-7 * share, -share, -50 * share, -50, -50 - 100 * share};
    x.alpha[vh] = alpha_of(gs[random.below(6)], w.a[vh], w.dt[vh]);
    const float betas[] = {random.normal(4.f), -30.f, 30.f};
    x.beta[vh] = betas[random.below(8) < 6 ? 0 : 1 + random.below(2)];
  }
  return start;
}

TEST_P(KernelGatedDelta, TenThousandRandomSteps) {
  constexpr int kCalls = 125, kSequences = 20;
  // A float's rounding is 6e-8; what is allowed is that of the longest chain of operations.
  constexpr double kRoundings = 2e-6;
  double least_decay = 1, most_decay = 0;
  int cases = 0;
  for (const Shape& s : {Shape{2, 4, 16, 16, 4}, {1, 3, 8, 24, 2}, {2, 2, 32, 8, 4}, {1, 1, 8, 8, 3}}) {
    const Weights w = make_weights(s);
    Random random(static_cast<uint32_t>(19 + s.channels()));
    for (int call = 0; call < kCalls; ++call) {
      std::vector<Sequence> sequences;
      std::vector<std::vector<float>> before;
      for (int i = 0; i < kSequences; ++i) {
        sequences.push_back(make_sequence(s, 1, static_cast<uint32_t>(1000 * cases + i)));
        before.push_back(randomise(random, s, w, sequences.back()));
      }
      std::vector<Piece> pieces;
      for (Sequence& x : sequences) pieces.push_back({&x, 0, 1});
      const bool l2_max = call % 2 == 1;
      step(*k, s, w, pieces, s.key_heads, l2_max);
      for (int i = 0; i < kSequences; ++i, ++cases) {
        Sequence& x = sequences[i];
        const std::vector<double> state = x.state_at(s, 1);
        const DeltaAnswer want = reference(s, w, x, l2_max, before[i].data());
        least_decay = std::min(least_decay, want.least_decay);
        most_decay = std::max(most_decay, want.most_decay);
        const auto place = [&](int64_t vh) {
          return s.name() + ", case " + std::to_string(cases) + ", head " + std::to_string(vh) + ", alpha " +
                 std::to_string(x.alpha[vh]) + ", beta " + std::to_string(x.beta[vh]);
        };
        for (int64_t at = 0; at < s.values(); ++at) {
          ASSERT_NEAR(x.out[at], want.out[at], kRoundings * want.out_size[at] + 1e-30)
              << "output of " << place(at / s.value_dim);
        }
        for (int64_t at = 0; at < s.delta_values(); ++at) {
          const int64_t vh = at / (s.key_dim * s.value_dim);
          ASSERT_NEAR(state[at], want.state[at], kRoundings * want.state_size[vh] + 1e-30)
              << "state of " << place(vh);
        }
      }
    }
  }
  EXPECT_EQ(cases, 10000);
  EXPECT_EQ(most_decay, 1) << "no case forgets nothing";
  EXPECT_LT(least_decay, std::exp(-104.)) << "no case forgets everything";
}

TEST_P(KernelGatedDelta, SequencesDoNotMeet) {
  const Shape s = kShapes[1];
  const Weights w = make_weights(s);
  Sequence a = make_sequence(s, 20, 1), b = make_sequence(s, 7, 2);
  Sequence a1 = make_sequence(s, 20, 1), b1 = make_sequence(s, 7, 2);
  step(*k, s, w, {{&a1, 0, 20}}, 1);
  step(*k, s, w, {{&b1, 0, 7}}, 1);
  step(*k, s, w, {{&a, 0, 17}, {&b, 0, 1}}, 1);
  step(*k, s, w, {{&b, 1, 2}, {&a, 17, 1}}, 3);
  step(*k, s, w, {{&a, 18, 2}, {&b, 3, 4}}, 2);
  EXPECT_TRUE(same_bits(a.out.data(), a1.out.data(), a.out.size())) << "first sequence";
  EXPECT_TRUE(same_bits(b.out.data(), b1.out.data(), b.out.size())) << "second sequence";
  EXPECT_TRUE(same_bits(a.state.data(), a1.state.data(), a.state.size())) << "first state";
  EXPECT_TRUE(same_bits(b.state.data(), b1.state.data(), b.state.size())) << "second state";
}

// The value heads of `rows` rows, `width` values each from `first` on, put from tiled into grouped order.
template <class C>
void group_heads(const Shape& s, C& v, int64_t rows, int64_t stride, int64_t first, int64_t width) {
  const std::vector<float> tiled(v.begin(), v.end());
  const int64_t each = s.value_heads / s.key_heads;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t head = 0; head < s.value_heads; ++head) {
      const int64_t to = head % s.key_heads * each + head / s.key_heads;
      std::copy_n(tiled.begin() + r * stride + first + head * width, width,
                  v.begin() + r * stride + first + to * width);
    }
  }
}

void group_heads(const Shape& s, Sequence& x) {
  group_heads(s, x.qkv, x.tokens, s.channels(), 2 * s.keys(), s.value_dim);
  group_heads(s, x.z, x.tokens, s.values(), 0, s.value_dim);
  group_heads(s, x.alpha, x.tokens, s.value_heads, 0, 1);
  group_heads(s, x.beta, x.tokens, s.value_heads, 0, 1);
  group_heads(s, x.out, x.tokens, s.values(), 0, s.value_dim);
  const layouts::DeltaEntry entry(s.key_heads, s.value_heads, s.key_dim, s.value_dim);
  const int64_t delta = 1 + conv_floats(s), entries = delta + s.delta_values();
  group_heads(s, x.state, kBlock, s.channels(), 1 + 2 * s.keys(), s.value_dim);
  group_heads(s, x.state, 1, 0, delta, s.key_dim * s.value_dim);
  group_heads(s, x.state, kBlock, entry.floats, entries + entry.u, s.value_dim);
  group_heads(s, x.state, kBlock, entry.floats, entries + entry.d, 1);
}

TEST_P(KernelGatedDelta, GroupedIsTiledInAnotherOrder) {
  for (const Shape& s :
       {kShapes[1], kShapes[3], Shape{4, 8, 16, 16, 4}, Shape{3, 9, 8, 8, 2}, Shape{9, 18, 8, 8, 4}}) {
    SCOPED_TRACE(s.name());
    const int64_t tokens = 21;
    const Weights tiled = make_weights(s);
    Weights grouped = make_weights(s);
    group_heads(s, grouped.conv, s.taps, s.channels(), 2 * s.keys(), s.value_dim);
    group_heads(s, grouped.a, 1, 0, 0, 1);
    group_heads(s, grouped.dt, 1, 0, 0, 1);
    Sequence a = make_sequence(s, tokens, 3), b = make_sequence(s, tokens, 3);
    group_heads(s, b);
    for (const auto& [past, count] : {std::pair<int64_t, int64_t>{0, 17}, {17, 1}, {18, 3}}) {
      step(*k, s, tiled, {{&a, past, count}}, 1);
      step(*k, s, grouped, {{&b, past, count}}, s.key_heads, false, QK_HeadOrder_Grouped);
    }
    group_heads(s, a);
    EXPECT_TRUE(same_bits(b.out.data(), a.out.data(), a.out.size())) << "outputs";
    EXPECT_TRUE(same_bits(b.state.data(), a.state.data(), a.state.size())) << "states";
  }
}

}  // namespace
}  // namespace qcc::cpu
