// Manual pages and shell completion of a command line, made from its declaration: what --help knows, they
// know.
#ifndef QCC_COMPILER_DRIVER_COMMAND_PAGES_H_
#define QCC_COMPILER_DRIVER_COMMAND_PAGES_H_

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace qcc::compiler {

struct OptionPage {
  std::vector<std::string> names;  // "-o", "--output"; none: a positional argument
  std::string value;               // "FILE", "int8|f32"; empty: a switch
  std::string about;
  std::vector<std::string> words;  // the values that there are; empty: any
  std::string group;               // the heading in --help
};

// A command or subcommand.
struct CommandPage {
  std::string name;  // "qcc compile"
  std::string about;
  std::string footer;  // of the whole
  std::vector<OptionPage> options;
  std::vector<CommandPage> subcommands;
};

// The values of an option that has names, by command ("qcc compile") and long name ("--kv").
using WordsOf = std::function<std::vector<std::string>(std::string_view command, std::string_view option)>;

CommandPage DescribeCommand(const CLI::App& app, const std::string& name, const WordsOf& words);
// The page of `name` ("qcc compile") in a tree; null: there is none.
const CommandPage* FindPage(const CommandPage& tree, std::string_view name);

// roff source, section 1. `version` stands in the footer.
std::string ManualPage(const CommandPage& page, const std::string& version);

// Scripts that a shell reads. Options that take a file or a folder complete names of files.
std::string BashCompletion(const CommandPage& tree);
std::string ZshCompletion(const CommandPage& tree);
std::string FishCompletion(const CommandPage& tree);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_COMMAND_PAGES_H_
