// Which compiler this is: what its code depends on besides what it is given.
#ifndef QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_
#define QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_

#include <string>

namespace qcc::compiler {

// A hash of this program's own file, of the names, sizes and times of the libraries that it has loaded, and
// of `version`. Empty: the file cannot be read, and nothing may be kept under it.
std::string CompilerIdentity(const std::string& version);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_
