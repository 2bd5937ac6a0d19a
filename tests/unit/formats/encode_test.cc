// Encoders: how close the decoded values come, over the whole format table; no NaN from any input;
// determinism.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dialects/formats/descriptions.h"
#include "dialects/formats/formats.h"
#include "tests/unit/formats/known_formats.h"

namespace qcc {
namespace {

constexpr EncodeEffort kEfforts[] = {EncodeEffort::kFast, EncodeEffort::kBest};

const char* Name(EncodeEffort effort) {
  return effort == EncodeEffort::kFast ? "fast" : "best";
}

std::vector<uint8_t> Encode(Format f, const std::vector<float>& x, EncodeEffort effort) {
  std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(f, static_cast<int64_t>(x.size()))), 0xcd);
  encode_row(f, x.data(), static_cast<int64_t>(x.size()), bytes.data(), effort);
  return bytes;
}

std::vector<float> Decode(Format f, const std::vector<uint8_t>& bytes, size_t n) {
  std::vector<float> y(n);
  decode_row(f, bytes.data(), static_cast<int64_t>(n), y.data());
  return y;
}

std::vector<float> Normal(size_t n, uint32_t seed, float mean = 0, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

double RelativeRms(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    power += static_cast<double>(x[i]) * x[i];
  }
  return std::sqrt(error / power);
}

double Bound(Format f, EncodeEffort effort) {
  for (const testing::KnownFormat& k : testing::kKnownFormats) {
    if (format_info(f).name == k.name) return effort == EncodeEffort::kBest ? k.best : k.fast;
  }
  ADD_FAILURE() << "no bound for format " << format_info(f).name;
  return -1;
}

TEST(Encode, ErrorOfNormalWeightsIsWithinTheFormatsBound) {
  std::vector<float> x = Normal(256 * 64, 1);
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    for (EncodeEffort effort : kEfforts) {
      double error = RelativeRms(x, Decode(f, Encode(f, x, effort), x.size()));
      EXPECT_LE(error, Bound(f, effort)) << format_info(f).name << " " << Name(effort);
    }
  }
}

TEST(Encode, BestIsNoWorseThanFast) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::vector<float> x = Normal(256 * 16, 100 + seed, seed == 3 ? 0.5f : 0.0f, 0.02f);
    for (int i = 0; i < kFormatCount; ++i) {
      Format f = static_cast<Format>(i);
      double fast = RelativeRms(x, Decode(f, Encode(f, x, EncodeEffort::kFast), x.size()));
      double best = RelativeRms(x, Decode(f, Encode(f, x, EncodeEffort::kBest), x.size()));
      EXPECT_LE(best, fast) << format_info(f).name << " seed " << seed;
    }
  }
}

// The scale follows the weights over the range where half scales are normal numbers.
TEST(Encode, IsScaleInvariant) {
  std::vector<float> base = Normal(256 * 8, 2);
  for (float scale : {1e-2f, 1.0f, 300.0f}) {
    std::vector<float> x = base;
    for (float& v : x) v *= scale;
    for (int i = 0; i < kFormatCount; ++i) {
      Format f = static_cast<Format>(i);
      // NVFP4's scales reach from 2^-9 to 448, and are coarse below 2^-6: writers keep a scale for the
      // tensor.
      if (f == Format::NVFP4 && scale < 1) continue;
      for (EncodeEffort effort : kEfforts) {
        double error = RelativeRms(x, Decode(f, Encode(f, x, effort), x.size()));
        EXPECT_LE(error, Bound(f, effort) * 1.1)
            << format_info(f).name << " " << Name(effort) << " scale " << scale;
      }
    }
  }
}

TEST(Encode, NothingIsEverNaNOrInfinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float max = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  // Each row: a pattern repeated over the block.
  std::vector<std::vector<float>> patterns = {
      {0},      {-0.0f},     {1},           {-1},        {tiny},          {-tiny},       {max},
      {-max},   {max, -max}, {tiny, max},   {1e-8f},     {-1e-8f, 1e-7f}, {65504},       {1e6f},
      {nan},    {nan, 1},    {inf},         {-inf, 1},   {inf, -inf},     {inf, nan, 0}, {1, 1, 1, 5},
      {-5, -4}, {3, 4, 5},   {0, 0, 0, -7}, {1e-30f, 1}, {1e30f, 1},      {6e-8f, 0},    {6e-5f, -6e-5f}};
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    if (format_info(f).cls == FormatClass::kPlain) continue;  // these store what they are given
    for (EncodeEffort effort : kEfforts) {
      for (size_t p = 0; p < patterns.size(); ++p) {
        std::vector<float> x(256);
        for (size_t k = 0; k < x.size(); ++k) x[k] = patterns[p][k % patterns[p].size()];
        for (float y : Decode(f, Encode(f, x, effort), x.size())) {
          ASSERT_TRUE(std::isfinite(y)) << format_info(f).name << " " << Name(effort) << " pattern " << p;
        }
      }
    }
  }
}

