#include "compiler/driver/command_pages.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>

namespace qcc::compiler {
namespace {

std::string Join(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

void ForEach(const CommandPage& page, const std::function<void(const CommandPage&)>& visit) {
  visit(page);
  for (const CommandPage& sub : page.subcommands) ForEach(sub, visit);
}

// Of "qcc cache list": "list".
std::string LastWord(const std::string& name) {
  return name.substr(name.rfind(' ') + 1);
}
std::string FirstWord(const std::string& name) {
  return name.substr(0, name.find(' '));
}
std::string Underscored(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

std::vector<std::string> Names(const CommandPage& page) {
  std::vector<std::string> names;
  for (const OptionPage& option : page.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}
std::vector<std::string> Subcommands(const CommandPage& page) {
  std::vector<std::string> names;
  for (const CommandPage& sub : page.subcommands) names.push_back(LastWord(sub.name));
  return names;
}

// Text for roff: a dash that can be copied, no request at the begin of a line.
std::string Roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

// Inside single quotes of a shell.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}
// Inside single quotes and brackets of zsh's _arguments.
std::string ZshText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

void Add(const OptionPage& option, std::string& out) {
  out += ".TP\n";
  std::string line;
  for (const std::string& name : option.names)
    line += (line.empty() ? "" : ", ") + ("\\fB" + Roff(name) + "\\fR");
  if (!option.value.empty()) line += (line.empty() ? "" : " ") + ("\\fI" + Roff(option.value) + "\\fR");
  out += line + "\n" + Roff(option.about) + "\n";
}

void AddOptions(const CommandPage& page, std::string& out) {
  std::vector<std::string> groups;
  for (const OptionPage& option : page.options) {
    const std::string& group = option.names.empty() ? "ARGUMENTS" : option.group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  for (const std::string& group : groups) {
    std::string heading = group;
    std::transform(heading.begin(), heading.end(), heading.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    out += ".SH " + Quoted(Roff(heading)).substr(1);
    out.back() = '\n';
    for (const OptionPage& option : page.options) {
      if ((option.names.empty() ? "ARGUMENTS" : option.group) == group) Add(option, out);
    }
  }
}

// The function that completes one command.
void AddZsh(const CommandPage& page, std::string& out) {
  out += "_" + Underscored(page.name) + "() {\n";
  if (!page.subcommands.empty()) {
    out += "  local -a commands=(\n";
    for (const CommandPage& sub : page.subcommands) {
      out += "    '" + ZshText(LastWord(sub.name)) + ":" + ZshText(sub.about) + "'\n";
    }
    out += "  )\n";
  }
  out += "  _arguments -C \\\n";
  for (const OptionPage& option : page.options) {
    for (const std::string& name : option.names) {
      out += "    '" + name +
             (option.value.empty()     ? ""
              : name.starts_with("--") ? "="
                                       : "+") +
             "[" + ZshText(option.about) + "]";
      if (!option.value.empty()) {
        out += ":" + ZshText(option.value) + ":";
        out += option.words.empty() ? "_files" : "_values -s , value " + Join(option.words, " ");
      }
      out += "' \\\n";
    }
  }
  if (page.subcommands.empty()) {
    out += "    '*:file:_files'\n}\n";
    return;
  }
  out +=
      "    '1:command:->command' '*::argument:->argument'\n  case $state in\n"
      "    command) _describe command commands ;;\n    argument)\n      case $words[1] in\n";
  for (const CommandPage& sub : page.subcommands) {
    out += "        " + LastWord(sub.name) + ") _" + Underscored(sub.name) + " ;;\n";
  }
  out += "      esac ;;\n  esac\n}\n";
}

}  // namespace

CommandPage DescribeCommand(const CLI::App& app, const std::string& name, const WordsOf& words) {
  CommandPage page;
  page.name = name;
  page.about = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionPage entry;
    for (const std::string& text : option->get_snames()) entry.names.push_back("-" + text);
    for (const std::string& text : option->get_lnames()) entry.names.push_back("--" + text);
    if (option->get_items_expected_max() > 0 || entry.names.empty()) {
      entry.value = entry.names.empty() ? option->get_name() : option->get_type_name();
    }
    entry.about = option->get_description();
    if (!option->get_lnames().empty()) entry.words = words(name, "--" + option->get_lnames().front());
    entry.group = option->get_group();
    page.options.push_back(std::move(entry));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_group().empty()) continue;
    page.subcommands.push_back(DescribeCommand(*sub, name + " " + sub->get_name(), words));
  }
  return page;
}

const CommandPage* FindPage(const CommandPage& tree, std::string_view name) {
  if (tree.name == name) return &tree;
  for (const CommandPage& sub : tree.subcommands) {
    if (const CommandPage* found = FindPage(sub, name)) return found;
  }
  return nullptr;
}

std::string ManualPage(const CommandPage& page, const std::string& version) {
  std::string title = page.name;
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string upper = title;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = ".TH \"" + Roff(upper) + "\" 1 \"\" \"" + Roff(version) + "\" \"User Commands\"\n";
  out += ".SH NAME\n" + Roff(title) + " \\- " + Roff(page.about) + "\n";
  out += ".SH SYNOPSIS\n.B " + Roff(page.name) + "\n";
  for (const OptionPage& option : page.options) {
    if (option.names.empty()) out += ".I " + Roff(option.value) + "\n";
  }
  if (!page.options.empty()) out += "[\\fIOPTION\\fR...]\n";
  if (!page.subcommands.empty()) out += "\\fICOMMAND\\fR ...\n";
  AddOptions(page, out);
  if (!page.subcommands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandPage& sub : page.subcommands) {
      out += ".TP\n\\fB" + Roff(LastWord(sub.name)) + "\\fR\n" + Roff(sub.about) + "\n";
    }
  }
  if (!page.footer.empty()) out += ".SH NOTES\n" + Roff(page.footer) + "\n";
  if (!page.subcommands.empty()) {
    out += ".SH SEE ALSO\n";
    for (const CommandPage& sub : page.subcommands) {
      std::string also = sub.name;
      std::replace(also.begin(), also.end(), ' ', '-');
      out += ".BR " + Roff(also) + " (1)" + (&sub == &page.subcommands.back() ? "\n" : ",\n");
    }
  }
  return out;
}

std::string BashCompletion(const CommandPage& tree) {
  const std::string program = tree.name, function = "_" + Underscored(program);
  std::string commands, values, offers;
  ForEach(tree, [&](const CommandPage& page) {
    for (const CommandPage& sub : page.subcommands) {
      commands +=
          "      " + Quoted(page.name + " " + LastWord(sub.name)) + ") command=" + Quoted(sub.name) + " ;;\n";
    }
    for (const OptionPage& option : page.options) {
      if (option.names.empty() || option.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += (patterns.empty() ? "" : "|") + Quoted(page.name + " " + name);
      }
      values += "    " + patterns + ") ";
      values += option.words.empty() ? "COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
                                     : "offered=" + Quoted(Join(option.words, " ")) + " ;;\n";
    }
    std::vector<std::string> words = Names(page);
    for (const std::string& sub : Subcommands(page)) words.push_back(sub);
    offers += "    " + Quoted(page.name) + ") offered=" + Quoted(Join(words, " ")) +
              (page.subcommands.empty() ? " files=1" : "") + " ;;\n";
  });
  return "# bash completion of " + program + "; made by `" + program + " completion bash`\n" + function +
         "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=" +
         Quoted(program) +
         " offered= files= i prefix=\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$command ${COMP_WORDS[i]}\" in\n" +
         commands +
         "    esac\n"
         "  done\n"
         "  # --option=value is three words: COMP_WORDBREAKS has the sign.\n"
         "  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then "
         "before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  if [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then before=${COMP_WORDS[COMP_CWORD-1]}; fi\n"
         "  case \"$command $before\" in\n" +
         values +
         "  esac\n"
         "  if [[ -n $offered ]]; then\n"
         "    # Of a list, the last entry.\n"
         "    if [[ $word == *,* ]]; then prefix=${word%,*},; fi\n"
         "    COMPREPLY=($(compgen -P \"$prefix\" -W \"$offered\" -- \"${word#\"$prefix\"}\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$command\" in\n" +
         offers +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$offered\" -- \"$word\"))\n"
         "  if [[ $word != -* && -n $files ]]; then COMPREPLY+=($(compgen -f -- \"$word\")); fi\n"
         "}\n"
         "complete -o filenames -F " +
         function + " " + program + "\n";
}

std::string ZshCompletion(const CommandPage& tree) {
  std::string out = "#compdef " + tree.name + "\n# made by `" + tree.name + " completion zsh`\n";
  ForEach(tree, [&out](const CommandPage& page) { AddZsh(page, out); });
  return out + "_" + Underscored(tree.name) + " \"$@\"\n";
}

std::string FishCompletion(const CommandPage& tree) {
  const std::string program = FirstWord(tree.name);
  std::string out = "# fish completion of " + program + "; made by `" + program + " completion fish`\n";
  ForEach(tree, [&](const CommandPage& page) {
    const std::string commands = Join(Subcommands(page), " ");
    std::string condition;
    const std::string path = page.name == program ? "" : page.name.substr(program.size() + 1);
    size_t begin = 0;
    while (begin < path.size()) {
      const size_t end = std::min(path.find(' ', begin), path.size());
      condition += (condition.empty() ? "" : "; and ") +
                   ("__fish_seen_subcommand_from " + path.substr(begin, end - begin));
      begin = end + 1;
    }
    const std::string here = condition.empty() ? "" : " -n " + Quoted(condition);
    for (const CommandPage& sub : page.subcommands) {
      const std::string none = "not __fish_seen_subcommand_from " + commands;
      out += "complete -c " + program + " -n " +
             Quoted(condition.empty() ? none : condition + "; and " + none) + " -a " + LastWord(sub.name) +
             " -d " + Quoted(sub.about) + "\n";
    }
    for (const OptionPage& option : page.options) {
      if (option.names.empty()) continue;
      out += "complete -c " + program + here;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.value.empty()) {
        out += option.words.empty() ? " -r" : " -x -a " + Quoted(Join(option.words, " "));
      }
      out += " -d " + Quoted(option.about) + "\n";
    }
  });
  return out;
}

}  // namespace qcc::compiler
