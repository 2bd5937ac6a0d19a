#include "tests/device/reference.h"

#include <algorithm>
#include <cmath>

#include "dialects/layouts/layouts.h"
#include "dialects/layouts/pack.h"

namespace qcc::conformance {

std::vector<double> Decode(Format format, const Bytes& gguf, int64_t rows, int64_t cols) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    decode_row(format, gguf.data() + r * row_bytes(format, cols), cols, values.data() + r * cols);
  }
  return {values.begin(), values.end()};
}

Bytes Pack(Format format, const Bytes& gguf, int64_t rows, int64_t cols, const Bytes* second) {
  if (second != nullptr) {
    return layouts::Packed({layouts::Layout::kX16Pair, format, rows, cols, {gguf.data(), second->data()}});
  }
  return layouts::Packed({layouts::Layout::kX16, format, rows, cols, {gguf.data()}});
}

namespace {

// Of x / d: correctly rounded, but a code of `like` where Vulkan's division allows it.
int8_t CodeOf(float x, float d, const uint8_t* like) {
  if (d == 0.f) return 0;
  constexpr float kMostOff = 3 * 0x1p-23f;  // of the quotient
  const float quotient = x / d, code = std::clamp(std::nearbyintf(quotient), -127.f, 127.f);
  if (like == nullptr) return static_cast<int8_t>(code);
  const float half = std::floor(quotient) + 0.5f;
  const auto other = static_cast<int8_t>(*like);
  const bool beside = std::abs(static_cast<float>(other) - half) == 0.5f;
  return beside && std::abs(quotient - half) <= kMostOff * std::abs(half) ? other : static_cast<int8_t>(code);
}

// `like`: rows to take codes from, or null.
Bytes QuantizedRows(const std::vector<float>& x, int64_t k, const uint8_t* like) {
  const int64_t rows = static_cast<int64_t>(x.size()) / k, stride = layouts::Int8RowBytes(k);
  Bytes all(static_cast<size_t>(rows * stride));
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x.data() + r * k;
    uint8_t* to = all.data() + r * stride;
    for (int64_t b = 0; b < k / 32; ++b) {
      float peak = 0;
      for (int i = 0; i < 32; ++i) peak = std::max(peak, std::abs(from[b * 32 + i]));
      const float d = peak / 127.f;
      int32_t sums[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        const int64_t c = b * 32 + i;
        const int8_t q = CodeOf(from[c], d, like == nullptr ? nullptr : like + r * stride + c);
        to[c] = static_cast<uint8_t>(q);
        sums[i / 16] += q;
      }
      std::memcpy(to + k + b * 4, &d, 4);
      std::memcpy(to + k + k / 8 + b * 8, sums, 8);
      const float weighted = d * static_cast<float>(sums[0] + sums[1]);
      std::memcpy(to + k + k / 8 + k / 4 + b * 4, &weighted, 4);
    }
  }
  return all;
}

}  // namespace

Bytes Quantized(const std::vector<float>& x, int64_t cols) {
  return QuantizedRows(x, cols, nullptr);
}

Bytes QuantizedLike(const Bytes& got, const std::vector<float>& x, int64_t cols) {
  const size_t bytes =
      x.size() / static_cast<size_t>(cols) * static_cast<size_t>(layouts::Int8RowBytes(cols));
  return QuantizedRows(x, cols, got.size() == bytes ? got.data() : nullptr);
}

testing::AssertionResult SameInt8Rows(const Bytes& a, const Bytes& b, int64_t k) {
  const int64_t stride = layouts::Int8RowBytes(k), used = k + k / 8 + k / 4 + k / 8;
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " and " << b.size() << " bytes";
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) % stride;
    if (at < used && a[i] != b[i]) {
      return testing::AssertionFailure() << "row " << static_cast<int64_t>(i) / stride << ", byte " << at
                                         << ": " << int{a[i]} << " and " << int{b[i]};
    }
  }
  return testing::AssertionSuccess();
}

std::vector<double> Dequantized(const Bytes& rows, int64_t k) {
  const int64_t stride = layouts::Int8RowBytes(k);
  std::vector<double> x;
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()) / stride; ++r) {
    const uint8_t* row = rows.data() + r * stride;
    for (int64_t c = 0; c < k; ++c) {
      float d;
      std::memcpy(&d, row + k + c / 32 * 4, 4);
      x.push_back(static_cast<double>(d) * static_cast<int8_t>(row[c]));
    }
  }
  return x;
}

double Silu(double x) {
  return x / (1 + std::exp(-x));
}

std::vector<double> Matmul(const std::vector<double>& x, const std::vector<double>& w, int64_t k, int64_t n) {
  const int64_t rows = static_cast<int64_t>(x.size()) / k;
  std::vector<double> y(static_cast<size_t>(rows * n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < k; ++c) y[r * n + i] += x[r * k + c] * w[i * k + c];
    }
  }
  return y;
}

std::vector<float> Columns(const std::vector<float>& rows, int64_t ld, int64_t n) {
  std::vector<float> out;
  for (size_t r = 0; r < rows.size() / static_cast<size_t>(ld); ++r) {
    const auto begin = rows.begin() + static_cast<int64_t>(r) * ld;
    out.insert(out.end(), begin, begin + n);
  }
  return out;
}

void AppendRows(std::vector<float>& to, const std::vector<float>& rows, int64_t cols, int64_t first,
                int64_t count) {
  to.insert(to.end(), rows.begin() + first * cols, rows.begin() + (first + count) * cols);
}

}  // namespace qcc::conformance
