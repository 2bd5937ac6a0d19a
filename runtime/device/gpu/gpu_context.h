// How long a context GPU kernels reach.
#ifndef RUNTIME_DEVICE_GPU_GPU_CONTEXT_H_
#define RUNTIME_DEVICE_GPU_GPU_CONTEXT_H_

#include <cstdint>

#include "runtime/artifact/manifest.h"

namespace qrt {

// Most tokens of a sequence: kernels reach the keys, and the values, of one head of a layer with 32-bit byte
// offsets (codegen/gpu/kernels/kv_cache.h). No limit for a model without KV.
uint64_t MostGpuContext(const Manifest& manifest);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_GPU_GPU_CONTEXT_H_
