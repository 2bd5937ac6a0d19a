// What was typed in earlier chats.
#ifndef RUNTIME_QRUN_PROMPT_HISTORY_H_
#define RUNTIME_QRUN_PROMPT_HISTORY_H_

#include <string>
#include <vector>

namespace qrun {

// `$XDG_STATE_HOME/qcc/history` or `~/.local/state/qcc/history`; empty: the environment names no home.
std::string UsualHistoryFile();

inline constexpr size_t kHistoryEntries = 1000;         // that are offered again
inline constexpr size_t kHistoryEntryBytes = 64 << 10;  // longer ones are not kept

// A file with an entry a line, newlines and backslashes in it escaped. It is its user's alone (0600) and
// stays short; any number of chats may add to it. What cannot be read or written is left: a history is no
// reason for an error.
class PromptHistory {
 public:
  explicit PromptHistory(std::string file) : file_(std::move(file)) {}

  // The last kHistoryEntries, oldest first. Shortens a file that has grown.
  std::vector<std::string> Load() const;
  void Add(const std::string& entry) const;

 private:
  std::string file_;  // empty: none
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_PROMPT_HISTORY_H_
