// An artifact that follows qrun in one executable file (runtime/abi/bundle.h, `qcc bundle`).
#ifndef RUNTIME_QRUN_BUNDLE_H_
#define RUNTIME_QRUN_BUNDLE_H_

#include <string>

#include "runtime/qrun/outcome.h"

namespace qrun {

// Path of this program's own file if it carries an artifact; empty if not. Errors: artifact (Q4027).
Outcome FindOwnBundle(std::string* path);

}  // namespace qrun

#endif  // RUNTIME_QRUN_BUNDLE_H_
