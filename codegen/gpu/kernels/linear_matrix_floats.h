// What the linear kernels of float weights on mma.m16n8k16 with bf16 share: products of f32 in pieces.
//
// A number is the sum of pieces of 8 bits, the upper ones first, which are bf16 numbers whatever its size: x
// is three, a weight of bf16 one, of f16 two, of f32 three. Products of pieces are exact; those that are
// about 2^-24 of the whole and less are left out. Products of first pieces have a sum that begins at 0 for
// every 32 columns, and the others one, the smallest first: so what matrix units cut off is small. All
// further sums are f32 additions.
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_

#include <vector>

#include "codegen/gpu/kernels/linear_matrix.h"

namespace qcc::gpu {

inline constexpr int kFloatPieces = 3;  // of an f32

// [piece]: words of the lane's columns of 32 in A or B.
using Pieces = std::vector<std::vector<Val>>;

// Of `values`, an even number.
Pieces SplitFloats(Builder& b, const std::vector<Val>& values);

// The lane's weights of a group: 8 columns of two rows.
class FloatWeights {
 public:
  FloatWeights(Builder& b, const LinearSpec& spec, Val w);
  // Values of chunk `number` of the group at byte `group`, as they lie: for each column a word of two rows,
  // or two f32.
  std::vector<Val> Load(Val group, Val number) const;
  // Of those, [piece][16 columns][4].
  Pieces Split(const std::vector<Val>& loaded) const;

 private:
  Builder& b_;
  const Val w_;
  const Scalar scalar_;
  const size_t pieces_;
  int32_t column_bytes_;
  Val of_lane_;
};

// acc + the products of 32 columns.
void AddFloatProducts(Builder& b, const Pieces& w, const Pieces& x, Val* acc);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_FLOATS_H_
