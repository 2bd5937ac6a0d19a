// The linear kernel whose workgroups share decoded weights, on the interpreter: the bits of the others; where
// it is chosen. MatrixUnitsGiveEqualBits (linear_test.cc) has it in all formats.
#include "tests/unit/gpu_kernels/linear_problem.h"

namespace qcc::gpu {
namespace {

// Tiles of many rows, in all shapes: a lone chunk of columns; parts of unequal length and empty ones; several
// tiles of rows, the last one ragged; a step of fewer rows than the bucket; rows of two terms.
TEST(SharedMatrixTiles, GiveEqualBits) {
  const Profile profile = FindProfile("sm80")->profile;
  struct Case {
    Format format;
    int64_t k, n, rows;
    int terms = 1;
    int64_t count = -1;
    Epilogue epilogue = Epilogue::Store;
  };
  const Case cases[] = {{Format::Q8_0, 32, 16, 130},
                        {Format::Q4_1, 96, 9 * 16, 257},
                        {Format::Q8_0, 9 * 32, 5 * 16, 150, 1, 70},
                        {Format::Q8_0, 19 * 32, 3 * 16 - 5, 130, 2},
                        {Format::Q4_K, 256, 5 * 16, 140, 2, 65, Epilogue::Swiglu},
                        {Format::Q2_K, 768, 5 * 16, 65, 2, -1, Epilogue::Add}};
  for (const Case& c : cases) {
    const Problem p(c.format, true, c.epilogue, c.k, c.n, c.rows, {}, c.terms);
    const LinearSpec spec = p.Spec();
    const std::vector<float> expected = RunVariant(
        p, profile, [&](int64_t u, int64_t r) { return LinearSplit(spec, profile, 8, u, r); }, c.count);
    if (c.count < 0) ExpectNear(p, expected, profile);
    for (int tile_rows : {64, 128}) {
      const std::vector<float> shared = RunVariant(
          p, profile, [&](int64_t u, int64_t r) { return LinearMatrixShared(spec, tile_rows, u, r); },
          c.count);
      ExpectSameBits(expected, shared, p.Name(profile) + " shared " + std::to_string(tile_rows));
    }
  }
}

// Many rows and columns take them, fewer what has more workgroups; so do those of most experts.
TEST(SharedMatrixTiles, AreChosenWhereTheyFillADevice) {
  const Profile profile = FindProfile("sm80")->profile;
  LinearSpec spec;
  spec.format = Format::Q4_K;
  spec.int8 = true;
  spec.k = 2048;
  const auto suffix = [&](int64_t units, int64_t rows) {
    const std::string name = ChooseLinear(spec, profile, units, rows).name;
    return name.substr(name.rfind('.') + 1);
  };
  EXPECT_EQ(suffix(1024, 512), "ms128");
  EXPECT_EQ(suffix(128, 512), "ms64");
  EXPECT_EQ(suffix(1024, 64), "ms64");
  EXPECT_EQ(suffix(64, 512), "mp32");
  EXPECT_EQ(suffix(2048, 32), "m32x1");
  spec.rows_of = RowsOf::kExpert;
  spec.experts = 8;
  spec.top_k = 2;
  EXPECT_EQ(suffix(128, 1024), "ms64");
  EXPECT_EQ(suffix(128, 4096), "ms128");
}

}  // namespace
}  // namespace qcc::gpu
