// A conversation in a file, to go on with later, on another device or in another process.
#ifndef RUNTIME_QRUN_SAVED_SESSION_H_
#define RUNTIME_QRUN_SAVED_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/qrun/outcome.h"

namespace qrun {

// What one side said.
struct Turn {
  const char* role;  // static: "system", "user", "assistant"
  std::string content;
};

struct SavedSession {
  bool raw = false;         // --raw: the text is all there is
  std::vector<Turn> turns;  // empty if raw
  // What the chat template was told besides them, as in TemplateFlags.
  std::optional<std::string> think;
  std::string tools;
  std::vector<int32_t> tokens;  // of the sequence
  size_t held = 0;              // how many of them the snapshot holds
  std::optional<int32_t> next;  // the token that was chosen to follow, not yet written
  std::string snapshot;         // qrt_session_save
};

// Writes the file under its name only when it is whole. Errors: resources.
Outcome WriteSession(const std::string& path, const SavedSession& session);

// Of a file's head (turns and tokens) and snapshot.
uint64_t SessionChecksum(std::string_view head, std::string_view snapshot);

// The bytes of a file, which `path` names for people; what is a snapshot of them, as large as all of the KV,
// stays where it is. Errors: as of ReadSession.
Outcome ParseSession(std::string bytes, const std::string& path, SavedSession* out);

// The bytes are not trusted: a checksum tells whether they are those that were saved, and the library checks
// the snapshot and the ids. Errors: input refused (another version, no session, changed or damaged).
Outcome ReadSession(const std::string& path, SavedSession* out);

}  // namespace qrun

#endif  // RUNTIME_QRUN_SAVED_SESSION_H_
