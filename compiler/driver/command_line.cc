#include "compiler/driver/command_line.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

class Speller {
 public:
  explicit Speller(const CLI::App& app) : command_(&app) {}

  absl::StatusOr<std::vector<std::string>> Spell(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "--") {
        out_.insert(out_.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
        break;
      }
      const bool option = word.size() > 1 && word[0] == '-';
      if (!option) Enter(word);
      absl::StatusOr<bool> wants_next = !option ? false : word[1] == '-' ? Long(word) : Letters(word);
      if (!wants_next.ok()) return wants_next.status();
      if (!*wants_next || i + 1 == words.size()) continue;
      out_.push_back(words[++i]);
      if (absl::Status s = Check(word, *option_, words[i]); !s.ok()) return s;
    }
    return std::move(out_);
  }

 private:
  // An option of the command, or of one that it belongs to; null: there is none.
  const CLI::Option* Find(const std::string& name) const {
    for (const CLI::App* level = command_; level != nullptr; level = level->get_parent()) {
      if (const CLI::Option* option = level->get_option_no_throw(name)) return option;
    }
    return nullptr;
  }
  static bool TakesValue(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

  void Enter(const std::string& word) {
    out_.push_back(word);
    for (const CLI::App* sub : command_->get_subcommands({})) {
      if (sub->check_name(word)) {
        command_ = sub;
        return;
      }
    }
  }

  absl::Status Check(const std::string& name, const CLI::Option& option, const std::string& value) const {
    if (value.empty()) {
      return MakeError("Q0102", "the value is empty", name, "give one, or leave the option out");
    }
    const char comma = option.get_delimiter();
    if (comma == '\0') return absl::OkStatus();
    const std::string list = Concat(std::string(1, comma), value, std::string(1, comma));
    if (list.find(std::string(2, comma)) == std::string::npos) return absl::OkStatus();
    return MakeError("Q0102", Concat("an entry of the list '", value, "' is empty"), name);
  }

  // Whether the next word is its value; so does Letters.
  absl::StatusOr<bool> Long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    out_.push_back(word);
    option_ = Find(name);
    if (option_ == nullptr) return false;
    if (equals == std::string::npos) return TakesValue(*option_);
    absl::Status s = Check(name, *option_, word.substr(equals + 1));
    return s.ok() ? absl::StatusOr<bool>(false) : s;
  }

  // -vo FILE, -voFILE, -vo=FILE.
  absl::StatusOr<bool> Letters(const std::string& word) {
    const std::string meant = "-" + word.substr(0, word.find('='));
    if (word.size() > 2 && Find(meant) != nullptr) {
      return MakeError("Q0101", Concat("unknown option ", meant.substr(1)), "",
                       Concat("did you mean ", meant, "?"));
    }
    for (size_t at = 1; at < word.size(); ++at) {
      option_ = Find({'-', word[at]});
      if (option_ == nullptr) break;  // CLI11 says so
      if (!TakesValue(*option_)) continue;
      const size_t equals = at + 1;
      if (equals < word.size() && word[equals] == '=') {
        out_.push_back(word.substr(0, equals));
        out_.push_back(word.substr(equals + 1));
        absl::Status s = Check({'-', word[at]}, *option_, out_.back());
        return s.ok() ? absl::StatusOr<bool>(false) : s;
      }
      out_.push_back(word);
      return equals == word.size();
    }
    out_.push_back(word);
    return false;
  }

  const CLI::App* command_;
  const CLI::Option* option_ = nullptr;  // of the word at hand
  std::vector<std::string> out_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> SpellOut(const CLI::App& app,
                                                  const std::vector<std::string>& words) {
  return Speller(app).Spell(words);
}

}  // namespace qcc::compiler
