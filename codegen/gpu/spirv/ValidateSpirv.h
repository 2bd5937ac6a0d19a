// SPIRV-Tools' judgement of a module.
#ifndef QCC_CODEGEN_GPU_SPIRV_VALIDATESPIRV_H
#define QCC_CODEGEN_GPU_SPIRV_VALIDATESPIRV_H

#include <cstdint>
#include <string>
#include <vector>

namespace qcc::gpu {

// What is wrong with a module for Vulkan 1.2 (of SPIR-V 1.6: 1.3); empty if nothing is. SPIRV-Tools before
// 2023.4 do not know SPV_KHR_cooperative_matrix. To them such a module is shown as SPV_NV_cooperative_matrix
// would have it, the extension that it grew from: everything but the use of each matrix type is checked.
std::string validateSpirv(const std::vector<uint32_t>& words);

// The module in the words of SPV_NV_cooperative_matrix. For validateSpirv and its test.
std::vector<uint32_t> withNvMatrices(const std::vector<uint32_t>& words);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_SPIRV_VALIDATESPIRV_H
