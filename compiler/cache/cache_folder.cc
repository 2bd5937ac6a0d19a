#include "compiler/cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <tuple>

#include "compiler/cache/artifact_store.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/aot/file_stamp.h"

namespace qcc::compiler {
namespace {

constexpr uint64_t kMostBytes = uint64_t{32} << 30;
constexpr time_t kDay = 24 * 3600;

absl::Status FolderError(const std::string& what, const std::string& folder) {
  return MakeError("Q6002", Concat(what, ": ", std::strerror(errno)), folder, kOtherCacheFolder);
}

bool IsTemporary(std::string_view name) {
  // What mkstemp(3) made of ".XXXXXX".
  constexpr size_t kRandom = 7;
  if (name.size() > kRandom &&
      qrt::aot::IsOfDriver(qrt::aot::CacheSuffix(name.substr(0, name.size() - kRandom)))) {
    return name[name.size() - kRandom] == '.';
  }
  const size_t at = name.find(qrt::aot::kCacheTemporary);
  return at != std::string_view::npos && !qrt::aot::CacheSuffix(name.substr(0, at)).empty();
}

std::string SealOf(const std::string& artifact) {
  return Concat(artifact.substr(0, artifact.size() - sizeof qrt::aot::kArtifactSuffix + 1),
                qrt::aot::kSealSuffix);
}

// A seal whose artifact somebody removed. Artifacts are there before their seals.
bool IsLeftSeal(const std::string& name, const std::string& path) {
  if (qrt::aot::CacheSuffix(name) != qrt::aot::kSealSuffix) return false;
  const std::string artifact =
      Concat(path.substr(0, path.size() - sizeof qrt::aot::kSealSuffix + 1), qrt::aot::kArtifactSuffix);
  return access(artifact.c_str(), F_OK) != 0 && errno == ENOENT;
}

std::array<std::string, 3> Folders(const std::string& cache) {
  return {qrt::aot::CodeFolder(cache), qrt::aot::ArtifactFolder(cache), qrt::aot::KernelFolder(cache)};
}

bool IsBefore(const timespec& a, const timespec& b) {
  return std::tie(a.tv_sec, a.tv_nsec) < std::tie(b.tv_sec, b.tv_nsec);
}

// Removes the artifact that `fd` is open on, and its seal. Returns 0, or why not.
int RemoveLocked(int fd, const std::string& path) {
  struct stat locked, named;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &locked) != 0) return errno;
  // Before the lock was there, another one may have got the name, which somebody has just made and will use.
  if (lstat(path.c_str(), &named) != 0) return errno;
  if (qrt::aot::FileStamp::Of(locked) != qrt::aot::FileStamp::Of(named)) return EWOULDBLOCK;
  if (unlink(path.c_str()) != 0) return errno;
  unlink(SealOf(path).c_str());
  return 0;
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

// Takes the artifact that was used last out of `entries`. `room`: what there is beside what is to come, and
// then what the others may have. An artifact that does not fit there does not count: removing all else would
// not help. What else does not fit by itself goes first, for the same reason.
void SpareLastArtifact(std::vector<CacheEntry>& entries, uint64_t& room) {
  const auto is_artifact = [](const CacheEntry& entry) { return entry.suffix == qrt::aot::kArtifactSuffix; };
  const auto last = std::find_if(entries.rbegin(), entries.rend(), is_artifact);
  if (last == entries.rend()) return;
  if (last->bytes <= room) room -= last->bytes;
  entries.erase(std::next(last).base());
  std::stable_partition(entries.begin(), entries.end(),
                        [room](const CacheEntry& entry) { return entry.bytes > room; });
}

}  // namespace

