// Attention of one row that makes its heads: the bits, in outputs and cache, of qk_norm_rope_store ahead of
// it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/gpu/kernels/attention.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"
#include "tests/unit/gpu_kernels/head_shape.h"

namespace qcc::gpu {
namespace {

using Shape = HeadShape;

struct Result {
  std::vector<float> out;
  std::vector<uint8_t> cache;
  bool operator==(const Result& other) const {
    return out.size() == other.out.size() && std::memcmp(out.data(), other.out.data(), 4 * out.size()) == 0 &&
           cache == other.cache;
  }
};

// Row `past` of a sequence whose cache holds the rows before it. Nothing where the attention does not make
// heads of that shape.
std::optional<Result> Attend(const Profile& profile, const Shape& s, int64_t past, bool makes) {
  Random random(static_cast<uint64_t>(past + 7 * s.head_dim));
  Sandbox box(profile, 1);
  const int64_t capacity = past + 9, width = s.q_heads * s.head_dim, element = s.f16 ? 2 : 4;
  StepRows::Sequence seq;
  seq.past = static_cast<uint32_t>(past);
  seq.rows = 1;
  seq.kv_capacity = static_cast<uint64_t>(capacity);
  const size_t bytes = static_cast<size_t>(capacity * (kKvOffset + 2 * s.kv_heads * s.head_dim * element));
  auto* kv = box.Outside(bytes);
  std::memset(kv, 0xff, bytes);  // NaN in both formats
  for (int64_t head = 0; head < 2 * s.kv_heads; ++head) {
    for (int64_t i = 0; i < past * s.head_dim; ++i) {
      const float value = random.Normals(1)[0];
      uint8_t* to = kv + kKvOffset * capacity + (head * capacity * s.head_dim + i) * element;
      const uint16_t half = float_to_half(value);
      std::memcpy(to, s.f16 ? static_cast<const void*>(&half) : &value, static_cast<size_t>(element));
    }
  }
  seq.kv = kv;
  box.step.sequences.push_back(seq);

  Dispatch<plan::QkNormRopeStoreSpec> heads;
  heads.spec = s.spec();
  heads.rows = 1;
  heads.bindings.q = box.Arena(random.Normals(width * (s.gated ? 2 : 1)));
  heads.bindings.k = box.Arena(random.Normals(s.kv_heads * s.head_dim));
  heads.bindings.v = box.Arena(random.Normals(s.kv_heads * s.head_dim));
  heads.bindings.q_norm = box.Weights(random.Normals(s.head_dim));
  heads.bindings.k_norm = box.Weights(random.Normals(s.head_dim));
  heads.bindings.rope = box.Arena(random.Normals(std::max<int64_t>(s.rot_dims, 4)));
  heads.bindings.out = box.Arena(static_cast<uint64_t>(4 * width));
  heads.bindings.kv = Number(kKvOffset);

  Dispatch<plan::AttentionSpec> d;
  d.spec = {.q_heads = s.q_heads,
            .kv_heads = s.kv_heads,
            .head_dim = s.head_dim,
            .scale = 1.f / std::sqrt(static_cast<float>(s.head_dim)),
            .gated = s.gated,
            .kv = s.kv()};
  d.rows = 1;
  d.bindings.q = heads.bindings.out;
  if (s.gated) d.bindings.gate = heads.bindings.q;
  d.bindings.kv = Number(kKvOffset);
  d.bindings.out = box.Arena(static_cast<uint64_t>(4 * width));
  const std::string what = profile.name + ", " + s.name() + ", past " + std::to_string(past);
  if (makes) {
    const std::vector<Launch> launches = ExpandMakingHeads(d,
                                                           {.spec = heads.spec,
                                                            .q = *heads.bindings.q,
                                                            .k = *heads.bindings.k,
                                                            .v = *heads.bindings.v,
                                                            .q_norm = *heads.bindings.q_norm,
                                                            .k_norm = *heads.bindings.k_norm,
                                                            .rope = *heads.bindings.rope,
                                                            .kv = *heads.bindings.kv},
                                                           box);
    if (launches.empty()) return std::nullopt;
    EXPECT_EQ(launches.size(), 2u) << what;
    EXPECT_EQ(box.Run(launches), "") << what;
  } else {
    EXPECT_EQ(box.Run(Expand_qk_norm_rope_store, heads), "") << what;
    EXPECT_EQ(box.Run(Expand_attention, d), "") << what;
  }
  return Result{box.Read<float>(*d.bindings.out), std::vector<uint8_t>(kv, kv + bytes)};
}

std::vector<Profile> Profiles() {
  std::vector<Profile> profiles = TestProfiles();
  profiles.push_back(FindProfile("sm80")->profile);  // on matrix units
  return profiles;
}

TEST(AttentionHeads, OfItsOwnGiveTheBitsOfALaunchBefore) {
  const Shape shapes[] = {{4, 2, 32, 16, true, false},   {6, 2, 64, 64, false, true},
                          {4, 1, 256, 64, true, true},   {3, 3, 40, 0, true, false},
                          {4, 1, 128, 128, false, true}, {8, 2, 256, 64, true, true},
                          {2, 1, 200, 64, false, false}};
  for (const Profile& profile : Profiles()) {
    for (const Shape& s : shapes) {
      // The first token; the last of a tile, the first of one; several chunks, of which the last is short.
      for (int64_t past : {0, 31, 32, 140}) {
        const std::optional<Result> expected = Attend(profile, s, past, false),
                                    found = Attend(profile, s, past, true);
        ASSERT_TRUE(found) << profile.name << ", " << s.name();
        ASSERT_TRUE(*found == *expected) << profile.name << ", " << s.name() << ", past " << past;
      }
    }
  }
}

// Where a kv head's queries are of several workgroups, nobody knows who would store its key for the others.
TEST(AttentionHeads, AreLeftToALaunchBefore) {
  const Shape many = {16, 2, 64, 64, false, true}, wide = {2, 1, 512, 64, false, false};
  for (const Profile& profile : Profiles()) {
    const bool on_matrix_units = profile.matrix.kind == MatrixUnits::Kind::kMma;
    EXPECT_EQ(Attend(profile, many, 3, true).has_value(), on_matrix_units) << profile.name;
    EXPECT_FALSE(Attend(profile, wide, 3, true)) << profile.name;
  }
}

}  // namespace
}  // namespace qcc::gpu
