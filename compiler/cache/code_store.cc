#include "compiler/cache/code_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "compiler/cache/cache_folder.h"
#include "frontends/base/text.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/aot/file_stamp.h"
#include "runtime/base/hash.h"
#include "runtime/base/temporary_name.h"

namespace qcc::compiler {
namespace {

// An entry: these 8 bytes, the hash of what follows it, the code.
constexpr char kMagic[] = "QCCCODE1";
constexpr size_t kMagicBytes = 8, kHeaderBytes = kMagicBytes + sizeof(qrt::Hash128);
constexpr uint64_t kMostEntryBytes = uint64_t{64} << 20;  // a hundred times a large piece

bool WriteAll(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

bool ReadAll(int fd, std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodeStore>> CodeStore::Open(const std::string& folder, std::string identity) {
  if (absl::Status s = MakeCacheFolder(folder); !s.ok()) return s;
  return std::unique_ptr<CodeStore>(new CodeStore(folder, std::move(identity)));
}

std::string CodeStore::PathOf(std::string_view key) const {
  const std::string text = Concat(identity_, "\n", key);
  const auto bytes = std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return Concat(folder_, "/", qrt::Hex(qrt::HashOf(bytes)), qrt::aot::kCodeSuffix);
}

std::vector<uint8_t> CodeStore::Read(const std::string& path, bool* damaged) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  // A link is not followed, and no file of ours.
  if (damaged != nullptr) *damaged = fd >= 0 || errno != ENOENT;
  if (fd < 0) return {};
  struct stat found;
  std::vector<uint8_t> all;
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > int64_t{kHeaderBytes} &&
      static_cast<uint64_t>(found.st_size) <= kMostEntryBytes) {
    all.resize(static_cast<size_t>(found.st_size));
    if (!ReadAll(fd, all)) all.clear();
  }
  close(fd);
  if (all.empty() || std::memcmp(all.data(), kMagic, kMagicBytes) != 0) return {};
  const qrt::Hash128 hash = qrt::HashOf(std::span(all).subspan(kHeaderBytes));
  if (std::memcmp(all.data() + kMagicBytes, hash.data(), hash.size()) != 0) return {};
  all.erase(all.begin(), all.begin() + kHeaderBytes);
  return all;
}

std::vector<uint8_t> CodeStore::Find(std::string_view key) {
  const std::string path = PathOf(key);
  bool damaged = false;
  std::vector<uint8_t> code = Read(path, &damaged);
  if (code.empty()) {
    // Not where there was none: another process may have put it there by now.
    if (damaged) unlink(path.c_str());
    ++missed_;
    return code;
  }
  ++found_;
  qrt::aot::Touch(path);
  return code;
}

void CodeStore::Keep(std::string_view key, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  const std::string path = PathOf(key);
  const std::string temporary =
      Concat(path, qrt::aot::kCacheTemporary, std::to_string(gettid()));  // a thread writes one at a time
  const qrt::TemporaryName name(temporary);
  unlink(temporary.c_str());  // of a killed one that had this number
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const qrt::Hash128 hash = qrt::HashOf(bytes);
  const bool whole = WriteAll(fd, {reinterpret_cast<const uint8_t*>(kMagic), kMagicBytes}) &&
                     WriteAll(fd, hash) && WriteAll(fd, bytes);
  // Not synced: what a crash of the machine leaves half-written does not have its hash.
  if (close(fd) != 0 || !whole || rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace qcc::compiler
