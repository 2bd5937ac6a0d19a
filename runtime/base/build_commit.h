// Which state of the sources a program was built from.
#ifndef RUNTIME_BASE_BUILD_COMMIT_H_
#define RUNTIME_BASE_BUILD_COMMIT_H_

#include <string>

namespace qrt {

// What `git describe --always --dirty` said when the program was built; empty: it was built outside a
// repository. Defined in a file that the build makes (cmake/BuildCommit.cmake), so that a new commit compiles
// that file again and nothing else; only programs link it.
extern const char* const kBuildCommit;

// "commit 27b2961", or that there is none.
inline std::string BuildCommitText() {
  return *kBuildCommit != '\0' ? std::string("commit ") + kBuildCommit
                               : "no commit: not built in a repository";
}

}  // namespace qrt

#endif  // RUNTIME_BASE_BUILD_COMMIT_H_
