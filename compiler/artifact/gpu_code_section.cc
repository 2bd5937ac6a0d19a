#include "compiler/artifact/gpu_code_section.h"

#include "runtime/abi/gpu_code_generated.h"

namespace qcc::compiler {
namespace {

namespace fb = flatbuffers;
namespace abi = qrt::abi;

using DispatchList = fb::Vector<fb::Offset<abi::GpuDispatch>>;

fb::Offset<DispatchList> Put(fb::FlatBufferBuilder& b, const std::vector<gpu::DispatchCode>& dispatches) {
  std::vector<fb::Offset<abi::GpuDispatch>> list;
  for (const gpu::DispatchCode& d : dispatches) {
    std::vector<abi::GpuArg> args;
    for (const gpu::Arg& a : d.args) args.emplace_back(a.value, a.bytes, static_cast<abi::GpuSpace>(a.space));
    auto arg_list = b.CreateVectorOfStructs(args);
    auto family = b.CreateSharedString(d.family);
    list.push_back(abi::CreateGpuDispatch(b, d.kernel, d.grid[0], d.grid[1], d.grid[2], d.barrier, arg_list,
                                          d.read_bytes, d.write_bytes, d.kv_bytes, d.ops, family, d.layer));
  }
  return b.CreateVector(list);
}

}  // namespace

std::vector<uint8_t> BuildGpuCodeSection(const gpu::GpuCode& code) {
  fb::FlatBufferBuilder b(1 << 20);
  b.ForceDefaults(true);
  std::vector<fb::Offset<abi::GpuKernel>> kernels;
  for (const gpu::KernelCode& k : code.kernels) {
    auto name = b.CreateString(k.name);
    auto entry = b.CreateString(k.entry);
    fb::Offset<fb::Vector<uint32_t>> spirv = 0;
    if (!k.spirv.empty()) spirv = b.CreateVector(k.spirv);
    auto source = b.CreateSharedString(k.source);
    kernels.push_back(
        abi::CreateGpuKernel(b, name, entry, k.workgroup_size, k.n_args, k.shared_bytes, spirv, source));
  }
  std::vector<fb::Offset<abi::GpuProgram>> programs;
  for (const gpu::ProgramCode& p : code.programs) {
    auto dispatches = Put(b, p.dispatches);
    programs.push_back(abi::CreateGpuProgram(b, p.arena_bytes, dispatches));
  }
  std::vector<fb::Offset<abi::GpuSampleProgram>> samples;
  for (const gpu::SampleProgramCode& p : code.sample_programs) {
    auto dispatches = Put(b, p.dispatches);
    samples.push_back(
        abi::CreateGpuSampleProgram(b, static_cast<abi::GpuSampling>(p.kind), p.rows, dispatches));
  }
  auto kernel_list = b.CreateVector(kernels);
  auto program_list = b.CreateVector(programs);
  auto sample_list = b.CreateVector(samples);
  fb::Offset<fb::Vector<uint8_t>> constants = 0;
  if (!code.constants.empty()) {
    b.ForceVectorAlignment(code.constants.size(), 1, 16);
    constants = b.CreateVector(code.constants);
  }
  fb::Offset<fb::String> ptx = 0;
  if (!code.ptx.empty()) ptx = b.CreateString(code.ptx);
  abi::FinishGpuCodeBuffer(
      b, abi::CreateGpuCode(b, code.abi, code.max_rows, kernel_list, program_list, sample_list,
                            code.scratch_bytes, constants, ptx, code.overlap));
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

}  // namespace qcc::compiler
