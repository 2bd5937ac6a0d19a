#include "tests/unit/gpu_kernels/gpu_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dialects/formats/descriptions.h"
#include "dialects/layouts/pack.h"
#include "tests/unit/formats/ordinary_scales.h"

namespace qcc::gpu {
std::vector<Format> Formats() {
  std::vector<Format> formats;
  for (const FormatDescription& d : kDescriptions) formats.push_back(d.id);
  return formats;
}

std::vector<Format> BlockFormats() {
  std::vector<Format> formats;
  for (const FormatDescription& d : kDescriptions) {
    if (d.plain.block) formats.push_back(d.id);
  }
  return formats;
}

std::vector<uint8_t> Matrix::Packed() const {
  return layouts::Packed({layouts::Layout::kX16, format, rows, cols, {gguf.data()}});
}

std::vector<uint8_t> PackedPair(const Matrix& gate, const Matrix& up) {
  return layouts::Packed(
      {layouts::Layout::kX16Pair, gate.format, gate.rows, gate.cols, {gate.gguf.data(), up.gguf.data()}});
}

Matrix RandomMatrix(Format format, int64_t rows, int64_t cols, uint64_t seed) {
  Random random(seed);
  const FormatInfo& info = format_info(format);
  const int64_t bytes = row_bytes(format, cols);
  Matrix m{format, rows, cols, std::vector<uint8_t>(static_cast<size_t>(rows * bytes)),
           std::vector<float>(static_cast<size_t>(rows * cols))};
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = m.gguf.data() + r * bytes;
    if (r % 2 == 0 || info.cls == FormatClass::kPlain) {
      std::vector<float> v = random.Normals(cols);
      // Small enough for subnormal halves to occur.
      for (float& x : v) x *= r % 4 == 1 ? 2e-5f : 0.1f;
      encode_row(format, v.data(), cols, row, EncodeEffort::kFast);
    } else {
      for (int64_t i = 0; i < bytes; ++i) row[i] = static_cast<uint8_t>(random.Bits());
      for (int64_t b = 0; b < cols / info.block_elems; ++b) {
        SetOrdinaryScales(
            description(format), row + b * info.block_bytes, [&] { return random.Normal(); },
            [&] { return random.Bits(); });
      }
    }
    decode_row(format, row, cols, m.values.data() + r * cols);
  }
  return m;
}

std::vector<uint8_t> QuantizedRows(const std::vector<float>& x, int64_t rows, int64_t k) {
  const int64_t stride = layouts::Int8RowBytes(k);
  std::vector<uint8_t> out(static_cast<size_t>(rows * stride), 0xff);
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = out.data() + r * stride;
    for (int64_t b = 0; b < k / 32; ++b) {
      const float* v = x.data() + r * k + b * 32;
      float peak = 0;
      for (int i = 0; i < 32; ++i) peak = std::max(peak, std::fabs(v[i]));
      const float d = peak / 127.f;
      std::memcpy(row + k + 4 * b, &d, 4);
      int32_t whole = 0;
      for (int half = 0; half < 2; ++half) {
        int32_t sum = 0;
        for (int i = 16 * half; i < 16 * half + 16; ++i) {
          const float q = d == 0 ? 0 : std::nearbyintf(std::clamp(v[i] / d, -127.f, 127.f));
          row[b * 32 + i] = static_cast<uint8_t>(static_cast<int8_t>(q));
          sum += static_cast<int32_t>(q);
        }
        std::memcpy(row + k + k / 8 + 8 * b + 4 * half, &sum, 4);
        whole += sum;
      }
      const float weighted = d * static_cast<float>(whole);
      std::memcpy(row + k + k / 8 + k / 4 + 4 * b, &weighted, 4);
    }
  }
  return out;
}

std::vector<double> DequantizedRows(const std::vector<uint8_t>& xq, int64_t rows, int64_t k) {
  std::vector<double> out(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* row = xq.data() + r * layouts::Int8RowBytes(k);
    for (int64_t c = 0; c < k; ++c) {
      float d;
      std::memcpy(&d, row + k + c / 32 * 4, 4);
      out[static_cast<size_t>(r * k + c)] = static_cast<double>(d) * static_cast<int8_t>(row[c]);
    }
  }
  return out;
}

}  // namespace qcc::gpu
