// qk_norm_rope_store and attention against double arithmetic; rows alone, in steps of any length and beside
// other sequences give equal bits.
#include <cmath>
#include <limits>
#include <utility>

#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

struct Shape {
  int64_t q_heads, kv_heads, head_dim, rot_dims;
  bool gated, f16, integers = false;
  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_dim) + (gated ? ", gated" : "") + (f16 ? ", f16" : ", f32") +
           (integers ? ", in integers" : "");
  }
};

// One sequence of `tokens` tokens with its inputs, and everything that steps over it write.
struct Sequence {
  Shape s;
  int64_t tokens, capacity;
  std::vector<float> q, k, v, q_norm, k_norm, rope;
  Guarded<uint8_t> kv;
  std::vector<float> q_out, out;

  int64_t q_width() const { return s.q_heads * s.head_dim * (s.gated ? 2 : 1); }
  int64_t kv_width() const { return s.kv_heads * s.head_dim; }
  int64_t out_width() const { return s.q_heads * s.head_dim; }
};

constexpr int64_t kOffset = 16;  // bytes per token of another layer before this one
constexpr float kEps = 1e-6f;

Sequence make_sequence(const Shape& s, int64_t tokens, uint32_t seed) {
  Random random(seed);
  const int64_t capacity = tokens + 5, element = s.f16 ? 2 : 4;
  const int64_t q_width = s.q_heads * s.head_dim * (s.gated ? 2 : 1), kv_width = s.kv_heads * s.head_dim;
  Sequence x{s,
             tokens,
             capacity,
             random.normals(static_cast<size_t>(tokens * q_width)),
             random.normals(static_cast<size_t>(tokens * kv_width)),
             random.normals(static_cast<size_t>(tokens * kv_width)),
             random.normals(static_cast<size_t>(s.head_dim)),
             random.normals(static_cast<size_t>(s.head_dim)),
             {},
             Guarded<uint8_t>(static_cast<size_t>(capacity * (kOffset + 2 * kv_width * element))),
             std::vector<float>(static_cast<size_t>(tokens * s.q_heads * s.head_dim)),
             std::vector<float>(static_cast<size_t>(tokens * s.q_heads * s.head_dim))};
  // Sharper attention for some heads; the unwritten cache is NaN in both formats.
  for (float& w : x.q_norm) w *= 2.f;
  std::memset(x.kv.data(), 0xff, x.kv.size());
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < s.rot_dims / 2; ++i)
      x.rope.push_back(std::cos(static_cast<float>(t) / (1.f + i)));
    for (int64_t i = 0; i < s.rot_dims / 2; ++i)
      x.rope.push_back(std::sin(static_cast<float>(t) / (1.f + i)));
  }
  return x;
}

struct Piece {
  Sequence* seq;
  int64_t past, count;
};

// Few rows in parts of the cache that are folded: the bits of `whole`, by any cut of the items into calls.
void check_parts(const Kernels& k, attention_args attend, const Guarded<float>& whole, int64_t cuts) {
  const int64_t parts = attend.n_rows * attend.kv_heads * AttentionParts::kMost;
  Guarded<float> out(whole.size());
  Guarded<uint8_t> shared =
      used_scratch(SharedAttentionScratch(attend.n_rows, attend.q_heads, attend.head_dim).bytes);
  attend.out = out.data();
  attend.shared_scratch = shared.data();
  const auto run = [&](auto* kernel, int64_t items) {
    for (int64_t c = cuts - 1; c >= 0; --c) {
      attend.begin = items * c / cuts;
      attend.end = items * (c + 1) / cuts;
      kernel(&attend);
    }
  };
  run(k.qk_attention_parts, parts);
  run(k.qk_attention_fold, attend.n_rows * attend.q_heads);
  EXPECT_TRUE(same_bits(out.data(), whole.data(), whole.size())) << "in parts, " << cuts << " calls";
}

