// inspect, verify.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/driver/commands.h"
#include "compiler/driver/ending.h"
#include "compiler/driver/inspect.h"
#include "compiler/driver/model_report.h"

namespace qcc::compiler {

void AddInspect(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("inspect", "show what an artifact or a GGUF model holds");
  auto path = std::make_shared<std::string>();
  command->add_option("file", *path, "the .qbin or GGUF file")->required();
  AddJson(*command, cli);
  command->callback([path, &cli] {
    cli.run = [path, &cli]() -> absl::Status {
      if (IsGguf(*path)) {
        absl::StatusOr<ModelReport> model = ReportModel(*path);
        if (!model.ok()) return model.status();
        const std::string text = cli.json ? ModelReportJson(*model) : ModelReportText(*model);
        std::fwrite(text.data(), 1, text.size(), stdout);
        return absl::OkStatus();
      }
      ExpectMappedArtifact();
      const auto artifact = qrt::Artifact::Open(*path);
      if (!artifact.ok()) return FromRuntime(artifact.status());
      absl::StatusOr<ArtifactContents> contents = ReadContents(**artifact);
      if (!contents.ok()) return contents.status();
      const std::string text = cli.json ? InspectJson(*contents) : InspectText(*contents);
      std::fwrite(text.data(), 1, text.size(), stdout);
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
        std::printf("%s ok %s\n", path->c_str(), identity.c_str());
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace qcc::compiler
