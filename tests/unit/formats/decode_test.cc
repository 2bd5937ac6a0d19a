// Decode against values worked out by hand from the published block layouts. Each block is built field by
// field here, independently of the library's own packing code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/formats/descriptions.h"
#include "dialects/formats/formats.h"
#include "tests/unit/formats/handmade.h"

namespace qcc {
namespace {

using testing::Decode;
using testing::kHalf2;
using testing::kHalfMinus3;
using testing::kHalfTenth;
using testing::Put16;
using testing::Put32;

TEST(Decode, PlainFormats) {
  EXPECT_EQ(Decode(Format::F32, {0x00, 0x00, 0xc0, 0xbf})[0], -1.5f);
  EXPECT_EQ(Decode(Format::F16, {0x00, 0xbe})[0], -1.5f);
  EXPECT_EQ(Decode(Format::F16, {0x01, 0x00})[0], 0x1p-24f);
  EXPECT_EQ(Decode(Format::BF16, {0xc0, 0xbf})[0], -1.5f);
  EXPECT_EQ(Decode(Format::BF16, {0x49, 0x40})[0], 3.140625f);
}

TEST(Decode, Q4_0) {
  std::vector<uint8_t> b(18);
  Put16(b, 0, kHalf2);
  for (int j = 0; j < 16; ++j) b[2 + j] = static_cast<uint8_t>(j | ((15 - j) << 4));
  std::vector<float> y = Decode(Format::Q4_0, b);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(y[j], 2.0f * (j - 8)) << "weight " << j;
    EXPECT_EQ(y[j + 16], 2.0f * (7 - j)) << "weight " << j + 16;
  }
}

TEST(Decode, Q4_1) {
  std::vector<uint8_t> b(20);
  Put16(b, 0, kHalfTenth);
  Put16(b, 2, kHalfMinus3);
  for (int j = 0; j < 16; ++j) b[4 + j] = static_cast<uint8_t>(j | ((15 - j) << 4));
  std::vector<float> y = Decode(Format::Q4_1, b);
  for (int j = 0; j < 16; ++j) {
    float low = 0.0999755859375f * static_cast<float>(j);
    float high = 0.0999755859375f * static_cast<float>(15 - j);
    EXPECT_EQ(y[j], low - 3.0f) << "weight " << j;
    EXPECT_EQ(y[j + 16], high - 3.0f) << "weight " << j + 16;
  }
}

TEST(Decode, Q8_0) {
  std::vector<uint8_t> b(34);
  Put16(b, 0, kHalfTenth);
  for (int j = 0; j < 32; ++j) b[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(j * 8 - 128));
  std::vector<float> y = Decode(Format::Q8_0, b);
  for (int j = 0; j < 32; ++j)
    EXPECT_EQ(y[j], 0.0999755859375f * static_cast<float>(j * 8 - 128)) << "weight " << j;
}

// Packed scales and minima of the K-quants: all distinct, and above 15 for groups 4-7 so that the split bits
// matter.
constexpr int kScale[8] = {1, 22, 43, 63, 17, 38, 59, 40};
constexpr int kMin[8] = {62, 41, 20, 3, 50, 29, 33, 12};

void PutScales(uint8_t* b) {
  for (int j = 0; j < 4; ++j) {
    b[j] = static_cast<uint8_t>(kScale[j] + 64 * (kScale[j + 4] / 16));
    b[j + 4] = static_cast<uint8_t>(kMin[j] + 64 * (kMin[j + 4] / 16));
    b[j + 8] = static_cast<uint8_t>(kScale[j + 4] % 16 + 16 * (kMin[j + 4] % 16));
  }
}

TEST(Decode, Q4_K) {
  std::vector<uint8_t> b(144);
  Put16(b, 0, kHalfTenth);
  Put16(b, 2, kHalf2);
  PutScales(b.data() + 4);
  auto code = [](int i) { return (i * 7 + i / 32) % 16; };
  for (int i = 0; i < 256; ++i) {
    int p = i / 64, l = i % 32;
    b[16 + 32 * p + l] = static_cast<uint8_t>(b[16 + 32 * p + l] | (code(i) << (i % 64 < 32 ? 0 : 4)));
  }
  std::vector<float> y = Decode(Format::Q4_K, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(kScale[i / 32]);
    float m = 2.0f * static_cast<float>(kMin[i / 32]);
    float product = s * static_cast<float>(code(i));
    EXPECT_EQ(y[i], product - m) << "weight " << i;
  }
}

TEST(Decode, Q5_K) {
  std::vector<uint8_t> b(176);
  Put16(b, 0, kHalfTenth);
  Put16(b, 2, kHalf2);
  PutScales(b.data() + 4);
  auto code = [](int i) { return (i * 11 + i / 32) % 32; };
  for (int i = 0; i < 256; ++i) {
    int p = i / 64, l = i % 32;
    b[48 + 32 * p + l] = static_cast<uint8_t>(b[48 + 32 * p + l] | ((code(i) % 16) << (i % 64 < 32 ? 0 : 4)));
    b[16 + l] = static_cast<uint8_t>(b[16 + l] | ((code(i) / 16) << (i / 32)));
  }
  std::vector<float> y = Decode(Format::Q5_K, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(kScale[i / 32]);
    float m = 2.0f * static_cast<float>(kMin[i / 32]);
    float product = s * static_cast<float>(code(i));
    EXPECT_EQ(y[i], product - m) << "weight " << i;
  }
}

TEST(Decode, Q6_K) {
  std::vector<uint8_t> b(210);
  Put16(b, 208, kHalfTenth);
  auto code = [](int i) { return (i * 13 + i / 16) % 64; };
  auto scale = [](int g) { return g * 16 - 127; };
  for (int i = 0; i < 256; ++i) {
    int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    // Quarters 0 and 1 are the low nibbles of ql bytes 0-31 and 32-63, quarters 2 and 3 the high nibbles.
    size_t low = static_cast<size_t>(64 * half + l + (quarter % 2) * 32);
    b[low] = static_cast<uint8_t>(b[low] | ((code(i) % 16) << (quarter < 2 ? 0 : 4)));
    size_t high = static_cast<size_t>(128 + 32 * half + l);
    b[high] = static_cast<uint8_t>(b[high] | ((code(i) / 16) << (2 * quarter)));
  }
  for (int g = 0; g < 16; ++g) b[192 + g] = static_cast<uint8_t>(static_cast<int8_t>(scale(g)));
  std::vector<float> y = Decode(Format::Q6_K, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(scale(i / 16));
    EXPECT_EQ(y[i], s * static_cast<float>(code(i) - 32)) << "weight " << i;
  }
}

TEST(Decode, Q5_0) {
  std::vector<uint8_t> b(22);
  Put16(b, 0, kHalfTenth);
  auto code = [](int i) { return (i * 11 + 3) % 32; };
  uint32_t fifth = 0;
  for (int j = 0; j < 16; ++j) {
    b[static_cast<size_t>(6 + j)] = static_cast<uint8_t>(code(j) % 16 | (code(j + 16) % 16) << 4);
  }
  for (int i = 0; i < 32; ++i) fifth |= static_cast<uint32_t>(code(i) / 16) << i;
  Put32(b, 2, fifth);
  std::vector<float> y = Decode(Format::Q5_0, b);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], 0.0999755859375f * static_cast<float>(code(i) - 16)) << "weight " << i;
  }
}

