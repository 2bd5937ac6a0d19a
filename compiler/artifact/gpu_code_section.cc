#include "compiler/artifact/gpu_code_section.h"

#include <cstring>

#include "frontends/gguf/error.h"
#include "frontends/gguf/text.h"
#include "runtime/abi/gpu_code_generated.h"

namespace qcc::compiler {
namespace {

namespace fb = flatbuffers;
namespace abi = qrt::abi;
using gguf::Concat;

static_assert(static_cast<int>(gpu::Space::kScratch) == static_cast<int>(abi::GpuSpace::Scratch));
static_assert(static_cast<int>(gpu::Sampling::kDraw) == static_cast<int>(abi::GpuSampling::Draw));

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

// Lists of a damaged file may share bytes, so what it unfolds to is bounded, too. Shared on purpose are short
// names only.
constexpr uint64_t kMostUnfolding = 16;

class Reader {
 public:
  Reader(const abi::GpuCode& fb, uint64_t section_bytes, const std::string& where)
      : fb_(fb), most_bytes_(kMostUnfolding * section_bytes), where_(where) {}

  absl::StatusOr<gpu::GpuCode> Read() {
    if (absl::Status s = CheckSize(); !s.ok()) return s;
    gpu::GpuCode code;
    code.abi = fb_.abi();
    code.max_rows = fb_.max_rows();
    for (const abi::GpuKernel* k : *fb_.kernels()) {
      gpu::KernelCode& kernel = code.kernels.emplace_back();
      kernel.name = k->name()->str();
      kernel.entry = k->entry()->str();
      kernel.workgroup_size = k->workgroup_size();
      kernel.n_args = k->n_args();
      kernel.shared_bytes = k->shared_bytes();
      if (k->spirv()) kernel.spirv.assign(k->spirv()->begin(), k->spirv()->end());
      kernel.source = k->source()->str();
    }
    for (const abi::GpuProgram* p : *fb_.programs()) {
      gpu::ProgramCode& program = code.programs.emplace_back();
      program.arena_bytes = p->arena_bytes();
      if (absl::Status s = Dispatches(*p->dispatches(), program.dispatches); !s.ok()) return s;
    }
    for (const abi::GpuSampleProgram* p : *fb_.sample_programs()) {
      gpu::SampleProgramCode& program = code.sample_programs.emplace_back();
      if (p->kind() > abi::GpuSampling::MAX)
        return Bad("kind of a sample program", static_cast<int>(p->kind()));
      program.kind = static_cast<gpu::Sampling>(p->kind());
      program.rows = p->rows();
      if (absl::Status s = Dispatches(*p->dispatches(), program.dispatches); !s.ok()) return s;
    }
    code.scratch_bytes = fb_.scratch_bytes();
    if (fb_.constants()) code.constants.assign(fb_.constants()->begin(), fb_.constants()->end());
    if (fb_.ptx()) code.ptx = fb_.ptx()->str();
    return code;
  }

 private:
  absl::Status Bad(std::string_view what, uint64_t found) const {
    return MakeError("Q4015", Concat("gpu code: ", what, " is ", found, ", which does not exist"), where_,
                     "compile the model again");
  }

  absl::Status CheckSize() const {
    uint64_t bytes = 0;
    auto full = [&] { return bytes > most_bytes_; };
    for (const abi::GpuKernel* k : *fb_.kernels()) {
      bytes += sizeof(gpu::KernelCode) + k->name()->size() + k->entry()->size() + k->source()->size();
      if (k->spirv()) bytes += uint64_t{4} * k->spirv()->size();
      if (full()) break;
    }
    auto add = [&](const DispatchList& list) {
      for (const abi::GpuDispatch* d : list) {
        if (full()) return;
        bytes += sizeof(gpu::DispatchCode) + d->args()->size() * sizeof(gpu::Arg) + d->family()->size();
      }
    };
    for (const abi::GpuProgram* p : *fb_.programs()) add(*p->dispatches());
    for (const abi::GpuSampleProgram* p : *fb_.sample_programs()) add(*p->dispatches());
    if (!full()) return absl::OkStatus();
    return MakeError("Q4015", Concat("gpu code: lists share bytes, and unfold to more than ", most_bytes_),
                     where_, "compile the model again");
  }

  absl::Status Dispatches(const DispatchList& list, std::vector<gpu::DispatchCode>& out) const {
    for (const abi::GpuDispatch* d : list) {
      gpu::DispatchCode& dispatch = out.emplace_back();
      if (d->kernel() >= fb_.kernels()->size()) return Bad("kernel of a dispatch", d->kernel());
      dispatch.kernel = d->kernel();
      dispatch.grid[0] = d->grid_x();
      dispatch.grid[1] = d->grid_y();
      dispatch.grid[2] = d->grid_z();
      dispatch.barrier = d->barrier();
      for (const abi::GpuArg* a : *d->args()) {
        if (a->space() > abi::GpuSpace::MAX) return Bad("space of an argument", static_cast<int>(a->space()));
        dispatch.args.push_back({static_cast<gpu::Space>(a->space()), a->value(), a->bytes()});
      }
      dispatch.read_bytes = d->read_bytes();
      dispatch.write_bytes = d->write_bytes();
      dispatch.kv_bytes = d->kv_bytes();
      dispatch.ops = d->ops();
      dispatch.family = d->family()->str();
      dispatch.layer = d->layer();
    }
    return absl::OkStatus();
  }

  const abi::GpuCode& fb_;
  const uint64_t most_bytes_;
  const std::string& where_;
};

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
  abi::FinishGpuCodeBuffer(b, abi::CreateGpuCode(b, code.abi, code.max_rows, kernel_list, program_list,
                                                 sample_list, code.scratch_bytes, constants, ptx));
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

absl::StatusOr<gpu::GpuCode> ParseGpuCodeSection(std::span<const uint8_t> bytes, const std::string& where) {
  // A FlatBuffer is read in place, which wants its alignment; the bytes may come from anywhere.
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
  fb::Verifier verifier(data, bytes.size());
  if (bytes.size() < 8 || !abi::VerifyGpuCodeBuffer(verifier)) {
    return MakeError("Q4014", "the GPU code is not a valid FlatBuffer of its schema", where,
                     "compile the model again");
  }
  return Reader(*abi::GetGpuCode(data), bytes.size(), where).Read();
}

}  // namespace qcc::compiler
