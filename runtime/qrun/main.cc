// qrun: run a .qbin artifact. stdout carries only the product; everything else goes to stderr.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "runtime/base/build_commit.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/standard_streams.h"
#include "runtime/qrun/bundle.h"
#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

Outcome ShowVersion(const Call& call) {
  bool json = false;
  Options options("qrun --version [--json]",
                  "Says which release this is, and which commit it was built from.");
  options.Flag("--json", &json, "one JSON object");
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  const std::string commit = qrt::kBuildCommit;
  if (!json) return WriteStdout("qrun " + std::string(qrt_version()) + " (" + qrt::BuildCommitText() + ")\n");
  return WriteStdout("{\"program\": \"qrun\", \"version\": " + Quoted(qrt_version()) +
                     ", \"commit\": " + (commit.empty() ? "null" : Quoted(commit)) + ", \"api\": \"" +
                     std::to_string(QRT_API_MAJOR) + "." + std::to_string(QRT_API_MINOR) + "\"}\n");
}

// A word in the place of the model that is no file, but nearly a command.
Outcome RefuseMistypedCommand(const std::string& word, bool in_bundle) {
  if (word.empty() || word[0] == '-' || access(word.c_str(), F_OK) == 0) return Outcome();
  std::vector<std::string> names;
  for (const Command& command : Commands()) {
    if (command.takes_model || !in_bundle) names.push_back(command.name);
  }
  const std::string nearest = qrt::NearestName(word, names);
  if (nearest.empty()) return Outcome();
  return Outcome::Fail(kExitUsage, 101, "there is no command " + word,
                       "usage: qrun [COMMAND] MODEL [OPTION...]", "did you mean " + nearest + "?");
}

Outcome Main(std::vector<std::string> arguments) {
  if (!qrt::FillStandardStreams()) {
    return Outcome::Fail(kExitResources, 6002,
                         "a standard stream is closed, and /dev/null cannot be opened in its place", "",
                         "leave the standard streams open");
  }
  InstallBusErrorHandler();
  std::string bundle;
  QRUN_RETURN_IF_ERROR(FindOwnBundle(&bundle));
  if (arguments.empty() && bundle.empty()) {
    return Outcome::Fail(kExitUsage, 101, "no model is named", "usage: qrun [COMMAND] MODEL [OPTION...]",
                         "qrun --help lists commands");
  }
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (first == "--help" || first == "-h" || first == "help") return WriteStdout(Help(bundle));
  if (first == "--version") {
    return ShowVersion({{arguments.begin() + 1, arguments.end()}});
  }
  for (const Command& command : Commands()) {
    if (first != command.name || (!bundle.empty() && !command.takes_model)) continue;
    arguments.erase(arguments.begin());
    return command.run({arguments, nullptr, bundle});
  }
  QRUN_RETURN_IF_ERROR(RefuseMistypedCommand(first, !bundle.empty()));
  return RunChat({arguments, nullptr, bundle});
}

// Where there is no memory for a static object, or even for the exception that says so. The library and this
// program catch all others.
[[noreturn]] void OnTerminate() {
  bool short_of_memory = false;
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      short_of_memory = true;
    } catch (...) {
    }
  } else {
    void* memory = std::malloc(1 << 12);
    short_of_memory = memory == nullptr;
    std::free(memory);
  }
  std::fputs(short_of_memory
                 ? "qrun: error: out of memory [Q6001]\n"
                 : "qrun: error: something ended qrun that it does not expect of itself [Q9001]\n",
             stderr);
  _exit(short_of_memory ? kExitResources : kExitInternal);
}

// Ahead of the constructors of static objects, of which CLI11 has some that allocate.
__attribute__((constructor(101))) void InstallTerminate() {
  std::set_terminate(OnTerminate);
}

}  // namespace

}  // namespace qrun

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of the file size: writing fails with EFBIG, which is told
  try {
    const qrun::Outcome outcome = qrun::Main(std::vector<std::string>(argv + 1, argv + argc));
    std::fputs(outcome.Text().c_str(), stderr);
    return qrun::Interrupts::ExitCode(outcome.exit_code());
  } catch (const std::bad_alloc&) {
    std::fputs("qrun: error: out of memory [Q6001]\n", stderr);
    return qrun::kExitResources;
  } catch (const std::exception& exception) {
    const qrun::Outcome outcome = qrun::Outcome::Fail(qrun::kExitInternal, 9001, exception.what());
    std::fputs(outcome.Text().c_str(), stderr);
    return outcome.exit_code();
  }
}
