#include "runtime/aot/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/aot/cache_layout.h"
#include "runtime/base/hash.h"
#include "runtime/base/temporary_name.h"

namespace qrt::aot {
namespace {

// A model of a thousand shards has a line for each.
constexpr off_t kMostBytes = 1 << 20;
constexpr size_t kDigits = 2 * sizeof(Hash128);

std::string HashLine(std::string_view text) {
  return Hex(HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()})) + "\n";
}

std::string ReadWhole(const std::string& path, bool* unread) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  *unread = fd < 0 && errno != ENOENT && errno != ELOOP;  // a link is none
  if (fd < 0) return text;
  struct stat found;
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= kMostBytes) {
    text.resize(static_cast<size_t>(found.st_size));
    const ssize_t got = read(fd, text.data(), text.size());
    *unread = got < 0;
    if (got != found.st_size) text.clear();
  }
  close(fd);
  return text;
}

}  // namespace

std::optional<RecordLines> ReadRecord(const std::string& path, const std::string& kind, bool* unread) {
  bool not_read = false;
  const std::string text = ReadWhole(path, unread != nullptr ? unread : &not_read);
  const std::string head = "qcc " + kind + "\n";
  if (text.size() < head.size() + kDigits + 1 || text.compare(0, head.size(), head) != 0) return std::nullopt;
  const size_t end = text.size() - kDigits - 1;
  if (text.compare(end, std::string::npos, HashLine(std::string_view(text).substr(0, end))) != 0) {
    return std::nullopt;
  }
  RecordLines lines;
  for (size_t at = head.size(); at < end;) {
    const size_t next = text.find('\n', at);
    lines.push_back(text.substr(at, next - at));
    at = next + 1;
  }
  return lines;
}

bool WriteRecord(const std::string& path, const std::string& kind, const RecordLines& lines) {
  std::string text = "qcc " + kind + "\n";
  for (const std::string& line : lines) {
    if (line.find('\n') != std::string::npos) return false;
    text += line + "\n";
  }
  text += HashLine(text);
  const std::string temporary =
      path + kCacheTemporary + std::to_string(gettid());  // a thread writes one at a time
  const TemporaryName name(temporary);
  unlink(temporary.c_str());  // of a killed one that had this number
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) == 0 && whole && rename(temporary.c_str(), path.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

}  // namespace qrt::aot
