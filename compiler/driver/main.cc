// qcc: GGUF in, .qbin out. Parses the command line, runs one subcommand, turns its status into text and an
// exit code.
#include <poll.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "compiler/artifact/output_file.h"
#include "compiler/driver/command_line.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/ending.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/base/build_commit.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/standard_streams.h"

namespace qcc::compiler {
namespace {

// Written by the signal handler, read through Cli::interrupted.
volatile std::sig_atomic_t g_interrupted = 0;
std::atomic<int64_t> g_first_signal_ms = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler may not lock");

// One request to stop may come as several signals: timeout(1) sends one to the process and one to its group.
constexpr int64_t kOneRequestMs = 500;
constexpr unsigned kAgainSeconds = 1;

// The first signal asks the compiler to stop at the next safe point, where it removes what it has written. A
// second one ends it at once: an output that has no name yet goes with the process (OutputFile), and what has
// a temporary one is removed. Everything in here is async-signal-safe.
void OnSignal(int) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  if (g_interrupted == 0) {
    g_first_signal_ms = ms;
    g_interrupted = 1;
    alarm(kAgainSeconds);
  } else if (ms - g_first_signal_ms > kOneRequestMs) {
    RemoveTemporaries();
    _exit(static_cast<int>(Exit::kInterrupted));
  }
}

// A write to a reader who does not read ends with the signal that comes while it waits, not with one that
// came just before.
void OnAlarm(int) {
  alarm(kAgainSeconds);
}

void InstallSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    // nohup(1), and a shell for SIGINT of what runs in the background, want it to go on.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  action.sa_handler = OnAlarm;
  sigaction(SIGALRM, &action, nullptr);
  // A closed pipe or a size limit shows as a failed write, which is reported like every other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// Whoever read the standard output through a pipe has gone: `qcc inspect ... | head`.
bool ReaderLeft() {
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

constexpr int kDiffers = 1;  // of `qcc diff`, which says nothing on standard error then

int Finish(const absl::Status& status) {
  if (!status.ok()) {
    // Cancelled by the user: no error to explain.
    if (ExitOf(status) == Exit::kInterrupted) {
      std::fputs("\nqcc: interrupted\n", stderr);
    } else {
      std::fputs(FormatError(status).c_str(), stderr);
    }
    return static_cast<int>(ExitOf(status));
  }
  // Where a write failed before, nothing has failed since: errno is still that of it.
  if (std::ferror(stdout) != 0 || std::fflush(stdout) != 0) {
    const int error = errno;
    if (ReaderLeft()) return 0;  // it has what it wanted
    if (error == EINTR && g_interrupted != 0) {
      __fpurge(stdout);  // nobody reads: the end of the process would wait, too
      return Finish(absl::CancelledError("interrupted"));
    }
    return Finish(WriteError(error, "cannot write to the standard output", "", ""));
  }
  return 0;
}

// The name that may have been meant by `word`, which `chosen`, the innermost command, does not know; empty:
// none is near.
std::string Suggestion(const CLI::App& app, const CLI::App& chosen, const std::string& word) {
  std::vector<std::string> names;
  if (word[0] == '-') {
    for (const CLI::App* level : {&chosen, &app}) {
      for (const CLI::Option* option : level->get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      }
    }
  } else {
    for (const CLI::App* command : chosen.get_subcommands({})) names.push_back(command->get_name());
  }
  return qrt::NearestName(word, names);
}

absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* chosen = &app;
  std::string command = "qcc";
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    command += " " + chosen->get_name();
  }
  std::vector<std::string> unknown = app.remaining(true);
  // What stands behind `--` is an argument, whatever it looks like.
  const bool arguments = !unknown.empty() && unknown.front() == "--";
  if (arguments) unknown.clear();
  std::string what = error.what(), nearest;
  if (!unknown.empty() && !unknown.front().empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const bool option = word[0] == '-';
    if (option || !chosen->get_subcommands({}).empty()) {
      what = (option ? "unknown option " : "there is no command ") + word;
    }
    nearest = Suggestion(app, *chosen, word);
    // A pattern of a shell names all shards of a model.
    if (!option && word.ends_with(".gguf") && chosen->get_name() == "compile") {
      return MakeError(
          "Q0101", "more than one model is named: " + word, "",
          "one at a time; of a model in several files name the first, the others are found beside it");
    }
  }
  return MakeError("Q0101", what, "",
                   (nearest.empty() ? "" : "did you mean " + nearest + "? ") + command + " --help");
}