// One step over pieces of sequences; `cuts` splits the work items into that many calls.
void step(const Kernels& k, const std::vector<Piece>& pieces, int64_t cuts, bool attends = true) {
  const Sequence& first = *pieces[0].seq;
  const Shape& s = first.s;
  std::vector<qrt_seq> seqs;
  std::vector<float> q, kk, v, rope;
  int64_t rows = 0;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, int64_t width,
                         const Piece& p) {
    to.insert(to.end(), from.begin() + p.past * width, from.begin() + (p.past + p.count) * width);
  };
  for (const Piece& p : pieces) {
    seqs.push_back({nullptr, 0, p.seq->kv.data(), p.seq->capacity, p.past, rows, p.count});
    append(q, p.seq->q, first.q_width(), p);
    append(kk, p.seq->k, first.kv_width(), p);
    append(v, p.seq->v, first.kv_width(), p);
    append(rope, p.seq->rope, s.rot_dims, p);
    rows += p.count;
  }
  Guarded<float> gq = Guarded<float>::copy_of(q), gk = Guarded<float>::copy_of(kk),
                 gv = Guarded<float>::copy_of(v);
  Guarded<float> q_out(static_cast<size_t>(rows * first.out_width())), out(q_out.size());
  const int64_t n = static_cast<int64_t>(seqs.size());
  const int64_t element = s.f16 ? QK_KvElement_F16 : QK_KvElement_F32;
  qk_norm_rope_store_args store = {.q_heads = s.q_heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .rot_dims = s.rot_dims,
                                   .gated = s.gated,
                                   .eps = kEps,
                                   .kv = element,
                                   .q = gq.data(),
                                   .k = gk.data(),
                                   .v = gv.data(),
                                   .q_norm = first.q_norm.data(),
                                   .k_norm = first.k_norm.data(),
                                   .rope = rope.data(),
                                   .out = q_out.data(),
                                   .kv_offset = kOffset,
                                   .seqs = seqs.data(),
                                   .n_seqs = n,
                                   .n_rows = rows,
                                   .begin = 0,
                                   .end = 0};
  for (int64_t c = 0; c < cuts; ++c) {
    store.begin = rows * c / cuts;
    store.end = rows * (c + 1) / cuts;
    k.qk_norm_rope_store(&store);
  }
  const int64_t group = s.q_heads / s.kv_heads;
  Guarded<uint8_t> scratch = used_scratch(s.integers ? Int16AttentionScratch(s.head_dim, group).bytes
                                                     : F32AttentionScratch(s.head_dim, group).bytes);
  attention_args attend = {.q_heads = s.q_heads,
                           .kv_heads = s.kv_heads,
                           .head_dim = s.head_dim,
                           .scale = 1.f / std::sqrt(static_cast<float>(s.head_dim)),
                           .gated = s.gated,
                           .kv = element,
                           .numerics = s.integers ? QK_Numerics_Int8 : QK_Numerics_F32,
                           .q = q_out.data(),
                           .gate = s.gated ? gq.data() : nullptr,
                           .kv_offset = kOffset,
                           .out = out.data(),
                           .seqs = seqs.data(),
                           .n_seqs = n,
                           .scratch = scratch.data(),
                           .shared_scratch = nullptr,
                           .n_rows = rows,
                           .begin = 0,
                           .end = 0};
  if (!attends) return;
  const int64_t items = rows * s.kv_heads;
  for (int64_t c = 0; c < cuts; ++c) {
    attend.begin = items * c / cuts;
    attend.end = items * (c + 1) / cuts;
    k.qk_attention(&attend);
  }
  if (rows <= SharedAttentionScratch::kRows) check_parts(k, attend, out, cuts);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int64_t w = first.out_width(), n_values = pieces[i].count * w;
    std::copy_n(q_out.data() + seqs[i].row_begin * w, n_values,
                pieces[i].seq->q_out.begin() + pieces[i].past * w);
    std::copy_n(out.data() + seqs[i].row_begin * w, n_values,
                pieces[i].seq->out.begin() + pieces[i].past * w);
  }
}

std::vector<double> norm_rope(const float* src, const std::vector<float>& weight, const float* rope,
                              int64_t dim, int64_t rot) {
  double sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += static_cast<double>(src[i]) * src[i];
  const double scale = 1 / std::sqrt(sum / dim + kEps);
  std::vector<double> n(dim), r;
  for (int64_t i = 0; i < dim; ++i) n[i] = src[i] * scale * weight[i];
  r = n;
  for (int64_t i = 0; i < rot / 2; ++i) {
    const double c = rope[i], s = rope[rot / 2 + i];
    r[i] = n[i] * c - n[i + rot / 2] * s;
    r[i + rot / 2] = n[i] * s + n[i + rot / 2] * c;
  }
  return r;
}

// The cache's value at (which = 0 key, 1 value; head, position).
std::vector<double> cached(const Sequence& x, int which, int64_t head, int64_t at) {
  const int64_t element = x.s.f16 ? 2 : 4, dim = x.s.head_dim;
  const uint8_t* p =
      x.kv.data() + kOffset * x.capacity + ((which * x.s.kv_heads + head) * x.capacity + at) * dim * element;
  std::vector<double> v(dim);
  for (int64_t i = 0; i < dim; ++i) {
    if (x.s.f16) {
      uint16_t h;
      std::memcpy(&h, p + i * 2, 2);
      v[i] = half_to_float(h);
    } else {
      float f;
      std::memcpy(&f, p + i * 4, 4);
      v[i] = f;
    }
  }
  return v;
}

