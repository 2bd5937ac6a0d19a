// The folder in which qcc keeps what it has made, between compiles: files that say all they depend on in
// their names, so that nothing in it is ever wrong, only unused. runtime/aot/cache_layout.h says what lies
// where.
#ifndef QCC_COMPILER_CACHE_CACHE_FOLDER_H_
#define QCC_COMPILER_CACHE_CACHE_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qcc::compiler {

// How much a cache may take: 32 GiB, or a quarter of the disk that `cache` lies on, if that is less.
uint64_t UsualCacheBytes(const std::string& cache);

// What can be done about every error of a folder here; commands that can do without a cache add that.
inline constexpr char kOtherCacheFolder[] = "choose another folder with --cache-dir";

// Makes `folder` and its parents, for the user alone. Errors: Q6002.
absl::Status MakeCacheFolder(const std::string& folder);

struct CacheEntry {
  std::string path;
  std::string_view suffix;  // of runtime/aot/cache_layout.h
  uint64_t bytes = 0;
  timespec used = {};  // last, to an hour

  std::string Key() const;
};

// What is kept under `cache`, code, artifacts, what is known of files, and what drivers compiled, the longest
// unused first. A
// folder that is not there has none. A seal belongs to its artifact; other files are not the cache's. Errors:
// Q6002.
absl::StatusOr<std::vector<CacheEntry>> CacheEntries(const std::string& cache);

struct Pruned {
  size_t files = 0;
  uint64_t bytes = 0;
  size_t in_use = 0;  // artifacts that would have gone
};

// Whether the artifact that was used last may be removed. One that stays is not counted where it has more
// than the limit leaves beside what is to come: all else would go, and it would be no less.
enum class LastArtifact : uint8_t { kStays, kGoes };

// Removes entries, the longest unused first, until the others and `to_come` bytes have at most `most_bytes`;
// and temporary files that were left behind. An artifact that is in use stays. Other processes may read,
// write and prune at the same time. Errors: Q6002.
absl::StatusOr<Pruned> PruneCache(const std::string& cache, uint64_t most_bytes,
                                  LastArtifact last = LastArtifact::kGoes, uint64_t to_come = 0);

// Removes an artifact and its seal. Returns 0, or why not: EWOULDBLOCK where it is in use, or where another
// file got its name meanwhile.
int RemoveArtifact(const std::string& path);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_CACHE_FOLDER_H_
