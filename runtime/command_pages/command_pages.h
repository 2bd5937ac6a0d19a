// Manual pages and shell completion of a command line. Who has one fills a CommandPage from what --help is
// made of, so that pages and scripts know what --help knows.
#ifndef RUNTIME_COMMAND_PAGES_COMMAND_PAGES_H_
#define RUNTIME_COMMAND_PAGES_COMMAND_PAGES_H_

#include <string>
#include <string_view>
#include <vector>

namespace qrt {

struct OptionPage {
  std::vector<std::string> names;  // "-o", "--output"; none: a positional argument
  std::string value;               // "FILE", "int8|f32"; empty: a switch
  bool bare = false;               // may stand without its value
  std::string about;
  std::vector<std::string> words;  // the values that shells offer; empty: files
  std::string group;               // the heading in --help
  bool or_file = false;            // besides words it may be a file
};

// A command or subcommand.
struct CommandPage {
  std::string name;  // "qcc compile"
  std::string about;
  std::string synopsis;     // behind the name; empty: made of options and subcommands
  std::string description;  // in sentences; empty: `about` says it all
  std::string footer;       // of the whole
  std::vector<OptionPage> options;
  std::vector<CommandPage> subcommands;
};

// The page of `name` ("qcc compile") in a tree; null: there is none.
const CommandPage* FindPage(const CommandPage& tree, std::string_view name);

// roff source, section 1. `version` stands in the footer.
std::string ManualPage(const CommandPage& page, const std::string& version);

// Scripts that a shell reads. Options that take a file or a folder complete names of files.
std::string BashCompletion(const CommandPage& tree);
std::string ZshCompletion(const CommandPage& tree);
std::string FishCompletion(const CommandPage& tree);

struct CompletedShell {
  std::string_view name;
  std::string (*script)(const CommandPage& tree);
};
inline constexpr CompletedShell kCompletedShells[] = {
    {"bash", BashCompletion}, {"zsh", ZshCompletion}, {"fish", FishCompletion}};

}  // namespace qrt

#endif  // RUNTIME_COMMAND_PAGES_COMMAND_PAGES_H_