void check_store(const Sequence& x) {
  const Shape& s = x.s;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      const auto key = cached(x, 0, h, t), value = cached(x, 1, h, t);
      const float* src = x.k.data() + (t * s.kv_heads + h) * s.head_dim;
      const auto want = norm_rope(src, x.k_norm, x.rope.data() + t * s.rot_dims, s.head_dim, s.rot_dims);
      for (int64_t i = 0; i < s.head_dim; ++i) {
        const double unit = s.f16 ? 5e-4 : 5e-7;
        ASSERT_NEAR(key[i], want[i], unit * (std::abs(want[i]) + (s.f16 ? 1e-4 : 1)))
            << "key " << t << " dim " << i;
        const float v = x.v[(t * s.kv_heads + h) * s.head_dim + i];
        const float exact = s.f16 ? half_to_float(float_to_half(v)) : v;
        ASSERT_EQ(value[i], exact) << "value " << t << " dim " << i;
      }
    }
    for (int64_t h = 0; h < s.q_heads; ++h) {
      const float* src = x.q.data() + (t * s.q_heads + h) * s.head_dim * (s.gated ? 2 : 1);
      const auto want = norm_rope(src, x.q_norm, x.rope.data() + t * s.rot_dims, s.head_dim, s.rot_dims);
      for (int64_t i = 0; i < s.head_dim; ++i) {
        ASSERT_NEAR(x.q_out[(t * s.q_heads + h) * s.head_dim + i], want[i], 5e-7 * (1 + std::abs(want[i])))
            << "query " << t << " dim " << i;
      }
    }
  }
  for (size_t i = 0; i < static_cast<size_t>(kOffset * x.capacity); ++i) {
    ASSERT_EQ(x.kv[i], 0xff) << "byte " << i << " of another layer";
  }
}

// In integers a cache of f16 has 12 bits or more. The outputs are rounded to int8 next, whose steps
// are 32 times as large as those of 12 bits.
void check_attention(const Sequence& x) {
  const Shape& s = x.s;
  const int64_t group = s.q_heads / s.kv_heads;
  double error = 0, energy = 0;
  for (int64_t kv = 0; kv < s.kv_heads; ++kv) {
    std::vector<std::vector<double>> keys, values;
    for (int64_t t = 0; t < x.tokens; ++t) {
      keys.push_back(cached(x, 0, kv, t));
      values.push_back(cached(x, 1, kv, t));
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const float* q = x.q_out.data() + (t * s.q_heads + h) * s.head_dim;
        std::vector<double> p(t + 1), o(s.head_dim);
        double top = -1e300, sum = 0;
        for (int64_t j = 0; j <= t; ++j) {
          for (int64_t i = 0; i < s.head_dim; ++i) p[j] += q[i] * keys[j][i];
          p[j] /= std::sqrt(static_cast<double>(s.head_dim));
          top = std::max(top, p[j]);
        }
        for (int64_t j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - top);
        for (int64_t j = 0; j <= t; ++j) {
          for (int64_t i = 0; i < s.head_dim; ++i) o[i] += p[j] / sum * values[j][i];
        }
        for (int64_t i = 0; i < s.head_dim; ++i) {
          double want = o[i];
          if (s.gated)
            want /= 1 + std::exp(-static_cast<double>(x.q[((t * s.q_heads + h) * 2 + 1) * s.head_dim + i]));
          const double got = x.out[(t * s.q_heads + h) * s.head_dim + i];
          ASSERT_NEAR(got, want, s.integers ? 1e-2 : 5e-6)
              << "token " << t << ", head " << h << ", dim " << i;
          error += (got - want) * (got - want);
          energy += want * want;
        }
      }
    }
  }
  ASSERT_LT(error / energy, s.integers ? 5e-6 : 1e-11) << "mean error of all outputs, of their mean square";
}

class KernelAttention : public KernelTest {
 protected:
  void SetUp() override {
    QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
    KernelTest::SetUp();
  }
};
QCC_INSTANTIATE_KERNEL_TEST(KernelAttention);

// In integers: groups of 8, 3, 3, 2, 4, 1, 6, 8, 16 queries, as up to 2, 4, 6, 8 and more of them differ.
const Shape kShapes[] = {
    {4, 2, 32, 16, true, false},       {6, 2, 64, 64, false, true},       {8, 1, 256, 64, true, true},
    {8, 1, 256, 64, true, true, true}, {2, 2, 40, 8, true, false},        {3, 1, 128, 128, false, false},
    {6, 2, 40, 8, false, true, true},  {6, 2, 64, 64, false, true, true}, {4, 2, 128, 128, false, true, true},
    {8, 2, 96, 32, true, true, true},  {2, 2, 40, 8, true, true, true},   {6, 1, 64, 64, false, true, true},
    {8, 1, 32, 32, false, true, true}, {16, 1, 32, 32, false, true, true}};

