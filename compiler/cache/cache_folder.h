// The folder in which qcc keeps what it has made, between compiles: files that say all they depend on in
// their names, so that nothing in it is ever wrong, only unused.
#ifndef QCC_COMPILER_CACHE_CACHE_FOLDER_H_
#define QCC_COMPILER_CACHE_CACHE_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qcc::compiler {

// $XDG_CACHE_HOME/qcc, or ~/.cache/qcc; empty: the environment names neither.
std::string UsualCacheFolder();

// Where compiled code lies in a cache.
std::string CodeFolder(const std::string& cache);

// How much a cache may take: 32 GiB, or a quarter of the disk that `folder` lies on, if that is less.
uint64_t UsualCacheBytes(const std::string& folder);

// Makes `folder` and its parents, for the user alone. Errors: Q6002.
absl::Status MakeCacheFolder(const std::string& folder);

struct CacheEntry {
  std::string path;
  uint64_t bytes = 0;
  timespec used = {};  // last, to an hour
};

// What lies in `folder` under names of the cache, the longest unused first. A folder that is not there has
// none. Other files are not the cache's. Errors: Q6002.
absl::StatusOr<std::vector<CacheEntry>> CacheEntries(const std::string& folder);

struct Pruned {
  size_t files = 0;
  uint64_t bytes = 0;
};

// Removes entries, the longest unused first, until the others have at most `most_bytes`; and temporary files
// that were left behind. Other processes may read, write and prune at the same time. Errors: Q6002.
absl::StatusOr<Pruned> PruneCache(const std::string& folder, uint64_t most_bytes);

// Marks an entry as used now, at most once an hour.
void TouchCacheEntry(const std::string& path);

// Of `name` in a folder of the cache: 32 digits of a hash and ".code".
bool IsCacheName(const std::string& name);
inline constexpr char kCacheSuffix[] = ".code";
inline constexpr char kCacheTemporary[] = ".tmp-";  // between name and number

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_CACHE_FOLDER_H_
