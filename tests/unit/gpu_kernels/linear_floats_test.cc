// Linears of float weights on matrix units, on the interpreter: one order of sums for all variants; results
// as close as those of f32 multiply-adds.
#include <limits>

#include "tests/unit/gpu_kernels/linear_problem.h"

namespace qcc::gpu {
namespace {

const Profile& Mma() {
  return FindProfile("sm80")->profile;
}

class FloatsOnMatrixUnits : public testing::TestWithParam<Format> {};

TEST_P(FloatsOnMatrixUnits, VariantsGiveEqualBits) {
  const auto check = [&](const Problem& p) {
    const LinearSpec spec = p.Spec();
    const auto run = [&](const auto& variant) { return RunVariant(p, Mma(), variant); };
    const std::vector<float> one =
        run([&](int64_t u, int64_t r) { return LinearMatrixFew(spec, Mma(), 1, u, r); });
    ExpectNear(p, one, Mma());
    for (int tile_rows : {2, 4, 8}) {
      ExpectSameBits(one,
                     run([&](int64_t u, int64_t r) { return LinearMatrixFew(spec, Mma(), tile_rows, u, r); }),
                     p.Name(Mma()) + " few " + std::to_string(tile_rows));
    }
    for (int tile_rows : {8, 16, 32}) {
      const std::string what = p.Name(Mma()) + " tile of " + std::to_string(tile_rows);
      ExpectSameBits(one, run([&](int64_t u, int64_t r) { return LinearMatrixTiled(spec, tile_rows, u, r); }),
                     what + " tiled");
      ExpectSameBits(one, run([&](int64_t u, int64_t r) { return LinearMatrixSplit(spec, tile_rows, u, r); }),
                     what + " split");
    }
    ExpectSameBits(one, run([&](int64_t u, int64_t r) { return LinearFloatsShared(spec, u, r); }),
                   p.Name(Mma()) + " shared");
  };
  for (Epilogue epilogue : {Epilogue::Store, Epilogue::Add, Epilogue::Swiglu}) {
    check(Problem(GetParam(), false, epilogue, 32, 1, 9));  // a lone group and chunk
    check(Problem(GetParam(), false, epilogue, 512, 24, 9, {true, epilogue == Epilogue::Swiglu}));
  }
  // A last part without chunks or a short one; an odd number of groups; more than two tiles of rows.
  check(Problem(GetParam(), false, Epilogue::Add, 19 * 32, 5 * 16 - 3, 65));
}

// Every bucket, and every row wherever it is.
TEST_P(FloatsOnMatrixUnits, IgnoreOtherRows) {
  const Problem p(GetParam(), false, Epilogue::Add, 320, 40, 65);
  std::vector<float> alone;
  for (int64_t r = 0; r < p.rows; ++r) {
    const std::vector<float> y = RunRows(p, Mma(), r, 1, 1);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  ExpectNear(p, alone, Mma());
  for (const auto& [count, bucket] :
       {std::pair<int64_t, int64_t>{1, 2}, {3, 4}, {5, 8}, {9, 9}, {1, 16}, {17, 33}, {33, 64}, {65, 65}}) {
    const std::vector<float> expected(alone.end() - count * p.ld, alone.end());
    ExpectSameBits(expected, RunRows(p, Mma(), p.rows - count, count, bucket),
                   p.Name(Mma()) + " bucket " + std::to_string(bucket));
  }
  const std::vector<float> sm90 = RunRows(p, FindProfile("sm90")->profile, 0, p.rows, p.rows);
  ExpectSameBits(alone, sm90, "sm90");
}

double Nmse(const Problem& p, const Matrix& w, const Profile& profile) {
  const std::vector<float> y = RunRows(p, profile, 0, p.rows, p.rows);
  double error = 0, power = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double want = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        want += static_cast<double>(w.values[static_cast<size_t>(c * p.k + i)]) *
                p.x[static_cast<size_t>(r * p.k + i)];
      }
      const double off = y[static_cast<size_t>(r * p.ld + c)] - want;
      error += off * off;
      power += want * want;
    }
  }
  return error / power;
}

