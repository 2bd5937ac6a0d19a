// What tells about all commands: --help, `qrun man`, `qrun completion`.
#include "runtime/command_pages/command_pages.h"

#include "runtime/include/qrt/qrt.h"
#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr char kRuns[] = "Runs a model: an artifact of qcc, or a GGUF, which qcc compiles at first use. ";
constexpr char kWithoutCommand[] =
    "Without a command: chat on a terminal; otherwise the prompt is read from\n"
    "-p, -f or standard input, and the answer is written to standard output.\n";
constexpr char kExitCodes[] =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 input refused, 4 artifact refused, 5 device "
    "unavailable,\n"
    "6 out of memory or disk, 130 interrupted (143 by SIGTERM, 129 by SIGHUP).\n";

// Of qrun itself and of every command. Without a command the options are those of chatting.
Outcome PagesOfQrun(qrt::CommandPage* tree) {
  tree->name = "qrun";
  tree->about = "run a language model that qcc compiled";
  QRUN_RETURN_IF_ERROR(RunChat({{}, tree}));
  tree->options.push_back(
      {{"--version"}, "", false, "release and commit; with --json one JSON object", {}, "Options"});
  tree->synopsis = "[COMMAND] " + tree->synopsis;
  tree->description = std::string(kRuns) + kWithoutCommand;
  tree->footer += "\n" + std::string(kExitCodes);
  for (const Command& command : Commands()) {
    qrt::CommandPage page;
    page.name = tree->name + " " + command.name;
    page.about = command.about;
    QRUN_RETURN_IF_ERROR(command.run({{}, &page}));
    tree->subcommands.push_back(std::move(page));
  }
  return Outcome();
}

}  // namespace

std::string Help(const std::string& bundle) {
  std::string text =
      bundle.empty()
          ? "usage: qrun [COMMAND] MODEL [OPTION...]\n\n" + std::string(kRuns)
          : "usage: " + OneLine(bundle.substr(bundle.rfind('/') + 1)) +
                " [COMMAND] [OPTION...]\n\nRuns the model that this file carries (MODEL in the help of "
                "commands).\n";
  text += std::string(kWithoutCommand) + "\n";
  for (const Command& command : Commands()) {
    if (!bundle.empty() && !command.takes_model) continue;
    const std::string name = command.name;
    text += "  " + name + std::string(12 - name.size(), ' ') + command.about + "\n";
  }
  text +=
      "\n  qrun COMMAND --help lists a command's options (qrun chat --help: those of chatting)\n"
      "  qrun --version [--json]\n\n";
  return text + kExitCodes;
}

Outcome RunManual(const Call& call) {
  std::optional<std::string> command;
  Options options("qrun man [COMMAND]", "Prints a manual page as man reads it: qrun man bench | man -l -");
  options.Positional("COMMAND", &command, "the command; none: of qrun itself", false);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  qrt::CommandPage tree;
  QRUN_RETURN_IF_ERROR(PagesOfQrun(&tree));
  const qrt::CommandPage* page = qrt::FindPage(tree, tree.name + (command ? " " + *command : ""));
  if (page == nullptr) {
    return Outcome::Fail(kExitUsage, 101, "there is no command " + *command, "usage: qrun man [COMMAND]",
                         "qrun --help lists commands");
  }
  return WriteStdout(qrt::ManualPage(*page, "qrun " + std::string(qrt_version())));
}

Outcome RunCompletion(const Call& call) {
  std::optional<std::string> shell;
  std::string shells;
  std::vector<std::string> names;
  for (const qrt::CompletedShell& known : qrt::kCompletedShells) {
    names.emplace_back(known.name);
    shells += (shells.empty() ? "" : "|") + names.back();
  }
  Options options("qrun completion " + shells, "Prints a script that completes qrun's command line.");
  options.Positional("SHELL", &shell, "one of " + shells, true, names);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  for (const qrt::CompletedShell& known : qrt::kCompletedShells) {
    if (known.name != *shell) continue;
    qrt::CommandPage tree;
    QRUN_RETURN_IF_ERROR(PagesOfQrun(&tree));
    return WriteStdout(known.script(tree));
  }
  return Outcome::Fail(kExitUsage, 101, "the shell is \"" + *shell + "\", expected one of " + shells,
                       "usage: qrun completion " + shells, "qrun completion --help");
}

}  // namespace qrun
