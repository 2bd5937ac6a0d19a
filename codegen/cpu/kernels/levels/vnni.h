// The dot product of levels that add four products of unsigned and signed bytes to a 32-bit lane exactly.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_VNNI_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_VNNI_H_

#include "codegen/cpu/kernels/lanes.h"

namespace qk {

// Level::add_products(sum, codes, x): N lanes of `sum`, each with its four codes times the four bytes of x.
template <class Level, int N>
struct ExactDot {
  static constexpr bool kSigned = false, kScales = false;
  I32<N> sum;
  QK_INLINE void begin(ExactDot& d, I32<N> init) { d.sum = init; }
  QK_INLINE void add(ExactDot& d, int, int, I32<N> codes, int32_t x) {
    d.sum = Level::add_products(d.sum, codes, x);
  }
  QK_INLINE I32<N> end(const ExactDot& d) { return d.sum; }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_VNNI_H_
