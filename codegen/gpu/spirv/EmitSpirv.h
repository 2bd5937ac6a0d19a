// A kernel's MLIR -> SPIR-V words for Vulkan 1.2 and later.
#ifndef QCC_CODEGEN_GPU_SPIRV_EMIT_SPIRV_H_
#define QCC_CODEGEN_GPU_SPIRV_EMIT_SPIRV_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace qcc::gpu {

// The dialects that lowering creates ops of, besides those of registerKernelDialects.
void registerSpirvDialects(mlir::DialectRegistry& registry);

// qcc-kernel-to-spirv{subgroup=N int-dot=B}, for qcc-opt: every gpu.module of one kernel becomes a
// spirv.module.
void registerSpirvPasses();

// `kernel` as buildKernel made it for `profile` and `launch`; it is left as it is. The words are validated by
// SPIRV-Tools; equal kernels give equal words. What the device must have besides Vulkan 1.2:
// bufferDeviceAddress, shaderInt64, vulkanMemoryModel; with profile.int_dot VK_KHR_shader_integer_dot_product
// (core in 1.3); with profile.subgroup subgroup shuffles. Arguments: push constants, launch.args.size() x 8
// bytes. Error: names the kernel and says what the lowering or the validator found.
llvm::Expected<std::vector<uint32_t>> emitSpirv(mlir::ModuleOp kernel, const Profile& profile,
                                                const Launch& launch);

// SPIR-V assembly, for tests and for reading. Empty when `words` is no SPIR-V.
std::string disassembleSpirv(const std::vector<uint32_t>& words);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_SPIRV_EMIT_SPIRV_H_
