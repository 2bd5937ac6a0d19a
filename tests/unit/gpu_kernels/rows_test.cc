// embed, rope_table, norm, quantize, swiglu and add on the interpreter, against references in double
// precision.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr float kUntouched = -7.f;

std::vector<float> Filled(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), kUntouched);
}

class RowsTest : public ::testing::TestWithParam<std::string> {
 protected:
  const Profile& profile() const { return FindProfile(GetParam())->profile; }
};

TEST_P(RowsTest, EmbedDecodesExactly) {
  for (Format format : Formats()) {
    // Not a whole number of runs of tiles.
    const int64_t block = std::max(format_info(format).block_elems, 32), vocab = 40;
    const int64_t cols = block * (block == 256 ? 3 : block == 32 ? 19 : 5);
    const Matrix table = RandomMatrix(format, vocab, cols, 3);
    Sandbox box(profile(), 8);
    Dispatch<plan::EmbedSpec> d;
    d.spec = {.format = format, .cols = cols};
    d.rows = 6;
    d.bindings.table = box.Weights(table.Packed());
    d.bindings.out = box.Arena(Filled(d.rows * cols));
    SetRows(box, 5);
    box.step.tokens = {0, 39, 16, 7, 31};
    const std::vector<Launch> launches = Expand_embed(d, box);
    ASSERT_EQ(launches.size(), 1u);
    // As one launch, and cut in two as if the table were large: first group, other groups.
    std::vector<Launch> halves = {launches[0], launches[0]};
    const uint64_t group = static_cast<uint64_t>(layouts::X16Bytes(format, 16, cols));
    halves[0].args[0].bytes = group;
    halves[0].args[4] = Number(16);
    halves[1].args[0].value += group;
    halves[1].args[0].bytes -= group;
    halves[1].args[3] = Number(16);
    halves[1].args[4] = Number(32);
    for (const std::vector<Launch>& way : {launches, halves}) {
      box.Write(*d.bindings.out, Filled(d.rows * cols));
      ASSERT_EQ(box.Run(way), "") << format_info(format).name;
      const std::vector<float> out = box.Read<float>(*d.bindings.out);
      for (int64_t i = 0; i < d.rows * cols; ++i) {
        const int64_t row = i / cols, c = i % cols;
        const float expected =
            row < 5 ? table.values[static_cast<size_t>(box.step.tokens[static_cast<size_t>(row)] * cols + c)]
                    : kUntouched;
        ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i)], &expected, 4), 0)
            << format_info(format).name << " row " << row << " column " << c << ": "
            << out[static_cast<size_t>(i)] << ", expected " << expected;
      }
    }
  }
}

TEST_P(RowsTest, RopeTableAtLargePositions) {
  const std::vector<std::vector<int64_t>> section_sets = {{}, {0, 0, 0, 0}, {11, 11, 10, 0}, {8, 4, 4, 8}};
  for (const std::vector<int64_t>& sections : section_sets) {
    const int64_t pairs = 32;
    std::vector<double> inv_freq;
    for (int64_t i = 0; i < pairs; ++i) inv_freq.push_back(std::pow(1e7, -2.0 * static_cast<double>(i) / 64));
    inv_freq[30] = 0;       // never turns
    inv_freq[31] = 5.75;    // faster than a radian per token
    inv_freq[29] = 1000.5;  // far faster
    Sandbox box(profile(), 8);
    Dispatch<plan::RopeTableSpec> d;
    d.spec = {.pairs = pairs, .sections = sections, .magnitude = 1.25};
    d.rows = 7;
    d.bindings.inv_freq = box.Weights(inv_freq);
    d.bindings.out = box.Arena(Filled(d.rows * 2 * pairs));
    SetRows(box, 5);
    box.step.rope = {{0, 1, 2, 3},
                     {5, 17, 1000, 70},
                     {262143, 131, 99999, 4},
                     {1048575, 1048574, 7, 1},
                     {12345, -3, 0, 8}};
    ASSERT_EQ(box.Run(Expand_rope_table, d), "");
    const std::vector<float> out = box.Read<float>(*d.bindings.out);
    int64_t total = 0;
    for (int64_t s : sections) total += s;
    for (int64_t r = 0; r < d.rows; ++r) {
      for (int64_t i = 0; i < pairs; ++i) {
        const float c = out[static_cast<size_t>(r * 2 * pairs + i)],
                    s = out[static_cast<size_t>((r * 2 + 1) * pairs + i)];
        if (r >= 5) {
          ASSERT_EQ(c, kUntouched);
          continue;
        }
        int stream = 0;
        if (total > 0) {
          stream = i % 3 == 1 && i < 3 * sections[1]   ? 1
                   : i % 3 == 2 && i < 3 * sections[2] ? 2
                   : i % 3 == 0 && i < 3 * sections[0] ? 0
                                                       : 3;
        }
        const long double angle = static_cast<long double>(inv_freq[static_cast<size_t>(i)]) *
                                  box.step.rope[static_cast<size_t>(r)][static_cast<size_t>(stream)];
        ASSERT_NEAR(c, 1.25 * static_cast<double>(std::cos(angle)), 3e-7) << "row " << r << " pair " << i;
        ASSERT_NEAR(s, 1.25 * static_cast<double>(std::sin(angle)), 3e-7) << "row " << r << " pair " << i;
      }
    }
  }
}

