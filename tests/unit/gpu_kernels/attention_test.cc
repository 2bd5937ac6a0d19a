// attention against double arithmetic; equal bits in every bucket, beside any mates, and whatever the split
// of a prompt.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr int64_t kOffset = 32;  // bytes per token of another layer before this one

struct Shape {
  int64_t q_heads, kv_heads, head_dim;
  bool gated, f16;
  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_dim) + (gated ? ", gated" : "") + (f16 ? ", f16" : ", f32");
  }
  float scale() const { return 1.f / std::sqrt(static_cast<float>(head_dim)); }
};

// A sequence with `tokens` tokens in the cache and the queries of all of them.
struct Sequence {
  Shape s;
  int64_t tokens, capacity;
  std::vector<float> keys, values;  // [kv_heads][tokens][head_dim], as the cache holds them
  std::vector<float> q, gate;       // per token
  std::vector<uint8_t> cache;       // the rest: 0xff, NaN in both formats
};

Sequence MakeSequence(const Shape& s, int64_t tokens, uint64_t seed) {
  Random random(seed);
  Sequence x{s, tokens, tokens + 5, {}, {}, {}, {}, {}};
  const int64_t n = s.kv_heads * tokens * s.head_dim, element = s.f16 ? 2 : 4;
  x.keys = random.Normals(n);
  x.values = random.Normals(n);
  x.q = random.Normals(tokens * s.q_heads * s.head_dim);
  for (float& q : x.q) q *= 2.f;
  x.gate = random.Normals(tokens * s.q_heads * s.head_dim * 2);
  x.cache.assign(static_cast<size_t>(x.capacity * (kOffset + 2 * s.kv_heads * s.head_dim * element)), 0xff);
  for (int which = 0; which < 2; ++which) {
    std::vector<float>& from = which ? x.values : x.keys;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t head = i / (tokens * s.head_dim), rest = i % (tokens * s.head_dim);
      uint8_t* to = x.cache.data() + kOffset * x.capacity +
                    ((which * s.kv_heads + head) * x.capacity * s.head_dim + rest) * element;
      if (s.f16) {
        const uint16_t half = float_to_half(from[i]);
        from[i] = half_to_float(half);
        std::memcpy(to, &half, 2);
      } else {
        std::memcpy(to, &from[i], 4);
      }
    }
  }
  return x;
}

std::vector<double> Reference(const Sequence& x, int64_t t) {
  const Shape& s = x.s;
  std::vector<double> out;
  for (int64_t h = 0; h < s.q_heads; ++h) {
    const int64_t kv = h / (s.q_heads / s.kv_heads), at = t * s.q_heads + h;
    std::vector<double> p(static_cast<size_t>(t + 1)), o(static_cast<size_t>(s.head_dim));
    double top = -1e300, sum = 0;
    for (int64_t j = 0; j <= t; ++j) {
      const float* k = x.keys.data() + (kv * x.tokens + j) * s.head_dim;
      for (int64_t i = 0; i < s.head_dim; ++i) p[j] += static_cast<double>(x.q[at * s.head_dim + i]) * k[i];
      p[j] *= s.scale();
      top = std::max(top, p[j]);
    }
    for (int64_t j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - top);
    for (int64_t j = 0; j <= t; ++j) {
      const float* v = x.values.data() + (kv * x.tokens + j) * s.head_dim;
      for (int64_t i = 0; i < s.head_dim; ++i) o[i] += p[j] / sum * v[i];
    }
    for (int64_t i = 0; i < s.head_dim; ++i) {
      const double gate = x.gate[(at * 2 + 1) * s.head_dim + i];
      out.push_back(s.gated ? o[i] / (1 + std::exp(-gate)) : o[i]);
    }
  }
  return out;
}

struct Piece {
  const Sequence* seq;
  int64_t past, rows;
};