TEST(Decode, Q5_1) {
  std::vector<uint8_t> b(24);
  Put16(b, 0, kHalfTenth);
  Put16(b, 2, kHalfMinus3);
  auto code = [](int i) { return (i * 11 + 3) % 32; };
  uint32_t fifth = 0;
  for (int j = 0; j < 16; ++j) {
    b[static_cast<size_t>(8 + j)] = static_cast<uint8_t>(code(j) % 16 | (code(j + 16) % 16) << 4);
  }
  for (int i = 0; i < 32; ++i) fifth |= static_cast<uint32_t>(code(i) / 16) << i;
  Put32(b, 4, fifth);
  std::vector<float> y = Decode(Format::Q5_1, b);
  for (int i = 0; i < 32; ++i) {
    float product = 0.0999755859375f * static_cast<float>(code(i));
    EXPECT_EQ(y[i], product - 3.0f) << "weight " << i;
  }
}

// Place of the 2-bit code of weight i of a 256-weight block: 32 bytes hold 128 weights, 32 at each bit pair.
size_t PairByte(int i) {
  return static_cast<size_t>(i / 128 * 32 + i % 32);
}
int PairShift(int i) {
  return i % 128 / 32 * 2;
}

TEST(Decode, Q2_K) {
  std::vector<uint8_t> b(84);
  Put16(b, 80, kHalfTenth);
  Put16(b, 82, kHalf2);
  auto code = [](int i) { return (i * 7 + i / 32) % 4; };
  auto scale = [](int g) { return (g * 5 + 3) % 16; };
  auto min = [](int g) { return (g * 11 + 6) % 16; };
  for (int g = 0; g < 16; ++g) b[static_cast<size_t>(g)] = static_cast<uint8_t>(scale(g) | min(g) << 4);
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = b[16 + PairByte(i)];
    byte = static_cast<uint8_t>(byte | code(i) << PairShift(i));
  }
  std::vector<float> y = Decode(Format::Q2_K, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(scale(i / 16));
    float m = 2.0f * static_cast<float>(min(i / 16));
    float product = s * static_cast<float>(code(i));
    EXPECT_EQ(y[i], product - m) << "weight " << i;
  }
}

