#include "compiler/pipeline/option_values.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/pipeline/fusion_report.h"
#include "compiler/pipeline/layer_parts.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "runtime/abi/qbin.h"
#include "runtime/aot/cache_layout.h"

namespace qcc::compiler::option_values {
namespace {

constexpr std::string_view kSeeTargets = "qcc targets lists what each needs";

}  // namespace

absl::Status NotChosen(const std::string& given, std::string_view flag, std::string_view targets) {
  return MakeError("Q0102", Concat("it is for target ", targets, ", which is not chosen"), given,
                   Concat("add it to --target, or leave out ", flag));
}

std::optional<int64_t> ReadNumber(const std::string& text, int64_t most) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1 || n > most) return std::nullopt;
  return n;
}

absl::Status ReadOutput(const CompileOption&, const Values& values, PipelineOptions& options) {
  options.output = values.empty()
                       ? std::filesystem::path(options.input).filename().replace_extension(".qbin").string()
                       : values.front();
  return absl::OkStatus();
}

absl::Status ReadCacheFolder(const CompileOption&, const Values& values, PipelineOptions& options) {
  options.cache_dir = values.empty() ? qrt::aot::UsualCacheFolder() : values.front();
  return absl::OkStatus();
}

absl::Status ReadName(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  if (values.front().size() > QBIN_MAX_STRING) {
    return MakeError(
        "Q0102", Concat("the name has ", values.front().size(), " bytes, expected at most ", QBIN_MAX_STRING),
        option.Flag());
  }
  options.name = values.front();
  return absl::OkStatus();
}

absl::Status ReadTargets(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  std::vector<std::string_view> accepted;
  options.targets.clear();
  for (const TargetInfo& target : Targets()) {
    accepted.push_back(target.name);
    if (Contains(values, target.name)) options.targets.emplace_back(target.name);
  }
  for (const std::string& value : values) {
    if (FindTarget(value) == nullptr) return UnknownValue(option, value, accepted, kSeeTargets);
  }
  return absl::OkStatus();
}

absl::Status ReadLayers(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<LayerPart>> parts = ParseLayerParts(values, option.Flag());
  if (!parts.ok()) return parts.status();
  std::vector<std::string> targets;
  for (const TargetInfo& target : Targets()) {
    const bool used = std::any_of(parts->begin(), parts->end(),
                                  [&](const LayerPart& part) { return part.target == target.name; });
    if (used) targets.emplace_back(target.name);
  }
  if (Contains(options.given, "target") && options.targets != targets) {
    return MakeError(
        "Q0102", Concat("its targets are ", Joined(targets), ", those of --target ", Joined(options.targets)),
        option.Flag(), "leave out --target: the layers' targets are what is compiled for");
  }
  options.targets = std::move(targets);
  options.layers = *std::move(parts);
  return absl::OkStatus();
}
std::string WriteLayers(const CompileOption&, const PipelineOptions& options) {
  return LayerPartsText(options.layers);
}

absl::Status CheckFunctions(PipelineOptions& options) {
  if (options.functions.empty() && options.traced()) {
    options.functions = {std::string(models::kTrunkFunction)};
  }
  if (options.mtp.empty() || options.functions.empty() || Contains(options.functions, models::kMtpFunction)) {
    return absl::OkStatus();
  }
  return MakeError(
      "Q0102",
      Concat("the NextN block is given, and programs are made of ", Joined(options.functions), " alone"),
      FindCompileOption("mtp")->Flag(),
      options.traced() ? "leave it out, or add --functions=trunk,mtp" : "leave it out");
}

absl::Status CheckParts(const PipelineOptions& options) {
  if (!options.in_parts()) return absl::OkStatus();
  if (!options.kernels.empty()) {
    return MakeError("Q0102", "it cannot be used with --layers, which gives layers to several devices",
                     FindCompileOption("kernels")->Flag(), "leave out one of them");
  }
  if (options.functions.empty() || Contains(options.functions, models::kTrunkFunction)) {
    return absl::OkStatus();
  }
  return MakeError("Q0102", "--layers gives the trunk's layers to several devices, and it is not among them",
                   FindCompileOption("functions")->Flag(), "add trunk, or leave out one of them");
}

absl::Status CheckTraceable(const PipelineOptions& options) {
  if (!options.traced() || options.functions.empty() || Contains(options.functions, models::kTrunkFunction)) {
    return absl::OkStatus();
  }
  return MakeError("Q0102", "--traceable shows what the trunk's layers make, and it is not among them",
                   FindCompileOption("functions")->Flag(), "add trunk, or leave out one of them");
}

absl::Status CheckDraft(PipelineOptions& options) {
  if (!options.draft) return absl::OkStatus();
  const struct {
    std::string_view name;
    bool given;
  } others[] = {{"functions", Contains(options.given, "functions")},
                {"mtp", !options.mtp.empty()},
                {"layers", !options.layers.empty()},
                {"goldens", options.golden_tokens.value_or(0) != 0},
                {"traceable", options.traced()}};
  for (const auto& other : others) {
    if (!other.given) continue;
    return MakeError("Q0102", "it cannot be used with --draft, which compiles the NextN block alone",
                     FindCompileOption(other.name)->Flag(), "leave out one of them");
  }
  options.functions = {std::string(models::kMtpFunction)};
  options.golden_tokens = 0;
  return absl::OkStatus();
}

