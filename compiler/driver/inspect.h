// `qcc inspect`: what an artifact holds, for people and for scripts (docs/reference/inspect.md).
#ifndef QCC_COMPILER_DRIVER_INSPECT_H_
#define QCC_COMPILER_DRIVER_INSPECT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/driver/report_text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/artifact/gpu_code.h"

namespace qcc::compiler {

struct ArtifactContents {
  std::string path;
  uint64_t file_bytes = 0;
  uint16_t minor = 0;  // of format version QBIN_MAJOR.minor
  uint64_t required_features = 0;
  qrt::Hash128 identity{};
  std::vector<qrt::Section> sections;
  qrt::Manifest manifest;
  std::vector<qrt::Manifest> parts;  // of the manifest, where the model's layers run on several devices
  std::map<uint32_t, qrt::GpuCode> gpu_code;  // by section
  struct Scratch {
    uint64_t thread = 0, shared = 0;  // bytes: of each thread, and of all together
  };
  std::map<uint32_t, Scratch> scratch;  // of CPU code, by section
};
// What the runtime's reader finds, with the code of GPU targets. Errors: Q4001 to Q4026.
absl::StatusOr<ArtifactContents> ReadContents(const qrt::Artifact& artifact);

// The runtime's errors as the compiler's: code, place and help as they are; a cancelled one is
// CancelledError.
absl::Status FromRuntime(const qrt::Status& status);

std::string InspectText(const ArtifactContents& contents);
// The manifest alone, without what only the sections say.
Json ManifestJson(const ArtifactContents& contents);
// The kernels of each target one by one with specification and size; of a CPU, where they are linked into one
// image, also where each program begins. Artifacts of earlier compilers do not list a CPU's.
Json KernelsJson(const qrt::Artifact& artifact, const ArtifactContents& contents);
// One object, keys in a fixed order, ends with a newline. Fields keep name and meaning; new ones may come.
std::string InspectJson(const ArtifactContents& contents);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_INSPECT_H_
