// One executable file of qrun and an artifact (runtime/abi/bundle.h).
#ifndef QCC_COMPILER_DRIVER_BUNDLE_H_
#define QCC_COMPILER_DRIVER_BUNDLE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/artifact/artifact.h"

namespace qcc::compiler {

// Whether a program looks for an artifact behind itself, and has none yet. `program`: the whole file; `name`
// is for messages. Errors: Q0105.
absl::Status CheckBundleHost(std::span<const uint8_t> program, const std::string& name);

// The qrun beside this qcc. Errors: Q0105.
absl::StatusOr<std::string> UsualBundleHost();

// `progress` gets bytes written and in all; false: stop.
using BundleProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Writes host and artifact to `output`, executable (0755, less the umask), whole or not at all; returns the
// file's bytes. `host`: checked. Errors: Q6002, Q6003, cancelled.
absl::StatusOr<uint64_t> WriteBundle(std::span<const uint8_t> host, std::span<const uint8_t> artifact,
                                     const std::string& output, const BundleProgress& progress);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_BUNDLE_H_