// Codes, scales and sums of int8 rows, against those of `x`: a code may be one off where x / d is close to a
// tie.
void ExpectInt8Rows(const std::vector<uint8_t>& got, const std::vector<float>& x, int64_t rows, int64_t k,
                    double near) {
  const std::vector<uint8_t> want = QuantizedRows(x, rows, k);
  const int64_t stride = layouts::Int8RowBytes(k);
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t *g = got.data() + r * stride, *w = want.data() + r * stride;
    for (int64_t b = 0; b < k / 32; ++b) {
      float gd, wd;
      std::memcpy(&gd, g + k + 4 * b, 4);
      std::memcpy(&wd, w + k + 4 * b, 4);
      ASSERT_NEAR(gd, wd, near * std::fabs(wd)) << "row " << r << " block " << b;
      int32_t whole = 0;
      for (int half = 0; half < 2; ++half) {
        int32_t sum, codes = 0;
        std::memcpy(&sum, g + k + k / 8 + 8 * b + 4 * half, 4);
        for (int64_t i = 32 * b + 16 * half; i < 32 * b + 16 * half + 16; ++i) {
          const int q = static_cast<int8_t>(g[i]), e = static_cast<int8_t>(w[i]);
          codes += q;
          if (q == e) continue;
          const double exact = static_cast<double>(x[static_cast<size_t>(r * k + i)]) / wd;
          ASSERT_LE(std::fabs(exact - q), 0.5 + 127 * near) << "row " << r << " column " << i;
        }
        ASSERT_EQ(sum, codes) << "row " << r << " block " << b;
        whole += codes;
      }
      float weighted;
      std::memcpy(&weighted, g + k + k / 8 + k / 4 + 4 * b, 4);
      ASSERT_EQ(weighted, gd * static_cast<float>(whole)) << "row " << r << " block " << b;
    }
  }
}

TEST_P(RowsTest, Quantize) {
  for (int64_t k : {32, 96, 512, 1120}) {
    Random random(static_cast<uint64_t>(k));
    constexpr int64_t kRows = 3, kBucket = 4;
    std::vector<float> x = random.Normals(kBucket * k);
    for (int64_t i = 0; i < 32; ++i) x[static_cast<size_t>(k + i)] = i % 2 ? 0.f : -0.f;
    for (int64_t i = 0; i < 32; ++i) x[static_cast<size_t>(2 * k + i)] *= 1e-39f;  // a subnormal scale
    Sandbox box(profile(), 8);
    Dispatch<plan::QuantizeSpec> d;
    d.spec = {.cols = k};
    d.rows = kBucket;
    d.bindings.x = box.Arena(x);
    const int64_t stride = layouts::Int8RowBytes(k);
    d.bindings.out_q = box.Arena(std::vector<uint8_t>(static_cast<size_t>(kBucket * stride), 0x55));
    SetRows(box, kRows);
    ASSERT_EQ(box.Run(Expand_quantize, d), "");
    const std::vector<uint8_t> out = box.Read<uint8_t>(*d.bindings.out_q);
    ExpectInt8Rows(out, x, kRows, k, 0);
    for (int64_t i = kRows * stride; i < kBucket * stride; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], 0x55);
  }
}

