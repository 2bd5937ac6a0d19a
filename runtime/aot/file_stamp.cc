#include "runtime/aot/file_stamp.h"

#include <fcntl.h>

#include <charconv>
#include <cstdlib>
#include <ctime>

namespace qrt::aot {
namespace {

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileStamp FileStamp::Of(const struct stat& found) {
  return {static_cast<uint64_t>(found.st_ino), static_cast<uint64_t>(found.st_size),
          Nanoseconds(found.st_mtim), Nanoseconds(found.st_ctim)};
}

std::optional<FileStamp> FileStamp::Of(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return Of(found);
}

std::string FileStamp::Text() const {
  return std::to_string(inode) + " " + std::to_string(bytes) + " " + std::to_string(modified) + " " +
         std::to_string(changed);
}

std::optional<FileStamp> FileStamp::Parse(std::string_view text) {
  FileStamp stamp;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& value, bool last) {
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (last ? next != end : next == end || *next != ' ')) return false;
    at = next + 1;
    return true;
  };
  if (!number(stamp.inode, false) || !number(stamp.bytes, false) || !number(stamp.modified, false) ||
      !number(stamp.changed, true)) {
    return std::nullopt;
  }
  return stamp;
}

int64_t StampClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds(now);
}

void Touch(const std::string& path) {
  constexpr time_t kHour = 3600;
  struct stat found;
  const time_t now = std::time(nullptr);
  if (stat(path.c_str(), &found) != 0 || std::llabs(now - found.st_mtim.tv_sec) < kHour) return;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

}  // namespace qrt::aot
