#include "runtime/capi/kernel_cache.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace qrt::capi {
namespace {

// A name as KernelFile (runtime/device/vulkan) gives it: 32 digits of a hash and what of a driver's it is;
// behind that, while the file is being written, what mkstemp makes of ".XXXXXX".
bool IsCacheFile(std::string_view name) {
  constexpr std::string_view kSuffix = ".vkpipelines";
  constexpr size_t kDigits = 32, kTemporary = 7;
  const auto all = [](std::string_view text, auto&& wanted) {
    return std::all_of(text.begin(), text.end(), wanted);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() < kDigits ||
      !all(name.substr(0, kDigits), [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); })) {
    return false;
  }
  std::string_view rest = name.substr(kDigits);
  if (rest.substr(0, kSuffix.size()) != kSuffix) return false;
  rest.remove_prefix(kSuffix.size());
  return rest.empty() || (rest.size() == kTemporary && rest[0] == '.' && all(rest.substr(1), [&](char c) {
                            return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                          }));
}

}  // namespace

Status MakeCacheFolder(const std::string& folder) {
  for (size_t at = 0; at != std::string::npos;) {
    at = folder.find('/', at + 1);
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0700) == 0 || errno == EEXIST) continue;
    // A parent may be one that cannot be written but exists.
    const int error = errno;
    struct stat found = {};
    if (stat(part.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) continue;
    return Status(Code::kIoError, 6002, "cannot make the folder " + part + ": " + std::strerror(error),
                  folder, "choose another cache folder");
  }
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return Status(Code::kIoError, 6002, folder + " is no folder", folder, "choose another cache folder");
  }
  return Status();
}

void TrimCacheFolder(const std::string& folder, uint64_t max_bytes) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (directory == nullptr) return;
  struct File {
    int64_t seconds, nanoseconds;
    uint64_t bytes;
    std::string path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  while (const dirent* entry = readdir(directory.get())) {
    // The folder is the user's to name, and may hold anything: what is not the cache's own stays.
    if (!IsCacheFile(entry->d_name)) continue;
    const std::string path = folder + "/" + entry->d_name;
    struct stat found = {};
    if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    const uint64_t bytes = static_cast<uint64_t>(found.st_size);
    const timespec& used = std::tie(found.st_atim.tv_sec, found.st_atim.tv_nsec) >
                                   std::tie(found.st_mtim.tv_sec, found.st_mtim.tv_nsec)
                               ? found.st_atim
                               : found.st_mtim;
    files.push_back({used.tv_sec, used.tv_nsec, bytes, path});
    total += bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(a.seconds, a.nanoseconds, a.path) < std::tie(b.seconds, b.nanoseconds, b.path);
  });
  for (const File& file : files) {
    if (total <= max_bytes) return;
    unlink(file.path.c_str());
    total -= file.bytes;
  }
}

}  // namespace qrt::capi
