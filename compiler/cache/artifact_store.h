// Whole artifacts in the cache: made once under a key, by one of those who ask for it at the same time.
#ifndef QCC_COMPILER_CACHE_ARTIFACT_STORE_H_
#define QCC_COMPILER_CACHE_ARTIFACT_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/aot/request.h"
#include "runtime/artifact/artifact.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

// While it lives, nobody else makes the artifact of its key in this cache. The kernel ends it with the
// process, however that ends.
class MakingLock {
 public:
  // Waits for whoever has it; asks `go_on` (told true the first time) ten times a second, and ends with
  // CancelledError where it says no. Makes the folder. Errors: Q6002.
  static absl::StatusOr<std::unique_ptr<MakingLock>> Take(const std::string& cache, const std::string& key,
                                                          const std::function<bool(bool first)>& go_on);
  // Whether somebody has it now.
  static bool IsTaken(const std::string& cache, const std::string& key);
  ~MakingLock();
  MakingLock(const MakingLock&) = delete;
  MakingLock& operator=(const MakingLock&) = delete;

 private:
  explicit MakingLock(int fd) : fd_(fd) {}
  int fd_;
};

// Progress of reading an artifact through: bytes done and in all; returning false stops.
using VerifyProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Whether the artifact at `path` is the one of this identity, down to its last byte.
bool IsWhole(const std::string& path, const qrt::Hash128& identity, const VerifyProgress& progress = {});

// For who has the lock: the artifact under `key`, sealed; read through where its file was touched since it
// was sealed (restored from a backup, say). One that is not whole is removed, and there is none then.
std::optional<qrt::aot::ArtifactInUse> TakeArtifact(const std::string& cache, const std::string& key,
                                                    const VerifyProgress& progress);

// What an artifact was made of besides its options, as its provenance says it: the model, and the kernels of
// --kernels by name and hash. All of them may change while it is made.
struct MadeOf {
  qrt::Hash128 source;
  std::vector<std::pair<std::string, std::string>> kernels;
};
bool IsMadeOf(const qrt::Artifact& artifact, const MadeOf& what);

// For who has the lock and has just written the artifact under `key`: which it is. False where it says that
// it was made of something else. Errors: Q6002.
absl::StatusOr<bool> SealArtifact(const std::string& cache, const std::string& key, const MadeOf& of);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_ARTIFACT_STORE_H_