// One step; the outputs of its rows.
std::vector<float> Attend(const Profile& profile, const std::vector<Piece>& pieces, int64_t bucket) {
  const Shape& s = pieces[0].seq->s;
  const int64_t width = s.q_heads * s.head_dim;
  Sandbox box(profile, bucket);
  std::vector<float> q, gate;
  for (const Piece& p : pieces) {
    StepRows::Sequence seq;
    seq.past = static_cast<uint32_t>(p.past);
    seq.rows = static_cast<uint32_t>(p.rows);
    seq.kv_capacity = static_cast<uint64_t>(p.seq->capacity);
    auto* kv = box.Outside(p.seq->cache.size());
    std::copy(p.seq->cache.begin(), p.seq->cache.end(), kv);
    seq.kv = kv;
    box.step.sequences.push_back(seq);
    q.insert(q.end(), p.seq->q.begin() + p.past * width, p.seq->q.begin() + (p.past + p.rows) * width);
    gate.insert(gate.end(), p.seq->gate.begin() + 2 * p.past * width,
                p.seq->gate.begin() + 2 * (p.past + p.rows) * width);
  }
  q.resize(static_cast<size_t>(bucket * width), NAN);
  gate.resize(static_cast<size_t>(2 * bucket * width), NAN);
  Dispatch<plan::AttentionSpec> d;
  d.spec = {.q_heads = s.q_heads,
            .kv_heads = s.kv_heads,
            .head_dim = s.head_dim,
            .scale = s.scale(),
            .gated = s.gated,
            .kv = s.f16 ? plan::KvElement::F16 : plan::KvElement::F32};
  d.rows = bucket;
  d.bindings.q = box.Arena(q);
  if (s.gated) d.bindings.gate = box.Arena(gate);
  d.bindings.kv = Number(kOffset);
  d.bindings.out = box.Arena(static_cast<uint64_t>(4 * bucket * width));
  EXPECT_EQ(box.Run(Expand_attention, d), "");
  std::vector<float> out = box.Read<float>(*d.bindings.out);
  for (size_t i = static_cast<size_t>(box.step.rows() * width); i < out.size(); ++i) {
    if (!std::isnan(out[i])) {
      ADD_FAILURE() << "written beyond the step's rows, at " << i;
      break;
    }
  }
  out.resize(static_cast<size_t>(box.step.rows() * width));
  return out;
}

void CheckRow(const Sequence& x, int64_t t, const float* got) {
  const std::vector<double> want = Reference(x, t);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 5e-6)
        << "token " << t << ", head " << i / x.s.head_dim << ", dim " << i % x.s.head_dim;
  }
}

bool SameBits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

const Shape kShapes[] = {{4, 2, 32, true, false},  {6, 2, 64, false, true},  {4, 1, 256, true, true},
                         {2, 2, 40, true, false},  {5, 1, 128, false, true}, {16, 1, 64, true, true},
                         {11, 1, 8, false, false}, {2, 1, 512, false, true}, {70, 1, 8, true, true}};

class Attention : public testing::TestWithParam<Profile> {
 protected:
  static std::vector<Shape> Shapes() {
    std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
    // More query heads of a kv head than a block has queries.
    if (GetParam().matrix.kind == MatrixUnits::Kind::kMma) shapes.push_back({36, 1, 64, false, true});
    return shapes;
  }
};
// And one with matrix units, on which heads of 64, 128 and 256 halves go another way.
std::vector<Profile> AttentionProfiles() {
  std::vector<Profile> profiles = TestProfiles();
  profiles.push_back(FindProfile("sm80")->profile);
  return profiles;
}
INSTANTIATE_TEST_SUITE_P(Profiles, Attention, testing::ValuesIn(AttentionProfiles()), [](const auto& info) {
  return "p" + std::to_string(info.param.subgroup) +
         (info.param.matrix.kind == MatrixUnits::Kind::kMma ? "Matrix" : "");
});

TEST_P(Attention, DecodeValuesAndEqualBitsInEveryBucket) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim;
    const Sequence a = MakeSequence(s, 100, 1), b = MakeSequence(s, 33, 2), c = MakeSequence(s, 1, 3);
    const std::vector<float> a1 = Attend(GetParam(), {{&a, 99, 1}}, 1),
                             b1 = Attend(GetParam(), {{&b, 31, 1}}, 1),
                             c1 = Attend(GetParam(), {{&c, 0, 1}}, 1),
                             b2 = Attend(GetParam(), {{&b, 32, 1}}, 2);
    CheckRow(a, 99, a1.data());
    CheckRow(b, 31, b1.data());
    CheckRow(c, 0, c1.data());
    CheckRow(b, 32, b2.data());
    if (HasFatalFailure()) return;
    for (int64_t bucket : {4, 8}) {
      const std::vector<float> all = Attend(GetParam(), {{&c, 0, 1}, {&b, 31, 2}, {&a, 99, 1}}, bucket);
      EXPECT_TRUE(SameBits(all.data(), c1.data(), width)) << "bucket of " << bucket;
      EXPECT_TRUE(SameBits(all.data() + width, b1.data(), width)) << "bucket of " << bucket;
      EXPECT_TRUE(SameBits(all.data() + 2 * width, b2.data(), width)) << "bucket of " << bucket;
      EXPECT_TRUE(SameBits(all.data() + 3 * width, a1.data(), width)) << "bucket of " << bucket;
    }
  }
}

