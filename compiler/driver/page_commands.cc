// completion, man: what packages install, made from the command line itself.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/compile_arguments.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/fusion_report.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/command_pages/command_pages.h"

namespace qcc::compiler {
namespace {

using qrt::CommandPage;
using qrt::OptionPage;

// The values of an option that takes one of a set, as CLI11 writes them: "PART:{kernels,manifest}".
std::vector<std::string> WordsOfType(const std::string& type) {
  std::vector<std::string> words;
  const size_t open = type.find('{'), end = type.find('}');
  if (open == std::string::npos || end == std::string::npos) return words;
  for (size_t at = open + 1; at < end;) {
    const size_t comma = std::min(type.find(',', at), end);
    words.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

// The values of the options of a compile, from the tables that check them.
std::vector<std::string> WordsOfOption(std::string_view command, std::string_view flag) {
  if (command != "qcc compile" && command != "qcc cache artifact") return {};
  for (const CompileOption& option : CompileOptions()) {
    if (option.Flag() != flag) continue;
    std::vector<std::string> words(option.words.begin(), option.words.end());
    if (option.name == "target") {
      for (const TargetInfo& target : Targets()) words.emplace_back(target.name);
    } else if (option.name == "cpu") {
      words = EveryCpuLevel();
      words.emplace_back("native");
    } else if (option.name == "gpu_profiles") {
      for (const gpu::ProfileInfo& info : gpu::Profiles()) words.push_back(info.profile.name);
    } else if (option.name == "require_fused") {
      words = FusionKinds();
    }
    return words;
  }
  return {};
}

CommandPage DescribeCommand(const CLI::App& app, const std::string& name) {
  CommandPage page;
  page.name = name;
  page.about = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionPage entry;
    for (const std::string& text : option->get_snames()) entry.names.push_back("-" + text);
    for (const std::string& text : option->get_lnames()) entry.names.push_back("--" + text);
    entry.bare = MayBeBare(*option);
    if (entry.bare || option->get_items_expected_max() > 0 || entry.names.empty()) {
      entry.value = entry.names.empty() ? option->get_name() : option->get_type_name();
    }
    entry.about = option->get_description();
    entry.words = WordsOfType(option->get_type_name());
    if (entry.words.empty() && !option->get_lnames().empty()) {
      entry.words = WordsOfOption(name, "--" + option->get_lnames().front());
    }
    entry.group = option->get_group();
    page.options.push_back(std::move(entry));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_group().empty()) continue;
    page.subcommands.push_back(DescribeCommand(*sub, name + " " + sub->get_name()));
  }
  return page;
}

}  // namespace

void AddCompletion(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("completion", "print a script that completes qcc's command line");
  auto shell = std::make_shared<std::string>();
  std::set<std::string> shells;
  for (const qrt::CompletedShell& known : qrt::kCompletedShells) shells.emplace(known.name);
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember(shells));
  command->callback([shell, &app, &cli] {
    cli.run = [shell, &app] {
      for (const qrt::CompletedShell& known : qrt::kCompletedShells) {
        if (known.name != *shell) continue;
        const std::string text = known.script(DescribeCommand(app, "qcc"));
        std::fwrite(text.data(), 1, text.size(), stdout);
      }
      return absl::OkStatus();
    };
  });
}

void AddManual(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("man", "print a manual page: qcc man compile | man -l -");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *names, "the command; none: of qcc itself");
  command->callback([names, &app, &cli] {
    cli.run = [names, &app]() -> absl::Status {
      std::string name = "qcc";
      for (const std::string& word : *names) name += " " + word;
      const CommandPage tree = DescribeCommand(app, "qcc");
      const CommandPage* page = qrt::FindPage(tree, name);
      if (page == nullptr) {
        return MakeError("Q0101", Concat("there is no command '", name, "'"), "qcc man", "qcc --help");
      }
      const std::string text = qrt::ManualPage(*page, "qcc " + ReleaseVersion());
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

}  // namespace qcc::compiler
