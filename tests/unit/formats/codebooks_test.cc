// Codebooks against the digests of ggml's tables, and hand-made blocks of the formats that use them. The
// points in the blocks are copied from ggml's tables, one byte for each weight, the first weight lowest.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "dialects/formats/codebooks.h"
#include "dialects/formats/formats.h"
#include "tests/unit/formats/handmade.h"

namespace qcc {
namespace {

using testing::Decode;
using testing::kHalf2;
using testing::Put16;
using testing::Put32;

// --- digests ---

// FIPS 180-4.
struct Sha256 {
  static std::string Hex(const std::vector<uint8_t>& message) {
    std::array<uint32_t, 8> h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::vector<uint8_t> padded = message;
    padded.push_back(0x80);
    while (padded.size() % 64 != 56) padded.push_back(0);
    for (int i = 7; i >= 0; --i)
      padded.push_back(static_cast<uint8_t>(uint64_t{message.size()} * 8 >> (8 * i)));
    for (size_t at = 0; at < padded.size(); at += 64) Block(padded.data() + at, h);
    std::string hex;
    for (uint32_t word : h) {
      for (int i = 7; i >= 0; --i) hex.push_back("0123456789abcdef"[word >> (4 * i) & 15]);
    }
    return hex;
  }

 private:
  static constexpr uint32_t kRound[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  static void Block(const uint8_t* p, std::array<uint32_t, 8>& h) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i, p += 4) {
      w[i] = uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
    }
    for (int i = 16; i < 64; ++i) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<uint32_t, 8> s = h;
    for (int i = 0; i < 64; ++i) {
      uint32_t t1 = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                    ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound[i] + w[i];
      uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                    ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (size_t i = 0; i < 8; ++i) h[i] += s[i];
  }
};

TEST(Sha256, OfTheStandardsExample) {
  EXPECT_EQ(Sha256::Hex({'a', 'b', 'c'}), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// ggml's tables hold one byte for each weight: the digests are those of the tables' bytes.
TEST(Codebooks, AreGgmlsTables) {
  struct Known {
    const char* name;
    const Codebook& book;
    int count, width;
    const char* sha256;  // first 32 digits
  };
  const Known known[] = {{"iq2xxs_grid", kIq2XxsBook, 256, 8, "05826b5d3e472a3a78f196be62ac78ac"},
                         {"iq2xs_grid", kIq2XsBook, 512, 8, "06e47aaca60b4dc1d9b5a3f345404370"},
                         {"iq2s_grid", kIq2SBook, 1024, 8, "e1aa1473412b0552c2174c30ef22ab40"},
                         {"iq3xxs_grid", kIq3XxsBook, 256, 4, "46e35f5a997efdee6c99ce57854c8a0d"},
                         {"iq3s_grid", kIq3SBook, 512, 4, "bd1af4945a1717c65610b0284e4628b9"},
                         {"iq1s_grid", kIq1Book, 2048, 8, "07540ffc1aeaf6ad4d97e96b0fcc765a"}};
  for (const Known& k : known) {
    EXPECT_EQ(k.book.count, k.count) << k.name;
    EXPECT_EQ(k.book.width, k.width) << k.name;
    std::vector<uint8_t> bytes;
    for (int i = 0; i < k.book.count; ++i) {
      int digits = k.book.points[i];
      for (int w = 0; w < k.book.width; ++w, digits /= k.book.levels) {
        bytes.push_back(static_cast<uint8_t>(k.book.level[digits % k.book.levels]));
      }
      EXPECT_EQ(digits, 0) << k.name << ", point " << i << " has more digits than weights";
    }
    EXPECT_EQ(Sha256::Hex(bytes).substr(0, 32), k.sha256) << k.name;
  }
}

// --- blocks by hand: which points, signs, scales; everything else follows from the published layouts ---

struct Point {
  uint32_t index;
  uint64_t weights;  // ggml's entry
};

int Byte(uint64_t word, int i) {
  return static_cast<int>(word >> (8 * i) & 255);
}

// A 7-bit sign index and the sign byte that it stands for: the upper bit makes the number of ones even.
uint32_t WithParity(uint32_t seven) {
  uint32_t ones = 0;
  for (int i = 0; i < 7; ++i) ones += seven >> i & 1;
  return seven | (ones % 2) << 7;
}

uint32_t SignsOf(int g) {
  return static_cast<uint32_t>((g * 37 + 5) % 128);
}

TEST(Decode, Iq2Xxs) {
  constexpr Point kPoints[] = {
      {0, 0x0808080808080808}, {1, 0x080808080808082b}, {2, 0x0808080808081919}, {255, 0x2b2b2b1908081908}};
  std::vector<uint8_t> b(66);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kPoints[(g + g / 4) % 4]; };
  auto scale = [](int ib) { return static_cast<uint32_t>((ib * 5 + 3) % 16); };
  for (int ib = 0; ib < 8; ++ib) {
    uint32_t signs = 0;
    for (int l = 0; l < 4; ++l) {
      b[static_cast<size_t>(2 + 8 * ib + l)] = static_cast<uint8_t>(point(4 * ib + l).index);
      signs |= SignsOf(4 * ib + l) << (7 * l);
    }
    Put32(b, static_cast<size_t>(2 + 8 * ib + 4), signs | scale(ib) << 28);
  }
  std::vector<float> y = Decode(Format::IQ2_XXS, b);
  for (int i = 0; i < 256; ++i) {
    int g = i / 8;
    float db = 2.0f * (0.5f + static_cast<float>(scale(i / 32))) * 0.25f;
    float sign = (WithParity(SignsOf(g)) >> (i % 8) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], db * static_cast<float>(Byte(point(g).weights, i % 8)) * sign)
        << "weight " << i;
  }
}

TEST(Decode, Iq2Xs) {
  constexpr Point kPoints[] = {{1, 0x080808080808082b},
                               {255, 0x1908080808081908},
                               {256, 0x190808080808192b},
                               {511, 0x2b2b2b2b2b2b2b2b}};
  std::vector<uint8_t> b(74);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kPoints[(g + g / 4) % 4]; };
  auto scale = [](int j) { return (j * 7 + 2) % 16; };
  for (int g = 0; g < 32; ++g) Put16(b, static_cast<size_t>(2 + 2 * g), point(g).index | SignsOf(g) << 9);
  for (int ib = 0; ib < 8; ++ib) {
    b[static_cast<size_t>(66 + ib)] = static_cast<uint8_t>(scale(2 * ib) | scale(2 * ib + 1) << 4);
  }
  std::vector<float> y = Decode(Format::IQ2_XS, b);
  for (int i = 0; i < 256; ++i) {
    int g = i / 8;
    float db = 2.0f * (0.5f + static_cast<float>(scale(i / 16))) * 0.25f;
    float sign = (WithParity(SignsOf(g)) >> (i % 8) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], db * static_cast<float>(Byte(point(g).weights, i % 8)) * sign)
        << "weight " << i;
  }
}

