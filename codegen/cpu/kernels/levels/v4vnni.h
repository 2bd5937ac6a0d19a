// x86-64-v4 (AVX-512 F, BW, VL, DQ) and AVX-512 VNNI.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_V4VNNI_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_V4VNNI_H_

#include "codegen/cpu/kernels/levels/avx512.h"

namespace qk {

struct Level : Avx512 {};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_V4VNNI_H_
