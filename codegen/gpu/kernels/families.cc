#include "codegen/gpu/kernels/families.h"

namespace qcc::gpu {

Expand FindExpansion(std::string_view family) {
#define QCC_GPU_FAMILY(name) \
  if (family == #name) return Expand_##name;
#include "codegen/gpu/kernels/gpu_kernels.def"
#undef QCC_GPU_FAMILY
  return nullptr;
}

}  // namespace qcc::gpu
