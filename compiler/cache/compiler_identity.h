// Which compiler this is: what its code depends on besides what it is given.
#ifndef QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_
#define QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_

#include <string>
#include <utility>
#include <vector>

#include "runtime/aot/file_stamp.h"

namespace qcc::compiler {

struct CompilerIdentity {
  // Of this program's own file, of the names, sizes and times of the libraries that it has loaded, and of
  // `version`. Empty: a file cannot be read, and nothing may be kept under it.
  std::string hash;
  std::vector<std::pair<std::string, qrt::aot::FileStamp>> files;  // the program and its libraries, by path
};

CompilerIdentity IdentifyCompiler(const std::string& version);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_COMPILER_IDENTITY_H_