// No code says that a value is none: the scale of its block does, so that all that meets it is none.
TEST_P(RowsTest, WhatIsNoNumberMakesItsBlocksScaleNone) {
  constexpr int64_t kCols = 96, kBucket = 64;
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const int64_t terms : {1, 2}) {
      std::vector<float> x = Random(6).Normals(kBucket * kCols);
      for (int64_t r = 0; r < kBucket; ++r) x[static_cast<size_t>(r * kCols + 32 + r % 32)] = bad;
      Sandbox box(profile(), kBucket);
      Dispatch<plan::QuantizeSpec> d;
      d.spec = {.cols = kCols};
      d.rows = kBucket;
      d.bindings.x = box.Arena(x);
      const int64_t columns = terms * kCols, stride = layouts::Int8RowBytes(columns);
      auto& out_q = terms == 1 ? d.bindings.out_q : d.bindings.out_q2;
      out_q = box.Arena(static_cast<uint64_t>(kBucket * stride));
      SetRows(box, kBucket);
      ASSERT_EQ(box.Run(Expand_quantize, d), "");
      const std::vector<uint8_t> out = box.Read<uint8_t>(*out_q);
      for (int64_t r = 0; r < kBucket; ++r) {
        for (int64_t b = 0; b < columns / 32; ++b) {
          float scale;
          std::memcpy(&scale, out.data() + r * stride + layouts::Int8ScalesAt(columns) + 4 * b, 4);
          ASSERT_EQ(std::isfinite(scale), b % 3 != 1)
              << bad << " at place " << r % 32 << ", " << terms << " terms, scale " << b << " is " << scale;
        }
      }
    }
  }
}

TEST_P(RowsTest, Norm) {
  struct Case {
    int64_t cols;
    bool out, out_q, out_rows;
  };
  for (const Case& c :
       {Case{36, true, false, false}, Case{32, false, true, false}, Case{1024, true, true, false},
        Case{2080, false, true, false}, Case{1536, true, false, true}, Case{544, true, true, true}}) {
    Random random(static_cast<uint64_t>(c.cols));
    constexpr int64_t kBucket = 5, kRows = 4;
    const std::vector<float> x = random.Normals(kBucket * c.cols), weight = random.Normals(c.cols);
    const double eps = 1e-6;
    Sandbox box(profile(), 8);
    Dispatch<plan::NormSpec> d;
    d.spec = {.cols = c.cols,
              .eps = static_cast<float>(eps),
              .source = c.out_rows ? plan::RowsFrom::OutRows : plan::RowsFrom::Rows};
    d.rows = kBucket;
    d.bindings.x = box.Arena(x);
    d.bindings.weight = box.Weights(weight);
    const int64_t stride = layouts::Int8RowBytes(c.cols);
    if (c.out) d.bindings.out = box.Arena(Filled(kBucket * c.cols));
    if (c.out_q)
      d.bindings.out_q = box.Arena(std::vector<uint8_t>(static_cast<size_t>(kBucket * stride), 0x55));
    SetRows(box, kRows);
    box.step.outs = {3, 1};
    const std::vector<uint32_t> sources = c.out_rows ? box.step.outs : std::vector<uint32_t>{0, 1, 2, 3};
    const int64_t rows = static_cast<int64_t>(sources.size());
    ASSERT_EQ(box.Run(Expand_norm, d), "") << c.cols;
    std::vector<float> expected;
    for (uint32_t source : sources) {
      const float* v = x.data() + source * c.cols;
      double squares = 0;
      for (int64_t i = 0; i < c.cols; ++i) squares += static_cast<double>(v[i]) * v[i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(c.cols) + eps);
      for (int64_t i = 0; i < c.cols; ++i) {
        expected.push_back(static_cast<float>(v[i] * scale * weight[static_cast<size_t>(i)]));
      }
    }
    if (c.out) {
      const std::vector<float> out = box.Read<float>(*d.bindings.out);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i >= expected.size()) {
          ASSERT_EQ(out[i], kUntouched);
          continue;
        }
        ASSERT_NEAR(out[i], expected[i], 6e-7 * std::fabs(expected[i])) << c.cols << " element " << i;
      }
    }
    if (c.out_q) ExpectInt8Rows(box.Read<uint8_t>(*d.bindings.out_q), expected, rows, c.cols, 1e-6);
  }
}

