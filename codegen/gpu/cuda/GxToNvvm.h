// gx ops and the functions of math that PTX has no libdevice for, as LLVM ops and NVVM intrinsics.
#ifndef QCC_CODEGEN_GPU_CUDA_GXTONVVM_H_
#define QCC_CODEGEN_GPU_CUDA_GXTONVVM_H_

#include <memory>

#include "mlir/Pass/Pass.h"

namespace qcc::gpu {

// On a gpu.module: gx.arg becomes a parameter of the kernel, every other gx op and the math ops of the
// Builder become LLVM ops and NVVM intrinsics. What is left is for the stock conversions.
std::unique_ptr<mlir::Pass> createGxToNvvmPass();

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_CUDA_GXTONVVM_H_
