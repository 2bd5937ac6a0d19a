// Products of a chunk of unpacked weights and int8 rows on a level's matrix unit. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_

#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/kernels/vec.h"

namespace qk {

// A scale's columns are what the unit adds up at once: a sum has no other operations than with vectors, and
// integer sums are exact in any order. kSums: of a chunk.
template <int kSums, class Unit>
struct MatrixProducts {
  static constexpr int kColumns = 32 / kSums;  // of a sum
  static constexpr int kVector = 64;           // bytes of four columns of a group, and of a row of sums
  static constexpr int kBytes = 4 * qcc::cpu::LinearScratch::kProducts;

  // Tiles: kSum is that of products, behind it those of rows and of weights.
  static constexpr int kRowTile = 2, kWeightTile = 4;
  static constexpr typename Unit::Shapes make_shapes() {
    typename Unit::Shapes shapes{};
    shapes.palette = 1;
    for (int sum = 0; sum < kSums; ++sum) {
      const auto tile = [&](int i, int rows, int row_bytes) {
        shapes.rows[i] = static_cast<uint8_t>(rows);
        shapes.row_bytes[i] = static_cast<uint16_t>(row_bytes);
      };
      tile(sum, Unit::kRows, kVector);
      tile(kRowTile + sum, Unit::kRows, kColumns);
      tile(kWeightTile + sum, kColumns / 4, kVector);
    }
    return shapes;
  }
  static constexpr typename Unit::Shapes kShapes = make_shapes();

  QK_INLINE void begin() { Unit::begin(kShapes); }
  QK_INLINE void end() { Unit::end(); }

  // to: [kSums][rows][16].
  QK_INLINE void multiply(const uint8_t* chunk, const uint8_t* codes, int64_t row_bytes, uint8_t* to) {
    multiply_sum<0>(chunk, codes, row_bytes, to);
    if constexpr (kSums == 2) multiply_sum<1>(chunk, codes, row_bytes, to);
  }

  template <int kSum>
  QK_INLINE void multiply_sum(const uint8_t* chunk, const uint8_t* codes, int64_t row_bytes, uint8_t* to) {
    Unit::template clear<kSum>();
    Unit::template load<kRowTile + kSum>(codes + kSum * kColumns, row_bytes);
    Unit::template load<kWeightTile + kSum>(chunk + kSum * kColumns / 4 * kVector, kVector);
    Unit::template add_products<kSum, kRowTile + kSum, kWeightTile + kSum>();
    Unit::template store<kSum>(to + kSum * kBytes, kVector);
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_