TEST(Decode, Q3_K) {
  std::vector<uint8_t> b(110);
  Put16(b, 108, kHalfTenth);
  auto code = [](int i) { return (i * 5 + i / 32) % 8 - 4; };
  auto scale = [](int g) { return (g * 27 + 9) % 64; };  // 32 is subtracted
  for (int g = 0; g < 16; ++g) {
    // Low nibbles: scales 0-7 in the low, 8-15 in the high halves of 8 bytes; the upper two bits of scales j,
    // j + 4, j + 8, j + 12 share byte 8 + j.
    uint8_t& low = b[static_cast<size_t>(96 + g % 8)];
    low = static_cast<uint8_t>(low | (scale(g) % 16) << (g < 8 ? 0 : 4));
    uint8_t& high = b[static_cast<size_t>(104 + g % 4)];
    high = static_cast<uint8_t>(high | (scale(g) / 16) << (g / 4 * 2));
  }
  for (int i = 0; i < 256; ++i) {
    uint8_t& pair = b[32 + PairByte(i)];
    pair = static_cast<uint8_t>(pair | ((code(i) + 4) % 4) << PairShift(i));
    if (code(i) < 0) continue;  // a mask bit that is not set takes 4 away
    uint8_t& mask = b[static_cast<size_t>(i % 32)];
    mask = static_cast<uint8_t>(mask | 1 << (i / 32));
  }
  std::vector<float> y = Decode(Format::Q3_K, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(scale(i / 16) - 32);
    EXPECT_EQ(y[i], s * static_cast<float>(code(i))) << "weight " << i;
  }
}

constexpr float kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

TEST(Decode, Iq4Nl) {
  std::vector<uint8_t> b(18);
  Put16(b, 0, kHalfTenth);
  for (int j = 0; j < 16; ++j) b[static_cast<size_t>(2 + j)] = static_cast<uint8_t>(j | (15 - j) << 4);
  std::vector<float> y = Decode(Format::IQ4_NL, b);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(y[j], 0.0999755859375f * kIq4Values[j]) << "weight " << j;
    EXPECT_EQ(y[j + 16], 0.0999755859375f * kIq4Values[15 - j]) << "weight " << j + 16;
  }
}