// A key or a gate that is no number makes what sees it none, and the other heads' outputs are as ever.
TEST_P(Attention, NoNumberHides) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim, group = s.q_heads / s.kv_heads;
    Sequence x = MakeSequence(s, 40, 1);
    const int64_t element = s.f16 ? 2 : 4, bad_head = s.kv_heads - 1;
    const uint32_t bits = s.f16 ? 0x7e00 : 0x7fc00000;
    std::memcpy(
        x.cache.data() + kOffset * x.capacity + ((bad_head * x.capacity + 35) * s.head_dim + 3) * element,
        &bits, static_cast<size_t>(element));
    x.gate[static_cast<size_t>(((20 * s.q_heads) * 2 + 1) * s.head_dim + 2)] = NAN;
    for (const bool together : {false, true}) {
      const std::vector<int64_t> tokens = {20, 34, 36, 39};
      const std::vector<float> all = together ? Attend(GetParam(), {{&x, 0, 40}}, 40) : std::vector<float>();
      for (const int64_t t : tokens) {
        const std::vector<float> one = together ? std::vector<float>() : Attend(GetParam(), {{&x, t, 1}}, 1);
        const float* row = together ? all.data() + t * width : one.data();
        for (int64_t i = 0; i < width; ++i) {
          const bool key = t >= 35 && i / s.head_dim / group == bad_head;
          const bool gate = s.gated && t == 20 && i == 2;
          ASSERT_EQ(std::isnan(row[i]), key || gate)
              << (together ? "prefill" : "decode") << ", token " << t << ", output " << i << " is " << row[i];
        }
      }
    }
  }
}

// A value that is no number is so for the rows that see it, in its own element; the others have their bits,
// though they are of the same step, block and tile.
TEST_P(Attention, ALaterValueThatIsNoneHidesNothing) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim, group = s.q_heads / s.kv_heads, element = s.f16 ? 2 : 4;
    const Sequence good = MakeSequence(s, 70, 1), mate = MakeSequence(s, 70, 2);
    for (const bool infinite : {true, false}) {
      const int64_t place = infinite ? 35 : 9, from = infinite ? 30 : 0, rows = 39, head = s.kv_heads - 1;
      const uint32_t bits = infinite ? (s.f16 ? 0x7c00u : 0xff800000u) : (s.f16 ? 0xfe01u : 0x7fc00000u);
      SCOPED_TRACE("place " + std::to_string(place));
      Sequence spoilt = good;
      std::memcpy(spoilt.cache.data() + kOffset * spoilt.capacity +
                      (((s.kv_heads + head) * spoilt.capacity + place) * s.head_dim + 5) * element,
                  &bits, static_cast<size_t>(element));
      const std::vector<float> want = Attend(GetParam(), {{&good, from, rows}, {&mate, 11, 3}}, 42),
                               got = Attend(GetParam(), {{&spoilt, from, rows}, {&mate, 11, 3}}, 42);
      for (size_t i = 0; i < want.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / width, of_row = static_cast<int64_t>(i) % width;
        const bool none = row < rows && from + row >= place && of_row / s.head_dim / group == head &&
                          of_row % s.head_dim == 5;
        ASSERT_TRUE(none ? !std::isfinite(got[i]) : std::memcmp(&want[i], &got[i], 4) == 0)
            << "row " << row << ", output " << of_row << " is " << got[i] << ", was " << want[i];
      }
    }
  }
}

