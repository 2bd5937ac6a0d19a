// Text of a file where there is room for a part of it only: in messages, and in an artifact.
#ifndef QCC_COMPILER_ARTIFACT_FILE_TEXT_H_
#define QCC_COMPILER_ARTIFACT_FILE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace qcc::compiler {

// The first of its bytes, at most `most`, without a part of a character at their end.
std::string_view CutText(std::string_view text, size_t most);

// A key or another name inside a message: one may have 64 KiB.
std::string ShortName(std::string_view name);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_FILE_TEXT_H_
