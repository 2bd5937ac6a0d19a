// cache: what qcc keeps between compiles.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/cache/cache_folder.h"
#include "compiler/cache/code_store.h"
#include "compiler/driver/commands.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

struct CacheArguments {
  std::optional<std::string> folder;
  std::optional<uint64_t> most_bytes;
  bool all = false;
};

absl::StatusOr<std::string> FolderOf(const CacheArguments& arguments) {
  const std::string cache = arguments.folder.value_or(UsualCacheFolder());
  if (cache.empty()) {
    return MakeError("Q0101", "there is no usual folder for caches: HOME is not set", "qcc cache",
                     "name one with --cache-dir");
  }
  return CodeFolder(cache);
}

std::string Day(time_t time) {
  std::tm parts;
  char text[32] = "?";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

absl::Status List(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> folder = FolderOf(arguments);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(*folder);
  if (!entries.ok()) return entries.status();
  uint64_t bytes = 0;
  for (const CacheEntry& entry : *entries) bytes += entry.bytes;
  if (cli.json) {
    nlohmann::ordered_json object = {{"folder", *folder},
                                     {"pieces", entries->size()},
                                     {"bytes", bytes},
                                     {"max_bytes", UsualCacheBytes(*folder)}};
    if (!entries->empty()) {
      object["first_used"] = Day(entries->front().used.tv_sec);
      object["last_used"] = Day(entries->back().used.tv_sec);
    }
    PrintJson(object);
    return absl::OkStatus();
  }
  std::printf("%s: %zu pieces of code, %s of at most %s", folder->c_str(), entries->size(),
              HumanBytes(bytes).c_str(), HumanBytes(UsualCacheBytes(*folder)).c_str());
  if (!entries->empty()) {
    std::printf(", last used from %s to %s", Day(entries->front().used.tv_sec).c_str(),
                Day(entries->back().used.tv_sec).c_str());
  }
  std::printf("\n");
  return absl::OkStatus();
}

absl::Status Verify(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> folder = FolderOf(arguments);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::vector<CacheEntry>> entries = CacheEntries(*folder);
  if (!entries.ok()) return entries.status();
  std::vector<std::string> damaged;
  for (const CacheEntry& entry : *entries) {
    if (cli.interrupted != nullptr && *cli.interrupted != 0) return absl::CancelledError("interrupted");
    if (!CodeStore::Read(entry.path).empty()) continue;
    if (!cli.json) std::printf("%s is damaged\n", entry.path.c_str());
    damaged.push_back(entry.path);
  }
  const size_t whole = entries->size() - damaged.size();
  if (cli.json) {
    PrintJson({{"pieces", entries->size()}, {"whole", whole}, {"damaged", damaged}});
    return absl::OkStatus();
  }
  std::printf("%zu of %zu pieces are whole; a compile makes the others again\n", whole, entries->size());
  return absl::OkStatus();
}

absl::Status Prune(const CacheArguments& arguments, const Cli& cli) {
  absl::StatusOr<std::string> folder = FolderOf(arguments);
  if (!folder.ok()) return folder.status();
  const uint64_t most = arguments.all ? 0 : arguments.most_bytes.value_or(UsualCacheBytes(*folder));
  absl::StatusOr<Pruned> pruned = PruneCache(*folder, most);
  if (!pruned.ok()) return pruned.status();
  if (cli.json) {
    PrintJson({{"removed_files", pruned->files}, {"removed_bytes", pruned->bytes}});
    return absl::OkStatus();
  }
  std::printf("removed %zu files, %s\n", pruned->files, HumanBytes(pruned->bytes).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddCache(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("cache", "look after the code that is kept between compiles");
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
  add("list", "say what there is", List);
  add("verify", "check every byte", Verify);
  CLI::App* prune = add("prune", "remove what was not used for the longest time", Prune);
  auto* most = prune->add_option("--max-bytes", arguments->most_bytes,
                                 "how much may stay (default: 32 GiB, or a quarter of the disk)");
  most->type_name("N");
  prune->add_flag("--all", arguments->all, "remove everything")->excludes(most);
}

}  // namespace qcc::compiler
