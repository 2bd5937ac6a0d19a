#include "tests/unit/gpu_kernels/gpu_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/cpu/pack/pack.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::gpu {
namespace {

// Byte offsets of the f16 fields of a block.
std::vector<int> HalfFields(Format format) {
  switch (format) {
    case Format::Q4_0:
    case Format::Q8_0:
      return {0};
    case Format::Q4_1:
    case Format::Q4_K:
    case Format::Q5_K:
      return {0, 2};
    case Format::Q6_K:
      return {208};
    default:
      return {};
  }
}

}  // namespace

std::vector<uint8_t> Matrix::Packed() const {
  const int64_t groups = plan::align_up(rows, 16) / 16;
  std::vector<uint8_t> packed(static_cast<size_t>(plan::x16_bytes(format, rows, cols)));
  const cpu::MatrixPart part{gguf.data(), rows};
  cpu::pack_x16(format, {&part, 1}, cols, 0, groups, packed.data());
  return packed;
}

std::vector<uint8_t> PackedPair(const Matrix& gate, const Matrix& up) {
  const int64_t groups = plan::align_up(gate.rows, 16) / 16;
  std::vector<uint8_t> packed(static_cast<size_t>(2 * plan::x16_bytes(gate.format, gate.rows, gate.cols)));
  const cpu::MatrixPart g{gate.gguf.data(), gate.rows}, u{up.gguf.data(), up.rows};
  cpu::pack_x16_pair(gate.format, {&g, 1}, {&u, 1}, gate.cols, 0, groups, packed.data());
  return packed;
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
        for (int at : HalfFields(format)) {
          const uint16_t h = float_to_half(random.Normal() * 0.01f);
          std::memcpy(row + b * info.block_bytes + at, &h, 2);
        }
      }
    }
    decode_row(format, row, cols, m.values.data() + r * cols);
  }
  return m;
}

std::vector<uint8_t> QuantizedRows(const std::vector<float>& x, int64_t rows, int64_t k) {
  const int64_t stride = plan::int8_row_bytes(k);
  std::vector<uint8_t> out(static_cast<size_t>(rows * stride), 0xff);
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = out.data() + r * stride;
    for (int64_t b = 0; b < k / 32; ++b) {
      const float* v = x.data() + r * k + b * 32;
      float peak = 0;
      for (int i = 0; i < 32; ++i) peak = std::max(peak, std::fabs(v[i]));
      const float d = peak / 127.f;
      std::memcpy(row + k + 4 * b, &d, 4);
      for (int half = 0; half < 2; ++half) {
        int32_t sum = 0;
        for (int i = 16 * half; i < 16 * half + 16; ++i) {
          const float q = d == 0 ? 0 : std::nearbyintf(std::clamp(v[i] / d, -127.f, 127.f));
          row[b * 32 + i] = static_cast<uint8_t>(static_cast<int8_t>(q));
          sum += static_cast<int32_t>(q);
        }
        std::memcpy(row + k + k / 8 + 8 * b + 4 * half, &sum, 4);
      }
    }
  }
  return out;
}

std::vector<double> DequantizedRows(const std::vector<uint8_t>& xq, int64_t rows, int64_t k) {
  std::vector<double> out(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* row = xq.data() + r * plan::int8_row_bytes(k);
    for (int64_t c = 0; c < k; ++c) {
      float d;
      std::memcpy(&d, row + k + c / 32 * 4, 4);
      out[static_cast<size_t>(r * k + c)] = static_cast<double>(d) * static_cast<int8_t>(row[c]);
    }
  }
  return out;
}

}  // namespace qcc::gpu