// Scores of -1e32 and less are numbers as others are.
TEST_P(Attention, GreatNegativeScores) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim;
    Sequence x = MakeSequence(s, 40, 1);
    // The first element alone makes the scores; the later a token, the greater.
    const int64_t element = s.f16 ? 2 : 4;
    for (int64_t head = 0; head < s.kv_heads; ++head) {
      for (int64_t t = 0; t < x.tokens; ++t) {
        for (int64_t i = 0; i < s.head_dim; ++i) {
          const float key = i == 0 ? static_cast<float>(t - 64) : 0.f;
          const uint16_t half = float_to_half(key);
          x.keys[static_cast<size_t>((head * x.tokens + t) * s.head_dim + i)] = key;
          std::memcpy(x.cache.data() + kOffset * x.capacity +
                          ((head * x.capacity * s.head_dim) + t * s.head_dim + i) * element,
                      s.f16 ? static_cast<const void*>(&half) : &key, static_cast<size_t>(element));
        }
      }
    }
    for (size_t i = 0; i < x.q.size(); i += static_cast<size_t>(s.head_dim)) x.q[i] = 1e34f;
    const std::vector<float> all = Attend(GetParam(), {{&x, 0, 40}}, 40);
    for (const int64_t t : {0, 1, 31, 32, 39}) {
      CheckRow(x, t, all.data() + t * width);
      CheckRow(x, t, Attend(GetParam(), {{&x, t, 1}}, 1).data());
      if (HasFatalFailure()) return;
    }
  }
}

// More tiles than splits: chunks of one tile and of several, also among the rows of one block.
TEST_P(Attention, ChunksGrowWithThePosition) {
  std::vector<Shape> shapes = {{2, 1, 32, false, true}, {8, 8, 8, true, false}};
  if (GetParam().matrix.kind == MatrixUnits::Kind::kMma) shapes = {{4, 2, 64, false, true}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim, spread = s.kv_heads <= 4 ? 32 : 16;
    for (int64_t edge : {spread * 32, spread * 64}) {
      const Sequence x = MakeSequence(s, edge + 50, 4);
      const int64_t from = edge - 10;
      const std::vector<float> block = Attend(GetParam(), {{&x, from, 40}}, 40);
      for (int64_t t : {from, edge - 1, edge, from + 39}) {
        const float* row = block.data() + (t - from) * width;
        CheckRow(x, t, row);
        if (HasFatalFailure()) return;
        const std::vector<float> one = Attend(GetParam(), {{&x, t, 1}}, 1);
        EXPECT_TRUE(SameBits(one.data(), row, width)) << "token " << t;
      }
    }
  }
}

// Chunks of four tiles (128 positions) become more, from 32 on; where there are as many as threads that
// combine them, they become longer.
TEST(AttentionChunks, AreManyOfFourTilesFirst) {
  const std::pair<const char*, Shape> cases[] = {{"sg32", {1, 1, 72, false, true}},
                                                 {"sm80", {2, 1, 128, false, true}}};
  for (const auto& [profile, s] : cases) {
    SCOPED_TRACE(profile);
    for (const int64_t edge : {int64_t{32 * 128}, int64_t{128 * 128}}) {
      const int64_t width = s.q_heads * s.head_dim, rows = 9, from = edge - 3;
      const Sequence x = MakeSequence(s, edge + rows, 4);
      const auto attend = [&](int64_t first, int64_t count) {
        return Attend(FindProfile(profile)->profile, {{&x, first, count}}, count);
      };
      const std::vector<float> block = attend(from, rows);
      for (const int64_t t : {edge - 1, edge}) {
        const float* row = block.data() + (t - from) * width;
        CheckRow(x, t, row);
        EXPECT_TRUE(SameBits(attend(t, 1).data(), row, width)) << "token " << t;
      }
    }
  }
}

TEST_P(Attention, PrefillValuesAndSplits) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim, tokens = 40;
    const Sequence x = MakeSequence(s, tokens, 5);
    const std::vector<float> whole = Attend(GetParam(), {{&x, 0, tokens}}, tokens);
    for (int64_t t = 0; t < tokens; ++t) {
      CheckRow(x, t, whole.data() + t * width);
      if (HasFatalFailure()) return;
    }
    // Rows at other places of a block, fewer than the bucket has.
    for (int64_t t : {int64_t{0}, int64_t{3}, int64_t{31}}) {
      const std::vector<float> part = Attend(GetParam(), {{&x, t, tokens - t}}, tokens + 2);
      EXPECT_TRUE(SameBits(part.data(), whole.data() + t * width, (tokens - t) * width))
          << "from token " << t;
    }
    for (int64_t t : {int64_t{0}, int64_t{31}, tokens - 1}) {
      const std::vector<float> one = Attend(GetParam(), {{&x, t, 1}}, 1);
      EXPECT_TRUE(SameBits(one.data(), whole.data() + t * width, width)) << "token " << t << " alone";
    }
  }
}

