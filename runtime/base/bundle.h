// The artifact of a bundle: what `qcc bundle` put behind qrun in one executable file (runtime/abi/bundle.h).
#ifndef QRT_BASE_BUNDLE_H_
#define QRT_BASE_BUNDLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace qrt {

// The artifact's part of a file's bytes; nullopt: they do not end as a bundle does. `path`: for messages.
// Errors: ARTIFACT_INCOMPATIBLE Q4027 (a trailer of another version), ARTIFACT_CORRUPT Q4027 (one that does
// not describe the file).
Result<std::optional<std::span<const uint8_t>>> ArtifactInBundle(std::span<const uint8_t> file,
                                                                 const std::string& path);

}  // namespace qrt

#endif  // QRT_BASE_BUNDLE_H_
