// linear: every ISA level, format and numerics against double arithmetic on the reference decoder's values,
// and equal bits however rows and groups are split.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <sstream>

#include "codegen/cpu/kernels/scratch.h"
#include "dialects/layouts/layouts.h"
#include "runtime/base/cpu_features.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

using layouts::AlignUp;
using layouts::Int8RowBytes;

struct Problem {
  Format format;
  int64_t k, n, rows;
  bool swiglu = false;
  std::vector<double> weights, weights2;  // decoded, n x k
  Guarded<uint8_t> packed;
  Guarded<float> x;
  Guarded<uint8_t> xq;
  const float* scale = nullptr;
  const float* up_scale = nullptr;

  int64_t groups() const { return (n + 15) / 16; }
  int64_t ld() const { return AlignUp(n, 16); }
};

std::vector<double> decode(Format f, const std::vector<uint8_t>& gguf, int64_t rows, int64_t cols) {
  std::vector<float> v(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    decode_row(f, gguf.data() + r * row_bytes(f, cols), cols, v.data() + r * cols);
  return {v.begin(), v.end()};
}

Problem make_problem(const Kernels& kernels, Format format, int64_t k, int64_t n, int64_t rows, bool swiglu,
                     const std::vector<uint8_t>& gguf, const std::vector<uint8_t>& gguf2, uint32_t seed) {
  Random random(seed);
  std::vector<float> x = random.normals(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    // Rows of extreme codes (all +-127 after quantisation), a row of zeros, a row with one huge value.
    float* row = x.data() + r * k;
    if (r % 5 == 1) {
      for (int64_t c = 0; c < k; ++c) row[c] = row[c] < 0 ? -3.f : 3.f;
    } else if (r % 5 == 2) {
      for (int64_t c = 0; c < k; ++c) row[c] = r % 2 ? 0.f : 3.f;
    } else if (r % 5 == 3) {
      row[k / 2] = 1e6f;
    }
  }
  Guarded<uint8_t> xq(static_cast<size_t>(rows * Int8RowBytes(k)));
  const quantize_args quantize = {
      .cols = k, .x = x.data(), .out_q = xq.data(), .n_rows = rows, .begin = 0, .end = rows};
  if (k % 32 == 0) kernels.qk_quantize(&quantize);
  return {format,
          k,
          n,
          rows,
          swiglu,
          decode(format, gguf, n, k),
          decode(format, gguf2, n, k),
          packed(format, gguf, n, k, swiglu ? &gguf2 : nullptr),
          Guarded<float>::copy_of(x),
          std::move(xq)};
}

Problem make_problem(const Kernels& kernels, Format format, int64_t k, int64_t n, int64_t rows, bool swiglu,
                     uint32_t seed) {
  return make_problem(kernels, format, k, n, rows, swiglu, random_gguf(format, n, k, seed),
                      random_gguf(format, n, k, seed + 1), seed + 2);
}

// The activation row that the kernel multiplies: x, or what its int8 row stands for.
std::vector<double> activation(const Problem& p, bool int8, int64_t r) {
  std::vector<double> v(static_cast<size_t>(p.k));
  for (int64_t c = 0; c < p.k; ++c) {
    if (!int8) {
      v[c] = p.x[r * p.k + c];
      continue;
    }
    const uint8_t* row = p.xq.data() + r * Int8RowBytes(p.k);
    float scale;
    std::memcpy(&scale, row + p.k + c / 32 * 4, 4);
    v[c] = static_cast<double>(scale) * static_cast<int8_t>(row[c]);
  }
  return v;
}

using RunFn =
    std::function<void(int64_t row0, int64_t rows, float* y, int64_t epilogue, int64_t begin, int64_t end)>;

Guarded<uint8_t> scratch_for(Format format, int64_t k, int64_t terms) {
  return used_scratch(LinearScratch::Bytes(description(format).plain, k, terms));
}

RunFn runner(const Problem& p, const FormatKernels& f, bool int8) {
  auto scratch = std::make_shared<Guarded<uint8_t>>(int8 ? scratch_for(f.format, p.k, 1) : used_scratch(64));
  return [&p, &f, int8, scratch](int64_t row0, int64_t rows, float* y, int64_t epilogue, int64_t begin,
                                 int64_t end) {
    const linear_args args = {.format = static_cast<int64_t>(f.format),
                              .numerics = int8 ? QK_Numerics_Int8 : QK_Numerics_F32,
                              .k = p.k,
                              .n = p.n,
                              .epilogue = epilogue,
                              .rows = QK_RowsFrom_Rows,
                              .x = int8 ? nullptr : p.x.data() + row0 * p.k,
                              .xq = int8 ? p.xq.data() + row0 * Int8RowBytes(p.k) : nullptr,
                              .w = p.packed.data(),
                              .scale = p.scale,
                              .up_scale = p.up_scale,
                              .y = y,
                              .scratch = scratch->data(),
                              .read_ahead = 4096,
                              .n_rows = rows,
                              .begin = begin,
                              .end = end};
    (int8 ? f.int8 : f.f32)(&args);
  };
}

// The same of int8 rows with as many terms as `numerics` says.
RunFn terms_runner(const Kernels& kernels, const Problem& p, const FormatKernels& f, int64_t numerics) {
  const int64_t terms = numerics == QK_Numerics_Int8x2 ? 2 : 1, stride = Int8RowBytes(terms * p.k);
  auto xq = std::make_shared<Guarded<uint8_t>>(static_cast<size_t>(p.rows * stride));
  quantize_args quantize = {.cols = p.k, .x = p.x.data(), .n_rows = p.rows, .begin = 0, .end = p.rows};
  (terms == 2 ? quantize.out_q2 : quantize.out_q) = xq->data();
  kernels.qk_quantize(&quantize);
  auto scratch = std::make_shared<Guarded<uint8_t>>(scratch_for(f.format, p.k, terms));
  return [&p, &f, numerics, stride, xq, scratch](int64_t row0, int64_t rows, float* y, int64_t epilogue,
                                                 int64_t begin, int64_t end) {
    const linear_args args = {.format = static_cast<int64_t>(f.format),
                              .numerics = numerics,
                              .k = p.k,
                              .n = p.n,
                              .epilogue = epilogue,
                              .rows = QK_RowsFrom_Rows,
                              .xq = xq->data() + row0 * stride,
                              .w = p.packed.data(),
                              .y = y,
                              .scratch = scratch->data(),
                              .read_ahead = 4096,
                              .n_rows = rows,
                              .begin = begin,
                              .end = end};
    f.int8(&args);
  };
}

double silu(double v) {
  return v / (1 + std::exp(-v));
}

void check_values(const Problem& p, bool int8, int64_t epilogue, const float* before, const float* y) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const std::vector<double> x = activation(p, int8, r);
    for (int64_t i = 0; i < p.n; ++i) {
      double sum = 0, size = 0, sum2 = 0, size2 = 0, x_size = 0, top = 0, top2 = 0;
      for (int64_t c = 0; c < p.k; ++c) {
        const double t = p.weights[i * p.k + c] * x[c], t2 = p.weights2[i * p.k + c] * x[c];
        sum += t;
        size += std::abs(t);
        sum2 += t2;
        size2 += std::abs(t2);
        x_size += std::abs(x[c]);
        top = std::max(top, std::abs(p.weights[i * p.k + c]));
        top2 = std::max(top2, std::abs(p.weights2[i * p.k + c]));
      }
      if (int8) {
        // A min (K formats) is a term of its own, of up to the size of the row's range.
        size = x_size * top;
        size2 = x_size * top2;
      }
      // Rounding of the sums, as a random walk; int8 has k / 32 of them.
      const double unit = 6e-8 * (6 + std::sqrt(static_cast<double>(int8 ? p.k / 16 : p.k)));
      double want = sum, bound = unit * size;
      if (epilogue == QK_Epilogue_Add) {
        want += before[r * p.ld() + i];
        bound += 3e-7 * std::abs(want);
      } else if (epilogue == QK_Epilogue_Swiglu) {
        want = silu(sum) * sum2;
        bound = 1.2 * unit * (size * std::abs(sum2) + std::abs(silu(sum)) * size2 + unit * size * size2) +
                1e-6 * std::abs(want);
      }
      bound += 1e-30;
      ASSERT_NEAR(y[r * p.ld() + i], want, bound) << "row " << r << ", output " << i;
    }
  }
}

