// The numbers that tokens are drawn with: Philox's known answers, and how those of neighbours fall.
#include "runtime/engine/random_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace qrt {
namespace {

TEST(RandomNumbers, ArePhilox4x32_10) {
  // The known answers of Random123 (kat_vectors).
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(RandomAt(0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(RandomAt(0x299f31d0a4093822, 0x85a308d3243f6a88), [] {
    const Four words = Philox({0x243f6a88, 0x85a308d3, 0, 0}, {0xa4093822, 0x299f31d0});
    return words[0] | uint64_t{words[1]} << 32;
  }()) << "low words first";
}

// Neighbours in the position, in the seed and in both: numbers fall evenly, and so do those of pairs.
TEST(RandomNumbers, OfNeighboursAreIndependent) {
  constexpr int kBins = 16, kDraws = 1 << 16;
  const struct {
    const char* name;
    uint64_t (*at)(uint64_t i);
  } walks[] = {{"positions of one seed", [](uint64_t i) { return RandomAt(1, i); }},
               {"seeds at one position", [](uint64_t i) { return RandomAt(i, 100); }},
               {"seed and position together", [](uint64_t i) { return RandomAt(i, i); }},
               {"seed against position", [](uint64_t i) { return RandomAt(1 << 20, (1 << 20) - i); }}};
  for (const auto& walk : walks) {
    std::vector<int> pairs(kBins * kBins);
    for (uint64_t i = 0; i < kDraws; ++i) {
      ++pairs[(walk.at(i) >> 60) * kBins + (walk.at(i + 1) >> 60)];
    }
    const double expected = double{kDraws} / pairs.size();
    double chi = 0;
    for (const int count : pairs) chi += (count - expected) * (count - expected) / expected;
    // 255 degrees of freedom: mean 255, deviation 22.6.
    EXPECT_GT(chi, 255 - 4 * 22.6) << walk.name;
    EXPECT_LT(chi, 255 + 4 * 22.6) << walk.name;
  }
}

}  // namespace
}  // namespace qrt
