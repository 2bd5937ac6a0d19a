#include "runtime/qrun/prompt_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "runtime/base/descriptor.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/prefix_file.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

using qrt::Descriptor;

constexpr uint64_t kUsualBytes = uint64_t{4} << 30;
constexpr std::string_view kTemporary = ".tmp-";

// Of the folder, among those who write into it. Not for one who is told to end: another one may be stopped.
class Lock {
 public:
  explicit Lock(const std::string& folder)
      : folder_(open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY)) {
    constexpr int kLookMs = 20;
    while (folder_.ok() && !(locked_ = flock(folder_.get(), LOCK_EX | LOCK_NB) == 0)) {
      if ((errno != EWOULDBLOCK && errno != EINTR) || Interrupts::Pending()) return;
      poll(nullptr, 0, kLookMs);
    }
  }
  bool ok() const { return locked_; }

 private:
  Descriptor folder_;  // closing it unlocks
  bool locked_ = false;
};

// A regular file of this user's, which alone may say what a model has read.
bool OpenOwn(const Descriptor& file, struct stat* found) {
  return file.ok() && fstat(file.get(), found) == 0 && S_ISREG(found->st_mode) && found->st_uid == geteuid();
}

int OpenToRead(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool ReadAt(int fd, void* out, size_t size, uint64_t offset) {
  auto* at = static_cast<char*>(out);
  while (size != 0) {
    const ssize_t count = pread(fd, at, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    offset += static_cast<uint64_t>(count);
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int fd, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size != 0) {
    const ssize_t count = write(fd, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool IsTemporaryName(std::string_view name) {
  const size_t at = name.rfind(kTemporary);
  return at != std::string_view::npos && IsPrefixFileName(name.substr(0, at));
}

template <typename Take>
void ForEachName(const std::string& folder, Take take) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory.get())) take(std::string(entry->d_name));
}

// False: errno says why.
bool MakeFolder(const std::string& folder) {
  int why = 0;  // of the first that could not be made: those in it fail for want of it
  const auto make = [&why](const std::string& path) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST && why == 0) why = errno;
  };
  for (size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    make(folder.substr(0, at));
  }
  make(folder);
  struct stat found;
  if (stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) return true;
  errno = why != 0 ? why : ENOTDIR;
  return false;
}

uint64_t FileBytes(size_t tokens, uint64_t snapshot) {
  return sizeof(PrefixHead) + tokens * sizeof(int32_t) + snapshot;
}

bool SharedByDevices(const Model& model) {
  return model.info.numerics == std::string_view("f32");
}

