// Reads an artifact back for `qcc inspect` and `qcc verify`. Never runs or trusts what it finds. The runtime
// has its own reader (runtime/artifact), which checks more: that one decides what is executed.
#ifndef QCC_COMPILER_ARTIFACT_READER_H_
#define QCC_COMPILER_ARTIFACT_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "codegen/gpu/lower/gpu_code.h"
#include "compiler/artifact/manifest_spec.h"

namespace qcc::compiler {

struct ArtifactSection {
  uint32_t kind, flags;  // QBIN_SECTION_*
  uint64_t offset, size;
  Hash128 hash;
};

struct ArtifactContents {
  std::string path;
  uint64_t file_bytes;
  uint16_t major, minor;
  uint64_t required_features;
  Hash128 identity;  // the header's hash
  std::vector<ArtifactSection> sections;
  ManifestSpec manifest;
  std::map<uint32_t, gpu::GpuCode> gpu_code;  // by section, of the code for vulkan and cuda
};

// "manifest", "code", "weights", "tokenizer", "chat_template", "goldens"; "unknown".
std::string_view SectionKindName(uint32_t kind);

enum class HashCheck {
  kAllButWeights,
  kEverything,
};

// Checks header, section table, padding and hashes. `progress` hears bytes hashed and bytes to hash, and
// returns false to stop (CancelledError). Errors: Q4001 to Q4015, naming file, section, offset, found and
// expected.
absl::StatusOr<ArtifactContents> ReadArtifact(
    const std::string& path, HashCheck check = HashCheck::kAllButWeights,
    absl::FunctionRef<bool(uint64_t done, uint64_t total)> progress = [](uint64_t, uint64_t) {
      return true;
    });

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_READER_H_