TEST(Decode, Iq4Xs) {
  std::vector<uint8_t> b(136);
  Put16(b, 0, kHalfTenth);
  auto code = [](int i) { return (i * 7 + i / 32) % 16; };
  auto scale = [](int g) { return (g * 27 + 9) % 64; };
  uint32_t upper = 0;
  for (int g = 0; g < 8; ++g) {
    uint8_t& low = b[static_cast<size_t>(4 + g / 2)];
    low = static_cast<uint8_t>(low | (scale(g) % 16) << (g % 2 * 4));
    upper |= static_cast<uint32_t>(scale(g) / 16) << (2 * g);
  }
  Put16(b, 2, upper);
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = b[static_cast<size_t>(8 + i / 32 * 16 + i % 16)];
    byte = static_cast<uint8_t>(byte | code(i) << (i % 32 < 16 ? 0 : 4));
  }
  std::vector<float> y = Decode(Format::IQ4_XS, b);
  for (int i = 0; i < 256; ++i) {
    float s = 0.0999755859375f * static_cast<float>(scale(i / 32) - 32);
    EXPECT_EQ(y[i], s * kIq4Values[code(i)]) << "weight " << i;
  }
}

// Five base-3 digits, first digit first, as a fraction of 256 rounded up.
uint8_t FiveTrits(const int (&t)[5]) {
  int v = (((t[0] * 3 + t[1]) * 3 + t[2]) * 3 + t[3]) * 3 + t[4];
  return static_cast<uint8_t>((v * 256 + 242) / 243);
}

TEST(Decode, Tq1_0) {
  std::vector<uint8_t> b(54);
  Put16(b, 52, kHalfTenth);
  auto trit = [](int i) { return (i * 7 + i / 9) % 3; };
  for (int j = 0; j < 32; ++j) {
    b[static_cast<size_t>(j)] = FiveTrits({trit(j), trit(32 + j), trit(64 + j), trit(96 + j), trit(128 + j)});
  }
  for (int j = 0; j < 16; ++j) {
    b[static_cast<size_t>(32 + j)] =
        FiveTrits({trit(160 + j), trit(176 + j), trit(192 + j), trit(208 + j), trit(224 + j)});
  }
  for (int j = 0; j < 4; ++j) {
    b[static_cast<size_t>(48 + j)] =
        FiveTrits({trit(240 + j), trit(244 + j), trit(248 + j), trit(252 + j), 0});
  }
  std::vector<float> y = Decode(Format::TQ1_0, b);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(y[i], 0.0999755859375f * static_cast<float>(trit(i) - 1)) << "weight " << i;
  }
}

TEST(Decode, Tq2_0) {
  std::vector<uint8_t> b(66);
  Put16(b, 64, kHalfTenth);
  auto code = [](int i) { return (i * 7 + i / 32) % 4; };
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = b[PairByte(i)];
    byte = static_cast<uint8_t>(byte | code(i) << PairShift(i));
  }
  std::vector<float> y = Decode(Format::TQ2_0, b);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(y[i], 0.0999755859375f * static_cast<float>(code(i) - 1)) << "weight " << i;
  }
}

constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

TEST(Decode, Mxfp4) {
  // Exponent bytes 0 and 1 give subnormal scales; the largest values of 252 are just within f32.
  for (int e : {0, 1, 2, 100, 127, 130, 252}) {
    std::vector<uint8_t> b(17);
    b[0] = static_cast<uint8_t>(e);
    for (int j = 0; j < 16; ++j) b[static_cast<size_t>(1 + j)] = static_cast<uint8_t>(j | (15 - j) << 4);
    std::vector<float> y = Decode(Format::MXFP4, b);
    for (int j = 0; j < 16; ++j) {
      EXPECT_EQ(y[j], std::ldexp(kE2m1[j], e - 127)) << "exponent " << e << ", weight " << j;
      EXPECT_EQ(y[j + 16], std::ldexp(kE2m1[15 - j], e - 127)) << "exponent " << e << ", weight " << j + 16;
      EXPECT_FALSE(j == 8 && std::signbit(y[8])) << "minus zero decodes to plus zero";
    }
  }
}

