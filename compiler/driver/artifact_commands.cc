// inspect, verify.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include "compiler/artifact/content_hash.h"
#include "compiler/artifact/reader.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/inspect.h"

namespace qcc::compiler {

void AddInspect(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("inspect", "show what an artifact holds");
  struct Arguments {
    std::string path;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  command->add_option("artifact", arguments->path, "the .qbin file")->required();
  command->add_flag("--json", arguments->json, "as JSON (docs/reference/inspect.md)");
  command->callback([arguments, &cli] {
    cli.run = [arguments]() -> absl::Status {
      absl::StatusOr<ArtifactContents> contents = ReadArtifact(arguments->path);
      if (!contents.ok()) return contents.status();
      const std::string text = arguments->json ? InspectJson(*contents) : InspectText(*contents);
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

void AddVerify(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("verify", "check every byte of an artifact, weights included");
  auto path = std::make_shared<std::string>();
  command->add_option("artifact", *path, "the .qbin file")->required();
  command->callback([path, &cli] {
    cli.run = [path, &cli]() -> absl::Status {
      ConsoleProgress progress = MakeProgress(cli);
      progress.BeginStage(1, 1, "hash");
      absl::StatusOr<ArtifactContents> contents =
          ReadArtifact(*path, HashCheck::kEverything, [&progress](uint64_t done, uint64_t total) {
            progress.Progress(done, total, "B");
            return !progress.Interrupted();
          });
      if (!contents.ok()) return contents.status();
      progress.EndStage(HumanBytes(contents->file_bytes));
      std::printf("%s ok %s\n", path->c_str(), Hex(contents->identity).c_str());
      return absl::OkStatus();
    };
  });
}

}  // namespace qcc::compiler
