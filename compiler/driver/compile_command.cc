// compile.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "compiler/artifact/output_file.h"
#include "compiler/cache/cache_folder.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/compile_arguments.h"
#include "compiler/driver/model_report.h"
#include "compiler/driver/report_text.h"
#include "compiler/pipeline/cached_compile.h"
#include "compiler/targets/user_kernels.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

absl::Status MakeFolder(std::string_view option, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return MakeError("Q6002", Concat("cannot make the folder: ", error.message()), Concat(option, " ", path),
                     "name a folder that can be written into");
  }
  return absl::OkStatus();
}

// What is said of the cache's folder to all who use it, and that this command can do without.
absl::Status WithoutCacheToo(const absl::Status& status) {
  const ErrorParts parts = PartsOf(status);
  if (parts.help != kOtherCacheFolder) return status;
  return MakeError(status.code(), parts.code, parts.what, parts.where,
                   Concat(parts.help, ", or do without with --no-cache"));
}

// A path without links, as far as it exists, and without a slash at its end.
std::filesystem::path PlaceOf(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path real = std::filesystem::weakly_canonical(absolute, error);
  const std::filesystem::path place = error ? absolute.lexically_normal() : real;
  return place.has_filename() ? place : place.parent_path();
}

// The folders, and those that they lie in, are made ahead of the output, which then could not take its name.
absl::Status CheckIsNoFolder(const PipelineOptions& options) {
  const std::filesystem::path output(options.output);
  // It replaces a link.
  const std::filesystem::path place =
      PlaceOf(output.has_parent_path() ? output.parent_path() : ".") / output.filename();
  const std::string no_cache;
  for (const auto& [option, folder] : {std::pair("--dump-ir", &options.dump_ir),
                                       {"--dump-kernels", &options.dump_kernels},
                                       {"--cache-dir", options.no_cache ? &no_cache : &options.cache_dir}}) {
    if (folder->empty()) continue;
    const std::filesystem::path in = PlaceOf(*folder);
    const auto [end, rest] = std::mismatch(place.begin(), place.end(), in.begin(), in.end());
    if (end != place.end()) continue;
    const char* what = rest == in.end() ? "the output is the folder of " : "the output holds the folder of ";
    return MakeError("Q0103", Concat(what, option, ", ", *folder), options.output,
                     "choose another path for one of them");
  }
  return absl::OkStatus();
}

absl::Status RunCompile(const CompileArguments& arguments, const Cli& cli) {
  absl::StatusOr<PipelineOptions> options = arguments.Read(arguments.Given(), cli);
  if (!options.ok()) return options.status();
  if (options->compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = CheckNotAStream(options->output); !s.ok()) return s;
    if (absl::Status s = CheckIsNoFolder(*options); !s.ok()) return s;
    if (absl::Status s = CheckOutput(options->output, "", 0); !s.ok()) return s;
    for (const std::string& input : {options->input, options->mtp}) {
      if (!IsGguf(input)) continue;  // that is what is wrong, and nothing will be written
      if (absl::Status s = CheckIsNot(options->output, input); !s.ok()) return s;
    }
    absl::StatusOr<UserKernels> kernels = UserKernels::Open(options->kernels);
    if (!kernels.ok()) return kernels.status();
    for (const std::string& input : kernels->Paths()) {
      if (absl::Status s = CheckIsNot(options->output, input); !s.ok()) return s;
    }
  }
  if (absl::Status s = MakeFolder("--dump-ir", options->dump_ir); !s.ok()) return s;
  if (absl::Status s = MakeFolder("--dump-kernels", options->dump_kernels); !s.ok()) return s;
  if (cli.verbosity() > 0 && options->progress != ProgressMode::kJson) {
    std::string chosen;
    for (const auto& [name, value] : OptionsOfArtifact(*options)) {
      chosen += Concat(chosen.empty() ? "" : ", ", name, " ", value);
    }
    std::fprintf(stderr, "qcc: %s -> %s: %s\n", Clean(options->input).c_str(), Clean(options->output).c_str(),
                 Clean(chosen).c_str());
  }
  absl::Status compiled =
      WithProgress(*options, cli, [&](ProgressSink& sink) { return CompileOnce(*options, sink); });
  if (!compiled.ok()) return WithoutCacheToo(compiled);
  const bool finished = options->compile_to == CompilePhase::kArtifact;
  if (!finished || options->emit == EmittedPart::kNone) return compiled;
  return EmitPart(options->output, options->emit);
}

}  // namespace

void AddCompile(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("compile", "compile a GGUF model into a .qbin artifact");
  auto arguments = std::make_shared<CompileArguments>();
  arguments->AddTo(*command, [](const CompileOption&) { return true; });
  command->callback(
      [arguments, &cli] { cli.run = [arguments, &cli] { return RunCompile(*arguments, cli); }; });
}

}  // namespace qcc::compiler
