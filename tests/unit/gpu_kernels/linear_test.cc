// linear on the interpreter: values against a reference in double precision; equal bits whatever the variant.
#include <cmath>

#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/linear_problem.h"

namespace qcc::gpu {
namespace {

const std::vector<Epilogue> kEpilogues = {Epilogue::Store, Epilogue::Add, Epilogue::Swiglu};

class LinearTest : public ::testing::TestWithParam<Format> {
 protected:
  Format format() const { return GetParam(); }
  bool Supports(bool int8) const { return !int8 || format_info(format()).cls == FormatClass::kBlock; }
  int64_t block() const { return std::max(format_info(format()).block_elems, 32); }
  // Columns of few blocks, an odd number of them: the tiles of a group do not come in whole runs.
  int64_t FewColumns() const { return block() * (block() == 256 ? 1 : 3); }
  // Columns of which the last part has no chunks or is short.
  int64_t ManyColumns() const { return block() * (block() == 32 ? 19 : 5); }
  // All, or for a format that is not tried in full the first.
  template <typename T>
  std::vector<T> Tried(const std::vector<T>& all) const {
    return TriedInFull(format()) ? all : std::vector<T>{all.front()};
  }
};
// Of block formats: plain ones have no int8 numerics.
class Int8LinearTest : public LinearTest {};

TEST_P(LinearTest, MatchesReference) {
  // With and without dot products; RowsDependOnNothingElse has the others.
  for (const char* name : Tried<const char*>({"none", "sg8-dot"})) {
    const Profile profile = FindProfile(name)->profile;
    for (bool int8 : {false, true}) {
      if (!Supports(int8)) continue;
      for (Epilogue epilogue : Tried(kEpilogues)) {
        // More than one run of chunks, unevenly cut; an odd number of blocks; one.
        for (int64_t k : Tried<int64_t>({ManyColumns(), 3 * block(), block()})) {
          for (int64_t n : Tried<int64_t>({40, 1})) {
            const Problem p(format(), int8, epilogue, k, n, 3);
            ExpectNear(p, RunRows(p, profile, 0, 3, 4), profile);
          }
        }
      }
    }
  }
}

TEST_P(LinearTest, RowsDependOnNothingElse) {
  const Profile profile = TestProfiles()[1];
  for (bool int8 : {false, true}) {
    if (!Supports(int8)) continue;
    for (Epilogue epilogue : Tried(kEpilogues)) {
      const Problem p(format(), int8, epilogue, block() == 32 ? 320 : 512, 24, 13);
      std::vector<float> alone;
      for (int64_t r = 0; r < p.rows; ++r) {
        const std::vector<float> y = RunRows(p, profile, r, 1, 1);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      ExpectNear(p, alone, profile);
      for (int64_t bucket : Tried<int64_t>({13, 2, 4, 8, 32})) {
        const int64_t count = std::min<int64_t>(bucket, p.rows);
        for (int64_t part : {count, count / 2 + 1}) {
          std::vector<float> expected(alone.begin(), alone.begin() + part * p.ld);
          ExpectSameBits(expected, RunRows(p, profile, 0, part, bucket),
                         p.Name(profile) + " bucket " + std::to_string(bucket));
        }
      }
      // The shuffled and the dotted profiles compute the same.
      for (const Profile& other : TestProfiles()) {
        ExpectSameBits(alone, RunRows(p, other, 0, p.rows, p.rows), p.Name(other));
      }
    }
  }
}

// A step may want no row at all of what a bucket holds: no variant may then touch x or y. The sandbox refuses
// what lies outside; a row before the first does.
TEST_P(LinearTest, StepsWithoutRowsTouchNothing) {
  const Profile plain = FindProfile("sg32-dot")->profile, matrix = FindProfile("sg32-matrix32")->profile,
                mma = FindProfile("sm80")->profile;
  for (bool int8 : {false, true}) {
    if (!Supports(int8)) continue;
    const Problem p(format(), int8, Epilogue::Store, FewColumns(), 40, 33);
    for (int64_t bucket : {1, 8, 33}) {
      EXPECT_TRUE(RunRows(p, plain, 0, 0, bucket).empty());
      EXPECT_TRUE(RunRows(p, mma, 0, 0, bucket).empty());
    }
    if (!int8) continue;
    const LinearSpec spec = p.Spec();
    RunVariant(
        p, matrix, [&](int64_t u, int64_t r) { return LinearCooperative(spec, u, r); }, 0);
    RunVariant(
        p, mma, [&](int64_t u, int64_t r) { return LinearMatrixShared(spec, 64, u, r); }, 0);
  }
}

TEST_P(LinearTest, VariantsGiveEqualBits) {
  for (const char* name : Tried<const char*>({"none", "sg32-dot", "none-dot"})) {
    const Profile profile = FindProfile(name)->profile;
    for (bool int8 : {false, true}) {
      if (!Supports(int8)) continue;
      for (Epilogue epilogue : Tried(kEpilogues)) {
        // 33 rows: more than one tile of rows; 9 groups: an odd number, more than one tile of columns.
        const Problem p(format(), int8, epilogue, FewColumns(), 9 * 16 - 3, 33);
        const LinearSpec spec = p.Spec();
        const auto split = [&](int rows) {
          return RunVariant(p, profile,
                            [&](int64_t u, int64_t r) { return LinearSplit(spec, profile, rows, u, r); });
        };
        const std::vector<float> one = split(1);
        ExpectNear(p, one, profile);
        ExpectSameBits(one, split(4), p.Name(profile));
        for (int rows : {4, 8}) {
          const std::vector<float> tiled =
              RunVariant(p, profile, [&](int64_t u, int64_t r) { return LinearTiled(spec, rows, u, r); });
          ExpectSameBits(one, tiled, p.Name(profile) + " tiled " + std::to_string(rows));
        }
      }
    }
  }
}

TEST_P(Int8LinearTest, MatrixUnitsGiveEqualBits) {
  const Profile profile = FindProfile("sm80")->profile;
  const auto check = [&](const Problem& p) {
    const LinearSpec spec = p.Spec();
    const std::vector<float> expected =
        RunVariant(p, profile, [&](int64_t u, int64_t r) { return LinearSplit(spec, profile, 8, u, r); });
    ExpectNear(p, expected, profile);
    for (int tile_rows : {4, 8}) {
      const std::vector<float> few = RunVariant(
          p, profile, [&](int64_t u, int64_t r) { return LinearMatrixFew(spec, profile, tile_rows, u, r); });
      ExpectSameBits(expected, few, p.Name(profile) + " few " + std::to_string(tile_rows));
    }
    for (int tile_rows : {8, 16, 32}) {
      const std::string what = p.Name(profile) + " tile of " + std::to_string(tile_rows);
      const std::vector<float> tiled = RunVariant(
          p, profile, [&](int64_t u, int64_t r) { return LinearMatrixTiled(spec, tile_rows, u, r); });
      ExpectSameBits(expected, tiled, what + " tiled");
      const std::vector<float> split = RunVariant(
          p, profile, [&](int64_t u, int64_t r) { return LinearMatrixSplit(spec, tile_rows, u, r); });
      ExpectSameBits(expected, split, what + " split");
    }
    for (int tile_rows : {64, 128}) {
      const std::vector<float> shared = RunVariant(
          p, profile, [&](int64_t u, int64_t r) { return LinearMatrixShared(spec, tile_rows, u, r); });
      ExpectSameBits(expected, shared, p.Name(profile) + " shared " + std::to_string(tile_rows));
    }
  };
  for (Epilogue epilogue : Tried(kEpilogues)) {
    check(Problem(format(), true, epilogue, block(), 1, 9));  // a lone group, fewest parts
    // A last part without chunks or a short one; an odd number of groups; more than two tiles of rows.
    check(Problem(format(), true, epilogue, ManyColumns(), 5 * 16 - 3, 65));
    check(Problem(format(), true, epilogue, 512, 24, 9));  // parts of one length
  }
}

TEST_P(Int8LinearTest, CooperativeMatricesGiveEqualBits) {
  std::vector<Profile> profiles;
  for (const ProfileInfo& info : Profiles()) {
    if (info.profile.matrix.kind == MatrixUnits::Kind::kCooperative) profiles.push_back(info.profile);
  }
  // No profile yet, but the kernel has subgroups that share rows of weights, and such as have a pair of
  // groups alone; matrices of more columns than rows; and stages of one chunk, where memory is short.
  const auto add = [&](const char* name, int subgroup, const MatrixUnits& matrix, int max_shared) {
    profiles.push_back(profiles.front());
    profiles.back().name = name;
    profiles.back().subgroup = subgroup;
    profiles.back().matrix = matrix;
    profiles.back().max_shared = max_shared;
  };
  const MatrixUnits first = profiles.front().matrix;
  add("subgroups of 64", 64, first, profiles.front().max_shared);
  add("8 x 16 x 32", 16, {MatrixUnits::Kind::kCooperative, 8, 16, 32}, profiles.front().max_shared);
  add("20 KiB", 32, first, 20 << 10);
  for (const Profile& profile : Tried(profiles)) {
    // Which epilogue it is, and how units are cut, has nothing to do with the shape of the matrices.
    for (Epilogue epilogue : Tried(kEpilogues)) {
      if (profile.name != profiles[0].name && epilogue != kEpilogues[2]) continue;
      // A lone group; a last part without chunks or a short one, an odd number of groups, three tiles of
      // rows.
      const Problem alone(format(), true, epilogue, block(), 1, 9);
      const Problem many(format(), true, epilogue, ManyColumns(), 5 * 16 - 3, 65);
      // Stages are whole; two terms.
      const Problem whole(format(), true, epilogue, 512, 2 * 16, 17);
      const Problem terms(format(), true, epilogue, FewColumns(), 16, 17, {}, 2);
      for (const Problem* p : {&alone, &many, &whole, &terms}) {
        const LinearSpec spec = p->Spec();
        const std::vector<float> expected = RunVariant(
            *p, profile, [&](int64_t u, int64_t r) { return LinearSplit(spec, profile, 8, u, r); });
        ExpectNear(*p, expected, profile);
        const std::vector<float> tiled =
            RunVariant(*p, profile, [&](int64_t u, int64_t r) { return LinearCooperative(spec, u, r); });
        ExpectSameBits(expected, tiled, p->Name(profile));
      }
    }
  }
}

// A scale multiplies the sums ahead of the epilogue, in every variant; either of a pair may have one.
TEST_P(LinearTest, Scales) {
  struct Case {
    Epilogue epilogue;
    Scales scales;
  };
  const std::vector<Case> cases = {{Epilogue::Swiglu, {true, true}},
                                   {Epilogue::Swiglu, {true, false}},
                                   {Epilogue::Swiglu, {false, true}},
                                   {Epilogue::Store, {true, false}},
                                   {Epilogue::Add, {true, false}}};
  const Profile plain = FindProfile("sg32-dot")->profile, mma = FindProfile("sm80")->profile,
                cooperative = FindProfile("sg32-matrix32")->profile;
  for (bool int8 : {false, true}) {
    if (!Supports(int8)) continue;
    for (const auto& [epilogue, scales] : Tried(cases)) {
      const Problem p(format(), int8, epilogue, FewColumns(), 3 * 16 - 3, 9, scales);
      const LinearSpec spec = p.Spec();
      const std::vector<float> expected = RunRows(p, plain, 0, p.rows, p.rows);
      ExpectNear(p, expected, plain);
      const auto check = [&](const Profile& profile, const char* variant, const auto& make) {
        const std::vector<float> y =
            RunVariant(p, profile, [&](int64_t u, int64_t r) { return make(spec, u, r); });
        ExpectSameBits(expected, y, p.Name(profile) + " " + variant);
      };
      check(plain, "tiled", [](const auto& s, int64_t u, int64_t r) { return LinearTiled(s, 4, u, r); });
      if (!int8) continue;
      check(mma, "tiled", [](const auto& s, int64_t u, int64_t r) { return LinearMatrixTiled(s, 8, u, r); });
      check(mma, "split", [](const auto& s, int64_t u, int64_t r) { return LinearMatrixSplit(s, 8, u, r); });
      check(mma, "shared",
            [](const auto& s, int64_t u, int64_t r) { return LinearMatrixShared(s, 64, u, r); });
      check(cooperative, "cooperative", LinearCooperative);
    }
  }
}

TEST_P(Int8LinearTest, MatrixUnitsIgnoreOtherRows) {
  const Profile profile = FindProfile("sm80")->profile, plain = FindProfile("sm61")->profile;
  for (Epilogue epilogue : Tried(kEpilogues)) {
    const Problem p(format(), true, epilogue, FewColumns(), 40, 65);
    std::vector<float> alone;
    for (int64_t r = 0; r < p.rows; r += 5) {
      const std::vector<float> y = RunRows(p, plain, r, 5, 8);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const auto& [count, bucket] : {std::pair<int64_t, int64_t>{1, 2},
                                        {3, 4},
                                        {5, 8},
                                        {9, 9},
                                        {1, 16},
                                        {16, 16},
                                        {17, 33},
                                        {31, 40},
                                        {33, 64},
                                        {65, 65}}) {
      const std::vector<float> expected(alone.begin(), alone.begin() + count * p.ld);
      ExpectSameBits(expected, RunRows(p, profile, 0, count, bucket),
                     p.Name(profile) + " bucket " + std::to_string(bucket));
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Format>& info) {
  return std::string(format_info(info.param).name);
}
INSTANTIATE_TEST_SUITE_P(Formats, LinearTest, ::testing::ValuesIn(Formats()), NameOf);
INSTANTIATE_TEST_SUITE_P(Formats, Int8LinearTest, ::testing::ValuesIn(BlockFormats()), NameOf);

void CheckLogitsOfOutRows(const char* profile_name, int64_t bucket, Format format, bool int8) {
  const Profile profile = FindProfile(profile_name)->profile;
  const Problem p(format, int8, Epilogue::Store, 256, 50, 3);
  SCOPED_TRACE(p.Name(profile));
  Sandbox box(profile, bucket, p.ld);
  LinearDispatch d = MakeDispatch(p, box, 0, p.rows, bucket, plan::RowsFrom::OutRows);
  SetRows(box, 4);
  box.step.outs = {0, 1};  // two rows of logits though the step has four
  d.bindings.y = box.Logits(std::vector<float>(static_cast<size_t>(p.ld * bucket), -7.f));
  ASSERT_EQ(box.Run(Expand_linear, d), "");
  const std::vector<float> y = box.Read<float>(*d.bindings.y);
  for (int64_t r = 0; r < bucket; ++r) {
    for (int64_t c = 0; c < p.ld; ++c) {
      const float v = y[static_cast<size_t>(r * p.ld + c)];
      if (r >= 2) {
        ASSERT_EQ(v, -7.f) << r << " " << c;
      } else {
        const size_t i = static_cast<size_t>(r * p.ld + c);
        ASSERT_LE(std::fabs(v - p.expected[i]), p.tolerance[i]) << r << " " << c;
      }
    }
  }
}

TEST(LinearExpansionTest, LogitsOfOutRows) {
  // A head may be of 1 bit, ternary or of floats, as any matrix.
  for (Format format : {Format::Q6_K, Format::Q1_0, Format::TQ1_0, Format::TQ2_0, Format::F32}) {
    for (bool int8 : {false, true}) {
      if (int8 && format == Format::F32) continue;
      CheckLogitsOfOutRows("sg32-dot", 4, format, int8);
      CheckLogitsOfOutRows("sm80", 12, format, int8);
    }
  }
}

TEST(LinearExpansionTest, ManyRowsTakeMatrixUnits) {
  Sandbox box(FindProfile("sm80")->profile, 512);
  const auto expand = [&](plan::Numerics numerics, int64_t n, int64_t rows) {
    LinearDispatch d;
    d.spec = {.format = Format::Q4_K, .numerics = numerics, .k = 1024, .n = n, .epilogue = Epilogue::Swiglu};
    d.rows = rows;
    (numerics == plan::Numerics::Int8 ? d.bindings.xq : d.bindings.x) = {Space::kArena, 0,
                                                                         static_cast<uint64_t>(rows * 4096)};
    d.bindings.w = {Space::kWeights, 0, static_cast<uint64_t>(2 * layouts::X16Bytes(Format::Q4_K, n, 1024))};
    d.bindings.y = {Space::kArena, 1 << 24, static_cast<uint64_t>(rows * n * 4)};
    const std::vector<Launch> launches = Expand_linear(d, box);
    EXPECT_EQ(launches.size(), 1u);
    return launches.at(0);
  };
  const Launch large = expand(plan::Numerics::Int8, 4096, 512);
  EXPECT_EQ(large.name, "linear.q4_k.int8.k1024.swiglu.ms128");
  EXPECT_EQ(large.grid[0], 128u);  // 2 units each
  EXPECT_EQ(large.grid[1], 4u);    // 128 rows each
  EXPECT_EQ(expand(plan::Numerics::Int8, 16384, 32).name, "linear.q4_k.int8.k1024.swiglu.m32x1");
  const Launch small = expand(plan::Numerics::Int8, 512, 40);
  EXPECT_EQ(small.name, "linear.q4_k.int8.k1024.swiglu.mp32");
  EXPECT_EQ(small.grid[0], 32u);  // a unit each
  EXPECT_EQ(small.grid[1], 2u);   // 32 rows each
  EXPECT_EQ(expand(plan::Numerics::Int8, 512, 9).name, "linear.q4_k.int8.k1024.swiglu.mp16");
  EXPECT_EQ(expand(plan::Numerics::Int8, 512, 8).name, "linear.q4_k.int8.k1024.swiglu.mr8");
  EXPECT_EQ(expand(plan::Numerics::Int8, 512, 3).name, "linear.q4_k.int8.k1024.swiglu.mr4");
  EXPECT_EQ(expand(plan::Numerics::Int8, 512, 2).name, "linear.q4_k.int8.k1024.swiglu.r2");
  EXPECT_EQ(expand(plan::Numerics::F32, 4096, 512).name, "linear.q4_k.f32.k1024.swiglu.t8x4");
}

TEST(LinearExpansionTest, ManyRowsTakeCooperativeMatrices) {
  Sandbox box(FindProfile("sg32-matrix16")->profile, 512);
  const auto expand = [&](plan::Numerics numerics, int64_t n, int64_t rows) {
    LinearDispatch d;
    d.spec = {.format = Format::Q6_K, .numerics = numerics, .k = 1024, .n = n};
    d.rows = rows;
    (numerics == plan::Numerics::Int8 ? d.bindings.xq : d.bindings.x) = {Space::kArena, 0,
                                                                         static_cast<uint64_t>(rows * 4096)};
    d.bindings.w = {Space::kWeights, 0, static_cast<uint64_t>(layouts::X16Bytes(Format::Q6_K, n, 1024))};
    d.bindings.y = {Space::kArena, 1 << 24, static_cast<uint64_t>(rows * n * 4)};
    const std::vector<Launch> launches = Expand_linear(d, box);
    EXPECT_EQ(launches.size(), 1u);
    return launches.at(0);
  };
  const Launch large = expand(plan::Numerics::Int8, 1040, 500);
  EXPECT_EQ(large.name, "linear.q6_k.int8.k1024.store.c32");
  EXPECT_EQ(large.grid[0], 17u);  // 4 units each
  EXPECT_EQ(large.grid[1], 16u);  // 32 rows each
  EXPECT_EQ(expand(plan::Numerics::Int8, 1024, 33).name, "linear.q6_k.int8.k1024.store.c32");
  EXPECT_EQ(expand(plan::Numerics::Int8, 1024, 32).name, "linear.q6_k.int8.k1024.store.r8")
      << "too few tiles";
  EXPECT_EQ(expand(plan::Numerics::Int8, 4096, 8).name, "linear.q6_k.int8.k1024.store.r8");
  EXPECT_EQ(expand(plan::Numerics::F32, 4096, 512).name, "linear.q6_k.f32.k1024.store.t8x4");
}

TEST(LinearExpansionTest, ManyRowsAreTiled) {
  Sandbox box(FindProfile("sg32-dot")->profile, 512);
  LinearDispatch d;
  d.spec = {.format = Format::Q8_0, .numerics = plan::Numerics::Int8, .k = 1024, .n = 4096};
  d.rows = 512;
  d.bindings.xq = {Space::kArena, 0, static_cast<uint64_t>(512 * layouts::Int8RowBytes(1024))};
  d.bindings.w = {Space::kWeights, 0, static_cast<uint64_t>(layouts::X16Bytes(Format::Q8_0, 4096, 1024))};
  d.bindings.y = {Space::kArena, 0, 512 * 4096 * 4};
  std::vector<Launch> launches = Expand_linear(d, box);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].name, "linear.q8_0.int8.k1024.store.t8x4");
  EXPECT_EQ(launches[0].grid[0], 64u);  // 64 matrix rows each
  EXPECT_EQ(launches[0].grid[1], 16u);  // 32 rows each
  EXPECT_EQ(launches[0].ops, uint64_t{2} * 1024 * 4096 * 512);
  d.rows = 1;
  launches = Expand_linear(d, box);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].name, "linear.q8_0.int8.k1024.store.r1");
  EXPECT_EQ(launches[0].grid[0], 256u);
}

TEST(LinearExpansionTest, LargeWeightsAreCutAtGroups) {
  Sandbox box(FindProfile("none")->profile, 1);
  LinearDispatch d;
  constexpr int64_t kN = 248320, kK = 4096;  // 4 GB
  d.spec = {.format = Format::F32, .numerics = plan::Numerics::F32, .k = kK, .n = kN};
  d.rows = 1;
  d.bindings.x = {Space::kArena, 0, kK * 4};
  d.bindings.w = {Space::kWeights, 512, uint64_t{kN} * kK * 4};
  d.bindings.y = {Space::kArena, 65536, kN * 4};
  const std::vector<Launch> launches = Expand_linear(d, box);
  ASSERT_GT(launches.size(), 1u);
  uint64_t at = 512, y_at = 65536;
  for (const Launch& l : launches) {
    EXPECT_EQ(l.name, launches[0].name);
    EXPECT_EQ(l.args[1].value, at);
    EXPECT_EQ(l.args[2].value, y_at);
    EXPECT_LE(l.args[1].bytes, kMaxBindingBytes);
    EXPECT_EQ(l.args[1].bytes, l.args[4].value * 16 * kK * 4);
    at += l.args[1].bytes;
    y_at += l.args[2].bytes;
  }
  EXPECT_EQ(at, 512 + d.bindings.w->bytes);
  EXPECT_EQ(y_at, 65536 + d.bindings.y->bytes);
}

// Kernels with scales have names of their own, and every piece of a matrix has its scales.
TEST(LinearExpansionTest, ScalesAreNamedAndHandedOn) {
  Sandbox box(FindProfile("none")->profile, 1);
  LinearDispatch d;
  constexpr int64_t kN = 248320, kK = 4096;  // 8 GB
  d.spec = {.format = Format::F32, .k = kK, .n = kN, .epilogue = Epilogue::Swiglu};
  d.spec.numerics = plan::Numerics::F32;
  d.rows = 1;
  d.bindings.x = {Space::kArena, 0, kK * 4};
  d.bindings.w = {Space::kWeights, 512, uint64_t{2} * kN * kK * 4};
  d.bindings.y = {Space::kArena, 65536, kN * 4};
  const Arg scale = {Space::kWeights, 64, 4}, up_scale = {Space::kWeights, 128, 4};
  const auto expect = [&](const std::string& name, const std::vector<uint64_t>& scales) {
    const std::vector<Launch> launches = Expand_linear(d, box);
    EXPECT_GT(launches.size(), 1u);
    for (const Launch& l : launches) {
      EXPECT_EQ(l.name, "linear.f32.f32.k4096.swiglu" + name + ".r1");
      std::vector<uint64_t> places;
      for (size_t i = 6; i < l.args.size(); ++i) {
        EXPECT_EQ(l.args[i].space, Space::kWeights);
        places.push_back(l.args[i].value);
      }
      EXPECT_EQ(places, scales) << name;
    }
  };
  expect("", {});
  d.bindings.scale = scale;
  expect(".scale", {64});
  d.bindings.up_scale = up_scale;
  expect(".scale.up_scale", {64, 128});
  d.bindings.scale = {};
  expect(".up_scale", {128});
}

TEST(LinearExpansionTest, RefusesWhatItCannotRun) {
  Sandbox box(FindProfile("none")->profile, 1);
  LinearDispatch d;
  d.spec = {.format = Format::F16, .numerics = plan::Numerics::Int8, .k = 64, .n = 16};
  d.rows = 1;
  EXPECT_TRUE(Expand_linear(d, box).empty());  // plain formats have no codes
  d.spec.numerics = plan::Numerics::F32;
  d.bindings.x = {Space::kArena, 0, 4 * 64};
  d.bindings.w = {Space::kWeights, 0, 2 * 16 * 64};
  d.bindings.y = {Space::kArena, 256, 4 * 16};
  EXPECT_EQ(Expand_linear(d, box).size(), 1u);
  d.spec.k = 40;  // no whole chunk of 32 columns
  EXPECT_TRUE(Expand_linear(d, box).empty());
}

}  // namespace
}  // namespace qcc::gpu
