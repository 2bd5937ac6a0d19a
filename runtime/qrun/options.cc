#include "runtime/qrun/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "runtime/base/nearest_name.h"

namespace qrun {
namespace {

constexpr const char* kHelpNames[] = {"-h", "--help"};
constexpr char kHelpOfHelp[] = "this text";
constexpr char kHelpOfTaken[] =
    "--help lists the options, qcc cache artifact --help those for a GGUF; where qcc compile has others, "
    "make "
    "an artifact with it";
constexpr char kPassedForm[] = "--OPTION[=VALUE]";

std::vector<std::string> SplitNames(const std::string& names) {
  std::vector<std::string> result;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(", ", at), names.size());
    result.push_back(names.substr(at, end - at));
    at = end + 2;
  }
  return result;
}

// A whole number of [low, high] in all of `text`.
bool ReadInteger(const std::string& text, int64_t low, int64_t high, int64_t* number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && *number >= low &&
         *number <= high;
}

std::string WholeNumber(int64_t low, int64_t high) {
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

bool IsLong(const std::string& spelling) {
  return spelling.rfind("--", 0) == 0;
}

// As CLI11 takes names: "-x" or "--name".
bool IsPlain(const std::string& spelling) {
  return IsLong(spelling) || spelling.size() == 2;
}

// The one of an option's spellings that occurs among the arguments.
std::string Given(const std::vector<std::string>& spellings, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    for (const std::string& spelling : spellings) {
      const size_t size = IsLong(spelling) ? argument.find('=') : spelling.size();
      if (argument.substr(0, size) == spelling) return spelling;
    }
  }
  return spellings.back();
}

std::string Shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

}  // namespace

Options::Option& Options::Add(std::string names, std::string value, std::string help) {
  Option option;
  option.spellings = SplitNames(names);
  option.names = std::move(names);
  option.value = std::move(value);
  option.help = std::move(help);
  options_.push_back(std::move(option));
  return options_.back();
}

void Options::Flag(std::string names, bool* target, std::string help) {
  Add(std::move(names), "", std::move(help)).set = [target](const std::string&) {
    *target = true;
    return std::string();
  };
}

void Options::Text(std::string names, std::string value, std::optional<std::string>* target,
                   std::string help) {
  Add(std::move(names), std::move(value), std::move(help)).set = [target](const std::string& text) {
    *target = text;
    return std::string();
  };
}

void Options::Name(std::string names, std::string value, std::optional<std::string>* target, std::string help,
                   std::vector<std::string> words, bool or_file) {
  std::string shown = value;
  Option& option = Add(std::move(names), std::move(value), std::move(help));
  option.words = std::move(words);
  option.or_file = or_file;
  option.set = [=](const std::string& text) -> std::string {
    if (text.empty()) return shown;
    *target = text;
    return "";
  };
}

void Options::Integer(std::string names, std::string value, int64_t low, int64_t high,
                      std::optional<int64_t>* target, std::string help) {
  Add(std::move(names), std::move(value), std::move(help)).set = [=](const std::string& text) -> std::string {
    int64_t number = 0;
    if (!ReadInteger(text, low, high, &number)) return WholeNumber(low, high);
    *target = number;
    return "";
  };
}

void Options::IntegerOr(std::string word, int64_t meaning, std::string names, std::string value, int64_t low,
                        int64_t high, std::optional<int64_t>* target, std::string help) {
  Add(std::move(names), std::move(value), std::move(help)).set = [=](const std::string& text) -> std::string {
    int64_t number = meaning;
    if (text != word && !ReadInteger(text, low, high, &number)) {
      return word + " or " + WholeNumber(low, high);
    }
    *target = number;
    return "";
  };
}

void Options::Texts(std::string names, std::string value, std::vector<std::string>* target,
                    std::string help) {
  Option& option = Add(std::move(names), std::move(value), std::move(help));
  option.several = true;
  option.set = [target](const std::string& text) {
    target->push_back(text);
    return std::string();
  };
}

void Options::Integers(std::string names, std::string value, int64_t low, int64_t high,
                       std::vector<int64_t>* target, std::string help) {
  Option& option = Add(std::move(names), std::move(value), std::move(help));
  option.several = true;
  option.set = [=](const std::string& text) -> std::string {
    int64_t number = 0;
    if (!ReadInteger(text, low, high, &number)) return WholeNumber(low, high);
    target->push_back(number);
    return "";
  };
}

void Options::Number(std::string names, std::string value, double low, double high,
                     std::optional<double>* target, std::string help) {
  Add(std::move(names), std::move(value), std::move(help)).set = [=](const std::string& text) -> std::string {
    double number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
        !(number >= low && number <= high)) {
      return "a number from " + Shortest(low) + " to " + Shortest(high);
    }
    *target = number;
    return "";
  };
}

