#include "runtime/base/mapped_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace qrt {
namespace {

// Lines of /proc/self/maps, character by character: "begin-end perms offset device inode   path". Nothing of
// the standard library's that might allocate or lock.
class MapsReader {
 public:
  MapsReader() : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsReader() {
    if (file_ >= 0) close(file_);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  // -1 at the end.
  int Next() {
    if (at_ == size_) {
      do {
        size_ = file_ < 0 ? 0 : read(file_, chunk_, sizeof chunk_);
      } while (size_ < 0 && errno == EINTR);
      at_ = 0;
      if (size_ <= 0) {
        size_ = 0;
        return -1;
      }
    }
    return static_cast<unsigned char>(chunk_[at_++]);
  }

  // A hexadecimal number and the character that ends it. False at the end.
  bool Hex(uint64_t* value) {
    *value = 0;
    for (;;) {
      const int c = Next();
      if (c < 0) return false;
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) return true;
      *value = *value << 4 | static_cast<uint64_t>(digit);
    }
  }

  // Past the next space.
  void SkipWord() {
    for (int c = Next(); c >= 0 && c != ' '; c = Next()) {
    }
  }

  // What is left of the line, without the spaces in front: its begin, and as much of it as fits.
  void Rest(std::span<char> begin, std::span<char> whole) {
    size_t length = 0;
    for (int c = Next(); c >= 0 && c != '\n'; c = Next()) {
      if (length == 0 && c == ' ') continue;
      for (std::span<char> out : {begin, whole}) {
        if (length + 1 < out.size()) out[length] = static_cast<char>(c);
      }
      ++length;
    }
    for (std::span<char> out : {begin, whole}) {
      if (!out.empty()) out[std::min(length, out.size() - 1)] = '\0';
    }
  }

 private:
  int file_;
  ssize_t at_ = 0, size_ = 0;
  char chunk_[512];
};

bool Find(const void* address, std::span<char> path, uint64_t* offset) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool found = false;
  char start[16];  // tells a file from a device
  MapsReader maps;
  uint64_t begin = 0, end = 0, first = 0;
  while (!found && maps.Hex(&begin) && maps.Hex(&end)) {
    maps.SkipWord();  // permissions
    if (!maps.Hex(&first)) break;
    maps.SkipWord();  // device
    maps.SkipWord();  // inode
    found = wanted >= begin && wanted < end;
    maps.Rest(start, found ? path : std::span<char>());
  }
  if (!found) return false;
  *offset = first + (wanted - begin);
  const std::string_view name(start);
  return name.starts_with("/") && (!name.starts_with("/dev/") || name.starts_with("/dev/shm/"));
}

}  // namespace

bool FindMappedFile(const void* address, std::span<char> path, uint64_t* offset) {
  const int error = errno;
  const bool found = Find(address, path, offset);
  errno = error;
  return found;
}

}  // namespace qrt
