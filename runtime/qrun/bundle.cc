#include "runtime/qrun/bundle.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <climits>

#include "runtime/abi/bundle.h"
#include "runtime/base/bundle.h"
#include "runtime/base/file_map.h"

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
  const qrt::Result<qrt::FileMap> file = qrt::FileMap::Open(own);
  if (!file.ok()) {
    if (!IsOfBundle()) return Outcome();
    return Outcome::Fail(kExitArtifact, file.status().number(),
                         "cannot open the bundle for its artifact: " + file.status().message(), own,
                         "it has to be readable, not only executable");
  }
  const auto artifact = qrt::ArtifactInBundle(file->bytes(), own);
  if (!artifact.ok()) {
    const qrt::Status& why = artifact.status();
    return Outcome::Fail(kExitArtifact, why.number(), why.message(), why.note(), why.help());
  }
  if (artifact->has_value()) *path = own;
  if (artifact->has_value() || !IsOfBundle()) return Outcome();
  return Outcome::Fail(kExitArtifact, 4027,
                       "the artifact that this program carried is gone: its end is missing", own,
                       "copy the bundle again, and whole; do not strip it");
}

}  // namespace qrun
