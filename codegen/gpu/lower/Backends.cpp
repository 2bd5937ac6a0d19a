#include "codegen/gpu/lower/Backends.h"

#include "codegen/gpu/cuda/EmitPtx.h"
#include "codegen/gpu/spirv/EmitSpirv.h"

namespace qcc::gpu {
namespace {
using namespace llvm;

Expected<KernelBinary> emitSpirvKernel(const KernelSource& source) {
  auto words = emitSpirv(source.module, source.profile.profile, source.launch);
  if (!words) return words.takeError();
  return KernelBinary{std::move(*words), ""};
}

// A kernel's own PTX module. Each is made apart, so that threads share the work and its text does not depend
// on them.
Expected<KernelBinary> emitPtxKernel(const KernelSource& source) {
  const PtxKernel kernel = {source.entry, &source.launch};
  auto text = emitPtx(source.context, source.profile.profile, kernel, source.profile.chip);
  if (!text) return text.takeError();
  return KernelBinary{{}, std::move(*text)};
}

// One module of all kernels, which the driver compiles at once: the modules without their headers, which are
// the same, but for the first one's.
Expected<std::string> joinPtx(ArrayRef<std::string> texts, ArrayRef<std::string> names) {
  constexpr StringLiteral kHeaderEnd(".address_size 64\n");
  std::string joined;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t at = texts[i].find(kHeaderEnd);
    if (at == std::string::npos) return createStringError("PTX: kernel '" + names[i] + "' has no header");
    joined.append(texts[i], i == 0 ? 0 : at + kHeaderEnd.size());
  }
  return joined;
}

const Backend kBackends[] = {
    {.target = "vulkan",
     .gridLimits = {kMostWorkgroups, kMostWorkgroups, kMostWorkgroups},
     .layouts = layouts::X16Everywhere,
     .registerDialects = registerSpirvDialects,
     .emit = emitSpirvKernel,
     .join = nullptr,
     .joinedFile = "",
     .disassemble = disassembleSpirv,
     .extension = ".spvasm",
     .userKernels = true},
    {.target = "cuda",
     .gridLimits = {0x7fffffff, kMostWorkgroups, kMostWorkgroups},
     .layouts = layouts::X16Everywhere,
     .registerDialects = registerPtxDialects,
     .emit = emitPtxKernel,
     .join = joinPtx,
     .joinedFile = "kernels.ptx",
     .disassemble = nullptr,
     .extension = "",
     .userKernels = false},
};

}  // namespace

ArrayRef<Backend> backends() {
  return kBackends;
}

const Backend* findBackend(StringRef target) {
  for (const Backend& backend : kBackends)
    if (backend.target == target) return &backend;
  return nullptr;
}

}  // namespace qcc::gpu