TEST(Decode, Iq2S) {
  constexpr Point kPoints[] = {{1, 0x080808080808082b},
                               {256, 0x0819081919191919},
                               {512, 0x19080819082b1919},
                               {1023, 0x2b2b2b2b2b2b2b2b}};
  std::vector<uint8_t> b(82);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kPoints[(g + g / 4) % 4]; };
  auto scale = [](int j) { return (j * 7 + 2) % 16; };
  auto signs = [](int g) { return static_cast<uint32_t>((g * 73 + 129) % 256); };
  for (int g = 0; g < 32; ++g) {
    b[static_cast<size_t>(2 + g)] = static_cast<uint8_t>(point(g).index & 255);
    b[static_cast<size_t>(34 + g)] = static_cast<uint8_t>(signs(g));
    size_t high = static_cast<size_t>(66 + g / 4);
    b[high] = static_cast<uint8_t>(b[high] | (point(g).index >> 8) << (2 * (g % 4)));
  }
  for (int ib = 0; ib < 8; ++ib) {
    b[static_cast<size_t>(74 + ib)] = static_cast<uint8_t>(scale(2 * ib) | scale(2 * ib + 1) << 4);
  }
  std::vector<float> y = Decode(Format::IQ2_S, b);
  for (int i = 0; i < 256; ++i) {
    int g = i / 8;
    float db = 2.0f * (0.5f + static_cast<float>(scale(i / 16))) * 0.25f;
    float sign = (signs(g) >> (i % 8) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], db * static_cast<float>(Byte(point(g).weights, i % 8)) * sign)
        << "weight " << i;
  }
}

TEST(Decode, Iq3Xxs) {
  constexpr Point kPoints[] = {{0, 0x04040404}, {1, 0x04040414}, {128, 0x141c3e04}, {255, 0x3e341c04}};
  std::vector<uint8_t> b(98);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kPoints[(g + g / 8) % 4]; };
  auto scale = [](int ib) { return static_cast<uint32_t>((ib * 5 + 3) % 16); };
  for (int g = 0; g < 64; ++g) b[static_cast<size_t>(2 + g)] = static_cast<uint8_t>(point(g).index);
  for (int ib = 0; ib < 8; ++ib) {
    uint32_t signs = 0;
    for (int l = 0; l < 4; ++l) signs |= SignsOf(4 * ib + l) << (7 * l);
    Put32(b, static_cast<size_t>(66 + 4 * ib), signs | scale(ib) << 28);
  }
  std::vector<float> y = Decode(Format::IQ3_XXS, b);
  for (int i = 0; i < 256; ++i) {
    float db = 2.0f * (0.5f + static_cast<float>(scale(i / 32))) * 0.5f;
    float sign = (WithParity(SignsOf(i / 8)) >> (i % 8) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], db * static_cast<float>(Byte(point(i / 4).weights, i % 4)) * sign)
        << "weight " << i;
  }
}

