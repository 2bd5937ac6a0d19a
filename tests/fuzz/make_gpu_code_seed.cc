// Writes the seed of gpu_code_fuzz: make_gpu_code_seed tests/fuzz/corpus/gpu_code/small
#include <cstdio>

#include "compiler/artifact/gpu_code_section.h"
#include "runtime/abi/gpu_step.h"

namespace {

using qcc::gpu::DispatchCode;
using qcc::gpu::Space;

// For the manifest of gpu_code_fuzz. The modules hold no more than their entry point.
qcc::gpu::GpuCode SmallCode() {
  qcc::gpu::GpuCode code;
  code.abi = QRT_GPU_STEP_ABI;
  code.max_rows = 8;
  for (const char* name : {"layer", "choose"}) {
    qcc::gpu::KernelCode& k = code.kernels.emplace_back();
    k.name = name;
    k.entry = "main";
    k.workgroup_size = 64;
    k.n_args = 3;
    k.spirv = {0x07230203, 0x00010500, 0, 2, 0, 5u << 16 | 15, 5, 1, 0x6e69616d, 0};
  }
  DispatchCode layer;
  layer.args = {{Space::kStep, 0, 64}, {Space::kWeights, 4096, 1024}, {Space::kArena, 512, 512}};
  layer.family = "linear";
  layer.layer = 0;
  for (uint32_t i = 0; i < 4; ++i) code.programs.push_back({1024, {layer}});
  DispatchCode choose;
  choose.kernel = 1;
  choose.args = {{Space::kLogits, 0, 192}, {Space::kConstants, 4, 4}, {Space::kResults, 0, 4}};
  choose.family = "sample";
  code.sample_programs.push_back({qcc::gpu::Sampling::kGreedy, 1, {choose}});
  code.constants.resize(8);
  code.ptx = ".version 7.0";
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_gpu_code_seed FILE\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> bytes = qcc::compiler::BuildGpuCodeSection(SmallCode());
  std::FILE* file = std::fopen(argv[1], "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return file != nullptr && std::fclose(file) == 0 && written ? 0 : 1;
}
