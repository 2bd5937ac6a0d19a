// Command-line options of one subcommand: a table, parsed strictly.
#ifndef RUNTIME_QRUN_OPTIONS_H_
#define RUNTIME_QRUN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/command_pages/command_pages.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// A table over CLI11, which takes the arguments apart: `--name value`, `--name=value`, `-x value`,
// `-x=value`, `-xvalue`; `--` ends the options. Every option may be given once, but for those that say
// otherwise. Names of several letters may have one dash ("-sys"). Of a name that is none the nearest is told.
class Options {
 public:
  // `synopsis`: the line after "usage: "; `about`: what the command does.
  Options(std::string synopsis, std::string about)
      : synopsis_(std::move(synopsis)), about_(std::move(about)) {}

  // Targets must outlive Parse. `names`: "-t, --threads". `help` may have several lines.
  void Flag(std::string names, bool* target, std::string help);
  void Text(std::string names, std::string value, std::optional<std::string>* target, std::string help);
  // The same, of what has a name: not empty. Shells offer `words`, and files where there are none of them or
  // it may be one.
  void Name(std::string names, std::string value, std::optional<std::string>* target, std::string help,
            std::vector<std::string> words = {}, bool or_file = false);
  void Integer(std::string names, std::string value, int64_t low, int64_t high,
               std::optional<int64_t>* target, std::string help);
  // The same, or a word that stands for the number `meaning`.
  void IntegerOr(std::string word, int64_t meaning, std::string names, std::string value, int64_t low,
                 int64_t high, std::optional<int64_t>* target, std::string help);
  void Number(std::string names, std::string value, double low, double high, std::optional<double>* target,
              std::string help);
  // May be given several times.
  void Texts(std::string names, std::string value, std::vector<std::string>* target, std::string help);
  void Integers(std::string names, std::string value, int64_t low, int64_t high, std::vector<int64_t>* target,
                std::string help);
  // One of a few words. With `optional_value` (not empty) the option may stand without a word and means that
  // one.
  void Word(std::string names, std::vector<std::string> words, std::string optional_value,
            std::optional<std::string>* target, std::string help);
  // An argument that is not an option. An option with the same target may stand for it. `words`: those that
  // shells offer; none: files.
  void Positional(std::string name, std::optional<std::string>* target, std::string help,
                  bool required = true, std::vector<std::string> words = {});

  // Where options go that are none of these, as written: "--name=value", "--name". For RefusePassed, where
  // nobody takes them. Without this they are refused by Parse.
  void PassOn(std::vector<std::string>* target, std::string help);

  // What stands for the positional `name` where it is not given.
  void Default(const std::string& name, const std::string& value);

  // Errors: usage, naming the option. `--help` and `-h` only set help_wanted().
  Outcome Parse(const std::vector<std::string>& arguments);
  // The first that Parse passed on and that is none of `taken`, if there is one: the names of who takes them.
  Outcome RefusePassed(const std::vector<std::string>& taken = {}) const;
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;
  // What Help says, for the page of the command `page->name` ("qrun bench").
  void Describe(qrt::CommandPage* page) const;

 private:
  struct Option {
    std::string names;  // as shown
    std::vector<std::string> spellings;
    std::string value;               // name of the value; empty: a flag
    std::string bare;                // value when none is given; empty: one is needed
    std::vector<std::string> words;  // that shells offer; of Word all values there are
    bool or_file = false;            // a value may be a file besides
    std::string help;
    std::function<std::string(const std::string&)> set;  // returns what was expected, empty when fine
    bool several = false;                                // may be given more than once
  };
  struct Place {
    std::string name;
    std::optional<std::string>* target;
    std::string help;
    bool required;
    std::vector<std::string> words;
    std::string usual;  // where none is given; empty: none
  };

  Option& Add(std::string names, std::string value, std::string help);
  const Option* Find(std::string_view spelling) const;
  Outcome Usage(std::string message, std::string help = "--help lists the options") const;
  // `taken`: names that would have been right, too. Nearest: the name that was meant; empty: none is like it.
  std::string Nearest(const std::string& argument, const std::vector<std::string>& taken) const;
  Outcome Unknown(const std::string& argument, const std::vector<std::string>& taken = {}) const;
  Outcome Unexpected(const std::string& argument) const;
  // What CLI11 does not know: names of several letters with one dash, empty values behind "=", words that may
  // be left out.
  Outcome Spell(const std::vector<std::string>& arguments, std::vector<std::string>* out) const;
  // `name`: as the user wrote it.
  Outcome Set(const Option& option, const std::string& name, const std::vector<std::string>& values) const;

  std::string synopsis_;
  std::string about_;
  std::vector<Option> options_;
  std::vector<Place> places_;
  std::vector<std::string>* passed_ = nullptr;
  std::string passed_help_, unknown_help_ = "--help lists the options";
  bool help_wanted_ = false;
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_OPTIONS_H_
