// Whether device memory crosses a barrier of a kernel.
#ifndef QCC_CODEGEN_GPU_SPIRV_BARRIER_CROSSING_H_
#define QCC_CODEGEN_GPU_SPIRV_BARRIER_CROSSING_H_

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace qcc::gpu {

// Device memory that one thread writes before a barrier and another reads after it must be accessed as
// non-private, which may keep a device from its read-only caches. Most kernels write device memory last: they
// need not. Of a joined launch (kernels/together.h) a workgroup runs one code, so each is judged apart.
bool deviceMemoryCrossesBarrier(mlir::gpu::GPUFuncOp kernel);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_SPIRV_BARRIER_CROSSING_H_
