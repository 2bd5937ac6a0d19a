// `qcc compile --kernels=DIR`: GLSL kernels of the user's own in place of ours (docs/replace-a-kernel.md).
#ifndef QCC_COMPILER_TARGETS_USER_KERNELS_H_
#define QCC_COMPILER_TARGETS_USER_KERNELS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "codegen/gpu/lower/LowerToLaunches.h"

namespace qcc::compiler {

class UserKernels {
 public:
  // Reads every NAME.comp of `folder`; an empty name is no folder. NAME is a kernel's name, or a pattern with
  // '*' for any characters. Errors: Q3005.
  static absl::StatusOr<UserKernels> Open(const std::string& folder);

  // Whether Apply replaces a kernel of this name.
  bool Replaces(const std::string& kernel) { return Find(kernel) != nullptr; }

  // Replaces kernels: each by the file of its name, or by the longest pattern that matches. Errors: Q3005: it
  // does not compile, or it cannot stand for the kernel.
  absl::Status Apply(gpu::LoweredGpu& lowered, const gpu::ProfileInfo& profile);

  // Q3005 for the first file that has replaced no kernel: names the kernels that it may have meant.
  absl::Status CheckAllUsed() const;

  std::vector<std::string> Paths() const;
  // File names and hashes of their contents, for the artifact's provenance.
  std::vector<std::pair<std::string, std::string>> Provenance() const;

 private:
  struct File {
    std::string path, pattern, text;
    bool used = false;
  };
  File* Find(const std::string& kernel);

  std::vector<File> files_;        // sorted by path
  std::set<std::string> kernels_;  // names seen
};

// Whether `name` has the form `pattern`, in which '*' stands for any characters.
bool MatchesPattern(std::string_view pattern, std::string_view name);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_TARGETS_USER_KERNELS_H_
