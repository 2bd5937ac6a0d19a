// x86-64-v3 and AVX-VNNI.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_

#include "codegen/cpu/kernels/levels/avx2.h"
#include "codegen/cpu/kernels/levels/vnni.h"

namespace qk {

struct Level : Avx2 {
  static constexpr bool wide_panels(int, int) { return false; }
  static constexpr bool wraps(int, int, int) { return false; }
  QK_INLINE I32<8> add_pairs(I32<8> sum, I32<8> a, I32<8> b) {
    return (I32<8>)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
  }
  QK_INLINE I32<8> add_products(I32<8> sum, I32<8> codes, int32_t x) {
    return (I32<8>)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)codes, _mm256_set1_epi32(x));
  }
  template <int kHigh>
  using Dot = ExactDot<Level, 8>;
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_
