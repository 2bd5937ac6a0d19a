// qk_norm_rope_store and attention on every device: values, and equal bits for rows alone, in steps of any
// length and beside other sequences.
#include <algorithm>
#include <cmath>

#include "tests/device/conformance.h"
#include "tests/device/reference.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr float kEps = 1e-6f;
constexpr int64_t kPrefill = 40;

struct Shape {
  std::string name;
  int64_t q_heads, kv_heads, head_dim, rot_dims;
  bool gated, f16;

  int64_t QWidth() const { return OutWidth() * (gated ? 2 : 1); }
  int64_t KvWidth() const { return kv_heads * head_dim; }
  int64_t OutWidth() const { return q_heads * head_dim; }
  float Scale() const { return 1.f / std::sqrt(static_cast<float>(head_dim)); }
};
const Shape kShapes[] = {{"gated_f32", 4, 2, 32, 16, true, false},
                         {"plain_f16", 6, 2, 64, 64, false, true},
                         {"wide_gated_f16", 8, 1, 256, 64, true, true},
                         {"odd_gated_f32", 2, 2, 40, 8, true, false},
                         {"plain_f32", 3, 1, 128, 128, false, false}};
const int64_t kBuckets[] = {1, 4, kPrefill};

std::vector<float> NormWeights(const Shape& s, uint32_t seed) {
  std::vector<float> w = Random(seed).normals(static_cast<size_t>(s.head_dim));
  for (float& x : w) x *= 2.f;  // sharper attention for some heads
  return w;
}

const Suite& AttentionSuite() {
  static const auto* suite = [] {
    std::vector<Case> cases;
    for (const Shape& s : kShapes) {
      for (int64_t rows : kBuckets) {
        const std::string heads =
            "q_heads = " + std::to_string(s.q_heads) + " : i64, kv_heads = " + std::to_string(s.kv_heads) +
            " : i64, head_dim = " + std::to_string(s.head_dim) +
            " : i64, gated = " + (s.gated ? "true" : "false") + ", kv = \"" + (s.f16 ? "f16" : "f32") + "\"";
        char scale[64];
        std::snprintf(scale, sizeof(scale), "%.9e", static_cast<double>(s.Scale()));
        const std::string end = s.name + "_r" + std::to_string(rows);
        Case store;
        store.name = "store_" + end;
        store.family = "qk_norm_rope_store";
        store.spec =
            "{" + heads + ", rot_dims = " + std::to_string(s.rot_dims) + " : i64, eps = 9.99999997E-7 : f32}";
        store.rows = rows;
        store.weights["q_norm"] = AsBytes(NormWeights(s, 1));
        store.weights["k_norm"] = AsBytes(NormWeights(s, 2));
        cases.push_back(std::move(store));
        Case attention;
        attention.name = "attention_" + end;
        attention.family = "attention";
        attention.spec = "{" + heads + ", scale = " + scale + " : f32}";
        attention.rows = rows;
        cases.push_back(std::move(attention));
      }
    }
    return new Suite("attention", std::move(cases));
  }();
  return *suite;
}

// A sequence with its inputs and everything that steps over it write.
struct Sequence {
  Sequence(Lab& lab, const Shape& s, int64_t tokens, uint32_t seed)
      : s(s), tokens(tokens), memory(lab, tokens + 5, /*poison=*/true) {
    Random random(seed);
    q = random.normals(static_cast<size_t>(tokens * s.QWidth()));
    k = random.normals(static_cast<size_t>(tokens * s.KvWidth()));
    v = random.normals(static_cast<size_t>(tokens * s.KvWidth()));
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < s.rot_dims / 2; ++i)
        rope.push_back(std::cos(static_cast<float>(t) / (1.f + i)));
      for (int64_t i = 0; i < s.rot_dims / 2; ++i)
        rope.push_back(std::sin(static_cast<float>(t) / (1.f + i)));
    }
    q_out.resize(static_cast<size_t>(tokens * s.OutWidth()));
    out.resize(q_out.size());
  }
  const Shape& s;
  int64_t tokens;
  Memory memory;
  std::vector<float> q, k, v, rope, q_out, out;
};

