// The expansion of every family of gpu_kernels.def: Expand_<family>, and by spec kExpansion.
#ifndef QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_
#define QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_

#include <vector>

#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

#define QCC_GPU_FAMILY(family, Family) \
  std::vector<Launch> Expand_##family(const Dispatch<plan::Family##Spec>& dispatch, Expansion& expansion);
#include "codegen/gpu/kernels/gpu_kernels.def"
#undef QCC_GPU_FAMILY

// Null when GPUs have no kernels for the family.
template <class Spec>
inline constexpr Expand<Spec> kExpansion = nullptr;
#define QCC_GPU_FAMILY(family, Family) \
  template <>                          \
  inline constexpr Expand<plan::Family##Spec> kExpansion<plan::Family##Spec> = Expand_##family;
#include "codegen/gpu/kernels/gpu_kernels.def"
#undef QCC_GPU_FAMILY

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_FAMILIES_H_
