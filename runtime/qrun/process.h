// What a command needs of the process: clock, memory use, files, interrupts.
#ifndef RUNTIME_QRUN_PROCESS_H_
#define RUNTIME_QRUN_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/temporary_name.h"
#include "runtime/include/qrt/qrt.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// Monotonic clock.
double Seconds();
// Largest resident size of this process so far.
uint64_t PeakRssBytes();

// For `main`, before there are threads: where a mapped file is cut short, the kernel sends SIGBUS. The
// process then says which file it was, removes what has a temporary name, and exits with kExitArtifact
// (Q4025). A SIGBUS elsewhere is a crash as before.
void InstallBusErrorHandler();

// Text to be read, a whole file ("-": standard input), at most kMaxTextBytes: a device may have no end.
// Errors: input refused.
inline constexpr size_t kMaxTextBytes = size_t{256} << 20;  // what the library tokenizes at once
Outcome ReadText(const std::string& path, std::string* out);
// A whole regular file ("-": standard input) of at most `most` bytes: a pipe might have no writer. Errors:
// input refused.
Outcome ReadFile(const std::string& path, size_t most, std::string* out);
// Standard input to its end; stops early with exit 130 when interrupted.
Outcome ReadStdin(std::string* out);
// For signal handlers. A signal to the process may come to any thread that lets it in, and a graphics
// driver's threads may: the waits of the main thread, which hold it back until they can be ended, would miss
// it there. True: this is not the main thread, which gets the signal.
bool HandedToMainThread(int signal);
// read() that an interrupt ends with EINTR even if it comes just before. So does `event`, where there is one:
// what a handler of SIGCONT or SIGTSTP sets.
ssize_t ReadOrInterrupt(int descriptor, void* buffer, size_t size, const std::atomic<bool>* event = nullptr);
// One line without its newline. False at the end of input or when interrupted.
bool ReadLine(std::string* line);

// All of it. False with errno; EINTR: an interrupt came while nobody read. What need not wait is written
// after one, too.
bool WriteOrInterrupt(int descriptor, std::string_view bytes);
// Writes to stdout at once. Errors: resources (disk full, ...); ReaderLeft for a closed pipe: the command
// ends silently, but for what it owes apart from stdout; silent exit 130 where an interrupt comes while
// nobody reads.
Outcome WriteStdout(std::string_view bytes);

// "qrun: WHAT,  42 %" on stderr where that is a terminal, on one line that is drawn anew. A line that is left
// unfinished ends with the object, so that what is said next begins one of its own.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)) {}  // empty: shows nothing
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void Show(uint64_t done, uint64_t total);

 private:
  std::string what_;
  bool open_ = false;
};

// The number of an error of writing: is the disk full, or is it something else?
uint32_t WriteErrorNumber(int reason);

// Refuses an output of `option` that is the file of an input ("the model"), by whatever name: it would
// replace it. Errors: usage.
Outcome RefuseInput(const std::string& option, const std::string& output, const std::string& what,
                    const std::string& input);

// A file that appears under its name only when it is whole: written beside it, synced, renamed. Errors: usage
// where it cannot be (Q0103), else as of WriteStdout.
class OutputFile {
 public:
  enum class Kind {
    kProduct,  // targets that are no regular files (a pipe, /dev/null) are written directly; "-" is stdout
    kPrivate,  // a regular file, for its user alone
  };

  OutputFile() = default;
  ~OutputFile();  // removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Outcome Open(const std::string& path, Kind kind = Kind::kProduct);
  Outcome Write(const void* bytes, size_t size);
  Outcome Commit();

 private:
  Outcome Failed(const char* what) const;
  Outcome Refused(const std::string& why) const;
  Outcome OpenDescriptor(const std::string& name, int flags);
  std::string path_;
  std::string temporary_;
  std::optional<qrt::TemporaryName> name_;  // while temporary_ exists; none: written directly
  bool private_ = false;
  int descriptor_ = -1;
};

// Fails where an output could not be written later, so that nothing is computed for it. Errors: as of
// OutputFile.
Outcome CheckWritable(const std::string& path, OutputFile::Kind kind);

// Ctrl-C (SIGINT), and the wish that qrun ends (SIGTERM, SIGHUP): a signal only sets a flag and cancels the
// watched session, so that what is asked for is still saved and nothing half-written stays. A Ctrl-C more
// than half a second later, before the flag is taken, ends the process at once.
class Interrupts {
 public:
  static constexpr size_t kHandled = 3;  // signals
  // Installs the handler; a signal that is ignored stays so (nohup(1) does it, and a shell with SIGINT for
  // what a script runs in the background).
  Interrupts();
  ~Interrupts();  // puts the old ones back
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The session to cancel, at once if a signal came already; nullptr: none.
  static void Watch(qrt_session* session);
  static bool Pending();
  // True if a signal came. Clears Ctrl-C, which ends one answer; the wish to end stays.
  static bool Take();
  // `exit`, or 128 plus the signal where that made it kExitInterrupted.
  static int ExitCode(int exit);

 private:
  struct sigaction previous_[kHandled];
};

// While there is one, the first signal ends the process with its exit code: for work that cannot be stopped
// and of which nothing is kept. Within the life of an Interrupts.
class EndAtOnce {
 public:
  EndAtOnce();
  ~EndAtOnce();
  EndAtOnce(const EndAtOnce&) = delete;
  EndAtOnce& operator=(const EndAtOnce&) = delete;
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_PROCESS_H_