struct Piece {
  Sequence* sequence;
  int64_t past, count;
};

// One step over pieces of sequences, through the programs of a bucket.
void StepOver(Lab& lab, const std::vector<Piece>& pieces, int64_t bucket) {
  const Shape& s = pieces[0].sequence->s;
  Step step;
  std::vector<float> q, k, v, rope;
  for (const Piece& p : pieces) {
    step.sequences.push_back({&p.sequence->memory, p.past, p.count});
    AppendRows(q, p.sequence->q, s.QWidth(), p.past, p.count);
    AppendRows(k, p.sequence->k, s.KvWidth(), p.past, p.count);
    AppendRows(v, p.sequence->v, s.KvWidth(), p.past, p.count);
    AppendRows(rope, p.sequence->rope, s.rot_dims, p.past, p.count);
  }
  const std::string end = s.name + "_r" + std::to_string(bucket);
  const std::vector<float> q_out = As<float>(
      RunCase(lab, "store_" + end, step,
              {{"q", AsBytes(q)}, {"k", AsBytes(k)}, {"v", AsBytes(v)}, {"rope", AsBytes(rope)}})["out"]);
  std::map<std::string, Bytes> inputs = {{"q", AsBytes(q_out)}};
  if (s.gated) inputs["gate"] = AsBytes(q);
  const std::vector<float> out = As<float>(RunCase(lab, "attention_" + end, step, inputs)["out"]);
  const int64_t w = s.OutWidth();
  ASSERT_EQ(static_cast<int64_t>(q_out.size()), step.rows() * w);
  ASSERT_EQ(static_cast<int64_t>(out.size()), step.rows() * w);
  int64_t row = 0;
  for (const Piece& p : pieces) {
    std::copy_n(q_out.begin() + row * w, p.count * w, p.sequence->q_out.begin() + p.past * w);
    std::copy_n(out.begin() + row * w, p.count * w, p.sequence->out.begin() + p.past * w);
    row += p.count;
  }
}

// Tokens [begin, end) in steps of at most `length`, through the smallest bucket that holds them.
void Feed(Lab& lab, Sequence& x, int64_t begin, int64_t end, int64_t length) {
  const int64_t bucket = *std::lower_bound(std::begin(kBuckets), std::end(kBuckets), length);
  for (int64_t t = begin; t < end; t += length) StepOver(lab, {{&x, t, std::min(length, end - t)}}, bucket);
}

std::vector<double> NormRope(const float* src, const std::vector<float>& weight, const float* rope,
                             int64_t dim, int64_t rot) {
  double sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += static_cast<double>(src[i]) * src[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(dim) + kEps);
  std::vector<double> n, r;
  for (int64_t i = 0; i < dim; ++i) n.push_back(src[i] * scale * weight[i]);
  r = n;
  for (int64_t i = 0; i < rot / 2; ++i) {
    const double c = rope[i], s = rope[rot / 2 + i];
    r[i] = n[i] * c - n[i + rot / 2] * s;
    r[i + rot / 2] = n[i] * s + n[i + rot / 2] * c;
  }
  return r;
}

// The layer's cache, decoded: [keys, values][kv_heads][capacity][head_dim].
std::vector<double> Cache(Lab& lab, const Sequence& x) {
  const Program& program = lab.suite->program("store_" + x.s.name + "_r1");
  const Bytes bytes = x.memory.Read(program.places.at("kv"));
  std::vector<double> values;
  if (x.s.f16) {
    for (uint16_t h : As<uint16_t>(bytes)) values.push_back(half_to_float(h));
  } else {
    for (float f : As<float>(bytes)) values.push_back(f);
  }
  return values;
}

