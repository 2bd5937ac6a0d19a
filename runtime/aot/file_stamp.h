// Whether a file is still the one that was read: without reading it again.
#ifndef QRT_AOT_FILE_STAMP_H_
#define QRT_AOT_FILE_STAMP_H_

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qrt::aot {

// What the file system says of a file. Nobody can set `changed`, so a file that was written to has another
// stamp, unless both fell into one tick of its clock (IsSettled).
struct FileStamp {
  uint64_t inode = 0, bytes = 0;
  int64_t modified = 0, changed = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
  static FileStamp Of(const struct stat& found);
  // Of a regular file; nothing where there is none.
  static std::optional<FileStamp> Of(const std::string& path);

  // Four decimal numbers; nothing for another text.
  std::string Text() const;
  static std::optional<FileStamp> Parse(std::string_view text);
};

// Nanoseconds since 1970, by the clock that stamps files.
int64_t StampClock();

// Whether every later write to the file gives it another stamp: `now`, when reading it began, is two seconds
// after its last change, the coarsest tick of a file system (FAT). Not while the clock stands before that. A
// time of writing that lies in the future was set (by an archive, or from another clock), and a write, which
// sets the present one, shows as well.
inline bool IsSettled(const FileStamp& stamp, int64_t now) {
  constexpr int64_t kTick = 2'000'000'000;
  return stamp.changed <= now - kTick && (stamp.modified <= now - kTick || stamp.modified > now + kTick);
}

// Marks a file as used now, at most once an hour: the longest unused are the first to go. One that cannot be
// written stays as it is.
void Touch(const std::string& path);

}  // namespace qrt::aot

#endif  // QRT_AOT_FILE_STAMP_H_
