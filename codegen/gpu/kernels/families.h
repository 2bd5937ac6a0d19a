// Declares the expansion of every family of gpu_kernels.def: Expand_<family>.
#ifndef QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_
#define QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_

#include <vector>

#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

#define QCC_GPU_FAMILY(family) \
  std::vector<Launch> Expand_##family(const Dispatch& dispatch, Expansion& expansion);
#include "codegen/gpu/kernels/gpu_kernels.def"
#undef QCC_GPU_FAMILY

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_
