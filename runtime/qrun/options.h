// Command-line options of one subcommand: a table, parsed strictly.
#ifndef RUNTIME_QRUN_OPTIONS_H_
#define RUNTIME_QRUN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/qrun/outcome.h"

namespace qrun {

// Accepts `--name value`, `--name=value`, `-x value`, `-xvalue`; `--` ends the options. Every option may be
// given once.
class Options {
 public:
  // `synopsis`: the line after "usage: "; `about`: what the command does.
  Options(std::string synopsis, std::string about)
      : synopsis_(std::move(synopsis)), about_(std::move(about)) {}

  // Targets must outlive Parse. `names`: "-t, --threads". `help` may have several lines.
  void Flag(std::string names, bool* target, std::string help);
  void Text(std::string names, std::string value, std::optional<std::string>* target, std::string help);
  void Integer(std::string names, std::string value, int64_t low, int64_t high,
               std::optional<int64_t>* target, std::string help);
  void Number(std::string names, std::string value, double low, double high, std::optional<double>* target,
              std::string help);
  // One of a few words. With `optional_value` (not empty) the option may stand without "=WORD" and means that
  // word.
  void Word(std::string names, std::vector<std::string> words, std::string optional_value,
            std::optional<std::string>* target, std::string help);
  // A required argument that is not an option.
  void Positional(std::string name, std::optional<std::string>* target, std::string help);

  // Errors: usage, naming the option. `--help` and `-h` only set help_wanted().
  Outcome Parse(const std::vector<std::string>& arguments);
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Option {
    std::string names;  // as shown
    std::vector<std::string> spellings;
    std::string value;  // name of the value; empty: a flag
    std::string bare;   // value when none is given; empty: one is needed
    std::string help;
    std::function<std::string(const std::string&)> set;  // returns what was expected, empty when fine
    bool seen = false;
  };
  struct Place {
    std::string name;
    std::optional<std::string>* target;
    std::string help;
  };

  Option& Add(std::string names, std::string value, std::string help);
  Option* Find(std::string_view spelling);
  Outcome Usage(std::string message) const;
  Outcome Set(Option& option, const std::string& spelling, const std::string& value);

  std::string synopsis_;
  std::string about_;
  std::vector<Option> options_;
  std::vector<Place> places_;
  bool help_wanted_ = false;
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_OPTIONS_H_
