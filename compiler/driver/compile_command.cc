// compile: the table of options (compiler/pipeline/compile_options.h) as a command line.
#include <sys/stat.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "compiler/artifact/output_file.h"
#include "compiler/driver/commands.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/pipeline.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

// What the command line filled.
struct CompileArguments {
  std::string input;
  struct Argument {
    std::string_view name;
    CompileOption::Values values;
    CLI::Option* cli = nullptr;
  };
  std::vector<Argument> options;

  GivenOptions Given() const {
    GivenOptions given;
    for (const Argument& argument : options) {
      if (argument.cli->count() > 0) given.emplace(argument.name, argument.values);
    }
    return given;
  }
};

absl::Status MakeFolder(std::string_view option, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return MakeError("Q6002", Concat("cannot make the folder: ", error.message()), Concat(option, " ", path));
  }
  return absl::OkStatus();
}

absl::Status RunCompile(const CompileArguments& arguments, const Cli& cli) {
  absl::StatusOr<PipelineOptions> options = ReadCompileOptions(arguments.input, arguments.Given());
  if (!options.ok()) return options.status();
  options->verbosity = cli.verbosity();
  if (options->compile_to == CompilePhase::kArtifact) {
    // Packed weights take about what they take in the GGUF.
    struct stat input;
    const uint64_t bytes =
        stat(options->input.c_str(), &input) == 0 ? static_cast<uint64_t>(input.st_size) : 0;
    if (absl::Status s = CheckNotAStream(options->output); !s.ok()) return s;
    if (absl::Status s = CheckOutput(options->output, options->input, bytes); !s.ok()) return s;
  }
  if (absl::Status s = MakeFolder("--dump-ir", options->dump_ir); !s.ok()) return s;
  if (absl::Status s = MakeFolder("--dump-kernels", options->dump_kernels); !s.ok()) return s;
  if (cli.verbosity() > 0 && options->progress != ProgressMode::kJson) {
    std::string chosen;
    for (const auto& [name, value] : OptionsOfArtifact(*options)) {
      chosen += Concat(chosen.empty() ? "" : ", ", name, " ", value);
    }
    std::fprintf(stderr, "qcc: %s -> %s: %s\n", options->input.c_str(), options->output.c_str(),
                 chosen.c_str());
  }
  if (options->progress == ProgressMode::kJson) {
    JsonProgress progress(stderr, stdout, cli.verbosity(), cli.interrupted);
    return CompileModel(*options, progress);
  }
  ConsoleProgress progress = MakeProgress(cli, options->progress);
  return CompileModel(*options, progress);
}

}  // namespace

void AddCompile(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("compile", "compile a GGUF model into a .qbin artifact");
  auto arguments = std::make_shared<CompileArguments>();
  command->add_option("model", arguments->input, "the GGUF file")->required();
  arguments->options.resize(CompileOptions().size());
  size_t next = 0;
  for (const CompileOption& option : CompileOptions()) {
    CompileArguments::Argument& argument = arguments->options[next++];
    argument.name = option.name;
    const std::string flags = Concat(option.short_flag, option.short_flag.empty() ? "" : ",", option.Flag());
    if (!option.implied.empty()) {
      argument.cli =
          command->add_flag(Concat(flags, "{", option.implied, "}"), argument.values, option.HelpText());
      continue;
    }
    argument.cli =
        command->add_option(flags, argument.values, option.HelpText())->type_name(option.ValueText());
    if (option.list) {
      argument.cli->delimiter(',')->take_all()->allow_extra_args(false);
    } else {
      argument.cli->expected(1);
    }
  }
  command->callback(
      [arguments, &cli] { cli.run = [arguments, &cli] { return RunCompile(*arguments, cli); }; });
}

}  // namespace qcc::compiler