TEST_P(KernelAttention, ValuesAndSplits) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.name());
    const int64_t tokens = 75;
    Sequence whole = make_sequence(s, tokens, 7);
    step(*k, {{&whole, 0, tokens}}, 1);
    check_store(whole);
    if (HasFatalFailure()) return;
    check_attention(whole);
    if (HasFatalFailure()) return;
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{1}, {3}, {31, 33, 1}, {32}, {64}, {74, 1}, {2, 5, 9}}) {
      for (int64_t cuts : {1, 3}) {
        Sequence split = make_sequence(s, tokens, 7);
        size_t i = 0;
        for (int64_t t = 0; t < tokens;) {
          const int64_t n = std::min(lengths[std::min(i++, lengths.size() - 1)], tokens - t);
          step(*k, {{&split, t, n}}, cuts);
          t += n;
        }
        ASSERT_TRUE(same_bits(split.out.data(), whole.out.data(), whole.out.size()))
            << "steps of " << lengths[0] << ", " << cuts << " calls each";
      }
    }
  }
}

// Contexts of several parts, with steps over the places where a part ends.
TEST_P(KernelAttention, PartsOfAContextAreFolded) {
  for (const Shape& s : {kShapes[0], kShapes[6], kShapes[11], kShapes[12]}) {
    SCOPED_TRACE(s.name());
    constexpr int64_t kPart = AttentionParts::kLeast, tokens = 2 * kPart + 70;
    Sequence whole = make_sequence(s, tokens, 7);
    step(*k, {{&whole, 0, tokens}}, 1);
    check_attention(whole);
    if (HasFatalFailure()) return;
    Sequence split = make_sequence(s, tokens, 7);
    int64_t t = 0;
    for (const int64_t end : {kPart - 3, kPart + 1, kPart + 2, kPart + 4, kPart + 63, kPart + 65,
                              2 * kPart - 4, 2 * kPart + 4, tokens}) {
      step(*k, {{&split, t, end - t}}, t % 2 == 0 ? 1 : 5);
      t = end;
    }
    EXPECT_TRUE(same_bits(split.out.data(), whole.out.data(), whole.out.size()));
  }
}

// Where more positions than the least would be more parts than there may be, parts are longer: rows on both
// sides of that place, together and alone.
TEST_P(KernelAttention, PartsGrowWithTheContext) {
  const int64_t most = AttentionParts::kMost * AttentionParts::kLeast;
  EXPECT_EQ(AttentionParts::Count(most), AttentionParts::kMost);
  EXPECT_EQ(AttentionParts::Positions(most + 1), 2 * AttentionParts::kLeast);
  for (const bool integers : {false, true}) {
    const Shape s = {2, 1, 32, 32, false, true, integers};
    const int64_t tokens = most + 5, from = most - 7;
    Sequence x = make_sequence(s, tokens, 3);
    step(*k, {{&x, 0, from}}, 1, /*attends=*/false);
    step(*k, {{&x, from, tokens - from}}, 1);
    const std::vector<float> together = std::exchange(x.out, std::vector<float>(x.out.size()));
    const int64_t at = from * x.out_width();
    for (int64_t t = from; t < tokens; ++t) step(*k, {{&x, t, 1}}, 3);
    EXPECT_TRUE(same_bits(x.out.data() + at, together.data() + at, together.size() - at)) << s.name();
    step(*k, {{&x, tokens - 8, 8}}, 7);
    EXPECT_TRUE(same_bits(x.out.data() + at, together.data() + at, together.size() - at))
        << s.name() << ", eight at once";
  }
}

