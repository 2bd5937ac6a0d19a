// norm, quantize, swiglu, add, concat, select_rows, rope_table: against double arithmetic, at every ISA level
// and for any split.
#include <cmath>
#include <limits>

#include "dialects/layouts/layouts.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

using layouts::Int8RowBytes;

class KernelRows : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelRows);

// All rows, in two calls: those before `cut`, and the rest.
template <class Args>
void RunInTwo(void (*kernel)(const Args*), Args args, int64_t cut) {
  args.begin = 0;
  args.end = cut;
  kernel(&args);
  args.begin = cut;
  args.end = args.n_rows;
  kernel(&args);
}

// The definition in kernel_families.md, in f32.
std::vector<uint8_t> quantized(const float* x, int64_t k) {
  std::vector<uint8_t> row(static_cast<size_t>(Int8RowBytes(k)));
  for (int64_t b = 0; b < k / 32; ++b) {
    float peak = 0;
    for (int i = 0; i < 32; ++i) peak = std::max(peak, std::abs(x[b * 32 + i]));
    const float d = peak / 127.f;
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < 32; ++i) {
      const float q = d == 0.f ? 0.f : std::clamp(std::nearbyintf(x[b * 32 + i] / d), -127.f, 127.f);
      row[b * 32 + i] = static_cast<uint8_t>(static_cast<int8_t>(q));
      sums[i / 16] += static_cast<int32_t>(q);
    }
    std::memcpy(row.data() + k + b * 4, &d, 4);
    std::memcpy(row.data() + k + k / 8 + b * 8, sums, 8);
    const float weighted = d * static_cast<float>(sums[0] + sums[1]);
    std::memcpy(row.data() + k + k / 8 + k / 4 + b * 4, &weighted, 4);
  }
  return row;
}

::testing::AssertionResult same_int8_row(const uint8_t* got, const uint8_t* want, int64_t k) {
  for (int64_t i = 0; i < k + k / 8 + k / 4 + k / 8; ++i) {
    if (got[i] != want[i]) return ::testing::AssertionFailure() << "byte " << i << " of an int8 row of " << k;
  }
  return ::testing::AssertionSuccess();
}

TEST_P(KernelRows, Quantize) {
  for (int64_t cols : {32, 64, 96, 224, 1024}) {
    const int64_t rows = 7;
    auto x = Random(1).guarded(static_cast<size_t>(rows * cols));
    for (int64_t c = 0; c < cols; ++c) {
      x[cols + c] = 0.f;
      x[2 * cols + c] = c % 32 == 5 ? -4e-43f : 1e-44f;    // subnormal scale
      x[3 * cols + c] = static_cast<float>(c % 7) - 3.5f;  // ties
      x[4 * cols + c] *= 1e30f;
      x[5 * cols + c] *= std::pow(1e-9f, static_cast<float>(c / 32 % 7));  // each block another, down to zero
    }
    Guarded<uint8_t> q(static_cast<size_t>(rows * Int8RowBytes(cols)));
    RunInTwo(k->qk_quantize,
             quantize_args{
                 .cols = cols, .x = x.data(), .out_q = q.data(), .n_rows = rows, .begin = 0, .end = rows},
             2);
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_TRUE(
          same_int8_row(q.data() + r * Int8RowBytes(cols), quantized(x.data() + r * cols, cols).data(), cols))
          << "row " << r;
    }
  }
}

