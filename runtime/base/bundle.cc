#include "runtime/base/bundle.h"

#include <cstring>

#include "runtime/abi/bundle.h"

namespace qrt {

Result<std::optional<std::span<const uint8_t>>> ArtifactInBundle(std::span<const uint8_t> file,
                                                                 const std::string& path) {
  using Artifact = std::optional<std::span<const uint8_t>>;
  qbundle_trailer trailer;
  if (file.size() < sizeof trailer) return Artifact();
  const uint64_t room = file.size() - sizeof trailer;
  std::memcpy(&trailer, file.data() + room, sizeof trailer);
  if (std::memcmp(trailer.magic, QBUNDLE_MAGIC, sizeof trailer.magic) != 0) return Artifact();
  if (trailer.version != QBUNDLE_VERSION) {
    return Status(Code::kArtifactIncompatible, 4027,
                  "the bundle has version " + std::to_string(trailer.version) + ", this release reads " +
                      std::to_string(QBUNDLE_VERSION),
                  path, "make it again with the qcc and qrun of one release");
  }
  if (trailer.artifact_offset % QBUNDLE_ALIGNMENT != 0 || trailer.artifact_offset > room ||
      trailer.artifact_bytes == 0 || trailer.artifact_bytes != room - trailer.artifact_offset) {
    return Status(Code::kArtifactCorrupt, 4027,
                  "the bundle's trailer says " + std::to_string(trailer.artifact_bytes) + " bytes at " +
                      std::to_string(trailer.artifact_offset) + ", which do not end where it begins, at " +
                      std::to_string(room),
                  path, "copy the bundle again, or make it again with qcc bundle");
  }
  return Artifact(file.subspan(trailer.artifact_offset, trailer.artifact_bytes));
}

}  // namespace qrt
