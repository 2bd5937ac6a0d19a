// Linears that make their rows themselves: the bits of a norm or quantize ahead of them.
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/kernels/norm.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

using plan::Numerics;

struct Case {
  Format format;
  Numerics numerics;
  Making making;
  Epilogue epilogue;
};

constexpr float kEps = 1e-6f;
constexpr int64_t kColumns = 40;  // of y: an odd number of groups

// Columns of a head of a row of k, for gated norms: of one head, of some of more than a thread's each, and of
// more heads than are added up at a time.
int64_t HeadOf(int64_t k) {
  return k == 608 ? 152 : k == 768 ? 128 : k == 1216 ? 64 : k;
}

// The launch that norms heads for those who do not do it themselves: x becomes normed.
Launch GatedNorm(Sandbox& box, int64_t k, const Arg& x, const Arg& gate, const Arg& weight, int64_t bucket) {
  DeltaSpec s;
  s.key_heads = 1;
  s.key_dim = 8;
  s.taps = 2;
  s.value_dim = static_cast<int>(HeadOf(k));
  s.value_heads = static_cast<int>(k / s.value_dim);
  Launch norm;
  norm.name = "gated_norm";
  norm.emit = [s](Builder& b) { EmitDeltaNorm(b, s); };
  norm.workgroup_size = kNormThreads;
  norm.grid[0] = static_cast<uint32_t>(s.value_heads);
  norm.grid[1] = static_cast<uint32_t>(bucket);
  // Nothing is kept: that takes more workgroups.
  const Arg step = {Space::kStep, 0, 4};
  norm.args = ListArgs<DeltaNormArgs>({.step = step,
                                       .seqs = step,
                                       .z = gate,
                                       .norm_w = weight,
                                       .qkv = gate,
                                       .mixed = gate,
                                       .gates = gate,
                                       .conv_state = Number(0),
                                       .delta_state = Number(0),
                                       .out = x,
                                       .norm_eps = FloatNumber(kEps)});
  return norm;
}

