// The artifact's PTX as machine code of one device: made by the driver at first use, kept from then on.
#ifndef RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_
#define RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/gpu/kernel_file.h"

namespace qrt {

// The file of what this driver makes of the code section of this hash, for devices of this compute
// capability.
KernelFile CubinFile(const std::string& folder, const CudaDeviceInfo& device, const Hash128& code_hash);

// `ptx`: with a NUL behind it. Takes the machine code from `file`, else has the driver make it and keeps it
// there; a file that is damaged, or that the driver refuses, is made anew. The context must be current.
// Errors: as of cuda::Driver::Error, with what the driver says of the PTX.
Result<cuda::CUmodule> LoadCudaModule(const cuda::Driver& driver, std::string_view ptx,
                                      const KernelFile& file,
                                      const std::function<void(bool warning, std::string_view line)>& log);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CUDA_CUDA_MODULE_H_
