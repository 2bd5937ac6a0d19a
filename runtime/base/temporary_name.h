// Names that a program removes when it ends where nothing returns any more: in a signal handler, or where
// memory has run out.
#ifndef QRT_BASE_TEMPORARY_NAME_H_
#define QRT_BASE_TEMPORARY_NAME_H_

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

namespace qrt {

// `path` with `suffix` behind it. The end of a long name makes room: what is as long as the name itself is
// within the limit of every file system that takes that.
inline std::string NameBeside(const std::string& path, const std::string& suffix) {
  constexpr size_t kShort = 128;  // below the limits of file systems, which begin at 143
  const size_t name = path.rfind('/') + 1, size = path.size() - name;
  const size_t most = std::max(size, kShort) - suffix.size();
  return path.substr(0, name + std::min(size, most)) + suffix;
}

// A folder with the files in it; not folders in it, and not what a link leads to. Async-signal-safe.
inline void RemoveFolder(const char* path) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(dirent64) char entries[4096];
  for (ssize_t size; (size = getdents64(folder, entries, sizeof entries)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      unlinkat(folder, entry->d_name, 0);
      at += entry->d_reclen;
    }
  }
  close(folder);
  rmdir(path);
}

// A file, or a folder of files, that RemoveAll removes while this object lives. The object itself removes
// nothing: whoever makes it does, in the usual ways. A name beyond kNames at once, or beyond PATH_MAX, is not
// kept: it is left behind. The table is the process's, since a handler reaches nothing else; only programs
// use it, not libqrt.
class TemporaryName {
 public:
  static constexpr size_t kNames = 16;

  explicit TemporaryName(const std::string& path) {
    if (path.size() >= PATH_MAX) return;
    for (Slot& slot : slots_) {
      State free = State::kFree;
      if (!slot.state.compare_exchange_strong(free, State::kFilling)) continue;
      std::memcpy(slot.path, path.c_str(), path.size() + 1);
      slot.state.store(State::kNamed);
      slot_ = &slot;
      return;
    }
  }
  ~TemporaryName() {
    if (slot_ != nullptr) slot_->state.store(State::kFree);
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  // Files first, then folders. Async-signal-safe; leaves the objects as they are.
  static void RemoveAll() {
    for (const Slot& slot : slots_) {
      if (slot.state.load() == State::kNamed) unlink(slot.path);
    }
    for (const Slot& slot : slots_) {
      if (slot.state.load() == State::kNamed) RemoveFolder(slot.path);
    }
  }

 private:
  enum class State { kFree, kFilling, kNamed };  // kFree is what a static begins as
  struct Slot {
    std::atomic<State> state;
    char path[PATH_MAX];
  };
  static_assert(std::atomic<State>::is_always_lock_free, "a signal handler may not lock");
  static inline Slot slots_[kNames];

  Slot* slot_ = nullptr;
};

}  // namespace qrt

#endif  // QRT_BASE_TEMPORARY_NAME_H_