// Two terms side by side as one row of twice the columns; the second is what the first leaves, in units of
// 1/256 of the first's.
std::vector<uint8_t> in_two_terms(const float* x, int64_t cols) {
  std::vector<uint8_t> row(static_cast<size_t>(Int8RowBytes(2 * cols)));
  for (int64_t block = 0; block < cols / 32; ++block) {
    float peak = 0;
    for (int64_t c = block * 32; c < (block + 1) * 32; ++c) peak = std::max(peak, std::abs(x[c]));
    const float second = peak / 127.f / 256.f;
    std::vector<float> values(x + block * 32, x + (block + 1) * 32);
    for (const int64_t term : {0, 1}) {
      const int64_t at = term * cols / 32 + block;  // number of the block in the row
      const float d = term == 0 ? second * 256.f : second;
      int32_t sums[2] = {0, 0};
      for (size_t i = 0; i < 32; ++i) {
        const float code = d == 0.f ? 0.f : std::clamp(std::nearbyintf(values[i] / d), -127.f, 127.f);
        const float product = code * d;
        values[i] -= product;
        row[static_cast<size_t>(at) * 32 + i] = static_cast<uint8_t>(static_cast<int8_t>(code));
        sums[i / 16] += static_cast<int32_t>(code);
      }
      const float weighted = d * static_cast<float>(sums[0] + sums[1]);
      std::memcpy(row.data() + layouts::Int8ScalesAt(2 * cols) + 4 * at, &d, 4);
      std::memcpy(row.data() + layouts::Int8SumsAt(2 * cols) + 8 * at, sums, 8);
      std::memcpy(row.data() + layouts::Int8WeightedAt(2 * cols) + 4 * at, &weighted, 4);
    }
  }
  return row;
}
TEST_P(KernelRows, QuantizeInTwoTerms) {
  for (int64_t cols : {32, 96, 1024}) {
    const int64_t rows = 3;
    auto x = Random(5).guarded(static_cast<size_t>(rows * cols));
    for (int64_t c = 0; c < cols; ++c) {
      x[cols + c] = 0.f;
      x[2 * cols + c] *= 1e-36f;  // the second term's scale is subnormal
    }
    Guarded<uint8_t> q(static_cast<size_t>(rows * Int8RowBytes(2 * cols)));
    RunInTwo(k->qk_quantize,
             quantize_args{
                 .cols = cols, .x = x.data(), .out_q2 = q.data(), .n_rows = rows, .begin = 0, .end = rows},
             1);
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* row = q.data() + r * Int8RowBytes(2 * cols);
      ASSERT_TRUE(same_int8_row(row, in_two_terms(x.data() + r * cols, cols).data(), 2 * cols))
          << "row " << r;
    }
  }
}

// No code says that a value is none: the scale of its block does, so that all that meets it is none.
TEST_P(KernelRows, WhatIsNoNumberMakesItsBlocksScaleNone) {
  const int64_t blocks = 6, cols = blocks * 32, rows = 32;  // of which four are made together
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    auto x = Random(6).guarded(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) x[r * cols + 32 + r] = bad;  // each place of the second block
    for (const int64_t terms : {1, 2}) {
      const int64_t columns = terms * cols;
      Guarded<uint8_t> q(static_cast<size_t>(rows * Int8RowBytes(columns)));
      quantize_args args = {.cols = cols, .x = x.data(), .n_rows = rows, .begin = 0, .end = rows};
      (terms == 1 ? args.out_q : args.out_q2) = q.data();
      RunInTwo(k->qk_quantize, args, 7);
      for (int64_t r = 0; r < rows; ++r) {
        float scales[2 * blocks];
        std::memcpy(scales, q.data() + r * Int8RowBytes(columns) + layouts::Int8ScalesAt(columns),
                    static_cast<size_t>(4 * blocks * terms));
        for (int64_t b = 0; b < blocks * terms; ++b) {
          ASSERT_EQ(std::isfinite(scales[b]), b % blocks != 1)
              << bad << " at place " << r << ", " << terms << " terms, scale " << b << " is " << scales[b];
        }
      }
    }
  }
}