// Of all rows of a sequence.
double Nmse(const Sequence& x, const std::vector<float>& got) {
  double error = 0, power = 0;
  for (int64_t t = 0; t < x.tokens; ++t) {
    const std::vector<double> want = Reference(x, t);
    for (size_t i = 0; i < want.size(); ++i) {
      const double off = got[static_cast<size_t>(t) * want.size() + i] - want[i];
      error += off * off;
      power += want[i] * want[i];
    }
  }
  return error / power;
}

// Halves in two terms: as close as f32, whatever the size of queries.
TEST(AttentionOnMatrixUnits, IsAsCloseAsFloats) {
  for (const Shape& s : {Shape{4, 2, 64, false, true}, {4, 1, 128, false, true}, {4, 1, 256, true, true}}) {
    for (const float size : {0x1p-70f, 1.f, 8.f}) {
      SCOPED_TRACE(s.name() + ", queries times " + std::to_string(size));
      Sequence x = MakeSequence(s, 50, 7);
      for (float& q : x.q) q *= size;
      const auto attend = [&](const char* profile) {
        return Attend(FindProfile(profile)->profile, {{&x, 0, x.tokens}}, x.tokens);
      };
      const std::vector<float> sm80 = attend("sm80");
      EXPECT_LT(Nmse(x, sm80), 1.5 * Nmse(x, attend("sm61")));
      EXPECT_EQ(attend("sm90"), sm80);
    }
  }
}

// Rows have the same bits in every bucket only if all buckets go the same way.
TEST(AttentionOnMatrixUnits, TakeAllBucketsOrNone) {
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  for (const char* profile : {"sm61", "sm80", "sm90", "sg32-matrix32"}) {
    Sandbox box(FindProfile(profile)->profile, 512);
    for (const plan::KvElement kv : {plan::KvElement::F16, plan::KvElement::F32}) {
      for (const int64_t dim : {32, 64, 80, 96, 128, 256, 512}) {
        const plan::AttentionSpec spec = {
            .q_heads = 8, .kv_heads = 2, .head_dim = dim, .scale = 0.125f, .kv = kv};
        const bool units = std::string(profile).substr(0, 2) == "sm" && std::string(profile) != "sm61";
        const bool want = units && kv == plan::KvElement::F16 && (dim == 64 || dim == 128 || dim == 256);
        for (const int64_t rows : {1, 8, 9, 512}) {
          const std::string name = Expand_attention(Anywhere(spec, rows, somewhere), box)[0].name;
          EXPECT_EQ(name.find("_matrix") != std::string::npos, want) << profile << " " << name;
        }
      }
    }
  }
}

TEST_P(Attention, PrefillBlocksMayHoldSeveralSequences) {
  for (const Shape& s : {kShapes[0], kShapes[2], kShapes[4]}) {
    SCOPED_TRACE(s.name());
    const int64_t width = s.q_heads * s.head_dim;
    std::vector<Sequence> sequences;
    std::vector<Piece> pieces;
    const int64_t lengths[] = {1, 17, 70, 3, 33, 64, 2}, rows[] = {1, 5, 13, 3, 1, 1, 1};
    for (size_t i = 0; i < std::size(lengths); ++i) sequences.push_back(MakeSequence(s, lengths[i], 10 + i));
    for (size_t i = 0; i < std::size(lengths); ++i) {
      pieces.push_back({&sequences[i], lengths[i] - rows[i], rows[i]});
    }
    const std::vector<float> all = Attend(GetParam(), pieces, 40);
    int64_t row = 0;
    for (const Piece& p : pieces) {
      const std::vector<float> alone = Attend(GetParam(), {p}, 16);
      EXPECT_TRUE(SameBits(alone.data(), all.data() + row * width, p.rows * width)) << "rows from " << row;
      for (int64_t t = p.past; t < p.past + p.rows; ++t, ++row) {
        CheckRow(*p.seq, t, all.data() + row * width);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
