// `qcc inspect`: what an artifact holds, for people and for scripts (docs/reference/inspect.md).
#ifndef QCC_COMPILER_DRIVER_INSPECT_H_
#define QCC_COMPILER_DRIVER_INSPECT_H_

#include <string>

#include "compiler/artifact/reader.h"

namespace qcc::compiler {

std::string InspectText(const ArtifactContents& contents);
// One object, keys in a fixed order, ends with a newline. Fields keep name and meaning; new ones may come.
std::string InspectJson(const ArtifactContents& contents);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_INSPECT_H_
