// Int8 rows as a matrix unit takes them: by sixteen, those of a tile chunk after chunk (LinearScratch).
// Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_MATRIX_ROWS_H_
#define QCC_CODEGEN_CPU_KERNELS_MATRIX_ROWS_H_

#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/scratch.h"

namespace qk {

template <Format F>
struct MatrixRows {
  typedef Int8Linear<F> L;
  typedef qcc::cpu::MatrixRowChunk Chunk;

  const L& t;
  Chunk chunk;
  uint8_t* to;

  // The chunks of rows 16 i, ..., of which each has `columns`.
  __attribute__((always_inline)) uint8_t* tile(int64_t i, int64_t columns) const {
    __builtin_assume(columns >= 0);  // divided by shifting
    return to + i * (columns / 32) * chunk.bytes;
  }
  // Of row m of a chunk's.
  __attribute__((always_inline)) float scale(const uint8_t* rows, int m) const {
    return load<float>(rows + chunk.scale_at + m * 4);
  }
  __attribute__((always_inline)) float weighted(const uint8_t* rows, int g, int m) const {
    return load<float>(rows + chunk.weighted_at + g * 64 + m * 4);
  }

  // Makes `row` row i, of `columns` each.
  __attribute__((always_inline)) void put(const Int8Columns& row, int64_t i, int64_t columns) const {
    __builtin_assume(i >= 0);
    const int64_t m = i % Chunk::kRows;
    uint8_t* at = tile(i / Chunk::kRows, columns);
    for (int64_t col = 0; col < columns; col += 32, at += chunk.bytes) {
      store<U8<32>>(at + m * 32, load<U8<32>>(row.codes + col));
      if (t.terms == 2)
        store<U8<32>>(at + Chunk::kCodes + m * 32, load<U8<32>>(row.codes + t.last_term(col)));
      store<float>(at + chunk.scale_at + m * 4, t.x_scale(row, col));
      if constexpr (L::B::kHasMinimum) {
        unroll<L::kSums>([&](int g) QK_LAMBDA {
          store<float>(at + chunk.weighted_at + g * 64 + m * 4, t.x_weighted(row, col, g));
        });
      }
    }
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_MATRIX_ROWS_H_
