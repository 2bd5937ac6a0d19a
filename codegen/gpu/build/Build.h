// A launch's kernel as MLIR: the Builder of kernels/builder.h that emits the gpu, arith, math, scf, vector,
// memref and gx dialects. One module per kernel, so that kernels can be built and lowered side by side.
#ifndef QCC_CODEGEN_GPU_BUILD_BUILD_H_
#define QCC_CODEGEN_GPU_BUILD_BUILD_H_

#include "codegen/gpu/kernels/launch.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

namespace qcc::gpu {

// The dialects that kernels consist of.
void registerKernelDialects(mlir::DialectRegistry& registry);

// Runs `launch.emit` and returns a verified module that holds
//   gpu.module @kernel { gpu.func @entryName() workgroup(...) kernel attributes {known_block_size, gx.args} }
// Workgroup memory is workgroup attributions, arguments are gx.arg. `context` has the dialects of
// registerKernelDialects. Error: the first misuse of the language, the limit of the profile that is exceeded
// or what the verifier found; it names the launch.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> buildKernel(mlir::MLIRContext& context,
                                                              const Profile& profile, const Launch& launch,
                                                              llvm::StringRef entryName);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_BUILD_BUILD_H_