TEST_P(KernelRows, Norm) {
  for (int64_t cols : {8, 24, 32, 96, 1024, 1056}) {
    SCOPED_TRACE("cols " + std::to_string(cols));
    const int64_t rows = 4;
    Random random(2);
    const auto x = random.guarded(static_cast<size_t>(7 * cols)),
               w = random.guarded(static_cast<size_t>(cols));
    const std::vector<int32_t> ids = {6, 0, 6, 3};
    const float eps = 1e-6f;
    const bool quant = cols % 32 == 0;
    Guarded<float> out(static_cast<size_t>(rows * cols)), again(static_cast<size_t>(rows * cols));
    Guarded<uint8_t> q(static_cast<size_t>(rows * Int8RowBytes(cols)));
    norm_args args = {.cols = cols,
                      .eps = eps,
                      .source = QK_RowsFrom_OutRows,
                      .x = x.data(),
                      .weight = w.data(),
                      .out = out.data(),
                      .out_q = quant ? q.data() : nullptr,
                      .out_rows = ids.data(),
                      .n_rows = rows,
                      .begin = 0,
                      .end = rows};
    RunInTwo(k->qk_norm, args, 3);
    for (int64_t r = 0; r < rows; ++r) {
      const float* v = x.data() + ids[r] * cols;
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += static_cast<double>(v[c]) * v[c];
      const double scale = 1 / std::sqrt(sum / cols + eps);
      for (int64_t c = 0; c < cols; ++c) {
        const double want = v[c] * scale * w[c];
        ASSERT_NEAR(out[r * cols + c], want, 5e-7 * std::abs(want)) << "row " << r << ", column " << c;
      }
      if (quant) {
        ASSERT_TRUE(same_int8_row(q.data() + r * Int8RowBytes(cols),
                                  quantized(out.data() + r * cols, cols).data(), cols))
            << "row " << r;
      }
    }
    EXPECT_TRUE(same_bits(out.data(), out.data() + 2 * cols, cols)) << "the same row twice";
    // Without row ids, and int8 alone.
    norm_args plain = args;
    plain.source = QK_RowsFrom_Rows;
    plain.out = again.data();
    plain.out_q = nullptr;
    plain.out_rows = nullptr;
    RunInTwo(k->qk_norm, plain, 0);
    EXPECT_TRUE(same_bits(again.data(), out.data() + cols, cols)) << "row 0";
    EXPECT_TRUE(same_bits(again.data() + 3 * cols, out.data() + 3 * cols, cols)) << "row 3";
    if (quant) {
      Guarded<uint8_t> q2(q.size());
      args.out = nullptr;
      args.out_q = q2.data();
      RunInTwo(k->qk_norm, args, 0);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * Int8RowBytes(cols);
        EXPECT_TRUE(same_int8_row(q2.data() + at, q.data() + at, cols)) << "row " << r;
      }
    }
  }
}

TEST_P(KernelRows, SwigluAndAdd) {
  for (int64_t cols : {16, 40, 100}) {
    const int64_t rows = 3, n = rows * cols;
    Random random(3);
    auto gate = random.guarded(static_cast<size_t>(n), 5.f);
    const auto up = random.guarded(static_cast<size_t>(n));
    const float extremes[] = {-1000.f, 1000.f, -88.f, 88.f, 0.f, -0.f, 1e-30f, -20.f};
    std::copy(std::begin(extremes), std::end(extremes), gate.begin());
    std::copy(std::begin(extremes), std::end(extremes), gate.end() - 8);
    Guarded<float> out(static_cast<size_t>(n)), sum = Guarded<float>::copy_of(up);
    const swiglu_args swiglu = {.cols = cols,
                                .gate = gate.data(),
                                .up = up.data(),
                                .out = out.data(),
                                .n_rows = rows,
                                .begin = 0,
                                .end = rows};
    RunInTwo(k->qk_swiglu, swiglu, 1);
    RunInTwo(
        k->qk_add,
        add_args{.cols = cols, .x = gate.data(), .y = sum.data(), .n_rows = rows, .begin = 0, .end = rows},
        2);
    for (int64_t i = 0; i < n; ++i) {
      const double want = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      ASSERT_NEAR(out[i], want, 5e-7 * std::abs(want) + 1e-34) << "gate " << gate[i] << ", up " << up[i];
      ASSERT_EQ(sum[i], gate[i] + up[i]) << i;
    }
    gate[5] = std::numeric_limits<float>::quiet_NaN();
    RunInTwo(k->qk_swiglu, swiglu, 1);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(std::isnan(out[i]), i == 5) << "output " << i << " is " << out[i];
  }
}

