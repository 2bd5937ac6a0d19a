// qrun: run a .qbin artifact. stdout carries only the product; everything else goes to stderr.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "runtime/qrun/bundle.h"
#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr struct {
  const char* name;
  Outcome (*run)(const std::vector<std::string>&);
  const char* about;
} kCommands[] = {
    {"chat", RunChat, "chat, or answer one prompt; the word may be left out"},
    {"logits", RunLogits, "write the logits of every position of a token sequence"},
    {"perplexity", RunPerplexity, "measure how well the model predicts a text"},
    {"tokenize", RunTokenize, "print the token ids of a text"},
    {"bench", RunBench, "measure prefill and decode speed"},
    {"check", RunCheck, "verify every hash of an artifact, and its golden values on this machine"},
    {"devices", RunDevices, "say what this machine has, and which code of an artifact it can run"},
};

// `bundle`: this program's own file if it carries a model, else empty.
std::string Help(const std::string& bundle) {
  const std::string name = bundle.substr(bundle.rfind('/') + 1);
  std::string text =
      bundle.empty()
          ? "usage: qrun [COMMAND] MODEL.qbin [OPTION...]\n\nRuns a model that qcc compiled. "
          : "usage: " + OneLine(name) +
                " [COMMAND] [OPTION...]\n\nRuns the model that this file carries (MODEL.qbin in the help of "
                "commands).\n";
  text +=
      "Without a command: chat on a terminal; otherwise the prompt is read from\n"
      "-p, -f or standard input, and the answer is written to standard output.\n\n";
  for (const auto& command : kCommands) {
    const std::string name = command.name;
    text += "  " + name + std::string(12 - name.size(), ' ') + command.about + "\n";
  }
  text +=
      "\n  qrun COMMAND --help lists a command's options (qrun chat --help: those of chatting)\n"
      "  qrun --version\n\n"
      "Exit codes: 0 ok, 1 internal error, 2 usage, 3 input refused, 4 artifact refused, 5 device "
      "unavailable,\n"
      "6 out of memory or disk, 130 interrupted (143 by SIGTERM, 129 by SIGHUP).\n";
  return text;
}

Outcome Main(std::vector<std::string> arguments) {
  QRUN_RETURN_IF_ERROR(FillStandardStreams());
  InstallBusErrorHandler();
  std::string bundle;
  QRUN_RETURN_IF_ERROR(FindOwnBundle(&bundle));
  if (arguments.empty() && bundle.empty()) {
    return Outcome::Fail(kExitUsage, 101, "no model is named", "usage: qrun [COMMAND] MODEL.qbin [OPTION...]",
                         "qrun --help lists commands");
  }
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (first == "--help" || first == "-h" || first == "help") return WriteStdout(Help(bundle));
  if (first == "--version") return WriteStdout("qrun " + std::string(qrt_version()) + "\n");
  for (const auto& command : kCommands) {
    if (first != command.name) continue;
    arguments.erase(arguments.begin());
    if (!bundle.empty()) arguments.insert(arguments.begin(), bundle);
    return command.run(arguments);
  }
  if (!bundle.empty()) arguments.insert(arguments.begin(), bundle);
  return RunChat(arguments);
}

// Where there is no memory even for the exception that says so. The library and this program catch all
// others.
[[noreturn]] void OnTerminate() {
  void* memory = std::current_exception() == nullptr ? std::malloc(1 << 12) : nullptr;
  const bool short_of_memory = std::current_exception() == nullptr && memory == nullptr;
  std::free(memory);
  std::fputs(short_of_memory
                 ? "qrun: error: out of memory [Q6001]\n"
                 : "qrun: error: something ended qrun that it does not expect of itself [Q9001]\n",
             stderr);
  _exit(short_of_memory ? kExitResources : kExitInternal);
}

}  // namespace

Outcome ParseOrHelp(Options& options, const std::vector<std::string>& arguments, bool* done) {
  QRUN_RETURN_IF_ERROR(options.Parse(arguments));
  *done = options.help_wanted();
  return *done ? WriteStdout(options.Help()) : Outcome();
}

}  // namespace qrun

int main(int argc, char** argv) {
  std::set_terminate(qrun::OnTerminate);
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
