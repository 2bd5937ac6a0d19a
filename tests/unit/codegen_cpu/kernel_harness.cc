#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

// Byte offsets of the f16 fields of a block.
std::vector<int> half_fields(Format f) {
  switch (f) {
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

std::vector<uint8_t> random_gguf(Format format, int64_t rows, int64_t cols, uint32_t seed) {
  Random random(seed);
  const FormatInfo& info = format_info(format);
  const int64_t bytes = row_bytes(format, cols);
  std::vector<uint8_t> data(static_cast<size_t>(rows * bytes));
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = data.data() + r * bytes;
    if (r % 2 == 0 || info.cls == FormatClass::kPlain) {
      const std::vector<float> v = random.normals(static_cast<size_t>(cols), 0.1f);
      encode_row(format, v.data(), cols, row);
      continue;
    }
    for (int64_t i = 0; i < bytes; ++i) row[i] = static_cast<uint8_t>(random.below(256));
    for (int64_t b = 0; b < cols / info.block_elems; ++b) {
      for (int at : half_fields(format)) {
        const uint16_t h = float_to_half(random.normal(0.01f));
        std::memcpy(row + b * info.block_bytes + at, &h, 2);
      }
    }
  }
  return data;
}

}  // namespace qcc::cpu
