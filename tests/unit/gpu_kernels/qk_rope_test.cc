// qk_norm_rope_store against double arithmetic: queries, and what stands in the cache.
#include <cmath>
#include <cstring>

#include "tests/unit/gpu_kernels/gpu_fixture.h"
#include "tests/unit/gpu_kernels/head_shape.h"

namespace qcc::gpu {
namespace {

using Shape = HeadShape;
struct Piece {
  uint32_t past, rows;
};

std::vector<double> NormRope(const float* src, const std::vector<float>& weight, const float* rope,
                             int64_t dim, int64_t rot) {
  double sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += static_cast<double>(src[i]) * src[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(dim) + kHeadEps);
  std::vector<double> n(static_cast<size_t>(dim)), r;
  for (int64_t i = 0; i < dim; ++i) n[i] = src[i] * scale * weight[i];
  r = n;
  const int64_t half = rot / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double c = rope[i], s = rope[half + i];
    r[i] = n[i] * c - n[i + half] * s;
    r[i + half] = n[i] * s + n[i + half] * c;
  }
  return r;
}

void CheckStep(const Profile& profile, const Shape& s, const std::vector<Piece>& pieces, int64_t bucket) {
  SCOPED_TRACE(profile.name + ", " + s.name() + ", bucket of " + std::to_string(bucket));
  const int64_t element = s.f16 ? 2 : 4, row_bytes = s.head_dim * element;
  const int64_t q_width = s.q_heads * s.head_dim * (s.gated ? 2 : 1), kv_width = s.kv_heads * s.head_dim;
  Random random(3);
  const auto q = random.Normals(bucket * q_width), k = random.Normals(bucket * kv_width),
             v = random.Normals(bucket * kv_width), rope = random.Normals(bucket * s.rot_dims),
             q_norm = random.Normals(s.head_dim), k_norm = random.Normals(s.head_dim);

  Sandbox box(profile, bucket + 3);
  std::vector<uint8_t*> caches;
  std::vector<uint64_t> sizes;
  for (const Piece& p : pieces) {
    StepRows::Sequence seq;
    seq.past = p.past;
    seq.rows = p.rows;
    seq.kv_capacity = p.past + p.rows + 3;
    const uint64_t bytes = seq.kv_capacity * static_cast<uint64_t>(kKvOffset + 2 * s.kv_heads * row_bytes);
    sizes.push_back(bytes);
    caches.push_back(box.Outside(bytes));
    std::memset(caches.back(), 0xff, bytes);
    seq.kv = caches.back();
    box.step.sequences.push_back(seq);
  }
  Dispatch<plan::QkNormRopeStoreSpec> d;
  d.spec = s.spec();
  d.rows = bucket;
  d.bindings.q = box.Arena(q);
  d.bindings.k = box.Arena(k);
  d.bindings.v = box.Arena(v);
  d.bindings.q_norm = box.Weights(q_norm);
  d.bindings.k_norm = box.Weights(k_norm);
  d.bindings.rope = box.Arena(rope);
  d.bindings.out = box.Arena(static_cast<uint64_t>(4 * bucket * s.q_heads * s.head_dim));
  d.bindings.kv = Number(kKvOffset);
  ASSERT_EQ(box.Run(Expand_qk_norm_rope_store, d), "");

  const std::vector<float> out = box.Read<float>(*d.bindings.out);
  int64_t row = 0;
  for (size_t p = 0; p < pieces.size(); ++p) {
    const int64_t capacity = static_cast<int64_t>(box.step.sequences[p].kv_capacity);
    const uint8_t* cache = caches[p] + kKvOffset * capacity;
    const auto cached = [&](int64_t which, int64_t head, int64_t at, int64_t i) {
      const uint8_t* place = cache + ((which * s.kv_heads + head) * capacity + at) * row_bytes + i * element;
      uint16_t half;
      float value;
      std::memcpy(&half, place, 2);
      if (s.f16) return half_to_float(half);
      std::memcpy(&value, place, 4);
      return value;
    };
    int64_t written = 0;
    for (uint32_t t = 0; t < pieces[p].rows; ++t, ++row) {
      const float* angles = rope.data() + row * s.rot_dims;
      for (int64_t h = 0; h < s.q_heads; ++h) {
        const float* src = q.data() + (row * s.q_heads + h) * s.head_dim * (s.gated ? 2 : 1);
        const auto want = NormRope(src, q_norm, angles, s.head_dim, s.rot_dims);
        for (int64_t i = 0; i < s.head_dim; ++i) {
          ASSERT_NEAR(out[(row * s.q_heads + h) * s.head_dim + i], want[i], 1e-6 * (1 + std::abs(want[i])))
              << "row " << row << ", head " << h << ", dim " << i;
        }
      }
      for (int64_t h = 0; h < s.kv_heads; ++h) {
        const auto want =
            NormRope(k.data() + (row * s.kv_heads + h) * s.head_dim, k_norm, angles, s.head_dim, s.rot_dims);
        for (int64_t i = 0; i < s.head_dim; ++i) {
          const double slack = s.f16 ? 5e-4 * (std::abs(want[i]) + 1e-3) : 1e-6 * (1 + std::abs(want[i]));
          ASSERT_NEAR(cached(0, h, pieces[p].past + t, i), want[i], slack)
              << "key of row " << row << ", dim " << i;
          const float value = v[(row * s.kv_heads + h) * s.head_dim + i];
          ASSERT_EQ(cached(1, h, pieces[p].past + t, i), s.f16 ? half_to_float(float_to_half(value)) : value)
              << "value of row " << row << ", dim " << i;
          written += 2 * element;
        }
      }
    }
    int64_t untouched = 0;
    for (uint64_t i = 0; i < sizes[p]; ++i) untouched += caches[p][i] == 0xff;
    // Bytes of written values may be 0xff, too; nothing else may be anything else.
    EXPECT_GE(untouched, static_cast<int64_t>(sizes[p]) - written);
  }
  for (int64_t i = row * s.q_heads * s.head_dim; i < static_cast<int64_t>(out.size()); ++i) {
    ASSERT_TRUE(std::isnan(out[i])) << "beyond the step's rows, at " << i;
  }
}

TEST(QkNormRopeStore, Values) {
  for (const Profile& profile : TestProfiles()) {
    for (const Shape& s : {Shape{4, 2, 32, 16, true, false}, Shape{2, 1, 256, 64, true, true},
                           Shape{3, 1, 128, 128, false, true}, Shape{1, 1, 40, 8, false, false},
                           Shape{2, 2, 8, 0, true, true}, Shape{1, 1, 512, 128, false, true}}) {
      CheckStep(profile, s, {{0, 1}}, 1);
      CheckStep(profile, s, {{7, 3}, {0, 2}, {30, 1}}, 8);
    }
  }
}

TEST(QkNormRopeStore, RowsOfManySequences) {
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < 40; ++i) pieces.push_back({i * 3, 1});
  CheckStep(TestProfiles()[0], {2, 1, 64, 32, true, true}, pieces, 40);
}

TEST(QkNormRopeStore, RefusesWhatItCannotDo) {
  Sandbox box(TestProfiles()[0], 1);
  Dispatch<plan::QkNormRopeStoreSpec> d;
  d.spec = {.q_heads = 1, .kv_heads = 1, .head_dim = 36, .rot_dims = 4};
  d.rows = 1;
  EXPECT_TRUE(Expand_qk_norm_rope_store(d, box).empty());
}

}  // namespace
}  // namespace qcc::gpu