// What `qcc --version --json` prints; the commit is null where it was built outside a repository.
void PrintVersionJson() {
  using nlohmann::ordered_json;
  const std::string commit = qrt::kBuildCommit;
  ordered_json targets = ordered_json::array();
  for (const TargetInfo& target : Targets()) targets.push_back(std::string(target.name));
  PrintJson({{"program", "qcc"},
             {"version", ReleaseVersion()},
             {"llvm", LlvmVersion()},
             {"commit", commit.empty() ? ordered_json() : ordered_json(commit)},
             {"targets", targets}});
}

// The same for people.
std::string VersionText() {
  std::string text = Concat(CompilerVersion(), " (", qrt::BuildCommitText(), "), targets:");
  for (const TargetInfo& target : Targets()) text += " " + std::string(target.name);
  return text;
}

int Main(int argc, char** argv) {
  if (!qrt::FillStandardStreams()) {
    return Finish(MakeError("Q6002",
                            "a standard stream is closed, and /dev/null cannot be opened in its place", "",
                            "leave the standard streams open"));
  }
  InstallEndings();
  InstallSignals();
  Cli cli;
  cli.interrupted = &g_interrupted;
  CLI::App app("Ahead-of-time compiler for language models: GGUF in, one .qbin artifact out.", "qcc");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(0, 1);  // none is reported below: a mistyped one is then named
  app.fallthrough();
  app.add_flag("-q,--quiet", cli.quiet, "only errors");
  app.add_flag("-v,--verbose", cli.verbose, "also what was asked for, and each step");
  app.footer(
      "Run qcc COMMAND --help for the options of a command.\nExit codes: 0 ok, 1 internal error, 2 usage, 3 "
      "input "
      "refused, 4 artifact refused, 5 device, 6 memory or disk, 130 interrupted.");
  AddCompile(app, cli);
  AddCache(app, cli);
  AddInspect(app, cli);
  AddDiff(app, cli);
  AddVerify(app, cli);
  AddBundle(app, cli);
  AddTargets(app, cli);
  AddExplain(app, cli);
  AddEval(app, cli);
  AddSynth(app, cli);
  AddCompletion(app, cli);
  AddManual(app, cli);
  absl::StatusOr<std::vector<std::string>> words = SpellOut(app, {argv + std::min(argc, 1), argv + argc});
  if (!words.ok()) return Finish(words.status());
  if (std::set<std::string>(words->begin(), words->end()) == std::set<std::string>{"--version", "--json"}) {
    PrintVersionJson();
    return Finish(absl::OkStatus());
  }
  std::reverse(words->begin(), words->end());  // as CLI11 wants them
  try {
    app.parse(*std::move(words));
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
    return Finish(absl::OkStatus());
  } catch (const CLI::ParseError& error) {
    return Finish(UsageError(app, error));
  }
  if (!cli.run) return Finish(MakeError("Q0101", "a command is required", "", "qcc --help"));
  const int exit = Finish(cli.run());
  return exit == 0 && cli.differs ? kDiffers : exit;
}

}  // namespace

}  // namespace qcc::compiler

// The only place that catches: Abseil and MLIR are built without exceptions, so what arrives here is the
// standard library's.
int main(int argc, char** argv) {
  try {
    return qcc::compiler::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    qcc::compiler::EndOutOfMemory();
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && qcc::compiler::IsShortage(system->code())) qcc::compiler::EndOutOfMemory();
    std::fprintf(stderr, "qcc: error: %s [Q9001]\n  help: this is a bug in qcc; please report it\n",
                 error.what());
    return static_cast<int>(qcc::compiler::Exit::kInternal);
  }
}
