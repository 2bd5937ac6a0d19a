// Quotients that are made of products and sums, against those of the host, which are correctly rounded.
#include "codegen/gpu/kernels/quotients.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

float Moved(float x, int ulps) {
  return std::bit_cast<float>(std::bit_cast<int32_t>(x) + ulps);
}

// Of other binades the quotients are these times a power of two, as long as nothing is subnormal.
TEST(GpuQuotients, Of127AreCorrectlyRoundedForEveryMantissa) {
  const int32_t one = std::bit_cast<int32_t>(1.f), two = std::bit_cast<int32_t>(2.f);
  for (int32_t bits = one; bits < two; ++bits) {
    const float m = std::bit_cast<float>(bits);
    ASSERT_EQ(Over127(m), m / 127.f) << m;
  }
}

TEST(GpuQuotients, Of127AtTheEndsOfTheirRange) {
  for (const float end : {0x1p-94f, 0x1p127f}) {
    for (int i = 1; i <= 100000; ++i) {
      const float m = Moved(end, end < 1.f ? i - 1 : -i);
      ASSERT_EQ(Over127(m), m / 127.f) << m;
    }
  }
}

// Rows of every size, with the scales that divisions give: also subnormal ones, those next to them, and the
// greatest.
TEST(GpuQuotients, RowsAreTheHosts) {
  constexpr int64_t kCols = 32;
  std::vector<float> x;
  Random random(3);
  int64_t rows = 0;
  for (int exponent = -149; exponent <= 127; ++exponent, ++rows) {
    std::vector<float> row = random.Normals(kCols);
    float peak = 0;
    for (float v : row) peak = std::max(peak, std::fabs(v));
    for (float v : row) x.push_back(std::ldexp(v / peak * 1.99f, exponent));
  }
  for (const char* profile : {"none", "sg8-dot", "sg32-dot", "sm61"}) {
    Sandbox box(FindProfile(profile)->profile, rows);
    Dispatch<plan::QuantizeSpec> d;
    d.spec = {.cols = kCols};
    d.rows = rows;
    d.bindings.x = box.Arena(x);
    d.bindings.out_q = box.Arena(static_cast<uint64_t>(rows * layouts::Int8RowBytes(kCols)));
    SetRows(box, static_cast<uint32_t>(rows));
    ASSERT_EQ(box.Run(Expand_quantize, d), "");
    const std::vector<uint8_t> got = box.Read<uint8_t>(*d.bindings.out_q),
                               want = QuantizedRows(x, rows, kCols);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * layouts::Int8RowBytes(kCols);
      ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(at)], &want[static_cast<size_t>(at)],
                            static_cast<size_t>(layouts::Int8UsedBytes(kCols))),
                0)
          << profile << ", peak below 2^" << r - 148;
    }
  }
}

TEST(GpuQuotients, CudaDividesExactly) {
  for (const ProfileInfo& info : Profiles()) {
    EXPECT_EQ(info.profile.exact_division, info.target == "cuda") << info.profile.name;
  }
}

}  // namespace
}  // namespace qcc::gpu
