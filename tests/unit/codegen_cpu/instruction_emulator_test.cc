// Tile instructions and AVX-VNNI: what those of this machine give, or those that are emulated where it has
// none.
#include "tests/unit/codegen_cpu/instruction_emulator.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <array>
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
  const std::string why = WhyNotHere(Isa::v4amx);
  // Of a machine without AVX-512 the emulator serves them, too, where AVX-VNNI needs it.
  const bool emulated = WhyNotHere(Isa::v3vnni).empty() && ProductsAreEmulated(Isa::v3vnni);
  if (!why.empty() && !emulated) GTEST_SKIP() << why;
  Check<0>(true, true);
  Check<1>(true, false);
  Check<2>(false, true);
  Check<3>(false, false);
}

// Vectors of 256 bits.
struct alignas(32) Vectors {
  explicit Vectors(uint32_t seed) {
    std::mt19937 random(seed);
    for (auto* bytes : {&sums, &a, &b})
      for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random());
  }
  std::array<uint8_t, 32> sums, a, b;

  // As the manual defines them; `words`: of two words, else of four bytes, those of `a` unsigned.
  std::array<uint8_t, 32> Expected(bool words) const {
    std::array<uint8_t, 32> all = sums;
    for (size_t at = 0; at < 32; at += 4) {
      uint32_t sum;
      std::memcpy(&sum, &sums[at], 4);
      for (size_t n = at; n < at + 4; n += words ? 2 : 1) {
        int16_t x, y;
        std::memcpy(&x, &a[n], 2);
        std::memcpy(&y, &b[n], 2);
        sum += static_cast<uint32_t>(words ? x * y : a[n] * static_cast<int8_t>(b[n]));
      }
      std::memcpy(&all[at], &sum, 4);
    }
    return all;
  }
};

// Low registers, high ones, and memory with and without an index.
#define QCC_VNNI(instruction, v, form)                                                                  \
  switch (form) {                                                                                       \
    case 0:                                                                                             \
      asm volatile(                                                                                     \
          "vmovdqu (%0), %%ymm1\n vmovdqu (%1), %%ymm2\n vmovdqu (%2), %%ymm3\n %{vex%} " instruction   \
          " %%ymm3, %%ymm2, %%ymm1\n vmovdqu %%ymm1, (%0)" ::"r"(v.sums.data()),                        \
          "r"(v.a.data()), "r"(v.b.data())                                                              \
          : "xmm1", "xmm2", "xmm3", "memory");                                                          \
      break;                                                                                            \
    case 1:                                                                                             \
      asm volatile(                                                                                     \
          "vmovdqu (%0), %%ymm15\n vmovdqu (%1), %%ymm8\n vmovdqu (%2), %%ymm12\n %{vex%} " instruction \
          " %%ymm12, %%ymm8, %%ymm15\n vmovdqu %%ymm15, (%0)" ::"r"(v.sums.data()),                     \
          "r"(v.a.data()), "r"(v.b.data())                                                              \
          : "xmm8", "xmm12", "xmm15", "memory");                                                        \
      break;                                                                                            \
    case 2:                                                                                             \
      asm volatile("vmovdqu (%0), %%ymm4\n vmovdqu (%1), %%ymm10\n %{vex%} " instruction                \
                   " (%2), %%ymm10, %%ymm4\n vmovdqu %%ymm4, (%0)" ::"r"(v.sums.data()),                \
                   "r"(v.a.data()), "r"(v.b.data())                                                     \
                   : "xmm4", "xmm10", "memory");                                                        \
      break;                                                                                            \
    default:                                                                                            \
      asm volatile("vmovdqu (%0), %%ymm9\n vmovdqu (%1), %%ymm5\n %{vex%} " instruction                 \
                   " -40(%2,%3,8), %%ymm5, %%ymm9\n vmovdqu %%ymm9, (%0)" ::"r"(v.sums.data()),         \
                   "r"(v.a.data()), "r"(v.b.data()), "r"(int64_t{5})                                    \
                   : "xmm5", "xmm9", "memory");                                                         \
  }

TEST(VectorInstructions, AddProducts) {
  if (const std::string why = WhyNotHere(Isa::v3vnni); !why.empty()) GTEST_SKIP() << why;
  const uint64_t before = EmulatedInstructions();
  for (int form = 0; form < 4; ++form) {
    Vectors bytes(form), words(form + 10);
    const auto of_bytes = bytes.Expected(false), of_words = words.Expected(true);
    QCC_VNNI("vpdpbusd", bytes, form);
    QCC_VNNI("vpdpwssd", words, form);
    EXPECT_EQ(bytes.sums, of_bytes) << "operands " << form;
    EXPECT_EQ(words.sums, of_words) << "operands " << form;
  }
  const bool here = missing_cpu_flag(Isa::v3vnni).empty();
  EXPECT_EQ(EmulatedInstructions() - before, here ? 0u : 8u);
}

// Both tests say the same of an emulator that agrees with the manual; this one needs the instructions.
TEST(TileInstructions, TheProcessorsAreUsedWhereThereAreSome) {
  const std::string_view missing = missing_cpu_flag(Isa::v4amx);
  if (!missing.empty()) GTEST_SKIP() << "this machine lacks " << missing << ": tiles are emulated";
  if (!qrt::RequestTileRegisters()) GTEST_SKIP() << "the kernel gives this process no tile registers";
  ASSERT_EQ(WhyNotHere(Isa::v4amx), "");
  Check<0>(true, true);
  EXPECT_EQ(EmulatedInstructions(), 0u);
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
