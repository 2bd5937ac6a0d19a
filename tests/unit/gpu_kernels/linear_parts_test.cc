// Matrices whose columns are cut into more parts than a usual workgroup has threads for: a workgroup of the
// split variants has more threads, or comes back for the other parts. Equal bits whatever the variant.
#include <utility>

#include "codegen/gpu/kernels/linear.h"
#include "tests/unit/gpu_kernels/linear_problem.h"

namespace qcc::gpu {
namespace {

TEST(LinearParts, AreEvenAndNotShort) {
  const auto of = [](int64_t k) {
    const LinearSpec spec = {.format = Format::Q4_K, .int8 = true, .k = k};
    const auto threads = [&](const char* profile) {
      return spec.split_threads(FindProfile(profile)->profile, 8);
    };
    const auto rounds = [&](const char* profile) {
      return spec.split_rounds(FindProfile(profile)->profile, 8);
    };
    EXPECT_EQ(rounds("sm80"), 1) << k;
    for (const char* other : {"sg32-dot", "none"})
      EXPECT_EQ(threads(other) * rounds(other), threads("sm80")) << k << " " << other;
    return std::pair(spec.parts(), threads("sm80"));
  };
  EXPECT_EQ(of(32), std::pair(1, 128));
  EXPECT_EQ(of(256), std::pair(8, 128));
  EXPECT_EQ(of(1024), std::pair(8, 128));
  EXPECT_EQ(of(2048), std::pair(16, 256));
  EXPECT_EQ(of(2560), std::pair(16, 256));
  EXPECT_EQ(of(3072), std::pair(24, 384));
  EXPECT_EQ(of(3584), std::pair(16, 256));
  EXPECT_EQ(of(6144), std::pair(32, 512));
  EXPECT_EQ(of(2304), std::pair(8, 128)) << "72 chunks are no multiple of 16";
  const LinearSpec pair = {.format = Format::Q4_K, .int8 = true, .k = 6144, .epilogue = Epilogue::Swiglu};
  Profile vulkan = FindProfile("sg32-dot")->profile;
  EXPECT_EQ(pair.split_threads(vulkan, 8), 512);
  vulkan.max_shared /= 2;
  EXPECT_EQ(pair.split_threads(vulkan, 4), 512);
  EXPECT_EQ(pair.split_threads(vulkan, 8), 128) << "sums of 8 rows by two matrices do not fit";
}

// What tells a workgroup its expert lies beside the sums, which may fill the memory by themselves: 30b-a3b
// (2048 columns, 8 rows of an expert together) did not compile for sg8-dot.
TEST(LinearParts, SumsOfExpertsLeaveRoomForWhoseTheyAre) {
  for (const auto& [name, k] : {std::pair("sg8-dot", 2048), std::pair("sg32-dot", 4096)}) {
    SCOPED_TRACE(name);
    const Profile& profile = FindProfile(name)->profile;
    LinearSpec spec = {.format = Format::Q4_K, .int8 = true, .k = k, .epilogue = Epilogue::Swiglu};
    const int all = kLinearLanes * spec.parts();
    ASSERT_EQ(4 * 2 * 8 * all, profile.max_shared) << "the case is another one now";
    EXPECT_EQ(spec.split_threads(profile, 8), all);
    spec.rows_of = RowsOf::kExpert;
    spec.experts = 128;
    spec.top_k = 8;
    EXPECT_EQ(spec.split_threads(profile, 8), kLinearThreads);
    EXPECT_EQ(spec.split_rounds(profile, 8), all / kLinearThreads);
  }
}

struct Case {
  Format format;
  bool int8;
  Epilogue epilogue;
  int64_t k;
};

class LinearPartsTest : public testing::TestWithParam<Case> {};

TEST_P(LinearPartsTest, VariantsGiveEqualBits) {
  const Case& c = GetParam();
  // An odd number of groups; rows that fill no tile.
  const Problem p(c.format, c.int8, c.epilogue, c.k, 3 * 16 - 3, 9);
  const LinearSpec spec = p.Spec();
  std::vector<float> expected;
  const auto check = [&](const char* name, const std::string& variant, const auto& make) {
    const Profile& profile = FindProfile(name)->profile;
    const std::vector<float> y =
        RunVariant(p, profile, [&](int64_t u, int64_t r) { return make(profile, u, r); });
    if (expected.empty()) {
      expected = y;
      ExpectNear(p, y, profile);
    }
    ExpectSameBits(expected, y, p.Name(profile) + " " + variant);
  };
  for (const char* name : {"sm61", "sg32-dot", "sg8-dot", "none"}) {
    for (int rows : {1, 4, 8}) {
      check(name, "split " + std::to_string(rows),
            [&](const Profile& of, int64_t u, int64_t r) { return LinearSplit(spec, of, rows, u, r); });
    }
  }
  check("sg32-dot", "tiled",
        [&](const Profile&, int64_t u, int64_t r) { return LinearTiled(spec, 4, u, r); });
  if (!c.int8) return;
  for (int rows : {4, 8}) {
    check("sm80", "few " + std::to_string(rows),
          [&](const Profile& of, int64_t u, int64_t r) { return LinearMatrixFew(spec, of, rows, u, r); });
  }
  for (int rows : {8, 32}) {
    check("sm80", "matrix tiled " + std::to_string(rows),
          [&](const Profile&, int64_t u, int64_t r) { return LinearMatrixTiled(spec, rows, u, r); });
    check("sm80", "matrix split " + std::to_string(rows),
          [&](const Profile&, int64_t u, int64_t r) { return LinearMatrixSplit(spec, rows, u, r); });
  }
  check("sm80", "shared",
        [&](const Profile&, int64_t u, int64_t r) { return LinearMatrixShared(spec, 64, u, r); });
  check("sg32-matrix32", "cooperative",
        [&](const Profile&, int64_t u, int64_t r) { return LinearCooperative(spec, u, r); });
}

// A launch has so many workgroups, and its arguments so many bytes: what has more becomes several.
TEST(LinearCutsTest, OutputsBeyondAGrid) {
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  Sandbox box(FindProfile("sg32-dot")->profile, 512);
  const int64_t units = 2 * kMostWorkgroups + 7;
  for (const int64_t rows : {1, 8, 64}) {
    const plan::LinearSpec spec = {.format = Format::Q4_K, .k = 256, .n = units * 16};
    const std::vector<Launch> launches = Expand_linear(Anywhere(spec, rows, somewhere), box);
    ASSERT_EQ(launches.size(), 3) << rows << " rows";
    for (const Launch& launch : launches) EXPECT_LE(launch.grid[0], kMostWorkgroups);
  }
}

TEST(LinearCutsTest, SayWhatIsTooLarge) {
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  Sandbox box(FindProfile("sg32-dot")->profile, 512);
  const int64_t k = int64_t{1} << 26;
  plan::LinearSpec linear = {.format = Format::F32, .k = k, .n = 16};
  linear.numerics = plan::Numerics::F32;
  EXPECT_TRUE(Expand_linear(Anywhere(linear, 1, somewhere), box).empty());
  EXPECT_EQ(
      box.TakeRefusal(),
      "bytes of 16 matrix rows = 4294967296: it takes up to 2147483648, in a format of fewer bits or with "
      "fewer columns");
  const plan::MoeGroupSpec group = {.experts = 4, .top_k = 5};
  EXPECT_TRUE(Expand_moe_group(Anywhere(group, 16, somewhere), box).empty());
  EXPECT_EQ(box.TakeRefusal(), "top_k = 5: it takes up to the experts, 4");
  plan::MoeLinearSpec experts = {.format = Format::F32, .k = k, .n = 16};
  experts.numerics = plan::Numerics::F32;
  experts.experts = 4;
  experts.top_k = 2;
  experts.scale_count = experts.up_scale_count = 1;
  EXPECT_TRUE(Expand_moe_linear(Anywhere(experts, 16, somewhere), box).empty());
  EXPECT_EQ(
      box.TakeRefusal(),
      "bytes of an expert's matrix = 4294967296: it takes up to 2147483648, in a format of fewer bits or "
      "with fewer columns");
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearPartsTest,
                         testing::Values(Case{Format::Q4_K, true, Epilogue::Swiglu, 2048},
                                         Case{Format::Q8_0, true, Epilogue::Store, 3072},
                                         Case{Format::Q6_K, true, Epilogue::Add, 6144},
                                         Case{Format::Q4_K, false, Epilogue::Store, 2048},
                                         Case{Format::Q8_0, false, Epilogue::Swiglu, 4096}));

}  // namespace
}  // namespace qcc::gpu
