// completion, man: what packages install, made from the command line itself.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <set>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/driver/command_pages.h"
#include "compiler/driver/commands.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/fusion_report.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

// The values of `qcc compile`'s options, from the tables that check them.
std::vector<std::string> WordsOfOption(std::string_view command, std::string_view flag) {
  if (command != "qcc compile") return {};
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

CommandPage PagesOfQcc(const CLI::App& app) {
  return DescribeCommand(app, "qcc", WordsOfOption);
}

}  // namespace

void AddCompletion(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("completion", "print a script that completes qcc's command line");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(std::set<std::string>{"bash", "zsh", "fish"}));
  command->callback([shell, &app, &cli] {
    cli.run = [shell, &app] {
      const CommandPage tree = PagesOfQcc(app);
      const std::string text = *shell == "bash"  ? BashCompletion(tree)
                               : *shell == "zsh" ? ZshCompletion(tree)
                                                 : FishCompletion(tree);
      std::fwrite(text.data(), 1, text.size(), stdout);
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
      const CommandPage tree = PagesOfQcc(app);
      const CommandPage* page = FindPage(tree, name);
      if (page == nullptr) {
        return MakeError("Q0101", Concat("there is no command '", name, "'"), "qcc man", "qcc --help");
      }
      const std::string version = CompilerVersion();
      const std::string text = ManualPage(*page, version.substr(0, version.find(" (")));
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

}  // namespace qcc::compiler