void CheckStore(Lab& lab, const Sequence& x) {
  const Shape& s = x.s;
  const std::vector<double> cache = Cache(lab, x);
  const int64_t capacity = x.memory.capacity(), dim = s.head_dim;
  const std::vector<float> k_norm = NormWeights(s, 2), q_norm = NormWeights(s, 1);
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      const auto want =
          NormRope(&x.k[(t * s.kv_heads + h) * dim], k_norm, &x.rope[t * s.rot_dims], dim, s.rot_dims);
      for (int64_t i = 0; i < dim; ++i) {
        const double key = cache[(h * capacity + t) * dim + i];
        ASSERT_NEAR(key, want[i], (s.f16 ? 5e-4 : 6e-7) * (std::abs(want[i]) + (s.f16 ? 1e-3 : 1)))
            << "key " << t << ", dim " << i;
        const float v = x.v[(t * s.kv_heads + h) * dim + i];
        ASSERT_EQ(cache[((s.kv_heads + h) * capacity + t) * dim + i],
                  s.f16 ? half_to_float(float_to_half(v)) : v)
            << "value " << t << ", dim " << i;
      }
    }
    for (int64_t h = 0; h < s.q_heads; ++h) {
      const auto want = NormRope(&x.q[(t * s.q_heads + h) * dim * (s.gated ? 2 : 1)], q_norm,
                                 &x.rope[t * s.rot_dims], dim, s.rot_dims);
      for (int64_t i = 0; i < dim; ++i) {
        ASSERT_NEAR(x.q_out[(t * s.q_heads + h) * dim + i], want[i], 6e-7 * (1 + std::abs(want[i])))
            << "query " << t << ", dim " << i;
      }
    }
  }
  for (int64_t t = x.tokens; t < capacity; ++t) {
    ASSERT_TRUE(std::isnan(cache[t * dim]))
        << "place " << t << " of the cache, behind the sequence, was written";
  }
}

// Tokens from `first` on.
void CheckAttention(Lab& lab, const Sequence& x, int64_t first = 0) {
  const Shape& s = x.s;
  const std::vector<double> cache = Cache(lab, x);
  const int64_t capacity = x.memory.capacity(), dim = s.head_dim, group = s.q_heads / s.kv_heads;
  std::vector<double> want;
  for (int64_t t = first; t < x.tokens; ++t) {
    for (int64_t h = 0; h < s.q_heads; ++h) {
      const double* keys = &cache[h / group * capacity * dim];
      const double* values = &cache[(s.kv_heads + h / group) * capacity * dim];
      const float* q = &x.q_out[(t * s.q_heads + h) * dim];
      std::vector<double> p(t + 1), o(dim);
      double top = -1e300, sum = 0;
      for (int64_t j = 0; j <= t; ++j) {
        for (int64_t i = 0; i < dim; ++i) p[j] += q[i] * keys[j * dim + i];
        p[j] *= s.Scale();
        top = std::max(top, p[j]);
      }
      for (int64_t j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - top);
      for (int64_t j = 0; j <= t; ++j) {
        for (int64_t i = 0; i < dim; ++i) o[i] += p[j] / sum * values[j * dim + i];
      }
      for (int64_t i = 0; i < dim; ++i) {
        const double gate = s.gated ? x.q[((t * s.q_heads + h) * 2 + 1) * dim + i] : 1e9;
        want.push_back(o[i] / (1 + std::exp(-gate)));
      }
    }
  }
  EXPECT_TRUE(Near({x.out.begin() + first * s.OutWidth(), x.out.end()}, want, 1e-11, s.OutWidth()));
}

class AttentionConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(AttentionConformance);

TEST_P(AttentionConformance, Values) {
  QCC_OPEN_OR_SKIP(lab, AttentionSuite());
  for (const Shape& s : kShapes) {
    for (int64_t length : {1, 4, 33, 40}) {
      SCOPED_TRACE(s.name + ", steps of " + std::to_string(length));
      Sequence x(lab, s, 75, 7);
      Feed(lab, x, 0, x.tokens, length);
      CheckStore(lab, x);
      CheckAttention(lab, x);
      if (HasFailure()) return;
    }
  }
}

