// qk_norm_rope_store and attention against double arithmetic; rows alone, in steps of any length and beside
// other sequences give equal bits.
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/abi/integer_row.h"
#include "runtime/engine/kv_form.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

enum class Kv : int64_t { kF32 = QK_KvElement_F32, kF16 = QK_KvElement_F16, kB16 = QK_KvElement_B16 };

struct Shape {
  int64_t q_heads, kv_heads, head_dim, rot_dims;
  bool gated;
  Kv kv;
  bool integers() const { return kv == Kv::kB16; }
  int64_t element_bytes() const { return kv == Kv::kF32 ? 4 : 2; }
  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_dim) + (gated ? ", gated" : "") +
           (integers()       ? ", integers"
            : kv == Kv::kF16 ? ", f16"
                             : ", f32");
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
  const int64_t capacity = tokens + 5, element = s.element_bytes();
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
  // Sharper attention for some heads; the unwritten cache is no number, whatever it holds.
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
  const auto element = static_cast<int64_t>(s.kv);
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
  Guarded<uint8_t> scratch = used_scratch(s.integers() ? Int16AttentionScratch(s.head_dim, group).bytes
                                                       : F32AttentionScratch(s.head_dim, group).bytes);
  attention_args attend = {.q_heads = s.q_heads,
                           .kv_heads = s.kv_heads,
                           .head_dim = s.head_dim,
                           .scale = 1.f / std::sqrt(static_cast<float>(s.head_dim)),
                           .gated = s.gated,
                           .kv = element,
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

// A row of integers, as runtime/abi/integer_row.h says.
std::vector<double> from_integers(const uint8_t* p, int64_t dim) {
  std::vector<int16_t> n(dim);
  std::memcpy(n.data(), p, 2 * dim);
  int e = 0;
  for (int b = 0; b < 8; ++b) e |= (n[b] & 1) << b;
  std::vector<double> v(dim, e == 255 ? std::nan("") : 0.);
  if (e > 0 && e < 255) {
    for (int64_t i = 0; i < dim; ++i) v[i] = std::ldexp(n[i], e - 127);
  }
  return v;
}

// The cache's value at (which = 0 key, 1 value; head, position).
std::vector<double> cached(const Sequence& x, int which, int64_t head, int64_t at) {
  const int64_t element = x.s.element_bytes(), dim = x.s.head_dim;
  const uint8_t* p =
      x.kv.data() + kOffset * x.capacity + ((which * x.s.kv_heads + head) * x.capacity + at) * dim * element;
  if (x.s.integers()) return from_integers(p, dim);
  std::vector<double> v(dim);
  for (int64_t i = 0; i < dim; ++i) {
    if (x.s.kv == Kv::kF16) {
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

// Integers of `bits` bits in units of the power of two that their largest needs: the nearest, or of the first
// eight those nearest whose lowest bit is given; at most 2^bits - 2 of these, 2^bits - 1 of the others.
void check_integers(const std::vector<double>& got, const std::vector<double>& want, int bits) {
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  const double unit = std::ldexp(1, std::max(std::ilogb(largest) + 1 - bits, -126));
  for (size_t i = 0; i < want.size(); ++i) {
    const double most = std::ldexp(1, bits) - (i < 8 ? 2 : 1);
    const double limited = std::clamp(want[i] / unit, -most, most);
    ASSERT_NEAR(got[i] / unit, limited, i < 8 ? 1.001 : 0.501) << "dim " << i << " of " << want[i];
    ASSERT_LT(std::abs(got[i] / unit), std::ldexp(1, bits)) << "dim " << i << ": a sum may overflow";
  }
}

void check_store(const Sequence& x) {
  const Shape& s = x.s;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      const auto key = cached(x, 0, h, t), value = cached(x, 1, h, t);
      const float* src = x.k.data() + (t * s.kv_heads + h) * s.head_dim;
      const auto want = norm_rope(src, x.k_norm, x.rope.data() + t * s.rot_dims, s.head_dim, s.rot_dims);
      const float* v_row = x.v.data() + (t * s.kv_heads + h) * s.head_dim;
      if (s.integers()) {
        SCOPED_TRACE("token " + std::to_string(t));
        check_integers(key, want, qrt::IntegerRow::KeyBits(s.head_dim));
        check_integers(value, {v_row, v_row + s.head_dim}, qrt::IntegerRow::kValueBits);
        if (testing::Test::HasFatalFailure()) return;
        continue;
      }
      const bool f16 = s.kv == Kv::kF16;
      for (int64_t i = 0; i < s.head_dim; ++i) {
        const double unit = f16 ? 5e-4 : 5e-7;
        ASSERT_NEAR(key[i], want[i], unit * (std::abs(want[i]) + (f16 ? 1e-4 : 1)))
            << "key " << t << " dim " << i;
        const float exact = f16 ? half_to_float(float_to_half(v_row[i])) : v_row[i];
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

// Of integers queries have 11 bits or more, and weights 12. The outputs are rounded to int8 next, whose steps
// are 16 times as large as those of 11 bits.
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
          ASSERT_NEAR(got, want, s.integers() ? 1e-2 : 5e-6)
              << "token " << t << ", head " << h << ", dim " << i;
          error += (got - want) * (got - want);
          energy += want * want;
        }
      }
    }
  }
  ASSERT_LT(error / energy, s.integers() ? 5e-6 : 1e-11) << "mean error of all outputs, of their mean square";
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
constexpr Kv kF32 = Kv::kF32, kF16 = Kv::kF16, kB16 = Kv::kB16;
const Shape kShapes[] = {
    {4, 2, 32, 16, true, kF32},  {6, 2, 64, 64, false, kF16},  {8, 1, 256, 64, true, kF16},
    {8, 1, 256, 64, true, kB16}, {2, 2, 40, 8, true, kF32},    {3, 1, 128, 128, false, kF32},
    {6, 2, 40, 8, false, kB16},  {6, 2, 64, 64, false, kB16},  {4, 2, 128, 128, false, kB16},
    {8, 2, 96, 32, true, kB16},  {2, 2, 40, 8, true, kB16},    {6, 1, 64, 64, false, kB16},
    {8, 1, 32, 32, false, kB16}, {16, 1, 32, 32, false, kB16}, {2, 1, 8, 8, false, kB16}};

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
  for (const Kv kv : {kF16, kB16}) {
    const Shape s = {2, 1, 32, 32, false, kv};
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
  for (const Kv kv : {kB16, kF16, kF32}) {
    const Shape s = {4, 2, 64, 64, false, kv};
    const int64_t size = s.element_bytes();
    for (const int which : {0, 1}) {
      for (const uint32_t bad : {0x7c00u, 0xfc00u, 0x7e01u}) {
        const uint32_t wide = (bad & 0x8000) << 16 | 0x7f800000 | (bad & 0x3ff) << 13;
        Sequence x = make_sequence(s, 70, 5);
        // Integers hold what the store found.
        if (s.integers()) {
          float* row = (which == 0 ? x.k : x.v).data() + (65 * s.kv_heads + 1) * s.head_dim;
          std::memcpy(row + 17, &wide, sizeof wide);
        }
        step(*k, {{&x, 0, 66}}, 1);
        if (!s.integers()) {
          const int64_t place =
              kOffset * x.capacity + ((which * s.kv_heads + 1) * x.capacity + 65) * s.head_dim * size;
          std::memcpy(x.kv.data() + place + size * 17, kv == kF16 ? &bad : &wide, static_cast<size_t>(size));
        }
        step(*k, {{&x, 66, 1}}, 1);
        step(*k, {{&x, 67, 3}}, 1);
        for (int64_t t = 64; t < 70; ++t) {
          for (int64_t i = 0; i < x.out_width(); ++i) {
            const bool there = t > 65 || (t == 65 && s.integers());
            const bool sees = there && i >= x.out_width() / 2;  // heads of kv head 1
            const float out = x.out[t * x.out_width() + i];
            // A value of the other outputs' columns is none of theirs.
            const bool none = which == 0 || s.integers() || i % s.head_dim == 17;
            ASSERT_EQ(std::isfinite(out), !(sees && none))
                << s.name() << (which == 0 ? ", key " : ", value ") << bad << ", token " << t << ", output "
                << i << " is " << out;
          }
        }
      }
    }
  }
}

// Rows ahead of one whose values are no numbers, in its step and tile, that look at what is 16 places back.
TEST_P(KernelAttention, ALaterRowThatIsNoneHidesNothing) {
  const Shape s = {4, 2, 64, 16, false, kB16};
  for (const int64_t bad : {17, 33, 49, 63}) {
    for (const int64_t rows : {3, 8, 40}) {
      const int64_t tokens = bad + 1, from = std::max<int64_t>(tokens - rows, 0);
      const auto sharp = [&](Sequence& x) {  // the step's queries are like the key of what is 16 places ahead
        for (float& w : x.q_norm) w *= 8.f;
        for (int64_t t = from; t < tokens; ++t) {
          const float* key = x.k.data() + (bad - 16) * x.kv_width();
          for (int64_t h = 0; h < s.q_heads; ++h) {
            std::copy_n(key + h / 2 * s.head_dim, s.head_dim, x.q.data() + t * x.q_width() + h * s.head_dim);
          }
        }
      };
      Sequence good = make_sequence(s, tokens, 5), spoilt = make_sequence(s, tokens, 5);
      std::fill_n(spoilt.v.data() + bad * spoilt.kv_width(), spoilt.kv_width(), std::nanf(""));
      for (Sequence* x : {&good, &spoilt}) {
        sharp(*x);
        if (from > 0) step(*k, {{x, 0, from}}, 1);
        step(*k, {{x, from, tokens - from}}, 1);
      }
      const auto ahead = static_cast<size_t>(bad * good.out_width());
      SCOPED_TRACE("place " + std::to_string(bad) + ", " + std::to_string(rows) + " rows");
      EXPECT_TRUE(same_bits(spoilt.out.data(), good.out.data(), ahead));
      EXPECT_TRUE(std::isnan(spoilt.out[ahead]));
    }
  }
}

// Rows that f16 could not hold, rows of nothing, rows that are too large to be multiplied, and rows whose
// largest values round up to more bits than there are.
TEST_P(KernelAttention, RowsOfAnySizeAreStored) {
  const Shape s = {2, 1, 64, 64, false, kB16};
  const int64_t tokens = 40;
  Sequence x = make_sequence(s, tokens, 9);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < s.head_dim; ++i) {
      float& v = x.v[t * s.head_dim + i];
      if (t % 8 == 0) v = t == 0 ? 0.f : 1e-42f;
      if (t % 8 == 1) v = std::ldexp(v, 7 * static_cast<int>(t) - 125);
      if (t % 8 == 2) v = i % 2 == 0 ? -0x1.fffffep+3f : 0x1.fffffep+3f;
      if (t % 8 == 3) v = i == t % 64 ? 0x1.fffffep+3f : 1e-4f * v;
    }
  }
  step(*k, {{&x, 0, tokens}}, 1);
  for (int64_t t = 0; t < tokens; ++t) {
    SCOPED_TRACE("token " + std::to_string(t));
    const float* row = x.v.data() + t * s.head_dim;
    const std::vector<double> want(row, row + s.head_dim), got = cached(x, 1, 0, t);
    if (t % 8 == 0) {
      ASSERT_EQ(got, std::vector<double>(s.head_dim)) << "a row of nothing, or of less than 2^-126";
      continue;
    }
    if (std::any_of(want.begin(), want.end(), [](double v) { return std::abs(v) >= 0x1p101; })) {
      ASSERT_EQ(t, 33);
      ASSERT_TRUE(std::isnan(got[0])) << "a row that would leave the range of products";
      continue;
    }
    check_integers(got, want, qrt::IntegerRow::kValueBits);
    if (HasFatalFailure()) return;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(x.out.size()); ++i) {
    ASSERT_EQ(std::isnan(x.out[i]), i / x.out_width() >= 33) << "output " << i << " is " << x.out[i];
  }
}

