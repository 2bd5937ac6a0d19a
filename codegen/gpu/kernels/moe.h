// What kernels of experts share (moe_route, moe_group, moe_linear). A row's i-th expert is its i-th slot.
#ifndef QCC_CODEGEN_GPU_KERNELS_MOE_H_
#define QCC_CODEGEN_GPU_KERNELS_MOE_H_

#include <cstdint>

#include "codegen/gpu/kernels/linear.h"

namespace qcc::gpu {

// Rows of which slots hardly share experts: up to so many, moe_linear reads no lists of moe_group.
inline constexpr int64_t kFewMoeRows = 8;

// The lists of moe_group (kernel_families.md) in bytes of `groups`; `i` is i32.
inline Val GroupIdAt(Val i) {
  return (i << 2) + 4;
}
inline Val GroupBeginAt(int64_t experts, Val i) {
  return (i << 2) + 4 * (1 + experts);
}

// y[row] += weight * W x of each slot of the row, one after the other, for few rows: a workgroup has all
// slots of a row. `spec` is of kRow, weighted, and adds.
Launch LinearRowSlots(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows);
// Whether the workgroup has memory for that many slots.
bool TakesRowSlots(const Profile& profile, const LinearSpec& spec);

// The same sums from the products of all slots, [R * top_k][n].
template <typename T>
struct MoeSumArgs {
  T products, weights, y, count;
};
Launch MoeSum(int64_t n, int64_t top_k, int64_t rows);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_MOE_H_
