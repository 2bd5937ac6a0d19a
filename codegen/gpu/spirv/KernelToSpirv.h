// A kernel in the gpu, arith, math, scf, vector, memref and gx dialects -> a module of the SPIR-V dialect.
#ifndef QCC_CODEGEN_GPU_SPIRV_KERNEL_TO_SPIRV_H_
#define QCC_CODEGEN_GPU_SPIRV_KERNEL_TO_SPIRV_H_

#include "codegen/gpu/kernels/builder.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace qcc::gpu {

// Consumes the body of `kernel`, which buildKernel made and the canonicalizer may have simplified. The module
// has one compute entry point of the kernel's name, physical storage buffer addresses, the Vulkan memory
// model, the arguments as a push constant block of i64 and the capabilities that its ops need, SPIR-V 1.5,
// with cooperative matrices 1.6. Fails with a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::spirv::ModuleOp>> convertKernelToSpirv(mlir::gpu::GPUFuncOp kernel,
                                                                               const Profile& profile);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_SPIRV_KERNEL_TO_SPIRV_H_