// What is no number in the cache is none in every output that sees it, and in no other: the sampler finds it.
TEST_P(KernelAttention, NoNumberHides) {
  for (const auto& [f16, integers] :
       {std::pair(true, true), std::pair(true, false), std::pair(false, false)}) {
    const Shape s = {4, 2, 64, 64, false, f16, integers};
    const int64_t size = f16 ? 2 : 4;
    for (const int which : {0, 1}) {
      for (const uint32_t bad : {0x7c00u, 0xfc00u, 0x7e01u}) {
        const uint32_t bits = f16 ? bad : (bad & 0x8000) << 16 | 0x7f800000 | (bad & 0x3ff) << 13;
        Sequence x = make_sequence(s, 70, 5);
        step(*k, {{&x, 0, 66}}, 1);
        const int64_t place =
            kOffset * x.capacity + ((which * s.kv_heads + 1) * x.capacity + 65) * s.head_dim * size;
        std::memcpy(x.kv.data() + place + size * 17, &bits, static_cast<size_t>(size));
        step(*k, {{&x, 66, 1}}, 1);
        step(*k, {{&x, 67, 3}}, 1);
        for (int64_t t = 65; t < 70; ++t) {
          for (int64_t i = 0; i < x.out_width(); ++i) {
            const bool sees = t > 65 && i >= x.out_width() / 2;  // heads of kv head 1
            const float out = x.out[t * x.out_width() + i];
            // A value of the other outputs' columns is none of theirs.
            const bool none = which == 0 || integers || i % s.head_dim == 17;
            ASSERT_EQ(std::isfinite(out), !(sees && none))
                << s.name() << (which == 0 ? ", key " : ", value ") << bad << ", token " << t << ", output "
                << i << " is " << out;
          }
        }
      }
    }
  }
}

// A gate that is no number makes its output none, and no other.
TEST_P(KernelAttention, NoNumberOfAGateHides) {
  const Shape s = {4, 2, 64, 64, true, true, false};
  for (const int64_t rows : {1, 3}) {
    Sequence x = make_sequence(s, 20, 5);
    const auto gate_at = [&](int64_t t, int64_t head, int64_t i) {
      return ((t * s.q_heads + head) * 2 + 1) * s.head_dim + i;
    };
    x.q[gate_at(18, 2, 17)] = std::numeric_limits<float>::quiet_NaN();
    for (int64_t t = 0; t < x.tokens; t += rows) step(*k, {{&x, t, std::min(rows, x.tokens - t)}}, 1);
    for (size_t i = 0; i < x.out.size(); ++i) {
      ASSERT_EQ(std::isnan(x.out[i]), i == static_cast<size_t>((18 * s.q_heads + 2) * s.head_dim + 17))
          << "steps of " << rows << ", output " << i << " is " << x.out[i];
    }
  }
}

// A query whose integers would leave their bits is told as what is no number, or its scores are right.
TEST_P(KernelAttention, GreatQueriesAreNoneOrRight) {
  for (const float factor : {1e28f, 1e31f, 1e36f}) {
    Shape s = {4, 2, 64, 64, false, true, false};
    Sequence right = make_sequence(s, 40, 5);
    s.integers = true;
    Sequence x = make_sequence(s, 40, 5);
    for (Sequence* each : {&right, &x}) {
      for (float& q : each->q_norm) q *= factor;
      step(*k, {{each, 0, 40}}, 1);
    }
    for (size_t i = 0; i < x.out.size(); ++i) {
      if (std::isnan(x.out[i]) || !std::isfinite(right.out[i])) continue;
      ASSERT_NEAR(x.out[i], right.out[i], 0.02) << "factor " << factor << ", output " << i;
    }
  }
}

TEST_P(KernelAttention, SequencesDoNotMeet) {
  for (const Shape& s : {kShapes[0], kShapes[2], kShapes[3]}) {
    SCOPED_TRACE(s.name());
    Sequence a = make_sequence(s, 40, 1), b = make_sequence(s, 9, 2), c = make_sequence(s, 35, 3);
    b.q_norm = c.q_norm = a.q_norm;
    b.k_norm = c.k_norm = a.k_norm;
    Sequence a1 = make_sequence(s, 40, 1), b1 = make_sequence(s, 9, 2), c1 = make_sequence(s, 35, 3);
    b1.q_norm = c1.q_norm = a.q_norm;
    b1.k_norm = c1.k_norm = a.k_norm;
    step(*k, {{&a1, 0, 40}}, 1);
    step(*k, {{&b1, 0, 9}}, 1);
    step(*k, {{&c1, 0, 35}}, 1);
    step(*k, {{&a, 0, 33}, {&b, 0, 1}, {&c, 0, 35}}, 2);
    step(*k, {{&a, 33, 1}, {&b, 1, 7}}, 2);
    step(*k, {{&b, 8, 1}, {&a, 34, 6}}, 3);
    EXPECT_TRUE(same_bits(a.out.data(), a1.out.data(), a.out.size())) << "first sequence";
    EXPECT_TRUE(same_bits(b.out.data(), b1.out.data(), b.out.size())) << "second sequence";
    EXPECT_TRUE(same_bits(c.out.data(), c1.out.data(), c.out.size())) << "third sequence";
  }
}

}  // namespace
}  // namespace qcc::cpu
