// Which artifact of the cache belongs to a model: qcc writes it down, and qrun starts from it without asking
// qcc.
#ifndef QRT_AOT_REQUEST_H_
#define QRT_AOT_REQUEST_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/aot/file_stamp.h"
#include "runtime/base/hash.h"

namespace qrt::aot {

// A cached artifact that somebody uses: what makes room in the cache leaves it alone until this object goes.
class ArtifactInUse {
 public:
  ArtifactInUse(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~ArtifactInUse();
  ArtifactInUse(ArtifactInUse&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ArtifactInUse& operator=(ArtifactInUse&& other) noexcept;
  ArtifactInUse(const ArtifactInUse&) = delete;
  ArtifactInUse& operator=(const ArtifactInUse&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;  // holds a shared lock
};

// What qcc says of an artifact that it has checked: which it is, and its file's stamp.
struct Seal {
  Hash128 identity{};  // Artifact::identity()
  FileStamp stamp;
};
// `unread` (may be null): whether there may be a good one that could not be read.
std::optional<Seal> ReadSeal(const std::string& cache, const std::string& key, bool* unread = nullptr);
bool WriteSeal(const std::string& cache, const std::string& key, const Seal& seal);

std::string ArtifactPath(const std::string& cache, const std::string& key);

// The artifact under `key`, if it is sealed and unchanged since. Its seal's time says when it was used last.
std::optional<ArtifactInUse> UseArtifact(const std::string& cache, const std::string& key);

// The path by which a request knows a file: its real one. Of what may be a shard of a split model it is the
// absolute path as given, no link followed: the other shards are those beside that. Empty: there is no such
// file.
std::string RequestPath(const std::string& path);

// What is asked of `qcc cache artifact`: everything that its answer depends on by name. `model`: any path of
// it; `compiler`: of the qcc that would be asked; `options`: for it, as written, where a file stands behind
// its "=" for what that is by its RequestPath, like `model`. The machine's CPU belongs to it, too. Empty:
// there is no such file.
std::string RequestName(const std::string& model, const std::string& compiler,
                        const std::vector<std::string>& options);

// What a request's answer depends on by content: it holds while all of these are unchanged.
struct Answer {
  std::string key;                                       // of the artifact
  std::vector<std::pair<std::string, FileStamp>> files;  // by absolute path, through links
};
bool WriteAnswer(const std::string& cache, const std::string& request, const Answer& answer);

// The artifact that a request was answered with, if the answer still holds.
std::optional<ArtifactInUse> FindAnswered(const std::string& cache, const std::string& request);

}  // namespace qrt::aot

#endif  // QRT_AOT_REQUEST_H_
