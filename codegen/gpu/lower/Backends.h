// The GPU targets' ways from a kernel's MLIR to code: one row each. Nothing else in codegen/gpu and
// compiler/targets asks which target it is.
#ifndef QCC_CODEGEN_GPU_LOWER_BACKENDS_H_
#define QCC_CODEGEN_GPU_LOWER_BACKENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/profiles.h"
#include "dialects/layouts/layouts.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace qcc::gpu {

struct KernelSource {
  mlir::MLIRContext& context;  // has the dialects of the back end
  mlir::ModuleOp module;       // of buildKernel
  const Launch& launch;
  const std::string& entry;
  const ProfileInfo& profile;
};

// Code of one kernel: the one or the other.
struct KernelBinary {
  std::vector<uint32_t> words;
  std::string text;
};

struct Backend {
  llvm::StringRef target;   // as in profiles.def, --target and the manifest
  uint64_t gridLimits[3];   // most workgroups in each dimension
  layouts::Policy layouts;  // of the weights that its kernels read
  void (*registerDialects)(mlir::DialectRegistry& registry);
  // Errors name the kernel.
  llvm::Expected<KernelBinary> (*emit)(const KernelSource& source);
  // Where a driver takes all kernels as one module: the kernels' texts, in their order, as that module. Null
  // where each kernel's words stand alone.
  llvm::Expected<std::string> (*join)(llvm::ArrayRef<std::string> texts, llvm::ArrayRef<std::string> names);
  // For --dump-kernels. `joinedFile`: of the joined module; `disassemble`: of a kernel's words, a file with
  // `extension` each.
  llvm::StringRef joinedFile;
  std::string (*disassemble)(const std::vector<uint32_t>& words);
  llvm::StringRef extension;
  bool userKernels;  // takes a product's own kernels (codegen/gpu/glsl)
};

// In the order in which targets stand in an artifact.
llvm::ArrayRef<Backend> backends();
// Null when there is none of that name.
const Backend* findBackend(llvm::StringRef target);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_BACKENDS_H_