TEST_P(KernelRows, Concat) {
  for (const auto& [a_cols, b_cols] : {std::pair<int64_t, int64_t>{16, 48}, {40, 7}, {3, 100}}) {
    const int64_t rows = 3;
    Random random(4);
    const auto a = random.guarded(static_cast<size_t>(rows * a_cols), 5.f);
    const auto b = random.guarded(static_cast<size_t>(rows * b_cols), 5.f);
    Guarded<float> out(static_cast<size_t>(rows * (a_cols + b_cols)));
    RunInTwo(k->qk_concat,
             concat_args{.a_cols = a_cols,
                         .b_cols = b_cols,
                         .a = a.data(),
                         .b = b.data(),
                         .out = out.data(),
                         .n_rows = rows,
                         .begin = 0,
                         .end = rows},
             1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < a_cols + b_cols; ++c) {
        const float want = c < a_cols ? a[r * a_cols + c] : b[r * b_cols + c - a_cols];
        ASSERT_EQ(out[r * (a_cols + b_cols) + c], want) << "row " << r << ", column " << c;
      }
    }
  }
}

TEST_P(KernelRows, TraceKeepsTheLastRowOfEachSequence) {
  for (const int64_t cols : {16, 40, 3}) {
    const int64_t rows = 6;
    Random random(5);
    const auto x = random.guarded(static_cast<size_t>(rows * cols), 5.f);
    Guarded<float> a(static_cast<size_t>(cols) + 2), b(static_cast<size_t>(cols) + 2);
    for (int64_t i = 0; i < cols + 2; ++i) a[i] = b[i] = -7.f;
    const auto state = [](Guarded<float>& values) { return reinterpret_cast<uint8_t*>(values.data()); };
    const qrt_seq seqs[] = {{state(a), 0, nullptr, 0, 3, 0, 4}, {state(b), 0, nullptr, 0, 0, 4, 2}};
    RunInTwo(k->qk_trace,
             trace_args{.cols = cols,
                        .x = x.data(),
                        .last_offset = 4,
                        .seqs = seqs,
                        .n_seqs = 2,
                        .n_rows = rows,
                        .begin = 0,
                        .end = rows},
             3);
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(a[c + 1], x[3 * cols + c]) << "column " << c;
      ASSERT_EQ(b[c + 1], x[5 * cols + c]) << "column " << c;
    }
    EXPECT_EQ(a[0], -7.f);
    EXPECT_EQ(b[cols + 1], -7.f);
  }
}

TEST_P(KernelRows, SelectRows) {
  for (int64_t cols : {16, 40, 3}) {
    const std::vector<int32_t> ids = {4, 0, 4};
    Random random(5);
    const auto x = random.guarded(static_cast<size_t>(5 * cols), 5.f);
    Guarded<float> out(ids.size() * static_cast<size_t>(cols));
    RunInTwo(k->qk_select_rows,
             select_rows_args{.cols = cols,
                              .x = x.data(),
                              .out = out.data(),
                              .out_rows = ids.data(),
                              .n_rows = 3,
                              .begin = 0,
                              .end = 3},
             1);
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < cols; ++c)
        ASSERT_EQ(out[r * cols + c], x[ids[r] * cols + c]) << "row " << r << ", column " << c;
  }
}

