#include "compiler/driver/compile_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

// Of an option that may stand without its value: "--traceable[=off|on|all]", where CLI11 writes
// "--traceable{on}".
class BareOptionsFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (!MayBeBare(*option)) return Formatter::make_option_name(option, is_positional);
    return Concat("--", option->get_lnames().front(), "[=", option->get_type_name(), "]");
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return MayBeBare(*option) ? "" : Formatter::make_option_opts(option);
  }
};

}  // namespace

bool MayBeBare(const CLI::Option& option) {
  return !option.get_fnames().empty();
}

void CompileArguments::AddTo(CLI::App& command, const std::function<bool(const CompileOption&)>& wanted,
                             const std::map<std::string_view, std::string_view>& usual) {
  command.add_option("model", input_, "the GGUF file")->required();
  command.formatter(std::make_shared<BareOptionsFormatter>());
  options_.reserve(CompileOptions().size());  // CLI11 keeps where the values go
  for (const CompileOption& option : CompileOptions()) {
    if (!wanted(option)) continue;
    Argument& argument = options_.emplace_back();
    argument.name = option.name;
    const auto other = usual.find(option.name);
    const std::string help = other == usual.end() ? option.HelpText() : option.HelpText(other->second);
    const std::string flags = Concat(option.short_flag, option.short_flag.empty() ? "" : ",", option.Flag());
    if (!option.implied.empty()) {
      argument.cli = command.add_flag(Concat(flags, "{", option.implied, "}"), argument.values, help)
                         ->type_name(option.ValueText());
      continue;
    }
    argument.cli = command.add_option(flags, argument.values, help)->type_name(option.ValueText());
    argument.cli->allow_extra_args(false);  // the word behind its value is the model
    if (option.list) {
      argument.cli->delimiter(',')->take_all();
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
