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

  // Tiles of two turns, of each at most two sums: products, then rows and weights.
  static constexpr int kRowTile = 4, kWeightTile = 6;
  static constexpr typename Unit::Shapes make_shapes() {
    typename Unit::Shapes shapes{};
    shapes.palette = 1;
    const auto tile = [&](int i, int rows, int row_bytes) {
      shapes.rows[i] = static_cast<uint8_t>(rows);
      shapes.row_bytes[i] = static_cast<uint16_t>(row_bytes);
    };
    for (int i = 0; i < kRowTile; ++i) tile(i, Unit::kRows, kVector);
    for (int i = 0; i < 2; ++i) {
      tile(kRowTile + i, Unit::kRows, kColumns);
      tile(kWeightTile + i, kColumns / 4, kVector);
    }
    return shapes;
  }
  static constexpr typename Unit::Shapes kShapes = make_shapes();

  QK_INLINE void begin() { Unit::begin(kShapes); }
  QK_INLINE void end() { Unit::end(); }

  // A turn's sums of the rows whose codes begin `row_bytes` apart.
  template <int kTurn>
  QK_INLINE void multiply(const uint8_t* chunk, const uint8_t* codes, int64_t row_bytes) {
    multiply_sum<kTurn, 0>(chunk, codes, row_bytes);
    if constexpr (kSums == 2) multiply_sum<kTurn, 1>(chunk, codes, row_bytes);
  }
  template <int kTurn, int kSum>
  QK_INLINE void multiply_sum(const uint8_t* chunk, const uint8_t* codes, int64_t row_bytes) {
    constexpr int kProduct = kTurn * kSums + kSum, kOther = kSums == 2 ? kSum : kTurn;
    Unit::template clear<kProduct>();
    Unit::template load<kRowTile + kOther>(codes + kSum * kColumns, row_bytes);
    Unit::template load<kWeightTile + kOther>(chunk + kSum * kColumns / 4 * kVector, kVector);
    Unit::template add_products<kProduct, kRowTile + kOther, kWeightTile + kOther>();
  }

  // to: [kSums][rows][16].
  template <int kTurn>
  QK_INLINE void store(uint8_t* to) {
    Unit::template store<kTurn * kSums>(to, kVector);
    if constexpr (kSums == 2) Unit::template store<kTurn * kSums + 1>(to + kBytes, kVector);
  }
};

// What the unit of P, which are Panels, multiplies next: of each panel the columns of each tile of rows, in
// the order in which products are used, kAhead turns earlier. What it has multiplied leaves its tiles a turn
// later, when it is ready, and can be read when it has left the processor's queue of stores, behind all that
// came before it.
template <class P>
struct MatrixAhead {
  typedef typename P::Part Part;
  typedef typename P::Unit Unit;
  static constexpr int64_t kAhead = qcc::cpu::LinearScratch::kProductTurns - 1;

  const uint8_t *x, *codes, *chunk;  // the first row of all; the rows' next columns, the panel's
  int64_t row, end;                  // of the tile's; of all
  int64_t panel, panels;
  int64_t left;        // chunks of the tile
  int64_t made, used;  // chunks
  uint8_t* unstored;   // where what is in tiles goes, or null

  QK_INLINE MatrixAhead make(const P& p, const uint8_t* x, int64_t begin, int64_t end, bool both,
                             const Part& part) {
    MatrixAhead a = {x, nullptr, nullptr, begin, end, 0, both ? 2 : 1, 0, 0, 0, nullptr};
    if constexpr (P::kMatrix) {
      a.begin_tile(p, part);
      for (int64_t i = 0; i < kAhead; ++i) a.multiply_next(p, part);
    }
    return a;
  }

  // The products of the next chunk: [terms][sums][rows][16].
  __attribute__((always_inline)) const uint8_t* turn(const P& p, const Part& part) {
    multiply_next(p, part);
    return products(p, used++);
  }

  QK_INLINE uint8_t* products(const P& p, int64_t turn) {
    return p.products + turn % qcc::cpu::LinearScratch::kProductTurns * (p.t.terms * P::kDots * Unit::kBytes);
  }
  __attribute__((always_inline)) void begin_tile(const P& p, const Part& part) {
    const int64_t first = row + P::M <= end ? row : end - P::M;
    codes = p.t.columns(x + first * p.t.row_bytes, part.from).codes;
    chunk = p.panel + panel * p.place.pair;
    left = part.columns / 32;
  }
  template <int kTurn>
  __attribute__((always_inline)) void multiply(const P& p, const uint8_t* term, uint8_t* to) {
    Unit::template multiply<kTurn>(chunk, term, p.t.row_bytes);
    if (unstored) Unit::template store<1 - kTurn>(unstored);
    unstored = to;
  }
  // Terms take turns, or chunks of a single one.
  __attribute__((always_inline)) void multiply_next(const P& p, const Part& part) {
    const bool odd = made % 2 != 0;
    if (row >= end) {
      if (unstored && (p.t.terms == 2 || !odd)) Unit::template store<1>(unstored);
      if (unstored && p.t.terms == 1 && odd) Unit::template store<0>(unstored);
      unstored = nullptr;
      return;
    }
    uint8_t* to = products(p, made++);
    if (p.t.terms == 2) {
      multiply<0>(p, codes, to);
      multiply<1>(p, codes + p.t.k, to + P::kDots * Unit::kBytes);
    } else if (odd) {
      multiply<1>(p, codes, to);
    } else {
      multiply<0>(p, codes, to);
    }
    codes += 32;
    chunk += p.place.chunk;
    if (--left > 0) return;
    if (++panel == panels) {
      panel = 0;
      row += P::M;
    }
    if (row < end) begin_tile(p, part);
  }
};

// An integer of less than 2^22 in place of the last bits of kOnes, whose last bit is 1: their sum, as f32.
inline constexpr float kOnes = 12582912.f;  // 2^23 + 2^22
QK_INLINE F32<kLanes> above_ones(I32<kLanes> v) {
  return __builtin_bit_cast(F32<kLanes>, v + __builtin_bit_cast(int32_t, kOnes));
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_MATRIX_H_
