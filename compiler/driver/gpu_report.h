// What a GPU target's programs cost, for `qcc inspect`.
#ifndef QCC_COMPILER_DRIVER_GPU_REPORT_H_
#define QCC_COMPILER_DRIVER_GPU_REPORT_H_

#include <cstdint>
#include <vector>

#include "runtime/artifact/gpu_code.h"

namespace qcc::compiler {

// Of one run of a program with a full bucket.
struct GpuProgramReport {
  uint32_t dispatches = 0;  // one step records and runs as many, whatever its rows
  uint32_t barriers = 0;
  uint32_t attention_layer_dispatches = 0;  // the most of any layer with attention
  uint32_t delta_layer_dispatches = 0;      // the most of any layer with a gated delta net
  uint64_t read_bytes = 0;                  // of device memory: weights, states, activations
  uint64_t weight_bytes = 0;                // of which weights; the rows of the embedding alone
  uint64_t write_bytes = 0;
  uint64_t kv_bytes = 0;  // read per token of the context, on top of read_bytes
  uint64_t ops = 0;
};

struct GpuCodeReport {
  uint64_t spirv_bytes = 0;  // of all kernels
  uint64_t ptx_bytes = 0;
  std::vector<GpuProgramReport> programs;  // in the order of the manifest
};

GpuCodeReport ReportGpuCode(const qrt::GpuCode& code);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_GPU_REPORT_H_
