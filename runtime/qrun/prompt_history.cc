#include "runtime/qrun/prompt_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  // of a file that is believed to be a history

std::string Escaped(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line + "\n";
}

std::string Unescaped(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      entry += line[i];
    } else {
      entry += line[++i] == 'n' ? '\n' : line[i];
    }
  }
  return entry;
}

void MakeFolders(const std::string& file) {
  for (size_t at = file.find('/', 1); at != std::string::npos; at = file.find('/', at + 1)) {
    mkdir(file.substr(0, at).c_str(), 0700);
  }
}

bool WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void Replace(const std::string& file, const std::vector<std::string>& entries) {
  const std::string temporary = file + ".tmp-" + std::to_string(getpid());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  std::string text;
  for (const std::string& entry : entries) text += Escaped(entry);
  const bool whole = WriteAll(descriptor, text);
  if (close(descriptor) != 0 || !whole || std::rename(temporary.c_str(), file.c_str()) != 0) {
    unlink(temporary.c_str());
  }
}

}  // namespace

std::string UsualHistoryFile() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/qcc/history";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/state/qcc/history" : "";
}

std::vector<std::string> PromptHistory::Load() const {
  std::string text;
  if (file_.empty() || !ReadFile(file_, kMostBytes, &text).ok()) return {};
  std::vector<std::string> entries;
  size_t lines = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end != at) entries.push_back(Unescaped(std::string_view(text).substr(at, end - at)));
    at = end + 1;
    ++lines;
  }
  if (entries.size() > kHistoryEntries) entries.erase(entries.begin(), entries.end() - kHistoryEntries);
  if (lines > 2 * kHistoryEntries) Replace(file_, entries);
  return entries;
}

void PromptHistory::Add(const std::string& entry) const {
  if (file_.empty() || entry.size() > kHistoryEntryBytes) return;
  MakeFolders(file_);
  const int descriptor = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor < 0) return;
  struct stat info;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
    fchmod(descriptor, 0600);
    WriteAll(descriptor, Escaped(entry));
  }
  close(descriptor);
}

}  // namespace qrun
