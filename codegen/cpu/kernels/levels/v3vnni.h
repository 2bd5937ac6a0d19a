// x86-64-v3 and AVX-VNNI: the dot product of v4vnni in 256 bits.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_

#include "codegen/cpu/kernels/levels/avx2.h"

namespace qk {

struct Level : Avx2 {
  template <int kHigh>
  struct Dot {
    static constexpr bool kSigned = false;
    I32<8> sum;
    QK_INLINE void begin(Dot& d, int32_t init) { d.sum = I32<8>(init); }
    QK_INLINE void add(Dot& d, int, int, I32<8> codes, int32_t x) {
      d.sum = (I32<8>)_mm256_dpbusd_avx_epi32((__m256i)d.sum, (__m256i)codes, _mm256_set1_epi32(x));
    }
    QK_INLINE I32<8> end(const Dot& d) { return d.sum; }
  };
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_V3VNNI_H_
