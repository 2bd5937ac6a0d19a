// The CPU as a device: an artifact's best code variant on a group of threads.
#ifndef RUNTIME_DEVICE_CPU_CPU_DEVICE_H_
#define RUNTIME_DEVICE_CPU_CPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/artifact/artifact.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu/code_image.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/device.h"

namespace qrt {

// The code variant to run: with `name` empty the first CPU variant whose features are all in `cpu`, else the
// one called so. Errors: device unsupported (names each variant and what it lacks), invalid argument (no
// variant of that name).
Result<size_t> ChooseCode(const Manifest& manifest, const CpuFeatures& cpu, std::string_view name);

class CpuDevice final : public Device {
 public:
  // Copies code variant `variant` of the artifact into executable memory; the artifact is not needed
  // afterwards. Errors: those of CodeImage::Load.
  static Result<std::unique_ptr<CpuDevice>> Create(const Artifact& artifact, size_t variant,
                                                   std::unique_ptr<Workers> workers);

  uint32_t threads() const override { return workers_->threads(); }
  bool Run(uint32_t program, qrt_step_args* args) override;
  uint64_t code_bytes() const { return code_.bytes(); }

 private:
  CpuDevice();

  CodeImage code_;
  std::unique_ptr<Workers> workers_;
  alignas(64) qrt_barrier barrier_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_CPU_DEVICE_H_
