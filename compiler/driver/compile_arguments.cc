#include "compiler/driver/compile_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "frontends/base/text.h"

namespace qcc::compiler {

void CompileArguments::AddTo(CLI::App& command, const std::function<bool(const CompileOption&)>& wanted) {
  command.add_option("model", input_, "the GGUF file")->required();
  options_.reserve(CompileOptions().size());  // CLI11 keeps where the values go
  for (const CompileOption& option : CompileOptions()) {
    if (!wanted(option)) continue;
    Argument& argument = options_.emplace_back();
    argument.name = option.name;
    const std::string flags = Concat(option.short_flag, option.short_flag.empty() ? "" : ",", option.Flag());
    if (!option.implied.empty()) {
      argument.cli =
          command.add_flag(Concat(flags, "{", option.implied, "}"), argument.values, option.HelpText());
      continue;
    }
    argument.cli =
        command.add_option(flags, argument.values, option.HelpText())->type_name(option.ValueText());
    if (option.list) {
      argument.cli->delimiter(',')->take_all()->allow_extra_args(false);
    } else {
      argument.cli->expected(1);
    }
  }
}

GivenOptions CompileArguments::Given() const {
  GivenOptions given;
  for (const Argument& argument : options_) {
    if (argument.cli->count() > 0) given.emplace(argument.name, argument.values);
  }
  return given;
}

absl::StatusOr<PipelineOptions> CompileArguments::Read(const GivenOptions& given, const Cli& cli) const {
  absl::StatusOr<PipelineOptions> options = ReadCompileOptions(input_, given);
  if (options.ok()) options->verbosity = cli.verbosity();
  return options;
}

absl::Status WithProgress(const PipelineOptions& options, const Cli& cli,
                          const std::function<absl::Status(ProgressSink&)>& compile) {
  if (options.progress == ProgressMode::kJson) {
    JsonProgress progress(stderr, stdout, cli.verbosity(), cli.interrupted);
    return compile(progress);
  }
  ConsoleProgress progress = MakeProgress(cli, options.progress);
  return compile(progress);
}

}  // namespace qcc::compiler
