// The subcommands. Each takes the arguments after its name.
#ifndef RUNTIME_QRUN_COMMANDS_H_
#define RUNTIME_QRUN_COMMANDS_H_

#include <string>
#include <vector>

#include "runtime/qrun/options.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// `qrun model.qbin ...`: chat on a terminal, else one answer.
Outcome RunChat(const std::vector<std::string>& arguments);
Outcome RunLogits(const std::vector<std::string>& arguments);
Outcome RunPerplexity(const std::vector<std::string>& arguments);
Outcome RunTokenize(const std::vector<std::string>& arguments);
Outcome RunBench(const std::vector<std::string>& arguments);
Outcome RunCheck(const std::vector<std::string>& arguments);
Outcome RunDevices(const std::vector<std::string>& arguments);

// Parses; when help is wanted, prints it to stdout and sets *done.
Outcome ParseOrHelp(Options& options, const std::vector<std::string>& arguments, bool* done);

}  // namespace qrun

#endif  // RUNTIME_QRUN_COMMANDS_H_