TEST_P(KernelRows, SiluIsAccurateEverywhere) {
  std::vector<float> x, one;
  for (float v = -110.f; v < 110.f; v += 0.0137f) x.push_back(v);
  while (x.size() % 16) x.push_back(0.f);
  one.assign(x.size(), 1.f);
  std::vector<float> y(x.size());
  RunInTwo(k->qk_swiglu,
           swiglu_args{.cols = static_cast<int64_t>(x.size()),
                       .gate = x.data(),
                       .up = one.data(),
                       .out = y.data(),
                       .n_rows = 1,
                       .begin = 0,
                       .end = 1},
           0);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < -86.f) {
      EXPECT_LE(std::abs(y[i]), 1e-35f) << x[i];
      continue;
    }
    const double want = x[i] / (1 + std::exp(-static_cast<double>(x[i])));
    ASSERT_NEAR(y[i], want, 4e-7 * std::abs(want)) << x[i];
  }
}

TEST_P(KernelRows, RopeTable) {
  const int64_t pairs = 32, rows = 10;
  std::vector<double> freq(pairs);
  for (int64_t i = 0; i < pairs; ++i) freq[i] = std::pow(1e7, -static_cast<double>(i) / pairs);
  const int32_t at[] = {0, 1, 7, 1000, 40959, 262143, 999999, 1048575, 12345, INT32_MAX};
  std::vector<int32_t> positions(rows * 4);
  for (int64_t r = 0; r < rows; ++r) {
    for (int s = 0; s < 4; ++s) positions[r * 4 + s] = r == 8 ? at[r] + 100 * s : at[r];
  }
  for (bool sections : {false, true}) {
    const int64_t t = sections ? 11 : 0, h = sections ? 11 : 0, w = sections ? 10 : 0;
    const float magnitude = sections ? 1.f : 1.1386294f;
    Guarded<float> out(static_cast<size_t>(rows * 2 * pairs));
    RunInTwo(k->qk_rope_table,
             rope_table_args{.pairs = pairs,
                             .sections = {t, h, w, 0},
                             .magnitude = magnitude,
                             .inv_freq = freq.data(),
                             .out = out.data(),
                             .positions = positions.data(),
                             .n_rows = rows,
                             .begin = 0,
                             .end = rows},
             4);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < pairs; ++i) {
        // Pair 31 is h, 30 is t; w ends at 29.
        const int stream = !sections ? 0 : i % 3 == 1 ? 1 : i % 3 == 2 ? 2 : 0;
        const double angle = positions[r * 4 + stream] * freq[i];
        const double rounding = 8e-8 + (angle > 1 << 20 ? 2e-7 * magnitude : 0);  // math.h: sincos64
        ASSERT_NEAR(out[r * 2 * pairs + i], magnitude * std::cos(angle), rounding)
            << "cos, row " << r << ", pair " << i;
        ASSERT_NEAR(out[(r * 2 + 1) * pairs + i], magnitude * std::sin(angle), rounding)
            << "sin, row " << r << ", pair " << i;
      }
    }
  }
  // Shorter sections leave pairs to the fourth stream.
  Guarded<float> out(static_cast<size_t>(rows * 2 * pairs));
  const rope_table_args shorter = {.pairs = pairs,
                                   .sections = {4, 3, 2, 1},
                                   .magnitude = 1,
                                   .inv_freq = freq.data(),
                                   .out = out.data(),
                                   .positions = positions.data(),
                                   .n_rows = rows,
                                   .begin = 8,
                                   .end = 9};
  k->qk_rope_table(&shorter);
  for (int64_t i = 0; i < pairs; ++i) {
    const int stream = i % 3 == 0 && i < 12 ? 0 : i % 3 == 1 && i < 9 ? 1 : i % 3 == 2 && i < 6 ? 2 : 3;
    ASSERT_NEAR(out[(8 * 2 + 1) * pairs + i], std::sin(positions[8 * 4 + stream] * freq[i]), 8e-8)
        << "pair " << i;
  }
}

}  // namespace
}  // namespace qcc::cpu
