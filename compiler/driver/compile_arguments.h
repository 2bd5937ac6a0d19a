// The table of options (compiler/pipeline/compile_options.h) as a command line.
#ifndef QCC_COMPILER_DRIVER_COMPILE_ARGUMENTS_H_
#define QCC_COMPILER_DRIVER_COMPILE_ARGUMENTS_H_

#include <CLI/App.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/driver/commands.h"
#include "compiler/pipeline/compile_options.h"

namespace qcc::compiler {

// Whether its value, which stands behind "=", may be left out: that of an option with a value `implied`.
bool MayBeBare(const CLI::Option& option);

// What the command line of a compile says. Lives until it is parsed.
class CompileArguments {
 public:
  // Declares the model and the options that `wanted` takes. `usual`: defaults, in words, that are others than
  // those of the table, by option name.
  void AddTo(CLI::App& command, const std::function<bool(const CompileOption&)>& wanted,
             const std::map<std::string_view, std::string_view>& usual = {});

  GivenOptions Given() const;
  // `given`: what Given says, or more.
  absl::StatusOr<PipelineOptions> Read(const GivenOptions& given, const Cli& cli) const;

 private:
  struct Argument {
    std::string_view name;
    CompileOption::Values values;
    CLI::Option* cli = nullptr;
  };
  std::string input_;
  std::vector<Argument> options_;
};

// Runs `compile` with progress as `options` asks for it.
absl::Status WithProgress(const PipelineOptions& options, const Cli& cli,
                          const std::function<absl::Status(ProgressSink&)>& compile);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_COMPILE_ARGUMENTS_H_
