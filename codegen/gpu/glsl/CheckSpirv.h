// What a compute shader asks for, read from its words.
#ifndef QCC_CODEGEN_GPU_GLSL_CHECKSPIRV_H_
#define QCC_CODEGEN_GPU_GLSL_CHECKSPIRV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

// `words` is a valid module with one compute entry point. Returns why it cannot stand for a kernel that is
// launched with `workgroup_size` threads and `n_args` push constants of 8 bytes on devices of `profile`;
// empty when it can.
std::string checkSpirv(const std::vector<uint32_t>& words, uint32_t workgroup_size, uint32_t n_args,
                       const Profile& profile);

// Workgroup memory of the module, in bytes.
uint32_t sharedBytesOf(const std::vector<uint32_t>& words);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_GLSL_CHECKSPIRV_H_
