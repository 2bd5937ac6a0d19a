#include "tests/unit/codegen_cpu/kernel_harness.h"

#include "dialects/formats/descriptions.h"
#include "dialects/layouts/pack.h"
#include "tests/unit/formats/ordinary_scales.h"

namespace qcc::cpu {
std::vector<uint8_t> random_gguf(Format format, int64_t rows, int64_t cols, uint32_t seed) {
  Random random(seed);
  const FormatInfo& info = format_info(format);
  const int64_t bytes = row_bytes(format, cols);
  std::vector<uint8_t> data(static_cast<size_t>(rows * bytes));
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = data.data() + r * bytes;
    if (r % 2 == 0 || info.cls == FormatClass::kPlain) {
      const std::vector<float> v = random.normals(static_cast<size_t>(cols), 0.1f);
      encode_row(format, v.data(), cols, row, EncodeEffort::kFast);
      continue;
    }
    for (int64_t i = 0; i < bytes; ++i) row[i] = static_cast<uint8_t>(random.below(256));
    for (int64_t b = 0; b < cols / info.block_elems; ++b) {
      SetOrdinaryScales(
          description(format), row + b * info.block_bytes, [&] { return random.normal(); },
          [&] { return random.below(1u << 31); });
    }
  }
  return data;
}

Guarded<uint8_t> packed(Format format, const std::vector<uint8_t>& gguf, int64_t rows, int64_t cols,
                        const std::vector<uint8_t>* second) {
  layouts::Weight weight{layouts::Layout::kX16, format, rows, cols, {gguf.data()}};
  if (second) {
    weight.layout = layouts::Layout::kX16Pair;
    weight.sources.push_back(second->data());
  }
  return Guarded<uint8_t>::copy_of(layouts::Packed(weight));
}

}  // namespace qcc::cpu
