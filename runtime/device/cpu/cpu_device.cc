#include "runtime/device/cpu/cpu_device.h"

#include <utility>

#include "runtime/device/cpu/barrier.h"

namespace qrt {
namespace {

constexpr std::string_view kTarget = "cpu";

std::string MissingNames(const CpuFeatures& cpu, const CodeInfo& code) {
  std::string names;
  for (const std::string& name : cpu.Missing(code.features)) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

struct Step {
  qrt_step_fn run;
  const qrt_step_args* args;
};

void RunStep(void* arg, uint32_t index, uint32_t count) {
  const Step& step = *static_cast<const Step*>(arg);
  step.run(step.args, index, count);
}

}  // namespace

Result<size_t> ChooseCode(const Manifest& manifest, const CpuFeatures& cpu, std::string_view name) {
  std::string known;
  std::string lacking;
  for (size_t i = 0; i < manifest.code.size(); ++i) {
    const CodeInfo& code = manifest.code[i];
    if (code.target != kTarget) continue;
    if (!known.empty()) known += ", ";
    known += code.isa;
    if (!name.empty() && code.isa != name) continue;
    const std::string missing = MissingNames(cpu, code);
    if (missing.empty()) return i;
    if (!lacking.empty()) lacking += "; ";
    lacking += code.isa + " needs " + missing;
  }
  if (!lacking.empty()) {
    return Status(Code::kDeviceUnsupported, 5001, "this CPU cannot run the artifact's code: " + lacking,
                  "device cpu", "compile with a --cpu that it has, for example --cpu=native on this machine");
  }
  if (name.empty()) {
    return Status(Code::kDeviceUnsupported, 5002, "the artifact holds no code for CPUs", "device cpu",
                  "compile with --target=cpu");
  }
  return Status(Code::kInvalidArgument, 5003,
                "the artifact holds no code variant \"" + std::string(name) + "\"", "device cpu",
                known.empty() ? "it holds no code for CPUs" : "it holds: " + known);
}

CpuDevice::CpuDevice() {
  InitBarrier(&barrier_);
}

Result<std::unique_ptr<CpuDevice>> CpuDevice::Create(const Artifact& artifact, size_t variant,
                                                     std::unique_ptr<Workers> workers) {
  std::unique_ptr<CpuDevice> device(new CpuDevice);
  Result<CodeImage> code = CodeImage::Load(artifact.code(variant), artifact.code_hash(variant),
                                           artifact.manifest().programs.size());
  if (!code.ok()) return code.status();
  device->code_ = std::move(*code);
  device->workers_ = std::move(workers);
  return device;
}

bool CpuDevice::Run(uint32_t program, qrt_step_args* args) {
  args->barrier = &barrier_;
  Step step = {code_.entry(program), args};
  return workers_->Run(RunStep, &step);
}

}  // namespace qrt
