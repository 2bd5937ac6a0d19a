// Kernels -> one PTX module. The driver of the device compiles it when an engine is made; ptxas is needed by
// tests only.
#ifndef QCC_CODEGEN_GPU_CUDA_EMITPTX_H_
#define QCC_CODEGEN_GPU_CUDA_EMITPTX_H_

#include <string>

#include "codegen/gpu/kernels/launch.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/DialectRegistry.h"

namespace qcc::gpu {

struct PtxKernel {
  std::string entry;  // entry point, unique in the module
  const Launch* launch;
};

// The dialects and translations that emitPtx needs in its context, kernel dialects included.
void registerPtxDialects(mlir::DialectRegistry& registry);

// `chip`: "sm_80". An entry takes its launch's arguments as parameters of 64 bits each and has `.maxntid` of
// its workgroup, and `.minnctapersm` where Launch::at_once says so. Floats are exactly what the kernel says:
// no contraction, no flush of subnormals. `mlirDump`, where given, receives the module in the LLVM dialect.
// Errors name the kernel.
llvm::Expected<std::string> emitPtx(mlir::MLIRContext& context, const Profile& profile,
                                    llvm::ArrayRef<PtxKernel> kernels, llvm::StringRef chip,
                                    std::string* mlirDump = nullptr);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_CUDA_EMITPTX_H_