TEST(Encode, AllZeroStaysZero) {
  std::vector<float> x(256, 0.0f);
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    for (EncodeEffort effort : kEfforts) {
      for (float y : Decode(f, Encode(f, x, effort), x.size())) {
        ASSERT_EQ(y, 0.0f) << format_info(f).name << " " << Name(effort);
      }
    }
  }
}

TEST(Encode, ConstantBlocksAreClose) {
  for (float value : {0.75f, -0.75f}) {
    std::vector<float> x(256, value);
    for (int i = 0; i < kFormatCount; ++i) {
      Format f = static_cast<Format>(i);
      for (EncodeEffort effort : kEfforts) {
        for (float y : Decode(f, Encode(f, x, effort), x.size())) {
          ASSERT_NEAR(y, value, 0.01) << format_info(f).name << " " << Name(effort);
        }
      }
    }
  }
}

// One large weight per super-block: the others must not be lost where the format has a scale per group.
TEST(Encode, OutlierDamagesOnlyItsGroup) {
  std::vector<float> x = Normal(256, 5);
  x[40] = 100.0f;
  for (Format f : {Format::Q4_0, Format::Q8_0, Format::Q4_1, Format::Q5_0, Format::Q5_1, Format::IQ4_NL}) {
    std::vector<float> y = Decode(f, Encode(f, x, EncodeEffort::kBest), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (i / 32 == 1) continue;
      ASSERT_NEAR(y[i], x[i], 0.5) << format_info(f).name << " weight " << i;
    }
    EXPECT_NEAR(y[40], 100.0f, 2.0f) << format_info(f).name;
  }
}

// Plain scalars, and blocks with one scale and nothing else; -1 to 2 may come back as half the codes and
// twice the scale.
bool HasOneScale(Format f) {
  const FormatDescription& d = description(f);
  if (d.plain.block == 0) return true;
  return d.plain.columns_per_scale == d.plain.block && d.plain.minimum == Minimum::kNone &&
         (d.ternary || d.plain.bits != 2);
}

// Where each block's own scale can be found again exactly, encoding what was decoded changes nothing.
TEST(Encode, IsIdempotentForSingleScaleFormats) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::vector<float> x = Normal(256 * 16, 40 + seed, 0.0f, seed % 2 == 0 ? 1.0f : 0.03f);
    for (int i = 0; i < kFormatCount; ++i) {
      const Format f = static_cast<Format>(i);
      if (!HasOneScale(f)) continue;
      for (EncodeEffort effort : kEfforts) {
        std::vector<float> once = Decode(f, Encode(f, x, effort), x.size());
        std::vector<float> twice = Decode(f, Encode(f, once, effort), x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(once[i], twice[i]) << format_info(f).name << " " << Name(effort) << " weight " << i;
        }
      }
    }
  }
}

// The others stay near: a second pass adds far less than the first.
TEST(Encode, SecondPassAddsLittle) {
  std::vector<float> x = Normal(256 * 64, 9);
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    for (EncodeEffort effort : kEfforts) {
      std::vector<float> once = Decode(f, Encode(f, x, effort), x.size());
      std::vector<float> twice = Decode(f, Encode(f, once, effort), x.size());
      EXPECT_LE(RelativeRms(once, twice), 0.1 * Bound(f, effort))
          << format_info(f).name << " " << Name(effort);
    }
  }
}

TEST(Encode, IsDeterministicAndWritesEveryByte) {
  std::vector<float> x = Normal(256 * 8, 11);
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    for (EncodeEffort effort : kEfforts) {
      size_t n = static_cast<size_t>(row_bytes(f, static_cast<int64_t>(x.size())));
      std::vector<uint8_t> a(n, 0x00), b(n, 0xff);
      encode_row(f, x.data(), static_cast<int64_t>(x.size()), a.data(), effort);
      encode_row(f, x.data(), static_cast<int64_t>(x.size()), b.data(), effort);
      EXPECT_EQ(a, b) << format_info(f).name << " " << Name(effort);
    }
    std::vector<uint8_t> row = Encode(f, x, EncodeEffort::kBest), blocks(row.size());
    const FormatInfo& info = format_info(f);
    for (size_t k = 0; k < x.size() / static_cast<size_t>(info.block_elems); ++k) {
      info.encode_block(x.data() + k * static_cast<size_t>(info.block_elems),
                        blocks.data() + k * static_cast<size_t>(info.block_bytes));
    }
    EXPECT_EQ(row, blocks) << info.name << ": encode_row and encode_block disagree";
  }
}

}  // namespace
}  // namespace qcc