// y of a step of `rows` rows in a bucket of `bucket`; `alone`: the rows are made by a launch of their own.
std::vector<float> ResultOf(const Case& c, const Profile& profile, int64_t k, int64_t rows, int64_t bucket,
                            bool alone) {
  Random random(static_cast<uint64_t>(k));
  Sandbox box(profile, bucket);
  SetRows(box, static_cast<uint32_t>(rows));
  std::vector<float> x = random.Normals(rows * k);
  std::fill_n(x.begin(), std::min<size_t>(x.size(), 32), 0.f);  // a block without a scale
  x.resize(static_cast<size_t>(bucket * k), NAN);
  const Arg given = box.Arena(x), weight = box.Weights(random.Normals(k));
  std::vector<float> z = random.Normals(rows * k);
  z.resize(static_cast<size_t>(bucket * k), NAN);
  const Arg gate = box.Arena(z);

  const int64_t ld = layouts::AlignUp(kColumns, layouts::kGroupRows);
  const Matrix w = RandomMatrix(c.format, kColumns, k, 1), up = RandomMatrix(c.format, kColumns, k, 2);
  Dispatch<plan::LinearSpec> d{.spec = {.format = c.format,
                                        .numerics = c.numerics,
                                        .k = k,
                                        .n = kColumns,
                                        .epilogue = c.epilogue,
                                        .rows = plan::RowsFrom::Rows},
                               .bindings = {},
                               .rows = bucket};
  d.bindings.w = box.Weights(c.epilogue == Epilogue::Swiglu ? PackedPair(w, up) : w.Packed());
  d.bindings.y = box.Arena(random.Normals(bucket * ld));
  const bool two = c.numerics == Numerics::Int8x2;
  std::optional<Arg>& made = c.numerics == Numerics::F32 ? d.bindings.x : d.bindings.xq;
  const std::string what = profile.name + " k " + std::to_string(k);
  if (alone) {
    made = box.Arena(static_cast<uint64_t>(
        bucket * (c.numerics == Numerics::F32 ? 4 * k : layouts::Int8RowBytes((two ? 2 : 1) * k))));
    if (c.making == Making::kNormed) {
      Dispatch<plan::NormSpec> norm{.spec = {.cols = k, .eps = kEps}, .bindings = {}, .rows = bucket};
      norm.bindings.x = given;
      norm.bindings.weight = weight;
      (c.numerics == Numerics::F32 ? norm.bindings.out
       : two                       ? norm.bindings.out_q2
                                   : norm.bindings.out_q) = made;
      EXPECT_EQ(box.Run(Expand_norm, norm), "") << what;
    } else {
      if (c.making == Making::kGatedNormed) {
        EXPECT_EQ(box.Run({GatedNorm(box, k, given, gate, weight, bucket)}), "") << what;
      }
      Dispatch<plan::QuantizeSpec> quantize{.spec = {.cols = k}, .bindings = {}, .rows = bucket};
      quantize.bindings.x = given;
      (two ? quantize.bindings.out_q2 : quantize.bindings.out_q) = made;
      EXPECT_EQ(box.Run(Expand_quantize, quantize), "") << what;
    }
    EXPECT_EQ(box.Run(Expand_linear, d), "") << what;
  } else {
    const std::vector<Launch> launches =
        ExpandMaking(d,
                     {.making = c.making,
                      .x = given,
                      .weight = weight,
                      .eps = kEps,
                      .gate = gate,
                      .norm_dim = c.making == Making::kGatedNormed ? HeadOf(k) : 0},
                     box);
    EXPECT_EQ(launches.size(), 1) << what;
    EXPECT_EQ(box.Run(launches), "") << what;
  }
  return box.Read<float>(*d.bindings.y);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (Epilogue epilogue : {Epilogue::Store, Epilogue::Add, Epilogue::Swiglu}) {
    cases.push_back({Format::Q4_K, Numerics::Int8, Making::kRounded, epilogue});
    cases.push_back({Format::Q8_0, Numerics::Int8, Making::kNormed, epilogue});
    cases.push_back({Format::Q8_0, Numerics::Int8, Making::kGatedNormed, epilogue});
  }
  cases.push_back({Format::Q6_K, Numerics::Int8x2, Making::kRounded, Epilogue::Add});
  cases.push_back({Format::Q6_K, Numerics::Int8x2, Making::kNormed, Epilogue::Store});
  cases.push_back({Format::Q4_K, Numerics::Int8, Making::kGatedNormed, Epilogue::Add});
  cases.push_back({Format::Q6_K, Numerics::Int8x2, Making::kGatedNormed, Epilogue::Add});
  // Minima of two scales.
  cases.push_back({Format::Q2_K, Numerics::Int8, Making::kRounded, Epilogue::Store});
  cases.push_back({Format::Q2_K, Numerics::Int8x2, Making::kNormed, Epilogue::Add});
  cases.push_back({Format::Q4_K, Numerics::F32, Making::kNormed, Epilogue::Store});
  cases.push_back({Format::F16, Numerics::F32, Making::kNormed, Epilogue::Store});
  cases.push_back({Format::BF16, Numerics::F32, Making::kNormed, Epilogue::Swiglu});
  cases.push_back({Format::F32, Numerics::F32, Making::kNormed, Epilogue::Add});
  return cases;
}

class LinearMakingTest : public testing::TestWithParam<Case> {};