void Options::Word(std::string names, std::vector<std::string> words, std::string optional_value,
                   std::optional<std::string>* target, std::string help) {
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  Option& option = Add(std::move(names), shown, std::move(help));
  option.bare = std::move(optional_value);
  option.words = words;
  option.set = [=](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) == words.end()) return "one of " + shown;
    *target = text;
    return "";
  };
}

void Options::Positional(std::string name, std::optional<std::string>* target, std::string help,
                         bool required, std::vector<std::string> words) {
  places_.push_back({std::move(name), target, std::move(help), required, std::move(words), ""});
}

void Options::Default(const std::string& name, const std::string& value) {
  for (Place& place : places_) {
    if (place.name == name) place.usual = value;
  }
}

void Options::PassOn(std::vector<std::string>* target, std::string help) {
  passed_ = target;
  passed_help_ = std::move(help);
  unknown_help_ = "--help lists the options; one of qcc compile needs a GGUF, and its value behind \"=\"";
}

Outcome Options::RefusePassed(const std::vector<std::string>& taken) const {
  if (passed_ == nullptr) return Outcome();
  const auto refused = std::find_if(passed_->begin(), passed_->end(), [&](const std::string& argument) {
    return std::find(taken.begin(), taken.end(), argument.substr(0, argument.find('='))) == taken.end();
  });
  return refused == passed_->end() ? Outcome() : Unknown(*refused, taken);
}

const Options::Option* Options::Find(std::string_view spelling) const {
  for (const Option& option : options_) {
    for (const std::string& name : option.spellings) {
      if (name == spelling) return &option;
    }
  }
  return nullptr;
}

Outcome Options::Usage(std::string message, std::string help) const {
  return Outcome::Fail(kExitUsage, 101, std::move(message), "usage: " + synopsis_, std::move(help));
}

Outcome Options::Unexpected(const std::string& argument) const {
  return Usage("unexpected argument \"" + argument + "\"");
}

std::string Options::Nearest(const std::string& argument, const std::vector<std::string>& taken) const {
  std::vector<std::string> names(std::begin(kHelpNames), std::end(kHelpNames));
  for (const Option& option : options_) {
    names.insert(names.end(), option.spellings.begin(), option.spellings.end());
  }
  names.insert(names.end(), taken.begin(), taken.end());
  return qrt::NearestName(argument.substr(0, argument.find('=')), names);
}

Outcome Options::Unknown(const std::string& argument, const std::vector<std::string>& taken) const {
  if (argument.size() < 2 || argument[0] != '-') return Unexpected(argument);
  const std::string spelling =
      IsLong(argument) ? argument.substr(0, argument.find('=')) : argument.substr(0, 2);
  const std::string nearest = Nearest(argument, taken);
  return Usage("unknown option " + spelling, !nearest.empty() ? "did you mean " + nearest + "?"
                                             : taken.empty()  ? unknown_help_
                                                              : kHelpOfTaken);
}

Outcome Options::Spell(const std::vector<std::string>& arguments, std::vector<std::string>* out) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      out->insert(out->end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      return Outcome();
    }
    const size_t equals = argument.find('=');
    const std::string spelling = argument.substr(0, equals);
    const Option* option = argument.size() > 1 && argument[0] == '-' ? Find(spelling) : nullptr;
    // "-temp" was meant as one name, and is not the letter t with a value.
    if (option == nullptr && spelling.size() > 2 && spelling[1] != '-' && Find("-" + spelling) != nullptr) {
      return Usage("unknown option " + spelling, "did you mean -" + spelling + "?");
    }
    if (option == nullptr) {
      out->push_back(argument);
      continue;
    }
    const bool valued = equals != std::string::npos;
    if (option->value.empty() && valued) return Usage(spelling + " takes no value");
    const auto plain = std::find_if(option->spellings.begin(), option->spellings.end(), IsPlain);
    const std::string name = IsPlain(spelling) ? spelling : *plain;
    const bool next = i + 1 < arguments.size();
    if (!option->bare.empty()) {
      const std::vector<std::string>& words = option->words;
      const bool word =
          !valued && next && std::find(words.begin(), words.end(), arguments[i + 1]) != words.end();
      out->push_back(word ? name + "=" + arguments[++i] : valued ? argument : name + "=" + option->bare);
    } else if (option->value.empty() || (valued && IsPlain(spelling) && equals + 1 < argument.size())) {
      // CLI11 has the value of one letter right behind it.
      const size_t sign = valued && !IsLong(spelling) ? 1 : 0;
      out->push_back(name + argument.substr(spelling.size() + sign));
    } else {
      if (!valued && !next) return Usage(spelling + " needs a value: " + option->value);
      out->push_back(name);
      out->push_back(valued ? argument.substr(equals + 1) : arguments[++i]);
    }
  }
  return Outcome();
}

