// The code of a GPU target as plain values: what lowering fills, the artifact's writer stores and `qcc
// inspect` reads back. Meanings of the fields: runtime/abi/gpu_code.fbs. Header only, no MLIR.
#ifndef QCC_CODEGEN_GPU_LOWER_GPU_CODE_H_
#define QCC_CODEGEN_GPU_LOWER_GPU_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

struct KernelCode {
  std::string name, entry;
  uint32_t workgroup_size = 0, n_args = 0;
  uint32_t shared_bytes = 0;
  std::vector<uint32_t> spirv;  // empty on CUDA
  std::string source = "gpu";   // or "glsl"
};

struct DispatchCode {
  uint32_t kernel = 0;  // place in GpuCode::kernels
  uint32_t grid[3] = {1, 1, 1};
  bool barrier = false;
  std::vector<Arg> args;
  uint64_t read_bytes = 0, write_bytes = 0, kv_bytes = 0, ops = 0;
  std::string family;  // "sample" in sample programs
  int32_t layer = -1;
};

struct ProgramCode {
  uint64_t arena_bytes = 0;
  std::vector<DispatchCode> dispatches;
};

using Sampling = qrt::GpuSampling;

struct SampleProgramCode {
  Sampling kind = Sampling::kGreedy;
  uint32_t rows = 0;
  std::vector<DispatchCode> dispatches;
};

struct GpuCode {
  uint32_t abi = 0;
  uint32_t max_rows = 0;
  std::vector<KernelCode> kernels;
  std::vector<ProgramCode> programs;
  std::vector<SampleProgramCode> sample_programs;
  uint64_t scratch_bytes = 0;
  std::vector<uint8_t> constants;
  std::string ptx;
  bool overlap = false;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_LOWER_GPU_CODE_H_
