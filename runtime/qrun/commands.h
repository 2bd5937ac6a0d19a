// The subcommands.
#ifndef RUNTIME_QRUN_COMMANDS_H_
#define RUNTIME_QRUN_COMMANDS_H_

#include <span>
#include <string>
#include <vector>

#include "runtime/command_pages/command_pages.h"
#include "runtime/qrun/options.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// With arguments, or only to learn what a command takes.
struct Call {
  std::vector<std::string> arguments;  // behind the command's name
  qrt::CommandPage* page = nullptr;    // takes the description; nothing is run then
  std::string bundle = "";             // MODEL where none is named; empty: none
};

struct Command {
  const char* name;
  Outcome (*run)(const Call& call);
  const char* about;
  bool takes_model = true;  // a bundle has one itself
};
std::span<const Command> Commands();

// `qrun model.qbin ...`: chat on a terminal, else one answer.
Outcome RunChat(const Call& call);
Outcome RunLogits(const Call& call);
Outcome RunPerplexity(const Call& call);
Outcome RunTokenize(const Call& call);
Outcome RunBench(const Call& call);
Outcome RunCheck(const Call& call);
Outcome RunDevices(const Call& call);
Outcome RunManual(const Call& call);
Outcome RunCompletion(const Call& call);

// `qrun --help`. `bundle`: this program's own file if it carries a model, else empty.
std::string Help(const std::string& bundle);

// Parses; when help is wanted, prints it to stdout and sets *done, as it does where the call wants a page.
Outcome ParseOrHelp(Options& options, const Call& call, bool* done);

}  // namespace qrun

#endif  // RUNTIME_QRUN_COMMANDS_H_
