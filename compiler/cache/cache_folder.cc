#include "compiler/cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>

#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

constexpr uint64_t kMostBytes = uint64_t{32} << 30;
constexpr size_t kHashDigits = 32;
constexpr time_t kHour = 3600;

absl::Status FolderError(const std::string& what, const std::string& folder) {
  return MakeError("Q6002", Concat(what, ": ", std::strerror(errno)), folder,
                   "choose another folder with --cache-dir, or do without with --no-cache");
}

bool IsTemporary(std::string_view name) {
  const size_t at = name.find(kCacheTemporary);
  return at != std::string_view::npos && IsCacheName(std::string(name.substr(0, at)));
}

// Calls fn(name, path, stat) for each regular file.
template <typename F>
absl::Status ForFiles(const std::string& folder, F&& fn) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (directory == nullptr) {
    return errno == ENOENT ? absl::OkStatus() : FolderError("cannot read the cache's folder", folder);
  }
  while (const dirent* entry = readdir(directory.get())) {
    const std::string path = Concat(folder, "/", entry->d_name);
    struct stat found;
    if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;  // gone, or not ours
    fn(std::string(entry->d_name), path, found);
  }
  return absl::OkStatus();
}

}  // namespace

std::string UsualCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return Concat(cache, "/qcc");
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? Concat(home, "/.cache/qcc") : "";
}

std::string CodeFolder(const std::string& cache) {
  return Concat(cache, "/code");
}

uint64_t UsualCacheBytes(const std::string& folder) {
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) return kMostBytes;
  return std::min(kMostBytes, uint64_t{disk.f_blocks} * disk.f_frsize / 4);
}

absl::Status MakeCacheFolder(const std::string& folder) {
  for (size_t at = 0; at != std::string::npos;) {
    at = folder.find('/', at + 1);
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0700) == 0 || errno == EEXIST) continue;
    // A parent may be one that cannot be written but exists.
    const int error = errno;
    struct stat found;
    if (stat(part.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) continue;
    errno = error;
    return FolderError("cannot make the cache's folder", part);
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return FolderError("cannot write into the cache's folder", folder);
  return absl::OkStatus();
}

bool IsCacheName(const std::string& name) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == kHashDigits + sizeof kCacheSuffix - 1 && name.substr(kHashDigits) == kCacheSuffix &&
         std::all_of(name.begin(), name.begin() + kHashDigits, is_digit);
}

absl::StatusOr<std::vector<CacheEntry>> CacheEntries(const std::string& folder) {
  std::vector<CacheEntry> entries;
  absl::Status status =
      ForFiles(folder, [&](const std::string& name, const std::string& path, const struct stat& found) {
        if (IsCacheName(name)) entries.push_back({path, static_cast<uint64_t>(found.st_size), found.st_mtim});
      });
  if (!status.ok()) return status;
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.path) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  return entries;
}

absl::StatusOr<Pruned> PruneCache(const std::string& folder, uint64_t most_bytes) {
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(folder);
  if (!entries.ok()) return entries.status();
  Pruned pruned;
  const auto remove = [&](const std::string& path, uint64_t bytes) {
    if (unlink(path.c_str()) != 0) return;  // another process was first
    ++pruned.files;
    pruned.bytes += bytes;
  };
  uint64_t total = 0;
  for (const CacheEntry& entry : *entries) total += entry.bytes;
  for (const CacheEntry& entry : *entries) {
    if (total <= most_bytes) break;
    remove(entry.path, entry.bytes);
    total -= entry.bytes;
  }
  // A write takes seconds: what is older was killed. A clock that went back makes it stay, no more.
  const time_t now = std::time(nullptr);
  absl::Status status =
      ForFiles(folder, [&](const std::string& name, const std::string& path, const struct stat& found) {
        if (IsTemporary(name) && found.st_mtim.tv_sec + kHour < now)
          remove(path, static_cast<uint64_t>(found.st_size));
      });
  if (!status.ok()) return status;
  return pruned;
}

void TouchCacheEntry(const std::string& path) {
  struct stat found;
  const time_t now = std::time(nullptr);
  if (stat(path.c_str(), &found) != 0 || std::llabs(now - found.st_mtim.tv_sec) < kHour) return;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // a folder that cannot be written stays as it is
}

}  // namespace qcc::compiler
