// Where a thread stands in the fragments of matrix units of kind kMma.
#ifndef QCC_CODEGEN_GPU_KERNELS_MATRIX_LANE_H_
#define QCC_CODEGEN_GPU_KERNELS_MATRIX_LANE_H_

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

inline constexpr int kMatrixSubgroup = 32;
inline constexpr int kFragmentRows = 8;  // of what is B: columns of C
inline constexpr int kLaneSums = 4;      // of C that a lane has: two of row `group`, two of row group + 8

struct MatrixLane {
  explicit MatrixLane(Builder& b) {
    const Val lane = b.Thread() & (kMatrixSubgroup - 1);
    group = ShrU(lane, 2);
    quad = lane & 3;
  }
  // The row of what is B that sum `sum` of a fragment is of.
  Val SumRow(int fragment, int sum) const { return quad * 2 + (kFragmentRows * fragment + (sum & 1)); }
  Val group, quad;
};

// Words of two floats of 16 bits: the lower, or the upper, ones of two words.
inline Val LowerHalves(Val first, Val second) {
  return (first & 0xffff) | (second << 16);
}
inline Val UpperHalves(Val first, Val second) {
  return ShrU(first, 16) | (second & 0xffff0000);
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_MATRIX_LANE_H_