uint64_t UsualCacheBytes(const std::string& cache) {
  struct statvfs disk;
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(cache, error);
  // A folder that will be made lies on the disk of the one that it is made in.
  while (statvfs(at.c_str(), &disk) != 0) {
    if (!at.has_relative_path()) return kMostBytes;
    at = at.parent_path();
  }
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

absl::StatusOr<std::vector<CacheEntry>> CacheEntries(const std::string& cache) {
  std::vector<CacheEntry> entries;
  for (const std::string& folder : Folders(cache)) {
    absl::Status status =
        ForFiles(folder, [&](const std::string& name, const std::string& path, const struct stat& found) {
          const std::string_view suffix = qrt::aot::CacheSuffix(name);
          struct stat beside;
          timespec used = found.st_mtim;
          if (suffix.empty()) return;
          if (suffix == qrt::aot::kSealSuffix) return;
          if (qrt::aot::IsOfDriver(suffix) && IsBefore(used, found.st_atim)) used = found.st_atim;
          if (suffix == qrt::aot::kArtifactSuffix && stat(SealOf(path).c_str(), &beside) == 0) {
            used = beside.st_mtim;
          }
          entries.push_back({path, suffix, static_cast<uint64_t>(found.st_size), used});
        });
    if (!status.ok()) return status;
  }
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.path) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  return entries;
}

std::string CacheEntry::Key() const {
  const size_t name = path.rfind('/') + 1;
  return path.substr(name, path.find('.', name) - name);
}

int RemoveArtifact(const std::string& path) {
  constexpr int kHow = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = open(path.c_str(), O_RDWR | kHow);  // over NFS, to lock a file alone takes leave to write
  if (fd < 0 && errno != ENOENT) fd = open(path.c_str(), O_RDONLY | kHow);
  if (fd < 0) return errno;
  const int error = RemoveLocked(fd, path);
  close(fd);
  return error;
}

absl::StatusOr<Pruned> PruneCache(const std::string& cache, uint64_t most_bytes, LastArtifact last,
                                  uint64_t to_come) {
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(cache);
  if (!entries.ok()) return entries.status();
  uint64_t room = most_bytes - std::min(to_come, most_bytes);
  if (last == LastArtifact::kStays) SpareLastArtifact(*entries, room);
  Pruned pruned;
  const auto removed = [&](uint64_t bytes) {
    ++pruned.files;
    pruned.bytes += bytes;
  };
  uint64_t total = 0;
  for (const CacheEntry& entry : *entries) total += entry.bytes;
  for (const CacheEntry& entry : *entries) {
    if (total <= room) break;
    const bool artifact = entry.suffix == qrt::aot::kArtifactSuffix;
    // Whoever has just made one, or looks whether it is whole, will use it; then it is locked as well.
    const bool being_made = artifact && MakingLock::IsTaken(cache, entry.Key());
    const int error = being_made ? EWOULDBLOCK
                      : artifact ? RemoveArtifact(entry.path)
                                 : (unlink(entry.path.c_str()) == 0 ? 0 : errno);
    if (error == EWOULDBLOCK) {
      ++pruned.in_use;
      continue;
    }
    if (error == ENOENT) {  // another process was first, and made that much room
      total -= entry.bytes;
      continue;
    }
    if (error != 0) {
      return MakeError("Q6002", Concat("cannot remove a file of the cache: ", std::strerror(error)),
                       entry.path, "prune as a user who may write there");
    }
    removed(entry.bytes);
    total -= entry.bytes;
  }
  // Nothing writes for a day: what is older was killed. A clock that went back makes it stay, no more.
  const time_t now = std::time(nullptr);
  for (const std::string& folder : Folders(cache)) {
    absl::Status status =
        ForFiles(folder, [&](const std::string& name, const std::string& path, const struct stat& found) {
          const bool killed = IsTemporary(name) && found.st_mtim.tv_sec + kDay < now;
          if (!(killed || IsLeftSeal(name, path)) || unlink(path.c_str()) != 0) return;
          removed(static_cast<uint64_t>(found.st_size));
        });
    if (!status.ok()) return status;
  }
  return pruned;
}

}  // namespace qcc::compiler
