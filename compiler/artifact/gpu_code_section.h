// The code section of a GPU target: FlatBuffer of runtime/abi/gpu_code.fbs.
#ifndef QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_
#define QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/lower/gpu_code.h"

namespace qcc::compiler {

// Read by qrt::GpuCode (runtime/artifact). The same code gives the same bytes.
std::vector<uint8_t> BuildGpuCodeSection(const gpu::GpuCode& code);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_