Outcome Options::Set(const Option& option, const std::string& name,
                     const std::vector<std::string>& values) const {
  if (values.size() > 1 && !option.several) return Usage(name + " is given twice");
  for (const std::string& value : values) {
    const std::string expected = option.set(value);
    if (!expected.empty()) return Usage(name + " is \"" + value + "\", expected " + expected);
  }
  return Outcome();
}

Outcome Options::Parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> spelled;
  QRUN_RETURN_IF_ERROR(Spell(arguments, &spelled));
  CLI::App parser;
  parser.allow_extras();
  std::vector<CLI::Option*> parsed, placed;
  const auto nothing = [](const CLI::results_t&) { return true; };
  for (const Option& option : options_) {
    std::string names;
    for (const std::string& name : option.spellings) {
      if (IsPlain(name)) names += (names.empty() ? "" : ",") + name;
    }
    parsed.push_back(parser.add_option(names, nothing));
    parsed.back()->expected(option.value.empty() || !option.bare.empty() ? 0 : 1);
    parsed.back()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  for (const Place& place : places_) placed.push_back(parser.add_option(place.name, nothing));
  std::reverse(spelled.begin(), spelled.end());  // as CLI11 wants them
  try {
    parser.parse(std::move(spelled));
  } catch (const CLI::CallForHelp&) {
    help_wanted_ = true;
    return Outcome();
  } catch (const CLI::ParseError& error) {
    return Usage(error.what());
  }
  std::vector<std::string> unknown = parser.remaining();
  if (passed_ != nullptr) {
    const auto passed =
        std::stable_partition(unknown.begin(), std::find(unknown.begin(), unknown.end(), "--"),
                              [](const std::string& argument) { return IsLong(argument); });
    passed_->assign(unknown.begin(), passed);
    unknown.erase(unknown.begin(), passed);
  }
  const auto mark = std::find(unknown.begin(), unknown.end(), "--");  // CLI11 leaves it among them
  if (mark != unknown.begin()) {
    // Behind an option that is none of these a word is the value that was meant for it.
    const bool valued = unknown.front()[0] != '-' && passed_ != nullptr && !passed_->empty();
    return Unknown(valued ? passed_->front() : unknown.front());
  }
  if (unknown.size() > 1) return Unexpected(unknown[1]);
  for (size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    QRUN_RETURN_IF_ERROR(Set(option, Given(option.spellings, arguments), parsed[i]->results()));
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    for (const std::string& value : placed[i]->results()) {
      if (place.target->has_value()) return Unexpected(value);
      *place.target = value;
    }
    if (!place.usual.empty() && !place.target->has_value()) *place.target = place.usual;
    if (!place.required || place.target->has_value()) continue;
    // A mistyped option, perhaps; one of qcc's is like none of these.
    const bool passed = passed_ != nullptr && !passed_->empty();
    return passed && !Nearest(passed_->front(), {}).empty() ? Unknown(passed_->front())
                                                            : Usage(place.name + " is missing");
  }
  return Outcome();
}

void Options::Describe(qrt::CommandPage* page) const {
  const std::string own = page->name + " ";
  page->synopsis = synopsis_.substr(synopsis_.starts_with(own) ? own.size() : synopsis_.find(' ') + 1);
  page->description = about_;
  for (const Place& place : places_) {
    page->options.push_back({{}, place.name, false, place.help, place.words, ""});
  }
  for (const Option& option : options_) {
    page->options.push_back({option.spellings, option.value, !option.bare.empty(), option.help, option.words,
                             "Options", option.or_file});
  }
  page->options.push_back({{kHelpNames[0], kHelpNames[1]}, "", false, kHelpOfHelp, {}, "Options"});
  if (passed_ != nullptr) page->footer = std::string(kPassedForm) + ": " + passed_help_ + ".";
}

std::string Options::Help() const {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Place& place : places_) rows.emplace_back(place.name, place.help);
  for (const Option& option : options_) {
    std::string left = option.names;
    if (!option.bare.empty()) {
      left += "[=" + option.value + "]";
    } else if (!option.value.empty()) {
      left += " " + option.value;
    }
    rows.emplace_back(left, option.help);
  }
  if (passed_ != nullptr) rows.emplace_back(kPassedForm, passed_help_);
  rows.emplace_back(std::string(kHelpNames[0]) + ", " + kHelpNames[1], kHelpOfHelp);
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  std::string text = "usage: " + synopsis_ + "\n\n" + about_ + "\n\n";
  for (const auto& row : rows) {
    text += "  " + row.first + std::string(width - row.first.size() + 2, ' ');
    for (const char c : row.second) {
      text += c;
      if (c == '\n') text += std::string(width + 4, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace qrun
