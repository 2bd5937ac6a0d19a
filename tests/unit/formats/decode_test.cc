// Decode against values worked out by hand from the published block layouts. Each block is built field by
// field here, independently of the library's own packing code.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "dialects/formats/formats.h"

namespace qcc {
namespace {

constexpr uint16_t kHalf2 = 0x4000;       // 2.0
constexpr uint16_t kHalfMinus3 = 0xc200;  // -3.0
constexpr uint16_t kHalfTenth = 0x2e66;   // 0.0999755859375

void Put16(std::vector<uint8_t>& b, size_t at, uint16_t v) {
  b[at] = static_cast<uint8_t>(v & 255);
  b[at + 1] = static_cast<uint8_t>(v >> 8);
}

std::vector<float> Decode(Format f, const std::vector<uint8_t>& block) {
  const FormatInfo& info = format_info(f);
  EXPECT_EQ(block.size(), static_cast<size_t>(info.block_bytes));
  std::vector<float> out(static_cast<size_t>(info.block_elems), -12345.0f);
  info.decode_block(block.data(), out.data());
  return out;
}

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

// Every format of the table has a handcrafted test above; a new row without one fails here.
TEST(Decode, EveryRowIsTestedByHand) {
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) name,
  const char* rows[] = {
#include "dialects/formats/formats.def"
  };
#undef QCC_FORMAT
  for (const char* row : rows) {
    bool tested = false;
    for (const char* known : {"f32", "f16", "bf16", "q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k"}) {
      tested = tested || std::strcmp(row, known) == 0;
    }
    EXPECT_TRUE(tested) << "format " << row << " has no handcrafted decode test";
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
