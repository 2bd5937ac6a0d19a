// A linear of random weights and rows: its expected outputs, and running it on the interpreter.
#ifndef QCC_TESTS_UNIT_GPU_KERNELS_LINEAR_PROBLEM_H_
#define QCC_TESTS_UNIT_GPU_KERNELS_LINEAR_PROBLEM_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {

using LinearDispatch = Dispatch<plan::LinearSpec>;

// Which of the scales a linear has.
struct Scales {
  bool scale = false, up_scale = false;
};
inline constexpr float kScale = 0.37f, kUpScale = -1.9f;

// Inputs and expected outputs of a linear, independent of how it runs.
struct Problem {
  Problem(Format format, bool int8, Epilogue epilogue, int64_t k, int64_t n, int64_t rows, Scales scales = {},
          int terms = 1)
      : format(format),
        int8(int8),
        epilogue(epilogue),
        scales(scales),
        terms(terms),
        k(k),
        n(n),
        rows(rows),
        ld(layouts::AlignUp(n, 16)) {
    const uint64_t seed = static_cast<uint64_t>(k * 1000 + n + static_cast<int>(format));
    Random random(seed);
    x = random.Normals(rows * terms * k);
    xq = QuantizedRows(x, rows, terms * k);
    y0 = random.Normals(rows * ld);
    const Matrix w = RandomMatrix(format, n, k, seed + 1), up = RandomMatrix(format, n, k, seed + 2);
    packed = epilogue == Epilogue::Swiglu ? PackedPair(w, up) : w.Packed();
    const double by = scales.scale ? double{kScale} : 1, up_by = scales.up_scale ? double{kUpScale} : 1;
    std::vector<double> exact(x.begin(), x.end());
    if (int8) exact = DequantizedRows(xq, rows, terms * k);
    if (terms == 2) {
      for (int64_t i = 0; i < rows * k; ++i) {
        const double* row = &exact[static_cast<size_t>(i / k * 2 * k)];
        exact[static_cast<size_t>(i)] = row[i % k] + row[k + i % k];
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < ld; ++c) {
        double size = 0, second_size = 0, v = 0;
        if (c < n) v = by * Dot(w, c, &exact[static_cast<size_t>(r * k)], &size);
        size *= std::fabs(by);
        if (epilogue == Epilogue::Add) v += y0[static_cast<size_t>(r * ld + c)];
        if (epilogue == Epilogue::Swiglu && c < n) {
          const double second = up_by * Dot(up, c, &exact[static_cast<size_t>(r * k)], &second_size);
          second_size *= std::fabs(up_by);
          const double silu = v / (1 + std::exp(-v));
          size = size * std::fabs(second) * 1.1 + second_size * std::fabs(silu);
          v = silu * second;
        }
        expected.push_back(v);
        // f32 roundings: of the products' scales, and of a chain of sums.
        tolerance.push_back(2e-6 * size + 1e-6 * std::fabs(v) + 1e-30);
      }
    }
  }

  static double Dot(const Matrix& w, int64_t row, const double* x, double* size) {
    double sum = 0;
    for (int64_t c = 0; c < w.cols; ++c) {
      const double p = static_cast<double>(w.values[static_cast<size_t>(row * w.cols + c)]) * x[c];
      sum += p;
      *size += std::fabs(p);
    }
    return sum;
  }

  LinearSpec Spec() const {
    LinearSpec spec;
    spec.format = format;
    spec.int8 = int8;
    spec.terms = terms;
    spec.k = k;
    spec.epilogue = epilogue;
    spec.scale = scales.scale;
    spec.up_scale = scales.up_scale;
    return spec;
  }
  std::string Name(const Profile& profile) const {
    return profile.name + " " + Spec().name() + " n " + std::to_string(n) + " rows " + std::to_string(rows);
  }

  Format format;
  bool int8;
  Epilogue epilogue;
  Scales scales;
  int terms;
  int64_t k, n, rows, ld;
  std::vector<float> x, y0;
  std::vector<uint8_t> xq, packed;
  std::vector<double> expected, tolerance;
};