qrt::Hash128 BindingOf(const Model& model) {
  std::string text(reinterpret_cast<const char*>(model.info.identity), sizeof model.info.identity);
  text += "|" + std::to_string(model.info.state_bytes) + "|" + std::to_string(model.info.kv_bytes_per_token);
  qrt_engine_info engine;
  if (!SharedByDevices(model) && DescribeEngine(model, &engine).ok()) {
    text += "|" + std::string(engine.device) + "|" + engine.cpu;
  }
  return qrt::HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

void PromptCacheFlags::AddTo(Options& options) {
  options.Name("--prompt-cache", "DIR", &folder,
               "keep what prompts begin with in DIR, so that the next process does not feed it again");
  options.Integer("--prompt-cache-bytes", "N", 0, INT64_MAX, &bytes,
                  "at most N bytes in DIR, the longest unused goes first; default: 4 GiB");
}

Outcome PromptCacheFlags::Check() const {
  if (!bytes || folder) return Outcome();
  return Outcome::Fail(kExitUsage, 101, "--prompt-cache-bytes is given, but no folder", "",
                       "give --prompt-cache DIR");
}

PromptCache::PromptCache(const PromptCacheFlags& flags, const Model& model, const Verbosity& said)
    : folder_(flags.folder.value_or("")),
      most_bytes_(flags.bytes ? static_cast<uint64_t>(*flags.bytes) : kUsualBytes),
      model_(model),
      said_(said) {
  if (folder_.empty()) return;
  usable_ = MakeFolder(folder_);
  if (!usable_) {
    said_.Warn("no prompts are kept: cannot make the folder " + folder_ + ": " + std::strerror(errno));
    return;
  }
  binding_ = BindingOf(model);
}

void PromptCache::Say(const std::string& what) const {
  if (said_.verbose) Tell("prompt cache: " + what);
}

void PromptCache::Refuse(const std::string& path, bool ours, const char* why) const {
  Say(path + " is passed over" + (ours ? " and removed: " : ": ") + why);
  if (ours) unlink(path.c_str());
}

std::vector<PromptCache::Entry> PromptCache::Candidates(std::span<const int32_t> prompt,
                                                        uint64_t capacity) const {
  const std::string begin = qrt::Hex(binding_);
  const bool anywhere = model_.info.state_bytes == 0;  // a session of KV alone steps back anywhere
  std::vector<Entry> entries;
  ForEachName(folder_, [&](const std::string& name) {
    if (!IsPrefixFileName(name) || name.compare(0, begin.size(), begin) != 0) return;
    const std::string path = folder_ + "/" + name;
    const Descriptor file(OpenToRead(path));
    struct stat found;
    if (!OpenOwn(file, &found)) return Refuse(path, false, "it is no file of this user");
    const auto bytes = static_cast<uint64_t>(found.st_size);
    char first[sizeof(PrefixHead)];
    const size_t size = std::min<uint64_t>(sizeof first, bytes);
    if (!ReadAt(file.get(), first, size, 0)) return Refuse(path, false, "it cannot be read");
    PrefixHead head;
    const PrefixRead read = ReadPrefixHead({first, size}, bytes, binding_, &head);
    if (read == PrefixRead::kForeign) return Refuse(path, false, "it is not of this release of qrun");
    if (read == PrefixRead::kDamaged) return Refuse(path, true, "it is damaged");
    std::vector<int32_t> tokens(std::min<uint64_t>(head.tokens, prompt.size()));
    if (!ReadAt(file.get(), tokens.data(), tokens.size() * sizeof(int32_t), sizeof head)) return;
    const auto end = std::mismatch(tokens.begin(), tokens.end(), prompt.begin()).first;
    const auto common = static_cast<size_t>(end - tokens.begin());
    size_t usable = head.tokens == common || anywhere ? std::min(common, prompt.size() - 1) : 0;
    if (head.tokens > capacity || (!anywhere && usable != head.tokens)) usable = 0;
    entries.push_back({path, common, usable});
  });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(b.usable, a.path) < std::tie(a.usable, b.path);
  });
  return entries;
}

bool PromptCache::Load(const std::string& path, Loaded* out) const {
  const Descriptor opened(OpenToRead(path));
  struct stat found;
  if (!OpenOwn(opened, &found)) return false;  // it went meanwhile
  char first[sizeof(PrefixHead)];
  PrefixHead head;
  const auto bytes = static_cast<uint64_t>(found.st_size);
  // Before memory is taken for all of it.
  if (bytes < sizeof first || !ReadAt(opened.get(), first, sizeof first, 0) ||
      ReadPrefixHead({first, sizeof first}, bytes, binding_, &head) != PrefixRead::kGood) {
    return false;
  }
  out->file.resize(bytes);
  if (!ReadAt(opened.get(), out->file.data(), bytes, 0)) return false;
  if (ReadPrefix(out->file, binding_, &head, &out->snapshot) != PrefixRead::kGood) {
    Refuse(path, true, "it is damaged");
    return false;
  }
  out->tokens = head.tokens;
  futimens(opened.get(), nullptr);  // it was used
  return true;
}

Outcome PromptCache::Restore(qrt_session* session, std::span<const int32_t> prompt, size_t held,
                             size_t* reused) {
  shared_ = 0;
  if (!usable_ || prompt.size() <= 1) return Outcome();
  bool done = false;
  for (const Entry& entry : Candidates(prompt, qrt_session_capacity(session))) {
    shared_ = std::max(shared_, std::min(entry.common, prompt.size() - 1) / kBlock * kBlock);
    Loaded loaded;
    if (done || entry.usable <= held || !Load(entry.path, &loaded)) continue;
    qrt_error error = NewError();
    const qrt_status status =
        qrt_session_restore(session, loaded.snapshot.data(), loaded.snapshot.size(), &error);
    if (status == QRT_SNAPSHOT_MISMATCH || status == QRT_CONTEXT_FULL) {
      Refuse(entry.path, false, error.message);
      continue;
    }
    if (status != QRT_OK) return Outcome::Of(error);
    QRUN_CALL(qrt_session_rewind(session, loaded.tokens - entry.usable, &error));
    Say(std::to_string(entry.usable) + " tokens from " + entry.path);
    *reused = entry.usable;
    done = true;
  }
  return Outcome();
}

