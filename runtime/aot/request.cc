#include "runtime/aot/request.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "runtime/aot/cache_layout.h"
#include "runtime/aot/record.h"
#include "runtime/base/cpu_features.h"

namespace qrt::aot {
namespace {

constexpr char kSealKind[] = "seal 1";
constexpr char kRequestKind[] = "request 1";

std::string InArtifacts(const std::string& cache, const std::string& name, const char* suffix) {
  return ArtifactFolder(cache) + "/" + name + suffix;
}

}  // namespace

ArtifactInUse::~ArtifactInUse() {
  if (fd_ >= 0) close(fd_);
}

ArtifactInUse& ArtifactInUse::operator=(ArtifactInUse&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

std::string ArtifactPath(const std::string& cache, const std::string& key) {
  return InArtifacts(cache, key, kArtifactSuffix);
}

std::optional<Seal> ReadSeal(const std::string& cache, const std::string& key, bool* unread) {
  const std::optional<RecordLines> lines =
      ReadRecord(InArtifacts(cache, key, kSealSuffix), kSealKind, unread);
  if (!lines || lines->size() != 3 || (*lines)[0] != key) return std::nullopt;
  const std::optional<Hash128> identity = ParseHash((*lines)[1]);
  const std::optional<FileStamp> stamp = FileStamp::Parse((*lines)[2]);
  if (!identity || !stamp) return std::nullopt;
  return Seal{*identity, *stamp};
}

bool WriteSeal(const std::string& cache, const std::string& key, const Seal& seal) {
  return WriteRecord(InArtifacts(cache, key, kSealSuffix), kSealKind,
                     {key, Hex(seal.identity), seal.stamp.Text()});
}

std::optional<ArtifactInUse> UseArtifact(const std::string& cache, const std::string& key) {
  const std::string path = ArtifactPath(cache, key);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  ArtifactInUse use(path, fd);
  struct stat found;
  // Whoever removes it holds the lock alone; afterwards the name stands for nothing, or for another file.
  if (flock(fd, LOCK_SH | LOCK_NB) != 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
    return std::nullopt;
  }
  const std::optional<Seal> seal = ReadSeal(cache, key);
  const FileStamp stamp = FileStamp::Of(found);
  if (!seal || seal->stamp != stamp || FileStamp::Of(path) != stamp) return std::nullopt;
  Touch(InArtifacts(cache, key, kSealSuffix));
  return use;
}

std::string RequestPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return "";
  if (path.find("-of-", path.rfind('/') + 1) == std::string::npos) return real.get();
  std::error_code error;
  return std::filesystem::absolute(path, error).string();
}

std::string RequestName(const std::string& model, const std::string& compiler,
                        const std::vector<std::string>& options) {
  const std::string path = RequestPath(model);
  if (path.empty()) return "";
  std::string text = NamePiece(kRequestKind) + NamePiece(path) + NamePiece(compiler);
  for (const std::string& option : options) {
    // Where the value is a file, it is that of this folder.
    text += NamePiece(option) + NamePiece(RequestPath(option.substr(option.find('=') + 1)));
  }
  for (const std::string_view feature : CpuFeatures::Detect().Names()) text.append(feature) += ' ';
  return Hex(HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

bool WriteAnswer(const std::string& cache, const std::string& request, const Answer& answer) {
  RecordLines lines = {request, answer.key};
  for (const auto& [path, stamp] : answer.files) {
    lines.push_back(path);
    lines.push_back(stamp.Text());
  }
  return WriteRecord(InArtifacts(cache, request, kRequestSuffix), kRequestKind, lines);
}

std::optional<ArtifactInUse> FindAnswered(const std::string& cache, const std::string& request) {
  const std::string path = InArtifacts(cache, request, kRequestSuffix);
  const std::optional<RecordLines> lines = ReadRecord(path, kRequestKind);
  if (!lines || lines->size() < 2 || lines->size() % 2 != 0 || (*lines)[0] != request) return std::nullopt;
  for (size_t i = 2; i < lines->size(); i += 2) {
    const std::optional<FileStamp> then = FileStamp::Parse((*lines)[i + 1]);
    if (!then || FileStamp::Of((*lines)[i]) != then) return std::nullopt;
  }
  Touch(path);
  return UseArtifact(cache, (*lines)[1]);
}

}  // namespace qrt::aot
