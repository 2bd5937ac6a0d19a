// cache: what qcc keeps between compiles.
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/cache/artifact_store.h"
#include "compiler/cache/cache_folder.h"
#include "compiler/cache/code_store.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/compile_arguments.h"
#include "compiler/driver/report_text.h"
#include "compiler/pipeline/cached_compile.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/artifact/artifact.h"

namespace qcc::compiler {
namespace {

struct CacheArguments {
  std::optional<std::string> folder;
  std::optional<uint64_t> most_bytes;
  bool all = false;
};

absl::StatusOr<std::string> CacheOf(const CacheArguments& arguments) {
  const std::string cache = arguments.folder.value_or(qrt::aot::UsualCacheFolder());
  if (cache.empty()) {
    return MakeError("Q0101", "there is no usual folder for caches: HOME is not set", "qcc cache",
                     "name one with --cache-dir");
  }
  return cache;
}

std::string Day(time_t time) {
  std::tm parts;
  char text[32] = "?";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

bool IsArtifact(const CacheEntry& entry) {
  return entry.suffix == qrt::aot::kArtifactSuffix;
}

// Another process removed it since the folder was listed.
bool IsGone(const CacheEntry& entry) {
  return access(entry.path.c_str(), F_OK) != 0 && errno == ENOENT;
}

// "0123... 24.5 MiB, used 2026-01-31: model.gguf for cpu v3"; empty: it is gone.
std::string ArtifactLine(const CacheEntry& entry) {
  std::string line = Concat("  ", entry.path.substr(entry.path.rfind('/') + 1), "  ", HumanBytes(entry.bytes),
                            ", used ", Day(entry.used.tv_sec));
  const auto artifact = qrt::Artifact::Open(entry.path);
  if (!artifact.ok()) return IsGone(entry) ? "" : line + ": damaged\n";
  const qrt::Manifest& manifest = (*artifact)->manifest();
  line += Concat(": ", Clean(manifest.provenance.source_name), " for");
  for (const auto& code : manifest.code) line += Concat(" ", Clean(code.target), " ", Clean(code.isa));
  return line + "\n";
}

absl::Status List(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> cache = CacheOf(arguments);
  if (!cache.ok()) return cache.status();
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(*cache);
  if (!entries.ok()) return entries.status();
  uint64_t bytes = 0;
  size_t code = 0, kernels = 0;
  std::string artifacts;
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (const CacheEntry& entry : *entries) {
    const std::string line = IsArtifact(entry) ? ArtifactLine(entry) : "";
    if (IsArtifact(entry) && line.empty()) continue;
    bytes += entry.bytes;
    code += entry.suffix == qrt::aot::kCodeSuffix;
    kernels += qrt::aot::IsOfDriver(entry.suffix);
    if (!IsArtifact(entry)) continue;
    artifacts += line;
    listed.push_back({{"path", entry.path}, {"bytes", entry.bytes}, {"last_used", Day(entry.used.tv_sec)}});
  }
  if (cli.json) {
    nlohmann::ordered_json object = {{"folder", *cache}, {"artifacts", std::move(listed)},
                                     {"pieces", code},   {"driver_files", kernels},
                                     {"bytes", bytes},   {"max_bytes", UsualCacheBytes(*cache)}};
    if (!entries->empty()) {
      object["first_used"] = Day(entries->front().used.tv_sec);
      object["last_used"] = Day(entries->back().used.tv_sec);
    }
    PrintJson(object);
    return absl::OkStatus();
  }
  std::printf("%s: %zu artifacts, %zu pieces of code, %zu files of GPU drivers, %s of at most %s",
              Clean(*cache).c_str(), listed.size(), code, kernels, HumanBytes(bytes).c_str(),
              HumanBytes(UsualCacheBytes(*cache)).c_str());
  if (!entries->empty()) {
    std::printf(", last used from %s to %s", Day(entries->front().used.tv_sec).c_str(),
                Day(entries->back().used.tv_sec).c_str());
  }
  std::printf("\n%s", artifacts.c_str());
  return absl::OkStatus();
}

// A record that is damaged is found out again by who needs it: it says nothing that could be lost.
bool IsEntryWhole(const std::string& cache, const CacheEntry& entry, const VerifyProgress& progress) {
  if (entry.suffix == qrt::aot::kCodeSuffix) return !CodeStore::Read(entry.path).empty();
  if (!IsArtifact(entry)) return true;
  const auto seal = qrt::aot::ReadSeal(cache, entry.Key());
  return seal && IsWhole(entry.path, seal->identity, progress);
}

// kOthers: it is gone, or an artifact that somebody is about to seal or to replace.
enum class EntryState : uint8_t { kWhole, kDamaged, kOthers };

// Errors: cancelled.
absl::StatusOr<EntryState> StateOf(const std::string& cache, const CacheEntry& entry,
                                   const VerifyProgress& progress, const ProgressSink& sink) {
  // A second time, as others may have removed it, or finished it, while it was looked at.
  for (int look = 0; look < 2; ++look) {
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    const auto goes_on = [&](uint64_t, uint64_t) { return !sink.Interrupted(); };
    if (IsEntryWhole(cache, entry, look == 0 ? progress : goes_on)) return EntryState::kWhole;
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    if (IsGone(entry) || (IsArtifact(entry) && MakingLock::IsTaken(cache, entry.Key()))) {
      return EntryState::kOthers;
    }
  }
  return EntryState::kDamaged;
}

absl::Status Verify(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> cache = CacheOf(arguments);
  if (!cache.ok()) return cache.status();
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(*cache);
  if (!entries.ok()) return entries.status();
  // The runtime looks through what drivers compiled whenever it reads it.
  std::erase_if(*entries, [](const CacheEntry& entry) { return qrt::aot::IsOfDriver(entry.suffix); });
  uint64_t before = 0, total = 0;
  for (const CacheEntry& entry : *entries) total += entry.bytes;
  ConsoleProgress progress = MakeProgress(cli);
  progress.BeginStage(1, 1, "hash");
  size_t whole = 0;
  std::vector<std::string> damaged;
  for (const CacheEntry& entry : *entries) {
    const auto show = [&](uint64_t done, uint64_t) {
      progress.Progress(std::min(before + done, total), total, "B");
      return !progress.Interrupted();
    };
    const absl::StatusOr<EntryState> state = StateOf(*cache, entry, show, progress);
    if (!state.ok()) return state.status();
    before += entry.bytes;
    show(0, 0);
    whole += *state == EntryState::kWhole;
    if (*state == EntryState::kDamaged) damaged.push_back(entry.path);
  }
  progress.EndStage(HumanBytes(total));
  const size_t files = whole + damaged.size();
  if (cli.json) {
    PrintJson({{"files", files}, {"whole", whole}, {"damaged", damaged}});
    return absl::OkStatus();
  }
  for (const std::string& path : damaged) std::printf("%s is damaged\n", Clean(path).c_str());
  std::printf("%zu of %zu files are whole%s\n", whole, files,
              damaged.empty() ? "" : "; the others are made again when they are needed");
  return absl::OkStatus();
}

absl::Status Prune(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> cache = CacheOf(arguments);
  if (!cache.ok()) return cache.status();
  const uint64_t most = arguments.all ? 0 : arguments.most_bytes.value_or(UsualCacheBytes(*cache));
  const bool asked = arguments.all || arguments.most_bytes;
  absl::StatusOr<Pruned> pruned =
      PruneCache(*cache, most, asked ? LastArtifact::kGoes : LastArtifact::kStays);
  if (!pruned.ok()) return pruned.status();
  if (cli.json) {
    PrintJson({{"removed_files", pruned->files},
               {"removed_bytes", pruned->bytes},
               {"artifacts_in_use", pruned->in_use}});
    return absl::OkStatus();
  }
  std::printf("removed %zu files, %s", pruned->files, HumanBytes(pruned->bytes).c_str());
  if (pruned->in_use > 0) std::printf("; %zu artifacts are in use and stay", pruned->in_use);
  std::printf("\n");
  return absl::OkStatus();
}

// What `qcc cache artifact` takes of the table: the cache is where the artifact goes, and there is nothing to
// see of one that was there.
bool MeansSomethingInCache(const CompileOption& option) {
  return option.changes != OptionChanges::kNothing || option.name == "cache_dir" || option.name == "progress";
}

absl::Status Artifact(const CompileArguments& arguments, const std::string& request, const Cli& cli) {
  GivenOptions given = arguments.Given();
  // What is not said is answered for this machine alone.
  const auto target = given.find("target"), layers = given.find("layers");
  bool for_cpu = target == given.end() && layers == given.end();
  if (target != given.end()) {
    for_cpu = std::find(target->second.begin(), target->second.end(), "cpu") != target->second.end();
  }
  if (layers != given.end()) {
    for_cpu = std::any_of(layers->second.begin(), layers->second.end(),
                          [](const std::string& part) { return part.starts_with("cpu:"); });
  }
  if (for_cpu) given.try_emplace("cpu", CompileOption::Values{"native"});
  absl::StatusOr<PipelineOptions> options = arguments.Read(given, cli);
  if (!options.ok()) return options.status();
  return WithProgress(*options, cli, [&](ProgressSink& sink) -> absl::Status {
    const auto made = CompileIntoCache(*options, request, sink);
    if (!made.ok()) return made.status();
    std::printf("%s\n", made->path().c_str());
    return absl::OkStatus();
  });
}

void AddArtifact(CLI::App& command, Cli& cli) {
  CLI::App* sub = command.add_subcommand(
      "artifact",
      "print where the artifact of a model lies, compiled for this machine if it is not there yet");
  auto arguments = std::make_shared<CompileArguments>();
  auto request = std::make_shared<std::string>();
  arguments->AddTo(*sub, MeansSomethingInCache, {{"cpu", "native"}});
  sub->add_option("--request", *request, "name under which to remember the answer, for qrun")
      ->type_name("NAME")
      ->group("")  // not for people
      ->check([](const std::string& name) {
        return qrt::ParseHash(name) ? std::string() : std::string("32 hexadecimal digits are expected");
      });
  sub->callback([arguments, request, &cli] {
    cli.run = [arguments, request, &cli] { return Artifact(*arguments, *request, cli); };
  });
}

}  // namespace

void AddCache(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("cache", "look after the code and artifacts that are kept between compiles");
  command->require_subcommand(1);
  auto arguments = std::make_shared<CacheArguments>();
  const auto add = [&](const char* name, const char* about, auto run) {
    CLI::App* sub = command->add_subcommand(name, about);
    sub->add_option("--cache-dir", arguments->folder, "the cache's folder (default: ~/.cache/qcc)")
        ->type_name("DIR");
    AddJson(*sub, cli);
    sub->callback(
        [arguments, &cli, run] { cli.run = [arguments, &cli, run] { return run(*arguments, cli); }; });
    return sub;
  };
  AddArtifact(*command, cli);
  add("list", "say what there is", List);
  add("verify", "check every byte", Verify);
  CLI::App* prune = add("prune", "remove what was not used for the longest time", Prune);
  auto* most = prune->add_option("--max-bytes", arguments->most_bytes,
                                 "how much may stay (default: 32 GiB, or a quarter of the disk)");
  most->type_name("N")->transform(Decimal(std::numeric_limits<uint64_t>::max()));
  prune->add_flag("--all", arguments->all, "remove everything")->excludes(most);
}

}  // namespace qcc::compiler
