// Launches -> SPIR-V per kernel, or one PTX module.
#ifndef QCC_CODEGEN_GPU_LOWER_EMITKERNELS_H_
#define QCC_CODEGEN_GPU_LOWER_EMITKERNELS_H_

#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/lower/LowerToLaunches.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace qcc::gpu {

struct EmitRequest {
  const ProfileInfo& profile;
  unsigned threads = 1;  // kernels are lowered side by side; the bytes do not depend on how many
  // If not empty: an existing folder, where <entry>.mlir and <entry>.spvasm (Vulkan), or <entry>.mlir and
  // kernels.ptx (CUDA) are written.
  std::string dumpDir;
  bool wantIr = false;
  // Kernels done and in all; returns false to stop. Called from one thread at a time.
  std::function<bool(size_t done, size_t total)> progress;
  // Kernels that are kept between compiles, by all that they depend on but for this compiler; `find` gives no
  // bytes for what is not there. Called from all threads, and not where IR or code is shown. May be empty.
  std::function<std::vector<uint8_t>(const std::string& key)> find;
  std::function<void(const std::string& key, llvm::ArrayRef<uint8_t> bytes)> keep;
};

// Fills `shared_bytes` of every kernel and `spirv` of every kernel that has none yet, or `ptx`. Returns the
// MLIR of all kernels if `wantIr`. Errors name the kernel; std::errc::operation_canceled after `progress`
// said stop.
llvm::Expected<std::string> emitKernels(LoweredGpu& lowered, const EmitRequest& request);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_EMITKERNELS_H_
