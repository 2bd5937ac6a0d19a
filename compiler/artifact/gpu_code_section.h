// The code section of a GPU target: FlatBuffer of runtime/abi/gpu_code.fbs.
#ifndef QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_
#define QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "codegen/gpu/lower/gpu_code.h"

namespace qcc::compiler {

// The same code gives the same bytes.
std::vector<uint8_t> BuildGpuCodeSection(const gpu::GpuCode& code);

// Reads a section that may come from anywhere: a valid FlatBuffer, kernels of dispatches and enumerators in
// range. The runtime checks more (runtime/device/gpu). Errors: Q4014, Q4015; `where` names the section.
absl::StatusOr<gpu::GpuCode> ParseGpuCodeSection(std::span<const uint8_t> bytes, const std::string& where);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_GPU_CODE_SECTION_H_
