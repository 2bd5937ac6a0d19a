// Extents that the kernels take. The compiler refuses a model beyond them by name; the kernels rely on it.
// Small arrays of these sizes lie on the stack, large ones in the thread's scratch (scratch.h). Stand-alone:
// also included by the kernels, which see no library.
#ifndef QCC_CODEGEN_CPU_KERNELS_LIMITS_H_
#define QCC_CODEGEN_CPU_KERNELS_LIMITS_H_

#include <stdint.h>

namespace qcc::cpu {

inline constexpr int64_t kMaxHeadDim = 512;   // attention head_dim; a multiple of 8
inline constexpr int64_t kMaxDeltaDim = 256;  // gated_delta key_dim and value_dim; multiples of 8
inline constexpr int64_t kMinConvTaps = 2;    // gated_delta taps
inline constexpr int64_t kMaxConvTaps = 16;
// moe_route goes over a row's logits once for each expert that the row uses: no scratch grows with it.
inline constexpr int64_t kMaxExperts = 1024;
inline constexpr int64_t kMaxQueryGroup = 64;  // attention: q_heads / kv_heads

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_LIMITS_H_
