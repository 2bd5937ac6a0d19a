// What the linear kernels of float weights on mma.m16n8k16 share.
//
// Weights of bf16 and f32: products of f32 in pieces. A number is the sum of pieces of 8 bits, the upper ones
// first, which are bf16 numbers whatever its size: x is three, a weight of bf16 one, of f32 three. Products
// of pieces are exact; those that are about 2^-24 of the whole and less are left out. Products of first
// pieces have a sum that begins at 0 for every 32 columns, and the others one, the smallest first: so what
// matrix units cut off is small. All further sums are f32 additions.
//
// Weights of f16 are taken as they are, and x as two halves (matrix_halves.h), scaled by the greatest of 32
// columns of its row: 2 products take the place of 5. Those of lower halves have a sum over the 32 columns,
// those of higher ones a sum for each 16, as units cut sums off, too. Where a device lines up terms by the
// exponent of a 0's product, a weight of less than 2^-14 beside the greatest x costs the other columns bits:
// 19 are left where those have 2^-13 of that x and weights of 2^-6.
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_

#include <vector>

#include "codegen/gpu/kernels/linear_matrix.h"

namespace qcc::gpu {

inline constexpr int kFloatPieces = 3;     // of an f32
inline constexpr int kLanePieceWords = 4;  // that a lane has of a piece: 8 columns of 32

// [piece]: words of the lane's columns of 32 in A.
using Pieces = std::vector<std::vector<Val>>;

// Whether products are of halves, not of pieces.
constexpr bool TakesHalves(Format format) {
  return format == Format::F16;
}

// The lane's 8 columns of x as products with weights of `format` take them: words of B, kLanePieceWords of
// each piece or half, the greater first. Behind halves the scales of both rows that the lane has sums of. A
// subgroup does it whole.
std::vector<Val> SplitX(Builder& b, Format format, const std::vector<Val>& values);
// How many words that are.
constexpr int WordsOfX(Format format) {
  return TakesHalves(format) ? 2 * kLanePieceWords + 2 : kFloatPieces * kLanePieceWords;
}

// The lane's weights of a group: 8 columns of two rows.
class FloatWeights {
 public:
  FloatWeights(Builder& b, const LinearSpec& spec, Val w);
  // Values of chunk `number` of the group at byte `group`, as they lie: for each column a word of two rows,
  // or two f32.
  std::vector<Val> Load(Val group, Val number) const;
  // Of those, [piece][16 columns][4]; weights of 16 bits are a piece.
  Pieces Split(const std::vector<Val>& loaded) const;

 private:
  Builder& b_;
  const Val w_;
  const bool wide_;  // f32
  int32_t column_bytes_;
  Val of_lane_;
};

// acc + the products of 32 columns. `w`: of weights of `format`; `x`: of SplitX.
void AddFloatProducts(Builder& b, Format format, const Pieces& w, const std::vector<Val>& x, Val* acc);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_