// The dispatch over rows [first, first + count) of the problem, for a bucket of `bucket` rows.
inline LinearDispatch MakeDispatch(const Problem& p, Sandbox& box, int64_t first, int64_t count,
                                   int64_t bucket, plan::RowsFrom from = plan::RowsFrom::Rows) {
  LinearDispatch d;
  d.spec = {.format = p.format,
            .numerics = !p.int8        ? plan::Numerics::F32
                        : p.terms == 2 ? plan::Numerics::Int8x2
                                       : plan::Numerics::Int8,
            .k = p.k,
            .n = p.n,
            .epilogue = p.epilogue,
            .rows = from};
  d.rows = bucket;
  if (p.int8) {
    const int64_t stride = layouts::Int8RowBytes(p.terms * p.k);
    std::vector<uint8_t> part(p.xq.begin() + first * stride, p.xq.begin() + (first + count) * stride);
    part.resize(static_cast<size_t>(bucket * stride), 0xff);
    d.bindings.xq = box.Arena(part);
  } else {
    std::vector<float> part(p.x.begin() + first * p.k, p.x.begin() + (first + count) * p.k);
    part.resize(static_cast<size_t>(bucket * p.k), NAN);
    d.bindings.x = box.Arena(part);
  }
  d.bindings.w = box.Weights(p.packed);
  if (p.scales.scale) d.bindings.scale = box.Weights(std::vector<float>{kScale});
  if (p.scales.up_scale) d.bindings.up_scale = box.Weights(std::vector<float>{kUpScale});
  std::vector<float> y(p.y0.begin() + first * p.ld, p.y0.begin() + (first + count) * p.ld);
  y.resize(static_cast<size_t>(bucket * p.ld), -7.f);
  d.bindings.y = box.Arena(y);
  SetRows(box, static_cast<uint32_t>(count));
  return d;
}

// y of rows [first, first + count).
inline std::vector<float> RunRows(const Problem& p, const Profile& profile, int64_t first, int64_t count,
                                  int64_t bucket) {
  Sandbox box(profile, bucket);
  const LinearDispatch d = MakeDispatch(p, box, first, count, bucket);
  EXPECT_EQ(box.Run(Expand_linear, d), "") << p.Name(profile);
  std::vector<float> y = box.Read<float>(*d.bindings.y);
  for (size_t i = static_cast<size_t>(count * p.ld); i < y.size(); ++i) {
    EXPECT_EQ(y[i], -7.f) << p.Name(profile) << ": row beyond the step's was written";
  }
  y.resize(static_cast<size_t>(count * p.ld));
  return y;
}

// With `count` of the problem's rows in the step; -1: all.
inline std::vector<float> RunVariant(const Problem& p, const Profile& profile,
                                     const std::function<Launch(int64_t units, int64_t rows)>& variant,
                                     int64_t count = -1) {
  Sandbox box(profile, p.rows);
  const LinearDispatch d = MakeDispatch(p, box, 0, count < 0 ? p.rows : count, p.rows);
  const int64_t units = p.ld / 16;
  Launch launch = variant(units, p.rows);
  launch.args = LinearArgs::List({.x = p.int8 ? *d.bindings.xq : *d.bindings.x,
                                  .w = *d.bindings.w,
                                  .y = *d.bindings.y,
                                  .count = {Space::kStep, 0, 4},
                                  .units = Number(static_cast<uint64_t>(units)),
                                  .y_row_bytes = Number(static_cast<uint64_t>(4 * p.ld))},
                                 {.scale = d.bindings.scale, .up_scale = d.bindings.up_scale});
  EXPECT_EQ(box.Run(std::vector<Launch>{launch}), "") << launch.name << " on " << p.Name(profile);
  return box.Read<float>(*d.bindings.y);
}

inline void ExpectNear(const Problem& p, const std::vector<float>& y, const Profile& profile) {
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_LE(std::fabs(y[i] - p.expected[i]), p.tolerance[i])
        << p.Name(profile) << ": row " << i / static_cast<size_t>(p.ld) << " column "
        << i % static_cast<size_t>(p.ld) << ": " << y[i] << ", expected " << p.expected[i];
  }
}

inline void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b,
                           const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], 4), 0)
        << what << ": element " << i << ": " << a[i] << " and " << b[i];
  }
}

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_KERNELS_LINEAR_PROBLEM_H_
