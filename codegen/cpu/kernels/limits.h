// Extents that the kernels' stack scratch allows. The compiler refuses a model beyond them by name; the
// kernels rely on it. Stand-alone: also included by the kernels, which see no library.
#ifndef QCC_CODEGEN_CPU_KERNELS_LIMITS_H_
#define QCC_CODEGEN_CPU_KERNELS_LIMITS_H_

#include <stdint.h>

namespace qcc::cpu {

inline constexpr int64_t kMaxHeadDim = 512;   // attention head_dim; a multiple of 8
inline constexpr int64_t kMaxDeltaDim = 256;  // gated_delta key_dim and value_dim; multiples of 8
inline constexpr int64_t kMinConvTaps = 2;    // gated_delta taps
inline constexpr int64_t kMaxConvTaps = 16;
inline constexpr int64_t kMaxQueryGroup = 64;         // attention: q_heads / kv_heads
inline constexpr int64_t kMaxRopePosition = 1 << 20;  // rope_table: |position * inv_freq| stays exact to 1e-9
inline constexpr int64_t kStackBytes =
    512 * 1024;  // upper bound of what a step function needs of its thread's stack

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_LIMITS_H_