absl::Status ReadCpuLevels(const CompileOption& option, const Values& values, PipelineOptions& options) {
  std::vector<std::string_view> accepted = {"native"};
  for (const cpu::IsaInfo& isa : cpu::isa_table()) accepted.push_back(isa.name);
  std::vector<bool> wanted(cpu::isa_table().size(), values.empty());
  for (const std::string& value : values) {
    const std::optional<cpu::Isa> isa = value == "native" ? cpu::host_isa() : cpu::isa_from_name(value);
    if (!isa) return UnknownValue(option, value, accepted, kSeeTargets);
    wanted[static_cast<size_t>(*isa)] = true;
  }
  options.cpu.clear();
  if (!option.AppliesTo(options)) return absl::OkStatus();
  for (const cpu::IsaInfo& isa : cpu::isa_table()) {
    if (wanted[static_cast<size_t>(isa.id)]) options.cpu.emplace_back(isa.name);
  }
  return absl::OkStatus();
}

absl::Status ReadGpuProfiles(const CompileOption& option, const Values& values, PipelineOptions& options) {
  std::vector<std::string_view> accepted;
  for (const gpu::ProfileInfo& info : gpu::Profiles()) accepted.push_back(info.profile.name);
  for (const std::string& value : values) {
    const gpu::ProfileInfo* info = gpu::FindProfile(value);
    if (info == nullptr) return UnknownValue(option, value, accepted, kSeeTargets);
    if (!Contains(options.targets, info->target)) {
      const std::string given = Concat(option.Flag(), "=", value);
      return NotChosen(given, given, info->target);
    }
  }
  options.gpu_profiles.clear();
  for (const gpu::ProfileInfo& info : gpu::Profiles()) {
    if (!Contains(options.targets, info.target)) continue;
    const bool any = std::any_of(gpu::Profiles().begin(), gpu::Profiles().end(), [&](const auto& other) {
      return other.target == info.target && Contains(values, other.profile.name);
    });
    if (any ? Contains(values, info.profile.name) : info.by_default) {
      options.gpu_profiles.push_back(info.profile.name);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRequiredFusion(const CompileOption& option, const Values& values, PipelineOptions& options) {
  const std::vector<std::string> kinds = FusionKinds();
  for (const std::string& value : values) {
    if (!Contains(kinds, value)) return UnknownValue(option, value, kinds);
  }
  return ReadNames<&PipelineOptions::require_fused>(option, values, options);
}

absl::Status ReadGoldens(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  if (values.front() == kNoGoldens) {
    options.golden_tokens = 0;
    return absl::OkStatus();
  }
  const std::optional<int64_t> tokens = ReadNumber(values.front(), kMaxGoldenTokens);
  if (!tokens) {
    return MakeError("Q0102",
                     Concat("the value is '", values.front(), "', expected a number of tokens from 1 to ",
                            kMaxGoldenTokens, ", or ", kNoGoldens),
                     option.Flag());
  }
  options.golden_tokens = tokens;
  return absl::OkStatus();
}
std::string WriteGoldens(const CompileOption&, const PipelineOptions& options) {
  if (!options.golden_tokens) return "";
  return *options.golden_tokens == 0 ? std::string(kNoGoldens) : std::to_string(*options.golden_tokens);
}

std::string WriteMtp(const CompileOption&, const PipelineOptions& options) {
  return std::filesystem::path(options.mtp).filename().string();
}

absl::Status ReadDraftVocab(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  const std::string& value = values.front();
  if (value == kAllTokens) {
    options.draft_vocab = 0;
    return absl::OkStatus();
  }
  options.draft_vocab = ReadNumber(value, kMaxVocabulary);
  if (options.draft_vocab) return absl::OkStatus();
  return MakeError("Q0102",
                   Concat("the value is '", value, "', expected a number of tokens from 1 to ",
                          kMaxVocabulary, ", or ", kAllTokens),
                   option.Flag());
}
std::string WriteDraftVocab(const CompileOption&, const PipelineOptions& options) {
  if (!options.draft_vocab) return "";
  return *options.draft_vocab == 0 ? std::string(kAllTokens) : std::to_string(*options.draft_vocab);
}

absl::Status ReadReports(const CompileOption& option, const Values& values, PipelineOptions& options) {
  for (const std::string& value : values) {
    if (std::find(option.words.begin(), option.words.end(), value) == option.words.end()) {
      return UnknownValue(option, value, option.words);
    }
  }
  for (size_t kind = 0; kind < option.words.size(); ++kind) {
    if (Contains(values, option.words[kind])) options.reports.push_back(static_cast<ReportKind>(kind));
  }
  return absl::OkStatus();
}
std::string WriteReports(const CompileOption& option, const PipelineOptions& options) {
  std::vector<std::string_view> words;
  words.reserve(options.reports.size());
  for (const ReportKind kind : options.reports) words.push_back(option.words[static_cast<size_t>(kind)]);
  return Joined(words);
}

}  // namespace qcc::compiler::option_values