Outcome PromptCache::Add(qrt_session* session, std::span<const int32_t> tokens) {
  if (!usable_) return Outcome();
  // In f32 devices share the folder, so that what one made may be what another goes on from.
  if (qrt_session_foreign(session) != 0 && !SharedByDevices(model_)) {
    Say("a prefix of " + std::to_string(tokens.size()) +
        " tokens is not kept: another device or code variant made some of it");
    return Outcome();
  }
  const uint64_t snapshot = qrt_session_save_size(session);
  const uint64_t bytes = FileBytes(tokens.size(), snapshot);
  if (bytes > most_bytes_) {
    // Of a chat each turn would say it.
    if (!std::exchange(too_large_, true)) {
      said_.Warn("a prefix of " + std::to_string(tokens.size()) + " tokens is not kept: it takes " +
                 std::to_string(bytes) + " bytes, and all may take " + std::to_string(most_bytes_) +
                 " (--prompt-cache-bytes)");
    }
    return Outcome();
  }
  Pending& prefix = pending_.emplace_back();
  prefix.tokens.assign(tokens.begin(), tokens.end());
  prefix.snapshot.resize(snapshot);
  QRUN_CALL(qrt_session_save(session, prefix.snapshot.data(), prefix.snapshot.size(), nullptr, &error));
  return Outcome();
}

void PromptCache::WritePending() {
  if (!usable_) return;
  {
    const Lock lock(folder_);
    if (lock.ok()) MakeRoomFor(0, "");  // also where more was allowed before
  }
  for (const Pending& prefix : std::exchange(pending_, {})) {
    const int reason = Write(prefix);
    if (reason == 0) continue;
    said_.Warn("a prefix of " + std::to_string(prefix.tokens.size()) + " tokens is not kept in " + folder_ +
               ": " + std::strerror(reason));
  }
}

void PromptCache::MakeRoomFor(uint64_t bytes, const std::string& replaced) const {
  struct File {
    int64_t seconds, nanoseconds;
    std::string path;
    uint64_t bytes;
  };
  std::vector<File> files;
  uint64_t total = bytes;
  ForEachName(folder_, [&](const std::string& name) {
    const std::string path = folder_ + "/" + name;
    struct stat found;
    if (IsTemporaryName(name)) {
      // Whoever writes it holds its lock, as long as it lives. Over NFS a lock takes leave to write.
      const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (OpenOwn(file, &found) && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
      return;
    }
    if (path == replaced || !IsPrefixFileName(name) || lstat(path.c_str(), &found) != 0 ||
        !S_ISREG(found.st_mode))
      return;
    files.push_back(
        {found.st_mtim.tv_sec, found.st_mtim.tv_nsec, path, static_cast<uint64_t>(found.st_size)});
    total += files.back().bytes;
  });
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(a.seconds, a.nanoseconds, a.path) < std::tie(b.seconds, b.nanoseconds, b.path);
  });
  for (const File& file : files) {
    if (total <= most_bytes_) return;
    unlink(file.path.c_str());
    total -= file.bytes;
  }
}

int PromptCache::Write(const Pending& prefix) const {
  const PrefixHead head = MakePrefixHead(binding_, prefix.tokens, prefix.snapshot);
  const std::string path = folder_ + "/" + PrefixFileName(binding_, prefix.tokens);
  const std::string temporary = path + std::string(kTemporary) + std::to_string(getpid());
  std::optional<Descriptor> file;
  {
    // Nobody takes it for one that was left before its own lock is there.
    const Lock lock(folder_);
    if (!lock.ok()) return errno;
    file.emplace(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file->ok() || flock(file->get(), LOCK_EX | LOCK_NB) != 0) return errno;
  }
  const bool whole = WriteAll(file->get(), &head, sizeof head) &&
                     WriteAll(file->get(), prefix.tokens.data(), prefix.tokens.size() * sizeof(int32_t)) &&
                     WriteAll(file->get(), prefix.snapshot.data(), prefix.snapshot.size());
  int reason = whole ? 0 : errno;
  const Lock lock(folder_);
  if (reason == 0 && !lock.ok()) reason = errno;
  if (reason == 0) {
    MakeRoomFor(FileBytes(prefix.tokens.size(), prefix.snapshot.size()), path);
    if (std::rename(temporary.c_str(), path.c_str()) != 0) reason = errno;
  }
  if (reason != 0) unlink(temporary.c_str());
  return reason;
}

}  // namespace qrun
