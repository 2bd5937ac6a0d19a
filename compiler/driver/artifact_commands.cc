// inspect, diff, verify, bundle.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/artifact/output_file.h"
#include "compiler/driver/artifact_diff.h"
#include "compiler/driver/bundle.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/ending.h"
#include "compiler/driver/inspect.h"
#include "compiler/driver/model_report.h"
#include "compiler/driver/report_text.h"
#include "frontends/base/error.h"
#include "runtime/base/file_map.h"

namespace qcc::compiler {

absl::Status EmitPart(const std::string& path, EmittedPart part) {
  ExpectMappedArtifact();
  const auto artifact = qrt::Artifact::Open(path);
  if (!artifact.ok()) return FromRuntime(artifact.status());
  const absl::StatusOr<ArtifactContents> contents = ReadContents(**artifact);
  if (!contents.ok()) return contents.status();
  const Json json =
      part == EmittedPart::kManifest ? ManifestJson(*contents) : KernelsJson(**artifact, *contents);
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

void AddInspect(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("inspect", "show what an artifact or a GGUF model holds");
  struct Arguments {
    std::string path, emit;
  };
  auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->path, "the .qbin or GGUF file")->required();
  AddJson(*command, cli);
  command
      ->add_option(
          "--emit", arguments->emit,
          "one part of an artifact, as JSON: manifest, or kernels (each with its specification and size)")
      ->type_name("PART")
      ->check(CLI::IsMember(
          std::set<std::string>(std::next(kEmittedPartNames.begin()), kEmittedPartNames.end())));
  command->callback([arguments, &cli] {
    cli.run = [arguments, &cli]() -> absl::Status {
      for (const EmittedPart part : {EmittedPart::kManifest, EmittedPart::kKernels}) {
        if (arguments->emit == Name(part)) return EmitPart(arguments->path, part);
      }
      if (IsGguf(arguments->path)) {
        absl::StatusOr<ModelReport> model = ReportModel(arguments->path);
        if (!model.ok()) return model.status();
        const std::string text = cli.json ? ModelReportJson(*model) : ModelReportText(*model);
        std::fwrite(text.data(), 1, text.size(), stdout);
        return absl::OkStatus();
      }
      ExpectMappedArtifact();
      const auto artifact = qrt::Artifact::Open(arguments->path);
      if (!artifact.ok()) return FromRuntime(artifact.status());
      absl::StatusOr<ArtifactContents> contents = ReadContents(**artifact);
      if (!contents.ok()) return contents.status();
      const std::string text = cli.json ? InspectJson(*contents) : InspectText(*contents);
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

void AddDiff(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand(
      "diff", "say in what two artifacts differ; exit code 0: they are equal, 1: they differ");
  struct Arguments {
    std::string a, b;
  };
  auto arguments = std::make_shared<Arguments>();
  command->add_option("a", arguments->a, "the one .qbin file")->required();
  command->add_option("b", arguments->b, "the other")->required();
  AddJson(*command, cli);
  command->callback([arguments, &cli] {
    cli.run = [arguments, &cli]() -> absl::Status {
      ExpectMappedArtifact();
      const auto a = qrt::Artifact::Open(arguments->a);
      if (!a.ok()) return FromRuntime(a.status());
      const auto b = qrt::Artifact::Open(arguments->b);
      if (!b.ok()) return FromRuntime(b.status());
      const absl::StatusOr<ArtifactDiff> diff =
          DiffArtifacts(**a, **b, [&cli] { return *cli.interrupted != 0; });
      if (!diff.ok()) return diff.status();
      const std::string text = cli.json ? DiffJson(*diff) : DiffText(*diff);
      std::fwrite(text.data(), 1, text.size(), stdout);
      cli.differs = !diff->equal;
      return absl::OkStatus();
    };
  });
}

void AddVerify(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("verify", "check every byte of an artifact, weights included");
  auto path = std::make_shared<std::string>();
  command->add_option("artifact", *path, "the .qbin file")->required();
  AddJson(*command, cli);
  command->callback([path, &cli] {
    cli.run = [path, &cli]() -> absl::Status {
      ConsoleProgress progress = MakeProgress(cli);
      progress.BeginStage(1, 1, "hash");
      ExpectMappedArtifact();
      const auto opened = qrt::Artifact::Open(*path);
      if (!opened.ok()) return FromRuntime(opened.status());
      const qrt::Artifact& artifact = **opened;
      const qrt::Status weights = artifact.VerifyWeights([&progress](uint64_t done, uint64_t total) {
        progress.Progress(done, total, "B");
        return !progress.Interrupted();
      });
      if (!weights.ok()) return FromRuntime(weights);
      if (absl::StatusOr<ArtifactContents> contents = ReadContents(artifact); !contents.ok()) {
        return contents.status();
      }
      progress.EndStage(HumanBytes(artifact.file_bytes()));
      const std::string identity = qrt::Hex(artifact.identity());
      if (cli.json) {
        PrintJson(
            {{"artifact", *path}, {"ok", true}, {"bytes", artifact.file_bytes()}, {"identity", identity}});
      } else {
        std::printf("%s ok %s\n", Clean(*path).c_str(), identity.c_str());
      }
      return absl::OkStatus();
    };
  });
}

namespace {

struct BundleArguments {
  std::string artifact, output;
  std::optional<std::string> qrun;
};

absl::Status Bundle(const BundleArguments& arguments, const Cli& cli) {
  if (absl::Status status = CheckNotAStream(arguments.output); !status.ok()) return status;
  absl::StatusOr<std::string> host_path = arguments.qrun ? *arguments.qrun : UsualBundleHost();
  if (!host_path.ok()) return host_path.status();
  ExpectMappedArtifact();
  const auto host = qrt::FileMap::Open(*host_path);
  if (!host.ok()) {
    return MakeError("Q0105", host.status().message(), *host_path, "name a qrun with --qrun");
  }
  if (absl::Status status = CheckBundleHost(host->bytes(), *host_path); !status.ok()) return status;
  const auto opened = qrt::Artifact::Open(arguments.artifact);
  if (!opened.ok()) return FromRuntime(opened.status());
  const qrt::Artifact& artifact = **opened;
  const uint64_t bytes = host->bytes().size() + artifact.file_bytes();
  for (const std::string& input : {*host_path, arguments.artifact}) {
    if (absl::Status status = CheckOutput(arguments.output, input, bytes); !status.ok()) return status;
  }
  ConsoleProgress progress = MakeProgress(cli);
  const auto step = [&progress](uint64_t done, uint64_t total) {
    progress.Progress(done, total, "B");
    return !progress.Interrupted();
  };
  progress.BeginStage(1, 2, "hash");
  if (const qrt::Status weights = artifact.VerifyWeights(step); !weights.ok()) return FromRuntime(weights);
  progress.EndStage(HumanBytes(artifact.file_bytes()));
  progress.BeginStage(2, 2, "write");
  absl::StatusOr<uint64_t> written = WriteBundle(host->bytes(), artifact.bytes(), arguments.output, step);
  if (!written.ok()) return written.status();
  progress.EndStage(HumanBytes(*written));
  return absl::OkStatus();
}

}  // namespace

void AddBundle(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("bundle", "join qrun and an artifact to one executable file");
  auto arguments = std::make_shared<BundleArguments>();
  command->add_option("artifact", arguments->artifact, "the .qbin file")->required();
  command->add_option("-o,--output", arguments->output, "the executable")->type_name("FILE")->required();
  command->add_option("--qrun", arguments->qrun, "the qrun to use; default: the one beside qcc")
      ->type_name("FILE");
  command->callback([arguments, &cli] { cli.run = [arguments, &cli] { return Bundle(*arguments, cli); }; });
}

}  // namespace qcc::compiler
