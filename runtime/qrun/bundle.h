// An artifact that follows qrun in one executable file (runtime/abi/bundle.h, `qcc bundle`).
#ifndef RUNTIME_QRUN_BUNDLE_H_
#define RUNTIME_QRUN_BUNDLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/qrun/outcome.h"

namespace qrun {

// Path of this program's own file if it carries an artifact; empty if not. Errors: artifact (Q4027).
Outcome FindOwnBundle(std::string* path);

// The artifact in a bundle, mapped for as long as the process runs: sessions and engines may end after the
// handle of the artifact. nullopt: the file is no bundle, or cannot be opened (who opens it next says why).
// Errors: artifact (Q4027), resources.
Outcome MapBundled(const std::string& path, std::optional<std::span<const uint8_t>>* artifact);

}  // namespace qrun

#endif  // RUNTIME_QRUN_BUNDLE_H_
