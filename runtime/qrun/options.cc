#include "runtime/qrun/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace qrun {
namespace {

std::vector<std::string> SplitNames(const std::string& names) {
  std::vector<std::string> result;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(", ", at), names.size());
    result.push_back(names.substr(at, end - at));
    at = end + 2;
  }
  return result;
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

void Options::Integer(std::string names, std::string value, int64_t low, int64_t high,
                      std::optional<int64_t>* target, std::string help) {
  Add(std::move(names), std::move(value), std::move(help)).set = [=](const std::string& text) -> std::string {
    int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || number < low ||
        number > high) {
      return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    }
    *target = number;
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
  option.set = [=](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) == words.end()) return "one of " + shown;
    *target = text;
    return "";
  };
}

void Options::Positional(std::string name, std::optional<std::string>* target, std::string help) {
  places_.push_back({std::move(name), target, std::move(help)});
}

Options::Option* Options::Find(std::string_view spelling) {
  for (Option& option : options_) {
    for (const std::string& name : option.spellings) {
      if (name == spelling) return &option;
    }
  }
  return nullptr;
}

Outcome Options::Usage(std::string message) const {
  return Outcome::Fail(kExitUsage, 101, std::move(message), "usage: " + synopsis_,
                       "--help lists the options");
}

Outcome Options::Set(Option& option, const std::string& spelling, const std::string& value) {
  if (option.seen) return Usage(spelling + " is given twice");
  option.seen = true;
  const std::string expected = option.set(value);
  if (!expected.empty()) return Usage(spelling + " is \"" + value + "\", expected " + expected);
  return Outcome();
}

Outcome Options::Parse(const std::vector<std::string>& arguments) {
  bool options_end = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (options_end || argument.size() < 2 || argument[0] != '-') {
      const auto place =
          std::find_if(places_.begin(), places_.end(), [](const Place& p) { return !p.target->has_value(); });
      if (place == places_.end()) return Usage("unexpected argument \"" + argument + "\"");
      *place->target = argument;
      continue;
    }
    if (argument == "--") {
      options_end = true;
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      return Outcome();
    }
    std::string spelling = argument;
    std::optional<std::string> value;
    if (argument[1] == '-') {
      const size_t equals = argument.find('=');
      if (equals != std::string::npos) {
        spelling = argument.substr(0, equals);
        value = argument.substr(equals + 1);
      }
    } else if (argument.size() > 2) {
      spelling = argument.substr(0, 2);
      value = argument.substr(2);
    }
    Option* option = Find(spelling);
    if (option == nullptr) return Usage("unknown option " + spelling);
    if (option->value.empty()) {
      if (value.has_value()) return Usage(spelling + " takes no value");
      QRUN_RETURN_IF_ERROR(Set(*option, spelling, ""));
      continue;
    }
    if (!value.has_value() && !option->bare.empty()) value = option->bare;
    if (!value.has_value()) {
      if (i + 1 == arguments.size()) return Usage(spelling + " needs a value: " + option->value);
      value = arguments[++i];
    }
    QRUN_RETURN_IF_ERROR(Set(*option, spelling, *value));
  }
  for (const Place& place : places_) {
    if (!place.target->has_value()) return Usage(place.name + " is missing");
  }
  return Outcome();
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
  rows.emplace_back("-h, --help", "this text");
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
