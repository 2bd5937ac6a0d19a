#include "runtime/qrun/bundle.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "runtime/abi/bundle.h"

namespace qrun {
namespace {

// AddressSanitizer would put its own bytes around the note.
#if defined(__clang__)
#define QRUN_AS_IT_IS clang::no_sanitize("address")
#else
#define QRUN_AS_IT_IS
#endif

// What `qcc bundle` looks for, and marks in its copy.
[[gnu::used, gnu::section(".note.qrun"), gnu::aligned(4), QRUN_AS_IT_IS]] constexpr qbundle_note kNote = {
    sizeof QBUNDLE_NOTE_OWNER, 2 * sizeof(uint32_t), QBUNDLE_NOTE_TYPE,
    QBUNDLE_NOTE_OWNER,        QBUNDLE_VERSION,      0};

// As the file that runs has it, not as this was compiled.
bool IsOfBundle() {
  return *static_cast<const volatile uint32_t*>(&kNote.carries) != 0;
}

class File {
 public:
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// nullopt: the file does not end as a bundle does.
Outcome ReadTrailer(const File& file, const std::string& path, std::optional<qbundle_trailer>* out) {
  struct stat info;
  qbundle_trailer trailer;
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Outcome();
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size < sizeof trailer) return Outcome();
  const ssize_t got = pread(file.get(), &trailer, sizeof trailer, static_cast<off_t>(size - sizeof trailer));
  if (got != sizeof trailer || std::memcmp(trailer.magic, QBUNDLE_MAGIC, sizeof trailer.magic) != 0) {
    return Outcome();
  }
  if (trailer.version != QBUNDLE_VERSION) {
    return Outcome::Fail(kExitArtifact, 4027,
                         "the bundle has version " + std::to_string(trailer.version) + ", this qrun reads " +
                             std::to_string(QBUNDLE_VERSION),
                         path, "make it again with the qcc and qrun of one release");
  }
  const uint64_t room = size - sizeof trailer;
  if (trailer.artifact_offset % QBUNDLE_ALIGNMENT != 0 || trailer.artifact_offset > room ||
      trailer.artifact_bytes == 0 || trailer.artifact_bytes != room - trailer.artifact_offset) {
    return Outcome::Fail(kExitArtifact, 4027,
                         "the bundle's trailer says " + std::to_string(trailer.artifact_bytes) +
                             " bytes at " + std::to_string(trailer.artifact_offset) +
                             ", which do not end where it begins, at " + std::to_string(room),
                         path, "copy the bundle again, or make it again with qcc bundle");
  }
  *out = trailer;
  return Outcome();
}

// The file that runs. Without /proc: the path that it was started by.
std::string OwnFile() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length > 0 && static_cast<size_t>(length) < sizeof path) {
    const std::string own(path, static_cast<size_t>(length));
    return access(own.c_str(), R_OK) == 0 ? own : "/proc/self/exe";  // replaced or removed since
  }
  const auto* started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return started == nullptr ? "" : started;
}

}  // namespace

Outcome FindOwnBundle(std::string* path) {
  const std::string own = OwnFile();
  std::optional<qbundle_trailer> trailer;
  const File file(own.c_str());
  const int reason = errno;
  QRUN_RETURN_IF_ERROR(ReadTrailer(file, own, &trailer));
  if (trailer) {
    *path = own;
    return Outcome();
  }
  if (!IsOfBundle()) return Outcome();
  if (file.get() < 0) {
    return Outcome::Fail(kExitArtifact, 4002,
                         std::string("cannot open the bundle for its artifact: ") + std::strerror(reason),
                         own, "it has to be readable, not only executable");
  }
  return Outcome::Fail(kExitArtifact, 4027,
                       "the artifact that this program carried is gone: its end is missing", own,
                       "copy the bundle again, and whole; do not strip it");
}

Outcome MapBundled(const std::string& path, std::optional<std::span<const uint8_t>>* artifact) {
  const File file(path.c_str());
  std::optional<qbundle_trailer> trailer;
  QRUN_RETURN_IF_ERROR(ReadTrailer(file, path, &trailer));
  if (!trailer) return Outcome();
  void* data = mmap(nullptr, trailer->artifact_bytes, PROT_READ, MAP_PRIVATE, file.get(),
                    static_cast<off_t>(trailer->artifact_offset));
  if (data == MAP_FAILED) {
    return Outcome::Fail(errno == ENOMEM ? kExitResources : kExitArtifact, errno == ENOMEM ? 6001 : 4002,
                         std::string("cannot map the bundle: ") + std::strerror(errno), path);
  }
  *artifact = std::span(static_cast<const uint8_t*>(data), trailer->artifact_bytes);
  return Outcome();
}

}  // namespace qrun