TEST(Decode, Iq3S) {
  constexpr Point kPoints[] = {{0, 0x01010101}, {255, 0x05090501}, {256, 0x05090507}, {511, 0x0f0f0101}};
  std::vector<uint8_t> b(110);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kPoints[(g + g / 8) % 4]; };
  auto scale = [](int ib) { return (ib * 5 + 3) % 16; };
  auto signs = [](int g) { return static_cast<uint32_t>((g * 73 + 129) % 256); };
  for (int g = 0; g < 64; ++g) {
    b[static_cast<size_t>(2 + g)] = static_cast<uint8_t>(point(g).index & 255);
    size_t high = static_cast<size_t>(66 + g / 8);
    b[high] = static_cast<uint8_t>(b[high] | (point(g).index >> 8) << (g % 8));
  }
  for (int g = 0; g < 32; ++g) b[static_cast<size_t>(74 + g)] = static_cast<uint8_t>(signs(g));
  for (int ib = 0; ib < 4; ++ib) {
    b[static_cast<size_t>(106 + ib)] = static_cast<uint8_t>(scale(2 * ib) | scale(2 * ib + 1) << 4);
  }
  std::vector<float> y = Decode(Format::IQ3_S, b);
  for (int i = 0; i < 256; ++i) {
    float db = 2.0f * static_cast<float>(1 + 2 * scale(i / 32));
    float sign = (signs(i / 8) >> (i % 8) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(y[static_cast<size_t>(i)], db * static_cast<float>(Byte(point(i / 4).weights, i % 4)) * sign)
        << "weight " << i;
  }
}

// Points of IQ1: bytes 0xff, 0 and 1 are -1, 0 and 1.
constexpr Point kIq1Points[] = {{0, 0xffffffffffffffff},
                                {300, 0xff000000ff00ff00},
                                {1024, 0x0000000000ff0100},
                                {2047, 0x0101010101010101}};

float Ternary(uint64_t weights, int i) {
  return static_cast<float>(static_cast<int8_t>(Byte(weights, i)));
}

TEST(Decode, Iq1S) {
  std::vector<uint8_t> b(50);
  Put16(b, 0, kHalf2);
  auto point = [&](int g) { return kIq1Points[(g + g / 4) % 4]; };
  auto scale = [](int ib) { return static_cast<uint32_t>((ib * 5 + 1) % 8); };
  auto minus = [](int ib) { return ib % 3 == 1; };
  for (int ib = 0; ib < 8; ++ib) {
    uint32_t high = scale(ib) << 12 | (minus(ib) ? 0x8000u : 0u);
    for (int l = 0; l < 4; ++l) {
      b[static_cast<size_t>(2 + 4 * ib + l)] = static_cast<uint8_t>(point(4 * ib + l).index & 255);
      high |= (point(4 * ib + l).index >> 8) << (3 * l);
    }
    Put16(b, static_cast<size_t>(34 + 2 * ib), high);
  }
  std::vector<float> y = Decode(Format::IQ1_S, b);
  for (int i = 0; i < 256; ++i) {
    float dl = 2.0f * static_cast<float>(2 * scale(i / 32) + 1);
    float delta = minus(i / 32) ? -0.125f : 0.125f;
    EXPECT_EQ(y[static_cast<size_t>(i)], dl * (Ternary(point(i / 8).weights, i % 8) + delta))
        << "weight " << i;
  }
}

TEST(Decode, Iq1M) {
  std::vector<uint8_t> b(56);
  auto point = [&](int g) { return kIq1Points[(g + g / 4) % 4]; };
  auto scale = [](int j) { return static_cast<uint32_t>((j * 3 + 1) % 8); };
  auto minus = [](int g) { return g % 3 == 1; };
  for (int g = 0; g < 32; ++g) {
    b[static_cast<size_t>(g)] = static_cast<uint8_t>(point(g).index & 255);
    uint32_t nibble = point(g).index >> 8 | (minus(g) ? 8u : 0u);
    size_t high = static_cast<size_t>(32 + g / 2);
    b[high] = static_cast<uint8_t>(b[high] | nibble << (4 * (g % 2)));
  }
  constexpr uint32_t kHalf = 0x3e59;  // 1.5869140625: four different nibbles
  for (int k = 0; k < 4; ++k) {
    uint32_t word = (kHalf >> (4 * k) & 15) << 12;
    for (int l = 0; l < 4; ++l) word |= scale(4 * k + l) << (3 * l);
    Put16(b, static_cast<size_t>(48 + 2 * k), word);
  }
  std::vector<float> y = Decode(Format::IQ1_M, b);
  for (int i = 0; i < 256; ++i) {
    float dl = 1.5869140625f * static_cast<float>(2 * scale(i / 16) + 1);
    float delta = minus(i / 8) ? -0.125f : 0.125f;
    EXPECT_EQ(y[static_cast<size_t>(i)], dl * (Ternary(point(i / 8).weights, i % 8) + delta))
        << "weight " << i;
  }
}

}  // namespace
}  // namespace qcc
