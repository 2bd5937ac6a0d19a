// What qcc says: errors and progress on stderr, the product on stdout. How it ends: exit codes.
#ifndef QCC_COMPILER_DRIVER_CONSOLE_H_
#define QCC_COMPILER_DRIVER_CONSOLE_H_

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "compiler/pipeline/options.h"

namespace qcc::compiler {

// Exit codes of qcc and qrun. Stable.
enum class Exit : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kInputRefused = 3,
  kArtifactRefused = 4,
  kDevice = 5,
  kMemoryOrDisk = 6,
  kInterrupted = 130,
};

// By the code's first digit: Q0 usage, Q1 to Q3 input, Q4 artifact, Q5 device, Q6 memory or disk; without
// code by the status code (cancelled, out of memory), else internal.
Exit ExitOf(const absl::Status& status);

// "qcc: error: <what> [Q1203]\n  note: <where>\n  help: <what to do>\n". Control characters of the parts are
// escaped: they may come from a file.
std::string FormatError(const absl::Status& status);

// 1536 -> "1.5 KiB".
std::string HumanBytes(uint64_t bytes);

// Stages on stderr: on a terminal a line that updates itself, otherwise one line when a stage ends (verbose:
// and one when it begins).
class ConsoleProgress final : public ProgressSink {
 public:
  // `interrupted` is read, never written; it becomes non-zero when the user wants to stop.
  ConsoleProgress(std::FILE* err, std::FILE* out, bool terminal, int verbosity,
                  const volatile std::sig_atomic_t* interrupted);
  ~ConsoleProgress() override;  // ends an open line: an error has one of its own
  ConsoleProgress(const ConsoleProgress&) = delete;
  ConsoleProgress& operator=(const ConsoleProgress&) = delete;

  void BeginStage(int index, int count, std::string_view name) override;
  void Progress(uint64_t done, uint64_t total, std::string_view unit) override;
  void EndStage(std::string_view summary) override;
  void Warning(std::string_view text) override;
  void Report(std::string_view text) override;
  bool Interrupted() const override;

 private:
  using Clock = std::chrono::steady_clock;
  void ClearLine();

  std::FILE* err_;
  std::FILE* out_;
  bool terminal_;
  int verbosity_;
  const volatile std::sig_atomic_t* interrupted_;
  int index_ = 0, count_ = 0;
  std::string name_;
  Clock::time_point began_, drawn_;
  bool line_open_ = false;
};

// The same for programs: one JSON object a line on stderr, each with `event` (docs/reference/cli-qcc.md). A
// stage has a line for each whole percent at most.
class JsonProgress final : public ProgressSink {
 public:
  // As of ConsoleProgress; quiet shows nothing.
  JsonProgress(std::FILE* err, std::FILE* out, int verbosity, const volatile std::sig_atomic_t* interrupted);

  void BeginStage(int index, int count, std::string_view name) override;
  void Progress(uint64_t done, uint64_t total, std::string_view unit) override;
  void EndStage(std::string_view summary) override;
  void Warning(std::string_view text) override;
  void Report(std::string_view text) override;
  bool Interrupted() const override;

 private:
  using Clock = std::chrono::steady_clock;

  std::FILE* err_;
  std::FILE* out_;
  bool quiet_;
  const volatile std::sig_atomic_t* interrupted_;
  int index_ = 0, count_ = 0, percent_ = 0;
  std::string name_;
  Clock::time_point began_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_CONSOLE_H_