TEST(Decode, Nvfp4) {
  // 1.5 * 2^1; a subnormal 3 * 2^-9; the largest, 1.75 * 2^8; 0x7f, which counts as zero.
  const std::pair<uint8_t, float> scales[] = {
      {0x44, 3.0f}, {0x03, 3 * 0x1p-9f}, {0x7e, 448.0f}, {0x7f, 0.0f}};
  std::vector<uint8_t> b(36);
  for (int g = 0; g < 4; ++g) b[static_cast<size_t>(g)] = scales[g].first;
  auto code = [](int i) { return (i * 7 + i / 16) % 16; };
  for (int i = 0; i < 64; ++i) {
    uint8_t& byte = b[static_cast<size_t>(4 + i / 16 * 8 + i % 8)];
    byte = static_cast<uint8_t>(byte | code(i) << (i % 16 < 8 ? 0 : 4));
  }
  std::vector<float> y = Decode(Format::NVFP4, b);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], scales[i / 16].second * kE2m1[code(i)]) << "weight " << i;
}

TEST(Decode, Q1_0) {
  std::vector<uint8_t> b(18);
  Put16(b, 0, kHalfTenth);
  auto bit = [](int i) { return (i * 7 + i / 11) % 2; };
  for (int i = 0; i < 128; ++i) {
    uint8_t& byte = b[static_cast<size_t>(2 + i / 8)];
    byte = static_cast<uint8_t>(byte | bit(i) << (i % 8));
  }
  std::vector<float> y = Decode(Format::Q1_0, b);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(y[i], bit(i) != 0 ? 0.0999755859375f : -0.0999755859375f) << "weight " << i;
  }
}

TEST(Decode, Q2_0InGroupsOf64AndOf128) {
  for (auto [format, group] : {std::pair{Format::Q2_0, 64}, std::pair{Format::Q2_0_G128, 128}}) {
    std::vector<uint8_t> b(static_cast<size_t>(2 + group / 4));
    Put16(b, 0, kHalfTenth);
    auto code = [](int i) { return (i * 7 + i / 5) % 4; };
    for (int i = 0; i < group; ++i) {
      uint8_t& byte = b[static_cast<size_t>(2 + i / 4)];
      byte = static_cast<uint8_t>(byte | code(i) << (2 * (i % 4)));
    }
    std::vector<float> y = Decode(format, b);
    for (int i = 0; i < group; ++i) {
      EXPECT_EQ(y[static_cast<size_t>(i)], 0.0999755859375f * static_cast<float>(code(i) - 1))
          << "group " << group << ", weight " << i;
    }
  }
}

// Every format of the table has a handcrafted test above or, if it has a codebook, in codebooks_test.cc; a
// new row without one fails here.
TEST(Decode, EveryRowIsTestedByHand) {
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) name,
  const char* rows[] = {
#include "dialects/formats/formats.def"
  };
#undef QCC_FORMAT
  for (const char* row : rows) {
    bool tested = false;
    for (const char* known :
         {"f32",    "f16",    "bf16",  "q4_0",  "q4_1",  "q8_0",    "q4_k",   "q5_k",  "q6_k",     "q5_0",
          "q5_1",   "q2_k",   "q3_k",  "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs",  "iq3_s",
          "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4",   "q1_0",   "q2_0",  "q2_0_g128"}) {
      tested = tested || std::strcmp(row, known) == 0;
    }
    EXPECT_TRUE(tested) << "format " << row << " has no handcrafted decode test";
  }
}

