#include "runtime/command_pages/command_pages.h"

#include <algorithm>
#include <cctype>
#include <functional>

namespace qrt {
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
bool TakesArguments(const CommandPage& page) {
  return std::any_of(page.options.begin(), page.options.end(),
                     [](const OptionPage& option) { return option.names.empty(); });
}
// What its arguments may be; empty: files, if it takes any.
std::vector<std::string> WordsOfArguments(const CommandPage& page) {
  std::vector<std::string> words;
  for (const OptionPage& option : page.options) {
    if (option.names.empty()) words.insert(words.end(), option.words.begin(), option.words.end());
  }
  return words;
}
std::vector<std::string> Subcommands(const CommandPage& page) {
  std::vector<std::string> names;
  names.reserve(page.subcommands.size());
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
  const std::string value = "\\fI" + Roff(option.value) + "\\fR";
  if (option.bare) {
    line += "[=" + value + "]";
  } else if (!option.value.empty()) {
    line += (line.empty() ? "" : " ") + value;
  }
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

void AddSynopsis(const CommandPage& page, std::string& out) {
  out += ".SH SYNOPSIS\n.B " + Roff(page.name) + "\n";
  if (!page.synopsis.empty()) {
    out += Roff(page.synopsis) + "\n";
    return;
  }
  for (const OptionPage& option : page.options) {
    if (option.names.empty()) out += ".I " + Roff(option.value) + "\n";
  }
  if (!page.options.empty()) out += "[\\fIOPTION\\fR...]\n";
  if (!page.subcommands.empty()) out += "\\fICOMMAND\\fR ...\n";
}

// "--kv=[how it is kept]:int8|f32:..." of zsh's _arguments.
std::string ZshOption(const OptionPage& option, const std::string& name) {
  std::string out = name;
  if (option.bare) {
    out += "=-";
  } else if (!option.value.empty()) {
    out += name.size() > 2 ? "=" : "+";
  }
  out += "[" + ZshText(option.about) + "]";
  if (option.value.empty()) return out;
  out += (option.bare ? "::" : ":") + ZshText(option.value) + ":";
  if (option.words.empty()) return out + "_files";
  const std::string words = Join(option.words, " ");
  return out + (option.or_file ? "{compadd -- " + words + "; _files}" : "_values -s , value " + words);
}

// The function that completes one command.
void AddZsh(const CommandPage& page, std::string& out) {
  out += "_" + Underscored(page.name) + "() {\n  local -a options=(\n";
  for (const OptionPage& option : page.options) {
    for (const std::string& name : option.names) out += "    '" + ZshOption(option, name) + "'\n";
  }
  out += "  )\n";
  const std::string words = Join(WordsOfArguments(page), " ");
  const std::string plain =
      "_arguments $options '*:" + (words.empty() ? "file:_files" : "word:(" + words + ")") + "'";
  if (page.subcommands.empty()) {
    out += "  " + plain + "\n}\n";
    return;
  }
  out += "  local -a commands=(\n";
  for (const CommandPage& sub : page.subcommands) {
    out += "    '" + ZshText(LastWord(sub.name)) + ":" + ZshText(sub.about) + "'\n";
  }
  const bool takes = TakesArguments(page);
  out += std::string("  )\n  _arguments -C $options '1:command:->command' '*::argument:->argument'\n") +
         "  case $state in\n    command) _describe command commands" + (takes ? "; _files" : "") +
         " ;;\n    argument)\n      case $words[1] in\n";
  for (const CommandPage& sub : page.subcommands) {
    out += "        " + LastWord(sub.name) + ") _" + Underscored(sub.name) + " ;;\n";
  }
  if (takes) out += "        *) " + plain + " ;;\n";
  out += "      esac ;;\n  esac\n}\n";
}

// What fish is told of one command.
void AddFish(const CommandPage& page, const std::string& program, std::string& out) {
  const std::string commands = Join(Subcommands(page), " ");
  const std::string none = "not __fish_seen_subcommand_from " + commands;
  const std::string path = page.name == program ? "" : page.name.substr(program.size() + 1);
  std::string condition;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(' ', begin), path.size());
    if (!condition.empty()) condition += "; and ";
    condition += "__fish_seen_subcommand_from ";
    condition += path.substr(begin, end - begin);
    begin = end + 1;
  }
  std::string nothing_yet = condition;
  if (!nothing_yet.empty()) nothing_yet += "; and ";
  nothing_yet += none;
  for (const CommandPage& sub : page.subcommands) {
    out += "complete -c " + program + " -n " + Quoted(nothing_yet) + " -a " + LastWord(sub.name) + " -d " +
           Quoted(sub.about) + "\n";
  }
  // What takes arguments itself has options of its own; those of what does not go with every subcommand.
  const std::string own = !page.subcommands.empty() && TakesArguments(page) ? none : condition;
  const std::vector<std::string> arguments = WordsOfArguments(page);
  if (!arguments.empty()) {
    out += "complete -c " + program + " -n " + Quoted(own) + " -f -a " + Quoted(Join(arguments, " ")) + "\n";
  }
  for (const OptionPage& option : page.options) {
    if (option.names.empty()) continue;
    out += "complete -c " + program + (own.empty() ? "" : " -n " + Quoted(own));
    for (const std::string& name : option.names) {
      out += name.starts_with("--") ? " -l " + name.substr(2)
             : name.size() == 2     ? " -s " + name.substr(1)
                                    : " -o " + name.substr(1);
    }
    if (!option.value.empty()) {
      const std::string words = option.words.empty() ? "" : " -a " + Quoted(Join(option.words, " "));
      out += words.empty() || option.or_file ? " -r" + words : (option.bare ? " -f" : " -x") + words;
    }
    out += " -d " + Quoted(option.about) + "\n";
  }
}

}  // namespace

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
  AddSynopsis(page, out);
  if (!page.description.empty()) out += ".SH DESCRIPTION\n" + Roff(page.description) + "\n";
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
      const std::string not_behind_a_space = option.bare ? "[[ -z $equals ]] || " : "";
      values += option.words.empty() ? "mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n"
                                     : not_behind_a_space + "offered=" + Quoted(Join(option.words, " ")) +
                                           (option.or_file ? " files=1" : "") + " ;;\n";
    }
    std::vector<std::string> words = Names(page);
    for (const std::string& sub : Subcommands(page)) words.push_back(sub);
    const std::vector<std::string> arguments = WordsOfArguments(page);
    words.insert(words.end(), arguments.begin(), arguments.end());
    const bool files = arguments.empty() && (page.subcommands.empty() || TakesArguments(page));
    offers += "    " + Quoted(page.name) + ") offered=" + Quoted(Join(words, " ")) +
              (files ? " files=1" : "") + " ;;\n";
  });
  return "# bash completion of " + program + "; made by `" + program + " completion bash`\n" + function +
         "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=" +
         Quoted(program) +
         " offered= files= i prefix= equals=\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$command ${COMP_WORDS[i]}\" in\n" +
         commands +
         "    esac\n"
         "  done\n"
         "  # --option=value is three words: COMP_WORDBREAKS has the sign.\n"
         "  if [[ $word == = ]]; then word= equals=1; elif [[ $before == = ]]; then "
         "before=${COMP_WORDS[COMP_CWORD-2]} equals=1; fi\n"
         "  if [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then before=${COMP_WORDS[COMP_CWORD-1]}; fi\n"
         "  case \"$command $before\" in\n" +
         values +
         "  esac\n"
         "  if [[ -n $offered ]]; then\n"
         "    # Of a list, the last entry.\n"
         "    if [[ $word == *,* ]]; then prefix=${word%,*},; fi\n"
         "    mapfile -t COMPREPLY < <(\n"
         "      compgen -P \"$prefix\" -W \"$offered\" -- \"${word#\"$prefix\"}\"\n"
         "      if [[ -n $files ]]; then compgen -f -- \"$word\"; fi\n"
         "    )\n"
         "    return\n"
         "  fi\n"
         "  case \"$command\" in\n" +
         offers +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(\n"
         "    compgen -W \"$offered\" -- \"$word\"\n"
         "    if [[ $word != -* && -n $files ]]; then compgen -f -- \"$word\"; fi\n"
         "  )\n"
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
  ForEach(tree, [&](const CommandPage& page) { AddFish(page, program, out); });
  return out;
}

}  // namespace qrt