// Row by row, in batches and in prefill steps: a row's bits depend on its own sequence only, whatever company
// it has, and wherever a prompt is cut.
TEST_P(AttentionConformance, Company) {
  QCC_OPEN_OR_SKIP(lab, AttentionSuite());
  for (const Shape& s : {kShapes[0], kShapes[2], kShapes[1]}) {
    SCOPED_TRACE(s.name);
    Sequence alone(lab, s, 40, 1), a(lab, s, 40, 1), b(lab, s, 12, 2), c(lab, s, 9, 3);
    Feed(lab, alone, 0, 40, 1);
    StepOver(lab, {{&b, 0, 3}, {&a, 0, 20}, {&c, 0, 1}}, kPrefill);
    StepOver(lab, {{&a, 20, 13}, {&b, 3, 1}}, kPrefill);
    for (int64_t t = 33; t < 40; ++t) StepOver(lab, {{&c, t - 32, 1}, {&a, t, 1}, {&b, t - 29, 1}}, 4);
    EXPECT_TRUE(SameBits(AsBytes(a.out), AsBytes(alone.out)));
    EXPECT_TRUE(SameBits(AsBytes(a.q_out), AsBytes(alone.q_out)));
    if (HasFailure()) return;
  }
}

// Behind so many positions a chunk has several tiles, and there are as many chunks as there may be: what a
// tile keeps for the next one, and what is asked for ahead, counts.
TEST_P(AttentionConformance, ChunksOfSeveralTiles) {
  QCC_OPEN_OR_SKIP(lab, AttentionSuite());
  constexpr int64_t kLast = 9;
  for (const auto& [s, tokens] : {std::pair<Shape, int64_t>{kShapes[2], 1113}, {kShapes[1], 2113}}) {
    SCOPED_TRACE(s.name + ", " + std::to_string(tokens) + " tokens");
    Sequence x(lab, s, tokens, 11);
    Feed(lab, x, 0, tokens, kPrefill);
    CheckAttention(lab, x, tokens - kLast);
    const std::vector<float> prompt = x.out;
    for (const int64_t length : {1, 4}) {
      std::fill(x.out.end() - kLast * s.OutWidth(), x.out.end(), NAN);
      Feed(lab, x, tokens - kLast, tokens, length);
      EXPECT_TRUE(SameBits(AsBytes(x.out), AsBytes(prompt))) << "steps of " << length;
    }
    if (HasFailure()) return;
  }
}

// A key, a value or a gate that is no number is so for what sees it, and for nothing else.
TEST_P(AttentionConformance, NoNumberHidesOrSpreads) {
  QCC_OPEN_OR_SKIP(lab, AttentionSuite());
  enum Bad { kKey, kValue, kGate };
  constexpr int64_t kTokens = 40, kBad = 21, kElement = 3;
  for (const Shape& s : kShapes) {
    const int64_t group = s.q_heads / s.kv_heads, head = s.kv_heads - 1, dim = s.head_dim;
    Sequence good(lab, s, kTokens, 5);
    Feed(lab, good, 0, kTokens, kPrefill);
    for (const Bad what : {kKey, kValue, kGate}) {
      if (what == kGate && !s.gated) continue;
      for (const float bad : {NAN, what == kKey ? -NAN : INFINITY}) {
        if (what == kGate && std::isinf(bad)) continue;
        for (const int64_t length : {kPrefill, int64_t{4}}) {
          SCOPED_TRACE(s.name +
                       (what == kKey     ? ", key "
                        : what == kValue ? ", value "
                                         : ", gate ") +
                       std::to_string(bad) + ", steps of " + std::to_string(length));
          Sequence x(lab, s, kTokens, 5);
          if (what == kKey) x.k[kBad * s.KvWidth() + head * dim + kElement] = bad;
          if (what == kValue) x.v[kBad * s.KvWidth() + head * dim + kElement] = bad;
          if (what == kGate) x.q[kBad * s.QWidth() + dim + kElement] = bad;
          Feed(lab, x, 0, kTokens, length);
          for (size_t i = 0; i < x.out.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i), t = at / s.OutWidth(), e = at % dim,
                          q_head = at % s.OutWidth() / dim;
            bool none = t >= kBad && q_head / group == head && (what == kKey || e == kElement);
            if (what == kGate) none = t == kBad && q_head == 0 && e == kElement;
            ASSERT_TRUE(none ? !std::isfinite(x.out[i]) : std::memcmp(&x.out[i], &good.out[i], 4) == 0)
                << "token " << t << ", head " << q_head << ", element " << e << " is " << x.out[i] << ", was "
                << good.out[i];
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace qcc::conformance