void check_splits(const Problem& p, const RunFn& run, int64_t epilogue, const float* before, const float* y) {
  const int64_t ld = p.ld();
  // Every row alone, and row windows of every length up to 9.
  for (int64_t count : {1, 2, 3, 5, 7, 9}) {
    for (int64_t r = 0; r + count <= p.rows; r += count) {
      Guarded<float> part(static_cast<size_t>(count * ld));
      std::copy(before + r * ld, before + (r + count) * ld, part.begin());
      run(r, count, part.data(), epilogue, 0, p.groups());
      ASSERT_TRUE(same_bits(part.data(), y + r * ld, count * ld)) << count << " rows from row " << r;
    }
  }
  Guarded<float> split(static_cast<size_t>(p.rows * ld));
  std::copy(before, before + p.rows * ld, split.begin());
  for (int64_t g = 0; g < p.groups(); ++g) {
    run(0, p.rows, split.data(), epilogue, g, g);  // an empty range writes nothing
    run(0, p.rows, split.data(), epilogue, g, g + 1);
  }
  ASSERT_TRUE(same_bits(split.data(), y, p.rows * ld)) << "one call per group";
}

class KernelLinear : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelLinear);

TEST_P(KernelLinear, ValuesAndSplits) {
  QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
  struct Shape {
    int64_t k, n, rows;
    int64_t epilogue;
  };
  uint32_t seed = 1;
  for (const FormatKernels& f : format_kernels(*k)) {
    const std::vector<Shape> shapes = {{1024, 40, 27, QK_Epilogue_Store}, {256, 16, 5, QK_Epilogue_Add},
                                       {768, 17, 9, QK_Epilogue_Swiglu},  {512, 1, 1, QK_Epilogue_Store},
                                       {256, 33, 8, QK_Epilogue_Swiglu},  {1280, 16, 3, QK_Epilogue_Add},
                                       {32, 16, 17, QK_Epilogue_Store},   {64, 17, 2, QK_Epilogue_Add},
                                       {96, 40, 4, QK_Epilogue_Store},    {160, 20, 7, QK_Epilogue_Swiglu},
                                       {384, 17, 3, QK_Epilogue_Add},     {33, 16, 6, QK_Epilogue_Store},
                                       {256, 40, 16, QK_Epilogue_Add},    {512, 33, 29, QK_Epilogue_Swiglu},
                                       {256, 48, 26, QK_Epilogue_Add}};
    for (bool int8 : {false, true}) {
      if (int8 && !f.int8) continue;
      for (const Shape& s : shapes) {
        if (s.k % format_info(f.format).block_elems != 0) continue;
        SCOPED_TRACE(f.name + (int8 ? " int8" : " f32") + ", k " + std::to_string(s.k) + ", n " +
                     std::to_string(s.n) + ", rows " + std::to_string(s.rows) + ", epilogue " +
                     std::to_string(s.epilogue));
        Problem p = make_problem(*k, f.format, s.k, s.n, s.rows, s.epilogue == QK_Epilogue_Swiglu, seed++);
        const Guarded<float> before = Random(seed).guarded(static_cast<size_t>(s.rows * p.ld()));
        Guarded<float> y = Guarded<float>::copy_of(before);
        const RunFn run = runner(p, f, int8);
        run(0, s.rows, y.data(), s.epilogue, 0, p.groups());
        check_values(p, int8, s.epilogue, before.data(), y.data());
        if (HasFatalFailure()) return;
        check_splits(p, run, s.epilogue, before.data(), y.data());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The greatest numbers that codes and integer scales make, which few rows take in f32 and many, on some
// levels, in integers: Q6_K's least codes with its least scales come within 0.8 % of where f32 ends to have
// each integer.
TEST_P(KernelLinear, GreatestWholeNumbers) {
  constexpr int64_t kColumns = 512, kOutputs = 32, kRows = 27, kScalesAt = 192, kBaseAt = 208, kBytes = 210;
  std::vector<uint8_t> gguf = random_gguf(Format::Q6_K, kOutputs, kColumns, 71);
  for (size_t block = 0; block < gguf.size(); block += kBytes) {
    for (size_t i = 0; i < 128; ++i) gguf[block + i] &= 0x11;  // -32 or -31
    std::fill_n(gguf.begin() + static_cast<std::ptrdiff_t>(block) + 128, 64, uint8_t{0});
    for (size_t i = kScalesAt; i < kBaseAt; ++i) gguf[block + i] = i % 2 ? 0x80 : 0x81;  // -128, -127
  }
  for (const FormatKernels& f : format_kernels(*k)) {
    if (f.format != Format::Q6_K) continue;
    const Problem p = make_problem(*k, f.format, kColumns, kOutputs, kRows, false, gguf, gguf, 72);
    const RunFn run = runner(p, f, true);
    const Guarded<float> before(static_cast<size_t>(p.rows * p.ld()));
    Guarded<float> y = Guarded<float>::copy_of(before);
    run(0, p.rows, y.data(), QK_Epilogue_Store, 0, p.groups());
    check_values(p, true, QK_Epilogue_Store, before.data(), y.data());
    if (HasFatalFailure()) return;
    check_splits(p, run, QK_Epilogue_Store, before.data(), y.data());
  }
}

// Rows of two terms: as good as f32 rows nearly, and a row's bits are its own.
TEST_P(KernelLinear, RowsOfTwoTerms) {
  QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
  uint32_t seed = 700;
  for (const FormatKernels& f : format_kernels(*k)) {
    if (!f.int8) continue;
    SCOPED_TRACE(f.name);
    Problem p = make_problem(*k, f.format, 512, 40, 27, false, seed++);
    const int64_t ld = p.ld();
    const RunFn run = terms_runner(*k, p, f, QK_Numerics_Int8x2);
    Guarded<float> y(static_cast<size_t>(p.rows * ld)), one(static_cast<size_t>(ld)),
        plain(static_cast<size_t>(p.rows * ld));
    run(0, p.rows, y.data(), QK_Epilogue_Store, 0, p.groups());
    for (int64_t r = 0; r < p.rows; ++r) {
      run(r, 1, one.data(), QK_Epilogue_Store, 0, p.groups());
      ASSERT_TRUE(same_bits(one.data(), y.data() + r * ld, ld)) << "row " << r << " alone";
    }
    runner(p, f, true)(0, p.rows, plain.data(), QK_Epilogue_Store, 0, p.groups());
    double apart = 0, size = 0, apart_plain = 0;
    for (int64_t r = 0; r < p.rows; ++r) {
      if (r % 5 == 3) continue;  // one value is a million times the others, which drown
      for (int64_t i = 0; i < p.n; ++i) {
        double want = 0;
        for (int64_t c = 0; c < p.k; ++c) want += p.weights[i * p.k + c] * p.x[r * p.k + c];
        apart += (y[r * ld + i] - want) * (y[r * ld + i] - want);
        apart_plain += (plain[r * ld + i] - want) * (plain[r * ld + i] - want);
        size += want * want;
      }
    }
    // Two terms leave 1/256 of what one leaves; what is left then is mostly rounding of the sums.
    ASSERT_LT(apart, 2e-9 * size);
    ASSERT_LT(apart, apart_plain / 100);
  }
}

// A scale multiplies the sums ahead of the epilogue; either of a pair may have one.
TEST_P(KernelLinear, Scales) {
  QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
  const float scale = 0.37f, up_scale = -1.9f;
  uint32_t seed = 300;
  for (const FormatKernels& f : format_kernels(*k)) {
    for (bool int8 : {false, true}) {
      if (int8 && !f.int8) continue;
      for (int64_t epilogue : {QK_Epilogue_Store, QK_Epilogue_Add, QK_Epilogue_Swiglu}) {
        for (int which : {1, 2, 3}) {  // a bit for each scale
          if (which > 1 && epilogue != QK_Epilogue_Swiglu) continue;
          SCOPED_TRACE(f.name + (int8 ? " int8" : " f32") + ", epilogue " + std::to_string(epilogue) +
                       ", scales " + std::to_string(which));
          Problem p = make_problem(*k, f.format, 256, 20, 7, epilogue == QK_Epilogue_Swiglu, seed++);
          const Guarded<float> before = Random(seed).guarded(static_cast<size_t>(p.rows * p.ld()));
          Guarded<float> plain = Guarded<float>::copy_of(before), y = Guarded<float>::copy_of(before);
          runner(p, f, int8)(0, p.rows, plain.data(), epilogue, 0, p.groups());
          if (which & 1) p.scale = &scale;
          if (which & 2) p.up_scale = &up_scale;
          runner(p, f, int8)(0, p.rows, y.data(), epilogue, 0, p.groups());
          if (epilogue == QK_Epilogue_Store) {
            for (float& v : plain) v *= scale;
            ASSERT_TRUE(same_bits(y.data(), plain.data(), p.rows * p.ld()));
          }
          if (which & 1)
            for (double& w : p.weights) w *= scale;
          if (which & 2)
            for (double& w : p.weights2) w *= up_scale;
          check_values(p, int8, epilogue, before.data(), y.data());
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// More rows than one cache block holds: the last block of all sizes, of less than a tile too.
TEST_P(KernelLinear, ManyRows) {
  QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED();
  for (const FormatKernels& f : format_kernels(*k)) {
    if (f.format != Format::Q8_0) continue;
    for (int64_t rows : {70, 65, 73, 80}) {
      SCOPED_TRACE(rows);
      Problem p = make_problem(*k, f.format, 8192, 16, rows, false, 99);
      const Guarded<float> before = Random(5).guarded(static_cast<size_t>(p.rows * p.ld()));
      Guarded<float> y = Guarded<float>::copy_of(before);
      const RunFn run = runner(p, f, true);
      run(0, p.rows, y.data(), QK_Epilogue_Add, 0, 1);
      check_values(p, true, QK_Epilogue_Add, before.data(), y.data());
      check_splits(p, run, QK_Epilogue_Add, before.data(), y.data());
      if (HasFatalFailure()) return;
    }
  }
}

// More columns than unpacked weights have at a time, in groups of which some pass the first of them before
// others do, and more rows than pass them together, less than a tile among the last: an output is what its
// row alone gets, which takes the columns in one go.
TEST_P(KernelLinear, ColumnsInParts) {
  const bool emulated = !missing_cpu_flag(GetParam()).empty();
  struct Shape {
    int64_t k, n, rows, epilogue;
  };
  constexpr int64_t kParts = LinearScratch::kWholeColumns + LinearScratch::kPartColumns;
  constexpr int64_t kOutputs = (LinearScratch::kPartGroups + 3) * 16;
  uint32_t seed = 4000;
  for (const FormatKernels& f : format_kernels(*k)) {
    if (!f.int8) continue;
    const bool often = f.format == Format::Q4_K || f.format == Format::Q6_K || f.format == Format::Q8_0;
    std::vector<Shape> shapes = {{kParts + 256, kOutputs, 27, QK_Epilogue_Add},
                                 {kParts, kOutputs / 2 + 5, 35, QK_Epilogue_Swiglu}};
    if (emulated) {
      // An instruction is a signal: the format with the most of them.
      if (f.format != Format::Q6_K) continue;
      shapes = {{LinearScratch::kWholeColumns + 256, 20, 19, QK_Epilogue_Add}};
    }
    if (often && !emulated) {
      shapes.push_back({kParts + 256, kOutputs, LinearScratch::kPartRows + 3, QK_Epilogue_Store});
      // All columns at once, whose sums a matrix unit's level keeps, too.
      shapes.push_back(
          {LinearScratch::kWholeColumns, kOutputs, LinearScratch::kPartRows + 3, QK_Epilogue_Add});
      shapes.push_back({256, kOutputs, 21, QK_Epilogue_Swiglu});
    }
    if (f.format == Format::Q8_0) shapes.push_back({kParts + 96, 40, 33, QK_Epilogue_Store});
    for (const Shape& s : shapes) {
      for (const int64_t numerics : {QK_Numerics_Int8, QK_Numerics_Int8x2}) {
        SCOPED_TRACE(f.name + ", k " + std::to_string(s.k) + ", n " + std::to_string(s.n) + ", rows " +
                     std::to_string(s.rows) + ", numerics " + std::to_string(numerics));
        const bool swiglu = s.epilogue == QK_Epilogue_Swiglu;
        const Problem p = make_problem(*k, f.format, s.k, s.n, s.rows, swiglu, seed++);
        const int64_t ld = p.ld();
        const RunFn run = terms_runner(*k, p, f, numerics);
        const Guarded<float> before = Random(seed).guarded(static_cast<size_t>(p.rows * ld));
        Guarded<float> y = Guarded<float>::copy_of(before), split = Guarded<float>::copy_of(before);
        run(0, p.rows, y.data(), s.epilogue, 0, p.groups());
        for (int64_t r = 0; r < p.rows; r += r + 5 < p.rows ? 5 : 1) {
          Guarded<float> one(static_cast<size_t>(ld));
          std::copy(before.data() + r * ld, before.data() + (r + 1) * ld, one.begin());
          run(r, 1, one.data(), s.epilogue, 0, p.groups());
          ASSERT_TRUE(same_bits(one.data(), y.data() + r * ld, ld)) << "row " << r << " alone";
        }
        run(0, p.rows, split.data(), s.epilogue, 0, 1);
        run(0, p.rows, split.data(), s.epilogue, 1, p.groups());
        ASSERT_TRUE(same_bits(split.data(), y.data(), y.size())) << "the first group in a call of its own";
      }
    }
  }
}

// A flag that the processor is never asked for would have its level skipped on every machine.
TEST(KernelLevels, EveryFlagIsOneThatCanBeFound) {
  for (Isa isa : all_levels()) {
    std::istringstream flags{std::string(isa_info(isa).cpu_flags)};
    for (std::string flag; flags >> flag;) {
      EXPECT_EQ(std::ranges::count(qrt::CpuFeatures::Known(), std::string_view(flag)), 1)
          << isa_info(isa).name << " needs '" << flag << "'";
    }
  }
}

// Levels differ in how many rows a register holds and how integers are summed up, but an output's own
// operations are the same wherever multiply-add rounds once.
TEST(KernelLevels, LinearBitsAgreeWhereMultiplyAddIsFused) {
  QCC_TWO_FUSED_LEVELS_OR_SKIP(levels);
  struct Shape {
    int64_t k, n, rows, epilogue;
  };
  // Few rows; as many as unpacked weights are for, and the most that are left over of those taken together.
  for (const Shape& s : {Shape{512, 32, 5, QK_Epilogue_Store}, Shape{512, 40, 47, QK_Epilogue_Add},
                         Shape{256, 20, 16, QK_Epilogue_Swiglu}}) {
    for (size_t i = 0; i < static_cast<size_t>(kFormatCount); ++i) {
      const Problem p =
          make_problem(kernels_of(Isa::base), format_kernels(kernels_of(Isa::base))[i].format, s.k, s.n,
                       s.rows, s.epilogue == QK_Epilogue_Swiglu, static_cast<uint32_t>(800 + i));
      for (bool int8 : {false, true}) {
        std::vector<float> first;
        for (Isa isa : levels) {
          const FormatKernels f = format_kernels(kernels_of(isa))[i];
          if (int8 && !f.int8) continue;
          Guarded<float> y = Random(900).guarded(static_cast<size_t>(s.rows * p.ld()));
          runner(p, f, int8)(0, s.rows, y.data(), s.epilogue, 0, p.groups());
          if (first.empty()) first.assign(y.begin(), y.end());
          ASSERT_TRUE(same_bits(y.data(), first.data(), y.size()))
              << f.name << (int8 ? " int8, " : " f32, ") << s.rows << " rows, " << isa_info(isa).name
              << " and " << isa_info(levels[0]).name;
        }
      }
    }
  }
}

// A matrix unit that is there is used for as many rows as it takes together, and for no fewer.
TEST(KernelLevels, TilesServeManyRows) {
  if (const std::string why = WhyNotHere(Isa::v4amx); !why.empty()) GTEST_SKIP() << why;
  if (missing_cpu_flag(Isa::v4amx).empty()) GTEST_SKIP() << "this machine has tiles: they are not counted";
  for (const FormatKernels& f : format_kernels(kernels_of(Isa::v4amx))) {
    if (!f.int8) continue;
    // Q2_K's codes take their scales in.
    const bool two = description(f.format).plain.columns_per_scale == 16 && f.format != Format::Q2_K;
    const int64_t k = 256, n = 32, sums = two ? 2 : 1;
    const Problem p = make_problem(kernels_of(Isa::base), f.format, k, n, 32, false, 17);
    Guarded<float> y(static_cast<size_t>(p.rows * p.ld()));
    const auto instructions = [&](int64_t rows) {
      const uint64_t before = EmulatedInstructions();
      runner(p, f, true)(0, rows, y.data(), QK_Epilogue_Store, 0, p.groups());
      return static_cast<int64_t>(EmulatedInstructions() - before);
    };
    EXPECT_EQ(instructions(15), 0) << f.name;
    // Shapes and their release; of each sum: clear, two loads, products, store. Of a group four tiles are
    // made ahead, or eight, which at the end is in vain; of the last four one is stored.
    const auto expected = [&](int64_t tiles) {
      return 2 + p.groups() * ((tiles * k / 32 * sums + 4 * sums) * 5 - 3);
    };
    EXPECT_EQ(instructions(16), expected(1)) << f.name;
    EXPECT_EQ(instructions(32), expected(2)) << f.name;
  }
}

TEST_P(KernelLinear, Embed) {
  uint32_t seed = 500;
  for (const FormatKernels& f : format_kernels(*k)) {
    SCOPED_TRACE(f.name);
    for (int64_t cols : {256, 768}) {
      const int64_t rows = 37;
      const auto gguf = random_gguf(f.format, rows, cols, seed++);
      const Guarded<uint8_t> table = packed(f.format, gguf, rows, cols);
      const std::vector<int32_t> ids = {36, 0, 15, 16, 31, 17, 17};
      Guarded<float> out(ids.size() * cols);
      const int64_t n = static_cast<int64_t>(ids.size());
      embed_args args = {.format = static_cast<int64_t>(f.format),
                         .cols = cols,
                         .table = table.data(),
                         .out = out.data(),
                         .tokens = ids.data(),
                         .n_rows = n,
                         .begin = 0,
                         .end = 3};
      f.embed(&args);
      args.begin = 3;
      args.end = n;
      f.embed(&args);
      std::vector<float> want(static_cast<size_t>(cols));
      for (size_t i = 0; i < ids.size(); ++i) {
        decode_row(f.format, gguf.data() + ids[i] * row_bytes(f.format, cols), cols, want.data());
        ASSERT_TRUE(same_bits(out.data() + i * cols, want.data(), cols)) << "row " << ids[i];
      }
    }
  }
}

}  // namespace
}  // namespace qcc::cpu
