// What a command needs of the process: clock, memory use, files, interrupts.
#ifndef RUNTIME_QRUN_PROCESS_H_
#define RUNTIME_QRUN_PROCESS_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/include/qrt/qrt.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// Monotonic clock.
double Seconds();
// Largest resident size of this process so far.
uint64_t PeakRssBytes();

// A whole file ("-": standard input). Errors: input refused.
Outcome ReadFile(const std::string& path, std::string* out);
// Standard input to its end; stops early with exit 130 when interrupted.
Outcome ReadStdin(std::string* out);
// One line without its newline. False at the end of input or when interrupted.
bool ReadLine(std::string* line);

// Writes to stdout at once. Errors: resources (disk full, ...), and ReaderLeft for a closed pipe: the command
// ends silently, but for what it owes apart from stdout.
Outcome WriteStdout(std::string_view bytes);

// "qrun: warning: ..." on stderr.
void Warn(const std::string& text);

// A file that appears under its name only when it is whole: written beside it, synced, renamed. Targets that
// are no regular files (a pipe, /dev/null) are written directly; "-" is stdout. Errors: as of WriteStdout.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();  // removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Outcome Open(const std::string& path);
  Outcome Write(const void* bytes, size_t size);
  Outcome Commit();

 private:
  Outcome Failed(const char* what) const;
  std::string path_;
  std::string temporary_;  // empty: direct
  FILE* file_ = nullptr;
};

// Ctrl-C: the first interrupt only sets a flag and cancels the watched session; a second one before the flag
// is taken ends the process with 130.
class Interrupts {
 public:
  Interrupts();   // installs the handler
  ~Interrupts();  // puts the old one back
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The session to cancel; nullptr: none.
  static void Watch(qrt_session* session);
  static bool Pending();
  // Clears the flag; true if it was set.
  static bool Take();
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_PROCESS_H_
