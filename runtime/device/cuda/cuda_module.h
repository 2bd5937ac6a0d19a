// The artifact's PTX as machine code of one device, which the driver makes.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_
#define RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_driver.h"

namespace qrt {

// `ptx`: with a NUL behind it. The context must be current. Errors: as of cuda::Driver::Error, with what the
// driver says of the PTX.
//
// The driver compiles it whole and keeps what it makes in a cache of its own (~/.nv/ComputeCache, on unless
// CUDA_CACHE_DISABLE is set). To keep it ourselves we would have to link it (cuLinkCreate), the driver's only
// way to hand out machine code, for which it compiles PTX as relocatable code. That takes more registers: of
// the 0.8b model in Q4_K_M for sm_90, by ptxas -c and nvlink beside ptxas alone, gated_delta_rule 224 instead
// of 80 (2 workgroups on a multiprocessor instead of 6), gated_delta_dots 170 instead of 43, a decode linear
// 113 instead of 56; 44 of 87 kernels lose workgroups.
Result<cuda::CUmodule> LoadCudaModule(const cuda::Driver& driver, std::string_view ptx);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_
