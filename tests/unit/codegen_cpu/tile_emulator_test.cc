// Tile instructions: what those of this machine give, or those that are emulated where it has none.
#include "tests/unit/codegen_cpu/tile_emulator.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/base/cpu_features.h"

namespace qcc::cpu {
namespace {

struct alignas(64) Shapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(size_t tile, size_t tile_rows, size_t bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
  const uint8_t* bytes() const { return &palette; }
};

// `m` rows of sums, of `n` columns and `k` bytes each.
struct Operands {
  Operands(size_t m, size_t n, size_t k, uint32_t seed) : m(m), n(n), k(k) {
    std::mt19937 random(seed);
    for (auto* bytes : {&a, &b, &sums})
      for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random());
    shapes.Set(0, m, 4 * n);
    shapes.Set(1, m, k);
    shapes.Set(2, k / 4, 4 * n);
  }
  // Sums of products, starting from `sums`, as the manual defines them.
  std::vector<int32_t> Expected(bool a_signed, bool b_signed) const {
    std::vector<int32_t> all;
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        uint32_t sum;
        std::memcpy(&sum, &sums[i * kStride + 4 * j], 4);
        for (size_t c = 0; c < k; ++c) {
          const uint8_t x = a[i * kStride + c], y = b[c / 4 * kStride + 4 * j + c % 4];
          sum += static_cast<uint32_t>((a_signed ? static_cast<int8_t>(x) : x) *
                                       (b_signed ? static_cast<int8_t>(y) : y));
        }
        all.push_back(static_cast<int32_t>(sum));
      }
    }
    return all;
  }
  std::vector<int32_t> Sums() const {
    std::vector<int32_t> all(m * n);
    for (size_t i = 0; i < m; ++i) std::memcpy(&all[i * n], &sums[i * kStride], 4 * n);
    return all;
  }

  static constexpr int64_t kStride = 80;
  size_t m, n, k;
  Shapes shapes;
  std::vector<uint8_t> a = std::vector<uint8_t>(16 * kStride), b = a, sums = a;
};

std::vector<Operands> SomeOperands() {
  return {Operands(16, 16, 64, 1), Operands(16, 16, 32, 2), Operands(16, 16, 16, 3), Operands(5, 3, 12, 4),
          Operands(1, 1, 4, 5)};
}

// Through the code that a compiler makes of the instructions.
#define QCC_TILES __attribute__((target("amx-tile,amx-int8")))
template <int kForm>
QCC_TILES void Multiply(Operands& o) {
  _tile_loadconfig(&o.shapes);
  _tile_loadd(0, o.sums.data(), o.kStride);
  _tile_loadd(1, o.a.data(), o.kStride);
  _tile_stream_loadd(2, o.b.data(), o.kStride);
  if constexpr (kForm == 0) _tile_dpbssd(0, 1, 2);
  if constexpr (kForm == 1) _tile_dpbsud(0, 1, 2);
  if constexpr (kForm == 2) _tile_dpbusd(0, 1, 2);
  if constexpr (kForm == 3) _tile_dpbuud(0, 1, 2);
  _tile_stored(0, o.sums.data(), o.kStride);
  _tile_release();
}

template <int kForm>
void Check(bool a_signed, bool b_signed) {
  for (Operands& o : SomeOperands()) {
    const std::vector<int32_t> expected = o.Expected(a_signed, b_signed);
    Multiply<kForm>(o);
    EXPECT_EQ(o.Sums(), expected) << o.m << " x " << o.n << ", " << o.k << " bytes";
  }
}

TEST(TileInstructions, AddProductsOfBytes) {
  if (const std::string why = WhyNotHere(Isa::v4amx); !why.empty()) GTEST_SKIP() << why;
  Check<0>(true, true);
  Check<1>(true, false);
  Check<2>(false, true);
  Check<3>(false, false);
}

// Both tests say the same of an emulator that agrees with the manual; this one needs the instructions.
TEST(TileInstructions, TheProcessorsAreUsedWhereThereAreSome) {
  const std::string_view missing = missing_cpu_flag(Isa::v4amx);
  if (!missing.empty()) GTEST_SKIP() << "this machine lacks " << missing << ": tiles are emulated";
  if (!qrt::RequestTileRegisters()) GTEST_SKIP() << "the kernel gives this process no tile registers";
  ASSERT_EQ(WhyNotHere(Isa::v4amx), "");
  Check<0>(true, true);
  EXPECT_EQ(EmulatedTileInstructions(), 0u);
}

// What a processor refuses ends the process; the emulator must not be kinder.
TEST(TileRegisters, RefusesWhatDoesNotFit) {
  Operands o(16, 16, 32, 7);
  TileRegisters tiles;
  EXPECT_FALSE(tiles.Clear(0)) << "not configured";
  ASSERT_TRUE(tiles.Configure(o.shapes.bytes()));
  EXPECT_TRUE(tiles.AddProducts(0, 1, 2, true, true));
  EXPECT_FALSE(tiles.AddProducts(0, 1, 1, true, true)) << "one tile twice";
  EXPECT_FALSE(tiles.AddProducts(0, 2, 1, true, true)) << "rows that do not match";
  EXPECT_FALSE(tiles.Clear(3)) << "a tile of no rows";
  tiles.Release();
  EXPECT_FALSE(tiles.Load(1, o.a.data(), o.kStride)) << "released";
  o.shapes.Set(3, 16, 65);
  EXPECT_FALSE(tiles.Configure(o.shapes.bytes())) << "rows too long";
  o.shapes.Set(3, 16, 0);
  EXPECT_FALSE(tiles.Configure(o.shapes.bytes())) << "rows of nothing";
}

}  // namespace
}  // namespace qcc::cpu
