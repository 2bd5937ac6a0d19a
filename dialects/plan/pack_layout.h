// Sizes that the layout pass, the packer, the kernels and the verifier must agree on. Header only, no MLIR.
#ifndef QCC_DIALECTS_PLAN_PACK_LAYOUT_H_
#define QCC_DIALECTS_PLAN_PACK_LAYOUT_H_

#include <cstdint>

#include "dialects/formats/formats.h"

namespace qcc::plan {

inline constexpr int64_t kGroupRows = 16;  // rows interleaved in a tile: one 512-bit register of i32/f32

constexpr int64_t align_up(int64_t n, int64_t a) {
  return (n + a - 1) / a * a;
}

// 16 rows x one block of columns.
constexpr int64_t x16_tile_bytes(Format f) {
  switch (f) {
#define QCC_PACK_X16(id, bytes) \
  case Format::id:              \
    return bytes;
#include "dialects/plan/pack_layouts.def"
#undef QCC_PACK_X16
  }
  return 0;
}

// A matrix of `rows` x `cols`; rows are padded with zeros to a multiple of 16.
inline int64_t x16_bytes(Format f, int64_t rows, int64_t cols) {
  return align_up(rows, kGroupRows) / kGroupRows * (cols / format_info(f).block_elems) * x16_tile_bytes(f);
}

// One activation row of K values as int8 blocks: i8 codes[K]; f32 scale[K/32]; i32 sum[K/16]. K % 32 == 0.
constexpr int64_t int8_row_bytes(int64_t k) {
  return align_up(k + k / 8 + k / 4, 64);
}

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_PACK_LAYOUT_H_
