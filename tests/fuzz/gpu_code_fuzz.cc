// GpuCode::Read on any bytes: no crash, and what it accepts lies where it says.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/abi/gpu_step.h"
#include "runtime/artifact/gpu_code.h"
#include "runtime/device/gpu/gpu_pieces.h"
#include "tests/unit/runtime/program_facts.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};

qrt::Manifest ToyManifest() {
  qrt::Manifest m;
  m.model.vocab_size = 40;
  m.model.logits_stride = 48;
  m.streams = {"trunk"};
  m.programs = {{"decode_1", qrt::DecodeFacts(), 1, 1024, 9, 8},
                {"decode_4", qrt::DecodeFacts(), 4, 1024, 9, 8},
                {"prefill_8", qrt::PrefillFacts(), 8, 1024, 8, 7},
                {"head_8", qrt::HeadFacts(), 8, 1024, 1, 1}};
  return m;
}

void Use(const qrt::GpuCode& code) {
  uint64_t dispatches = 0;
  code.ForEachDispatch([&](const qrt::GpuDispatch& d) {
    ++dispatches;
    Require(d.kernel < code.kernels.size() && d.args.size() == code.kernels[d.kernel].n_args);
    for (const qrt::GpuArg& a : d.args) {
      if (a.space == qrt::GpuSpace::kImmediate) continue;
      Require(a.bytes > 0 && a.value < code.bytes(a.space) && a.bytes <= code.bytes(a.space) - a.value);
    }
  });
  for (const uint64_t limit : {uint64_t{300}, uint64_t{5000}}) {
    const auto pieces = qrt::CutSpace(code, qrt::GpuSpace::kWeights, limit);
    if (!pieces.ok()) continue;
    for (const qrt::GpuPiece& p : *pieces) Require(p.bytes() > 0 && p.bytes() <= limit);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const qrt::Manifest manifest = ToyManifest();
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, size + 1) != 0) return 0;
  const std::unique_ptr<void, Free> owner(memory);
  std::memcpy(memory, data, size);
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(memory), size);
  for (const qrt::GpuTarget target : {qrt::GpuTarget::kVulkan, qrt::GpuTarget::kCuda}) {
    const auto code = qrt::GpuCode::Read(bytes, manifest, 13824, target, "fuzz");
    if (code.ok()) Use(*code);
  }
  return 0;
}
