#include "compiler/cache/artifact_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "compiler/cache/cache_folder.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/aot/cache_layout.h"

namespace qcc::compiler {
namespace {

constexpr useconds_t kPoll = 100'000;

absl::Status StoreError(const std::string& what, const std::string& path) {
  return MakeError("Q6002", Concat(what, ": ", std::strerror(errno)), path,
                   "choose another folder with --cache-dir");
}

// Each key has a byte of one file: locks leave nothing behind.
struct flock RangeOf(const std::string& key) {
  uint64_t place = 0;
  const qrt::Hash128 hash = qrt::ParseHash(key).value_or(qrt::Hash128{});
  std::memcpy(&place, hash.data(), sizeof place);
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(place >> 2);  // off_t has a sign, and a range ends behind its last byte
  range.l_len = 1;
  return range;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MakingLock>> MakingLock::Take(const std::string& cache, const std::string& key,
                                                             const std::function<bool(bool)>& go_on) {
  const std::string folder = qrt::aot::ArtifactFolder(cache);
  if (absl::Status s = MakeCacheFolder(folder); !s.ok()) return s;
  const std::string path = Concat(folder, "/lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return StoreError("cannot open the cache's lock", path);
  std::unique_ptr<MakingLock> lock(new MakingLock(fd));
  for (bool first = true;; first = false) {
    struct flock range = RangeOf(key);
    if (fcntl(fd, F_OFD_SETLK, &range) == 0) return lock;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      return StoreError("cannot lock the cache", path);
    }
    if (!go_on(first)) return absl::CancelledError("interrupted");
    usleep(kPoll);
  }
}

bool MakingLock::IsTaken(const std::string& cache, const std::string& key) {
  const std::string path = Concat(qrt::aot::ArtifactFolder(cache), "/lock");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct flock range = RangeOf(key);
  const bool taken = fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  close(fd);
  return taken;
}

MakingLock::~MakingLock() {
  close(fd_);
}

bool IsWhole(const std::string& path, const qrt::Hash128& identity, const VerifyProgress& progress) {
  const auto artifact = qrt::Artifact::Open(path);
  return artifact.ok() && (*artifact)->identity() == identity && (*artifact)->VerifyWeights(progress).ok();
}

std::optional<qrt::aot::ArtifactInUse> TakeArtifact(const std::string& cache, const std::string& key,
                                                    const VerifyProgress& progress) {
  if (auto sealed = qrt::aot::UseArtifact(cache, key)) return sealed;
  const std::string path = qrt::aot::ArtifactPath(cache, key);
  const auto stamp = qrt::aot::FileStamp::Of(path);
  bool unread = false;
  const auto seal = qrt::aot::ReadSeal(cache, key, &unread);
  if (unread) return std::nullopt;  // it may be whole, as below
  if (stamp && seal) {
    const auto artifact = qrt::Artifact::Open(path);
    qrt::Status found = artifact.status();
    if (artifact.ok() && (*artifact)->identity() == seal->identity) {
      found = (*artifact)->VerifyWeights(progress);
      if (found.ok()) {
        qrt::aot::WriteSeal(cache, key, {seal->identity, *stamp});
        return qrt::aot::UseArtifact(cache, key);
      }
    }
    // Interrupted, no memory, too many open files: it may be whole, and stays.
    if (!found.ok() && found.code() != qrt::Code::kArtifactCorrupt &&
        found.code() != qrt::Code::kArtifactIncompatible) {
      return std::nullopt;
    }
  }
  unlink(path.c_str());
  return std::nullopt;
}

bool IsMadeOf(const qrt::Artifact& artifact, const MadeOf& what) {
  const qrt::Provenance& provenance = artifact.manifest().provenance;
  decltype(what.kernels) kernels;
  std::copy_if(provenance.options.begin(), provenance.options.end(), std::back_inserter(kernels),
               [](const auto& option) { return option.first.starts_with("kernel "); });
  return provenance.source_hash == what.source &&
         std::is_permutation(kernels.begin(), kernels.end(), what.kernels.begin(), what.kernels.end());
}

absl::StatusOr<bool> SealArtifact(const std::string& cache, const std::string& key, const MadeOf& of) {
  const std::string path = qrt::aot::ArtifactPath(cache, key);
  const auto stamp = qrt::aot::FileStamp::Of(path);
  const auto artifact = qrt::Artifact::Open(path);
  if (!stamp || !artifact.ok()) {
    return MakeError("Q6002", "the artifact changed as soon as it was written", path,
                     "is somebody else writing into the cache?");
  }
  if (!IsMadeOf(**artifact, of)) return false;
  if (!qrt::aot::WriteSeal(cache, key, {(*artifact)->identity(), *stamp})) {
    return StoreError("cannot write into the cache's folder", qrt::aot::ArtifactFolder(cache));
  }
  return true;
}

}  // namespace qcc::compiler