// What packers and kernels work from says the same as decoding, whatever the bytes.
TEST(TakeApart, SaysWhatDecodingSays) {
  std::mt19937 random(9);
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    if (info.cls == FormatClass::kPlain) continue;
    const PlainForm& form = description(info.id).plain;
    const int codes = form.table_size != 0 ? form.table_size : 1 << form.bits;
    std::vector<uint8_t> block(static_cast<size_t>(info.block_bytes));
    std::vector<float> want(256), got(256);
    for (int round = 0; round < 100; ++round) {
      for (uint8_t& b : block) b = static_cast<uint8_t>(random());
      PlainBlock apart;
      take_apart(info.id, block.data(), apart);
      for (int c = 0; c < form.block; ++c) ASSERT_LT(apart.code[c], codes) << info.name << ", weight " << c;
      plain_values(form, apart, got.data());
      info.decode_block(block.data(), want.data());
      // Which NaN comes of two is the compiler's choice.
      for (int c = 0; c < form.block; ++c) {
        const bool same = std::memcmp(&got[c], &want[c], sizeof(float)) == 0;
        ASSERT_TRUE(same || (std::isnan(got[c]) && std::isnan(want[c]))) << info.name << ", weight " << c;
      }
    }
  }
}

// The forms keep what plain_form.h promises to kernels.
TEST(PlainForms, KeepTheirPromises) {
  for (const FormatDescription& d : kDescriptions) {
    const PlainForm& p = d.plain;
    const std::string_view name = format_info(d.id).name;
    if (p.block == 0) continue;
    EXPECT_EQ(p.block % p.columns_per_base, 0) << name;
    EXPECT_EQ(p.columns_per_base % 16, 0) << name;
    EXPECT_EQ(p.columns_per_base % p.columns_per_scale, 0) << name;
    EXPECT_TRUE(p.columns_per_scale == 16 || p.columns_per_scale % 32 == 0) << name;
    EXPECT_LE(p.bases(), 16) << name;
    EXPECT_LE(p.scales(), 16) << name;
    EXPECT_TRUE(p.bits >= 1 && p.bits <= 8 && p.bits != 7) << name;
    EXPECT_LE(p.table_size, std::min(16, 1 << p.bits)) << name;
    for (int i = 1; i < p.table_size; ++i) EXPECT_LT(p.table[i - 1], p.table[i]) << name << " " << i;
    int exponent = 0;
    EXPECT_EQ(std::frexp(p.factor, &exponent), 0.5f) << name << ": the factor is no power of two";
  }
}

TEST(Decode, RowIsBlockAfterBlock) {
  std::mt19937 random(7);
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    constexpr int64_t kN = 1024;
    std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(info.id, kN)));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    std::vector<float> row(kN), single(256);
    decode_row(info.id, bytes.data(), kN, row.data());
    for (int64_t at = 0; at < kN; at += info.block_elems) {
      info.decode_block(bytes.data() + at / info.block_elems * info.block_bytes, single.data());
      ASSERT_EQ(
          std::memcmp(single.data(), row.data() + at, sizeof(float) * static_cast<size_t>(info.block_elems)),
          0)
          << info.name << " differs at weight " << at;
    }
  }
}

// A kernel may read a block at any address.
TEST(Decode, NeedsNoAlignment) {
  std::mt19937 random(8);
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    std::vector<uint8_t> block(static_cast<size_t>(info.block_bytes) + 1);
    for (uint8_t& b : block) b = static_cast<uint8_t>(random() & 0x3f);
    std::vector<float> odd(256), even(256);
    info.decode_block(block.data() + 1, odd.data());
    std::vector<uint8_t> copy(block.begin() + 1, block.end());
    info.decode_block(copy.data(), even.data());
    EXPECT_EQ(std::memcmp(odd.data(), even.data(), sizeof(float) * static_cast<size_t>(info.block_elems)), 0)
        << info.name;
  }
}

}  // namespace
}  // namespace qcc
