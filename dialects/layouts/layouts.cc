#include "dialects/layouts/layouts.h"

namespace qcc::layouts {

int64_t X16Bytes(Format format, int64_t rows, int64_t cols) {
  const Tile tile = TileOf(description(format).plain);
  const int64_t groups = AlignUp(rows, kGroupRows) / kGroupRows;
  if (tile.block == 0) return groups * cols * kGroupRows * format_info(format).block_bytes;
  return groups * (cols / tile.block) * tile.bytes();
}

std::optional<int64_t> PackedBytes(Layout layout, Format format, int64_t rows, int64_t cols) {
  if (cols % format_info(format).block_elems != 0) return std::nullopt;
  switch (layout) {
    case Layout::kX16:
    case Layout::kX16Pair:
      return SourcesOf(layout) * X16Bytes(format, rows, cols);
    case Layout::kF32:
    case Layout::kConvTaps:
      break;
  }
  return static_cast<int64_t>(sizeof(float)) * rows * cols;
}

Layout X16Everywhere(Use use, Format, int64_t, int64_t) {
  switch (use) {
    case Use::kMatrix:
      return Layout::kX16;
    case Use::kMatrixPair:
      return Layout::kX16Pair;
    case Use::kVector:
      return Layout::kF32;
    case Use::kConvTaps:
      break;
  }
  return Layout::kConvTaps;
}

}  // namespace qcc::layouts