// What a session that comes from a GPU brings (runtime/engine/kv_form.h) is what a kernel stores of the same
// values, bit for bit.
TEST_P(KernelAttention, RowsOfHalvesBecomeTheStoresOwn) {
  const Shape s = {2, 1, 64, 64, false, kB16};
  const int64_t tokens = 40;
  Sequence x = make_sequence(s, tokens, 11);
  std::vector<uint16_t> rows;
  for (size_t i = 0; i < x.v.size(); ++i) {
    // Rows of all sizes that f16 has, and with ties.
    rows.push_back(float_to_half(std::ldexp(x.v[i], static_cast<int>(i / 64) - 24)));
    x.v[i] = half_to_float(rows[i]);
  }
  step(*k, {{&x, 0, tokens}}, 1, /*attends=*/false);
  qrt::IntegersFromHalves(rows, static_cast<uint64_t>(s.head_dim), qrt::IntegerRow::kValueBits);
  const uint8_t* stored = x.kv.data() + (kOffset + 2 * s.head_dim) * x.capacity;
  for (size_t i = 0; i < rows.size(); ++i) {
    uint16_t element;
    std::memcpy(&element, stored + 2 * i, sizeof element);
    ASSERT_EQ(element, rows[i]) << "token " << i / 64 << ", value " << i % 64 << " of " << x.v[i];
  }
}

// A gate that is no number makes its output none, and no other.
TEST_P(KernelAttention, NoNumberOfAGateHides) {
  const Shape s = {4, 2, 64, 64, true, kF16};
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
    Shape s = {4, 2, 64, 64, false, kF32};
    Sequence right = make_sequence(s, 40, 5);
    s.kv = kB16;
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