TEST_P(RowsTest, SwigluAndAdd) {
  for (int64_t cols : {4, 7, 516}) {
    Random random(static_cast<uint64_t>(cols));
    constexpr int64_t kBucket = 4, kRows = 3;
    std::vector<float> a = random.Normals(kBucket * cols), b = random.Normals(kBucket * cols);
    for (float& v : a) v *= 30.f;
    Sandbox box(profile(), 8);
    const Arg first = box.Arena(a), second = box.Arena(b), result = box.Arena(Filled(kBucket * cols));
    SetRows(box, kRows);
    ASSERT_EQ(box.Run(Expand_swiglu,
                      {.spec = {.cols = cols}, .bindings = {first, second, result}, .rows = kBucket}),
              "");
    ASSERT_EQ(box.Run(Expand_add, {.spec = {.cols = cols}, .bindings = {first, second}, .rows = kBucket}),
              "");
    const std::vector<float> out = box.Read<float>(result), sum = box.Read<float>(second);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i >= static_cast<size_t>(kRows * cols)) {
        ASSERT_EQ(out[i], kUntouched);
        ASSERT_EQ(sum[i], b[i]);
        continue;
      }
      const double expected = static_cast<double>(a[i]) / (1 + std::exp(-static_cast<double>(a[i]))) * b[i];
      ASSERT_NEAR(out[i], expected, 5e-7 * std::fabs(expected) + 1e-35) << i;
      ASSERT_EQ(sum[i], b[i] + a[i]) << i;
    }
  }
}

TEST_P(RowsTest, Concat) {
  for (const auto& [a_cols, b_cols] : {std::pair<int64_t, int64_t>{4, 8}, {516, 512}, {7, 300}, {130, 1}}) {
    Random random(static_cast<uint64_t>(a_cols));
    constexpr int64_t kBucket = 4, kRows = 3;
    const int64_t cols = a_cols + b_cols;
    const std::vector<float> a = random.Normals(kBucket * a_cols), b = random.Normals(kBucket * b_cols);
    Sandbox box(profile(), 8);
    const Arg first = box.Arena(a), second = box.Arena(b), result = box.Arena(Filled(kBucket * cols));
    SetRows(box, kRows);
    ASSERT_EQ(box.Run(Expand_concat, {.spec = {.a_cols = a_cols, .b_cols = b_cols},
                                      .bindings = {first, second, result},
                                      .rows = kBucket}),
              "");
    const std::vector<float> out = box.Read<float>(result);
    for (int64_t r = 0; r < kBucket; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const float row = c < a_cols ? a[r * a_cols + c] : b[r * b_cols + c - a_cols];
        ASSERT_EQ(out[r * cols + c], r < kRows ? row : kUntouched) << "row " << r << ", column " << c;
      }
    }
  }
}

TEST_P(RowsTest, SelectRows) {
  for (int64_t cols : {8, 516, 1030, 7}) {
    Random random(static_cast<uint64_t>(cols));
    constexpr int64_t kBucket = 4, kRows = 3, kFrom = 7;
    const std::vector<float> x = random.Normals(kFrom * cols);
    Sandbox box(profile(), 8);
    const Arg from = box.Arena(x), result = box.Arena(Filled(kBucket * cols));
    SetRows(box, kRows);
    box.step.outs = {6, 0, 6};
    ASSERT_EQ(
        box.Run(Expand_select_rows, {.spec = {.cols = cols}, .bindings = {from, result}, .rows = kBucket}),
        "");
    const std::vector<float> out = box.Read<float>(result);
    for (int64_t r = 0; r < kBucket; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const float want = r < kRows ? x[box.step.outs[static_cast<size_t>(r)] * cols + c] : kUntouched;
        ASSERT_EQ(out[r * cols + c], want) << "row " << r << ", column " << c << " of " << cols;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, RowsTest,
                         ::testing::Values("none", "sg8-dot", "sg16-dot", "sg32-dot", "sg64-dot"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace qcc::gpu
