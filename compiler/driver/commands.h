// The subcommands of qcc. Each function declares one on the command line; what it does when chosen is put
// into `Cli::run`.
#ifndef QCC_COMPILER_DRIVER_COMMANDS_H_
#define QCC_COMPILER_DRIVER_COMMANDS_H_

#include <CLI/App.hpp>
#include <csignal>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/driver/console.h"
#include "compiler/pipeline/options.h"

namespace qcc::compiler {

struct Cli {
  std::function<absl::Status()> run;  // of the chosen subcommand
  bool quiet = false;
  bool json = false;     // of commands that print results
  int verbose = 0;       // number of -v
  bool differs = false;  // `qcc diff` found a difference: exit code 1, as of diff and cmp
  const volatile std::sig_atomic_t* interrupted = nullptr;

  int verbosity() const { return quiet ? -1 : verbose; }
};

void AddCompile(CLI::App& app, Cli& cli);
void AddCache(CLI::App& app, Cli& cli);
void AddInspect(CLI::App& app, Cli& cli);
void AddDiff(CLI::App& app, Cli& cli);
void AddVerify(CLI::App& app, Cli& cli);
void AddBundle(CLI::App& app, Cli& cli);
void AddTargets(CLI::App& app, Cli& cli);
void AddExplain(CLI::App& app, Cli& cli);
void AddEval(CLI::App& app, Cli& cli);
void AddSynth(CLI::App& app, Cli& cli);
// After the others, of which they tell.
void AddCompletion(CLI::App& app, Cli& cli);
void AddManual(CLI::App& app, Cli& cli);

// Progress on this process's stderr, reports on its stdout. kPlain: as if stderr were no terminal.
ConsoleProgress MakeProgress(const Cli& cli, ProgressMode mode = ProgressMode::kAuto);

// The option --json of a command that prints results.
void AddJson(CLI::App& command, Cli& cli);
// For every option that is a number: decimal digits, at most `most`. CLI11 by itself takes 010 for 8, -1 of
// an unsigned type and what is too large for the largest number.
CLI::Validator Decimal(uint64_t most = std::numeric_limits<int64_t>::max());
// One object on one line of stdout. Bytes of names that are no UTF-8 become U+FFFD.
void PrintJson(const nlohmann::ordered_json& object);

// Before CheckOutput: an output takes its name by a rename, so `-` would be a file of that name, and
// /dev/stdout, where that leads to a file, would be replaced. Errors: Q0103.
absl::Status CheckNotAStream(const std::string& output);

// Prints a part of the artifact at `path`, which is not kNone, as JSON. Errors: as of reading an artifact.
absl::Status EmitPart(const std::string& path, EmittedPart part);

// Page of an error code ("Q1203", "q1203" or "1203") from docs/reference/errors.md. Errors: Q0104.
absl::StatusOr<std::string> ExplainCode(std::string_view code);

// The same of `qcc explain --json`: code, condition, help.
absl::StatusOr<nlohmann::ordered_json> ExplainCodeJson(std::string_view code);

// What `qcc targets --json` prints: cpu and gpu, each an array with the values and what they need.
nlohmann::ordered_json TargetsJson();

// What `qcc targets` prints: every value of --target, --cpu and --gpu-profiles and what it needs; marks this
// machine's level and the profiles that are built when none is named.
std::string TargetsText();

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_COMMANDS_H_