TEST_P(LinearMakingTest, GivesTheBitsOfALaunchOfItsOwn) {
  const Case& c = GetParam();
  // Fewer quads than threads; a last turn of few threads.
  const int64_t block = std::max<int64_t>(format_info(c.format).block_elems, 32),
                more = block == 256 ? 768 : 608;
  struct Shape {
    int64_t k, rows, bucket;
  };
  std::vector<Profile> profiles = TestProfiles();
  profiles.push_back(FindProfile("sm80")->profile);  // rows of matrix units lie otherwise
  std::vector<Shape> shapes = {{block, 1, 1}, {block, 8, 8}, {more, 1, 1},
                               {more, 3, 4},  {more, 1, 2},  {512, 7, 8}};
  if (c.making == Making::kGatedNormed && block == 32) shapes.push_back({1216, 2, 2});
  // More parts than a usual workgroup has threads for: wider ones, or rows that are read in several rounds.
  if (c.epilogue == Epilogue::Add) {
    shapes.push_back({2048, 1, 1});
    shapes.push_back({3072, 1, 1});
  }
  for (const Profile& profile : profiles) {
    // Such rows do not fit into the workgroup memory of Vulkan's profiles.
    if (profile.max_shared > FindProfile("sg32-dot")->profile.max_shared && c.epilogue == Epilogue::Add)
      shapes.push_back({3072, 3, 4});
    for (const auto& [k, rows, bucket] : shapes) {
      const std::vector<float> expected = ResultOf(c, profile, k, rows, bucket, true),
                               found = ResultOf(c, profile, k, rows, bucket, false);
      ASSERT_EQ(std::memcmp(expected.data(), found.data(), 4 * expected.size()), 0)
          << profile.name << " k " << k << " rows " << rows << " of " << bucket;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(format_info(c.format).name) + "_" + std::string(plan::textOf(c.numerics)) + "_" +
         (c.making == Making::kNormed    ? "normed_"
          : c.making == Making::kRounded ? "rounded_"
                                         : "gated_normed_") +
         std::string(plan::textOf(c.epilogue));
}
INSTANTIATE_TEST_SUITE_P(Cases, LinearMakingTest, testing::ValuesIn(Cases()), NameOf);

TEST(LinearMaking, StepsWithoutRowsTouchNothing) {
  const Case c = {Format::Q8_0, Numerics::Int8, Making::kNormed, Epilogue::Add};
  for (const Profile& profile : TestProfiles()) {
    EXPECT_EQ(ResultOf(c, profile, 96, 0, 4, false), ResultOf(c, profile, 96, 0, 4, true)) << profile.name;
  }
}

// Where the rows do not fit, where too many workgroups would make them, and for logits.
TEST(LinearMaking, IsLeftToALaunchOfItsOwn) {
  const Profile profile = FindProfile("sg32-dot")->profile;
  Sandbox box(profile, 512);
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  const auto makes = [&](int64_t k, int64_t n, int64_t rows, plan::RowsFrom from = plan::RowsFrom::Rows) {
    const plan::LinearSpec spec = {.format = Format::Q4_K,
                                   .numerics = Numerics::Int8,
                                   .k = k,
                                   .n = n,
                                   .epilogue = Epilogue::Store,
                                   .rows = from};
    return !ExpandMaking(Anywhere(spec, rows, somewhere),
                         {.making = Making::kRounded, .x = somewhere, .weight = somewhere}, box)
                .empty();
  };
  EXPECT_TRUE(makes(1024, 4096, 1));
  EXPECT_TRUE(makes(1024, 4096, 8));
  EXPECT_FALSE(makes(1024, 4096, 9));
  EXPECT_TRUE(makes(6144, 2048, 1));
  EXPECT_TRUE(makes(6144, 2048, 2));
  EXPECT_FALSE(makes(6144, 2048, 4));
  EXPECT_TRUE(makes(2048, 4096, 8));
  EXPECT_TRUE(makes(2560, 4096, 8)) << "sums of parts lie where the rows were";
  EXPECT_FALSE(makes(3072, 4096, 8));
  EXPECT_FALSE(makes(32768, 2048, 1));
  EXPECT_FALSE(makes(1024, 32768, 1));
  EXPECT_FALSE(makes(1024, 4096, 1, plan::RowsFrom::OutRows));
}

}  // namespace
}  // namespace qcc::gpu