// Whatever the size of x, also where columns of a row are of very different ones.
TEST_P(FloatsOnMatrixUnits, IsAsCloseAsFloats) {
  for (const int64_t k : {32, 256, 2048}) {
    Problem p(GetParam(), false, Epilogue::Store, k, 48, 16);
    const Matrix w = RandomMatrix(GetParam(), p.n, k, 5);
    p.packed = w.Packed();
    const std::vector<float> x = p.x;
    const auto compare = [&](const std::string& what) {
      // Of 2048 columns it is 1.8 of f16: 16 sums of 128 products each are closer than those of 256.
      EXPECT_LT(Nmse(p, w, Mma()), 2 * Nmse(p, w, FindProfile("sm61")->profile))
          << p.Name(Mma()) << " k " << k << ", x " << what;
    };
    for (const int size : {-70, 0, 70}) {
      for (size_t i = 0; i < x.size(); ++i) p.x[i] = std::ldexp(x[i], size);
      compare("times 2^" + std::to_string(size));
    }
    for (size_t i = 0; i < x.size(); ++i) p.x[i] = std::ldexp(x[i], static_cast<int>(i * 7 % 25) - 12);
    // Of a lone chunk f32 rounds next to nothing: one product is the sum.
    if (k > 32) compare("of many sizes");
    for (size_t i = 0; i < x.size(); ++i) p.x[i] = i % 32 == 9 ? 1e4f * x[i] : x[i];
    // Of few columns those are the sum: f32 rounds next to nothing.
    if (k > 256) compare("of one great column in 32");
    // Products of one sign.
    for (size_t i = 0; i < x.size(); ++i) {
      p.x[i] = std::copysign(x[i], w.values[i % static_cast<size_t>(k)]);
    }
    compare("of the first row's signs");
  }
}

// Rows beyond what bf16 and f16 hold.
TEST_P(FloatsOnMatrixUnits, TakesTheGreatestNumbers) {
  Problem p(GetParam(), false, Epilogue::Store, 32, 16, 2);
  Matrix w = RandomMatrix(GetParam(), 16, 32, 5);
  p.packed = w.Packed();
  std::fill(p.x.begin(), p.x.end(), 0.f);
  p.x[3] = 0x1.fffffep127f;
  p.x[32 + 7] = 0x1.fffffep-110f;
  const std::vector<float> y = RunRows(p, Mma(), 0, 2, 2);
  for (int64_t c = 0; c < p.n; ++c) {
    const float at_3 = w.values[static_cast<size_t>(c * 32 + 3)],
                at_7 = w.values[static_cast<size_t>(c * 32 + 7)];
    ASSERT_LT(std::fabs(at_3), 1.f);
    EXPECT_NEAR(y[static_cast<size_t>(c)] / (at_3 * p.x[3]), 1, 4e-7) << c;
    EXPECT_NEAR(y[static_cast<size_t>(p.ld + c)] / (at_7 * p.x[32 + 7]), 1, 4e-7) << c;
  }
}

// Rows that are not finite stay so, and alone.
TEST_P(FloatsOnMatrixUnits, KeepsWhatIsNotFinite) {
  Problem p(GetParam(), false, Epilogue::Store, 64, 16, 4);
  const std::vector<float> before = RunRows(p, Mma(), 0, 4, 4);
  p.x[3] = std::numeric_limits<float>::infinity();
  p.x[2 * 64 + 40] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> after = RunRows(p, Mma(), 0, 4, 4);
  for (size_t i = 0; i < after.size(); ++i) {
    const size_t row = i / static_cast<size_t>(p.ld), column = i % static_cast<size_t>(p.ld);
    if (row % 2 == 0 && column < static_cast<size_t>(p.n)) {
      EXPECT_FALSE(std::isfinite(after[i])) << row << " " << column;
    } else {
      EXPECT_EQ(after[i], before[i]) << row << " " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FloatsOnMatrixUnits,
                         testing::Values(Format::F16, Format::BF16, Format::F32),
                         [](const testing::TestParamInfo<Format>& info) {
                           return std::string(format_info(info.param).name);
                         });

// All rows or none: sums have another order there.
TEST(FloatsOnMatrixUnits, AreChosenForAllRows) {
  LinearSpec spec;
  spec.k = 1024;
  for (const char* name : {"sm80", "sm90", "sm61", "sg32-matrix32"}) {
    const Profile& profile = FindProfile(name)->profile;
    for (Format format : {Format::F16, Format::BF16, Format::F32, Format::Q4_K}) {
      spec.format = format;
      std::string suffixes;
      for (int64_t rows : {1, 2, 3, 8, 9, 40, 512}) {
        const std::string launch = ChooseLinear(spec, profile, 1024, rows).name;
        suffixes += launch.substr(launch.rfind('.'));
      }
      const bool mma = profile.matrix.kind == MatrixUnits::Kind::kMma && format != Format::Q4_K;
      EXPECT_EQ(suffixes, mma ? ".mr1.mr2.mr4.mr8.mp16.ms32.ms32" : ".r1.r2.r4.r8.r8.t8x4.t8x4")
          << name << " " << spec.name();
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
