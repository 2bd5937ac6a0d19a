#include "compiler/pipeline/compile_options.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/pipeline/fusion_report.h"
#include "compiler/pipeline/option_values.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "compiler/targets/user_kernels.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/models/function_names.h"
#include "runtime/aot/cache_layout.h"

namespace qcc::compiler {
namespace {

using option_values::CheckDraft;
using option_values::CheckFunctions;
using option_values::CheckParts;
using option_values::CheckTraceable;
using option_values::Contains;
using option_values::Joined;
using option_values::NotChosen;
using option_values::ReadBuckets;
using option_values::ReadCacheFolder;
using option_values::ReadChoice;
using option_values::ReadCpuLevels;
using option_values::ReadDraftVocab;
using option_values::ReadGoldens;
using option_values::ReadGpuProfiles;
using option_values::ReadLayers;
using option_values::ReadName;
using option_values::ReadNames;
using option_values::ReadOutput;
using option_values::ReadReports;
using option_values::ReadRequiredFusion;
using option_values::ReadTargets;
using option_values::ReadText;
using option_values::WriteChoice;
using option_values::WriteDraftVocab;
using option_values::WriteGoldens;
using option_values::WriteLayers;
using option_values::WriteList;
using option_values::WriteMtp;
using option_values::WriteReports;
using option_values::WriteText;

// What is surely meant; the runtime's own limit (runtime/artifact/manifest.cc) is far above. Scratch grows
// with the rows of the largest bucket, and a decode row also has its logits (a vocabulary of floats), while
// the weights are read once per step whatever its rows: beyond these a bucket costs memory and gains nothing.
constexpr int64_t kMaxDecodeRows = 64, kMaxPrefillRows = 4096;

constexpr std::string_view kNumericsWords[] = {"int8", "f32"};
constexpr std::string_view kKvWords[] = {"f16", "f32"};
constexpr std::string_view kL2NormWords[] = {"sum", "max"};
constexpr std::string_view kTraceWords[] = {"off", "on", "all"};
constexpr std::string_view kLastFfnWords[] = {"chosen", "all"};
constexpr std::string_view kReportWords[] = {"fusion", "memory", "formats"};
constexpr CompilePhase kReportPhases[] = {CompilePhase::kFuse, CompilePhase::kPlan, CompilePhase::kPlan};
constexpr std::string_view kReportFormWords[] = {"text", "json"};
constexpr std::string_view kSwitchWords[] = {"off", "on"};
constexpr std::string_view kProgressWords[] = {"auto", "plain", "json"};

std::string WriteLastFfn(const CompileOption& option, const PipelineOptions& options) {
  return std::string(option.words[static_cast<size_t>(options.made_last_ffn())]);
}

constexpr CompileOption kOptions[] = {
    {.name = "output",
     .short_flag = "-o",
     .value = "FILE",
     .help = "the artifact",
     .usual = "the model's name with .qbin",
     .from = CompilePhase::kArtifact,
     .read = ReadOutput,
     .write = WriteText<&PipelineOptions::output>},
    {.name = "name",
     .value = "TEXT",
     .help = "the model's name in the artifact",
     .usual = "the file's general.name",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kArtifact,
     .read = ReadName,
     .write = WriteText<&PipelineOptions::name>},
    {.name = "target",
     .value = "LIST",
     .list = true,
     .help = "what to compile for (see qcc targets)",
     .page =
         "`cpu`, `vulkan`, `cuda`; several: one artifact that runs on each, with one copy of the weights. "
         "`--target=vulkan` alone has no CPU code",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kPlan,
     .read = ReadTargets,
     .write = WriteList<&PipelineOptions::targets>},
    {.name = "layers",
     .value = "LIST",
     .list = true,
     .help = "which layers run on which target: cpu:0-3,vulkan:4-7; each part is a device of its own",
     .page =
         "Every layer once, in order, from 0; a target may have several parts. The embedding goes with the "
         "first part, norm, head and the NextN block with the last. `--target` follows from it. Not together "
         "with `--kernels`. "
         "[layers-on-devices.md](../layers-on-devices.md)",
     .usual = "all on one device",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kPlan,
     .read = ReadLayers,
     .write = WriteLayers},
    {.name = "cpu",
     .value = "LIST",
     .list = true,
     .help = "ISA levels in the artifact, or native (see qcc targets)",
     .page = "The runtime takes the best one that the machine has",
     .usual = "all",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kCode,
     .targets = OptionTargets::kCpu,
     .read = ReadCpuLevels,
     .write = WriteList<&PipelineOptions::cpu>},
    {.name = "gpu_profiles",
     .value = "LIST",
     .list = true,
     .help = "GPU profiles in the artifact (see qcc targets)",
     .page =
         "[gpu-profiles.md](gpu-profiles.md) describes them; a target of which none is named gets its usual "
         "ones",
     .usual = "the usual ones of each target",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kCode,
     .targets = OptionTargets::kGpu,
     .read = ReadGpuProfiles,
     .write = WriteList<&PipelineOptions::gpu_profiles>},
    {.name = "kernels",
     .value = "DIR",
     .help =
         "folder with GLSL kernels of your own, NAME.comp each, which replace those of that name (vulkan)",
     .page =
         "[replace-a-kernel.md](../replace-a-kernel.md). The provenance has a `kernel NAME.comp` with the "
         "hash of each",
     .changes = OptionChanges::kArtifactByContent,
     .from = CompilePhase::kCode,
     .targets = OptionTargets::kUserKernels,
     .read = ReadText<&PipelineOptions::kernels>,
     .write = WriteText<&PipelineOptions::kernels>},
    {.name = "numerics",
     .help = "int8: activations of quantised weights in 8 bits; f32: the reference",
     .page =
         "One choice for all targets. With `int8`, activations that meet block-quantised weights are rounded "
         "to int8 blocks of 32; a matrix of at most 64 rows (outputs), such as the delta net's gate "
         "projections, keeps them f32, and attention and delta nets ahead of experts get them in two terms "
         "of 8 "
         "bits. With `f32` none is rounded, and GPUs multiply quantised weights without matrix units. "
         "Weights have the GGUF's values with both",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kFuse,
     .needs = ModelPart::kQuantisedWeights,
     .words = kNumericsWords,
     .read = ReadChoice<&PipelineOptions::numerics>,
     .write = WriteChoice<&PipelineOptions::numerics>},
    {.name = "kv",
     .help = "elements of the KV cache",
     .page =
         "With f16 and int8 numerics a CPU has rows of 16-bit integers with a scale each in its place, which "
         "are as exact and faster. Recurrent and conv states are always f32",
     .changes = OptionChanges::kArtifact,
     .words = kKvWords,
     .read = ReadChoice<&PipelineOptions::kv>,
     .write = WriteChoice<&PipelineOptions::kv>},
    {.name = "l2_norm",
     .help = "unit length of the delta net's queries and keys: sum: x * rsqrt(sum x^2 + eps); max: x / "
             "max(sqrt(sum x^2), eps)",
     .changes = OptionChanges::kArtifact,
     .needs = ModelPart::kDeltaNets,
     .words = kL2NormWords,
     .read = ReadChoice<&PipelineOptions::l2_norm>,
     .write = WriteChoice<&PipelineOptions::l2_norm>},
    {.name = "last_ffn",
     .help =
         "the last layer's feed-forward part: chosen: of the rows whose logits are asked for; all: of every "
         "row",
     .page =
         "With `chosen`, prefill leaves it out, and what makes logits of chosen rows computes it for them; "
         "logits are the same bits. Where another function needs the finished rows (`mtp`) it is "
         "computed of all, and `--report=fusion` says so. `--traceable` needs them, too, and means `all`",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kFuse,
     .words = kLastFfnWords,
     .read = ReadChoice<&PipelineOptions::last_ffn>,
     .write = WriteLastFfn},
    {.name = "traceable",
     .help = "keep last rows with a sequence: on: of each layer, for qrun --trace-layers; all: of all values "
             "inside of "
             "layers that have a name and are stored, for qrun --dump",
     .page = "`on` costs a copy of a row a layer and step, no bit of the text. With `all`, linears, sums and "
             "gates of a feed-forward part are kernels of their own, so that their results are stored: it "
             "is for looking at values, not for speed",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kFuse,
     .words = kTraceWords,
     .implied = "on",
     .read = ReadChoice<&PipelineOptions::traceable>,
     .write = WriteChoice<&PipelineOptions::traceable>},
    {.name = "decode",
     .value = "LIST",
     .list = true,
     .help = "rows of the decode programs",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kPlan,
     .read = ReadBuckets<&PipelineOptions::decode_buckets, kMaxDecodeRows>,
     .write = WriteList<&PipelineOptions::decode_buckets>},
    {.name = "prefill",
     .value = "LIST",
     .list = true,
     .help = "rows of the prefill programs, the chunk ladder",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kPlan,
     .read = ReadBuckets<&PipelineOptions::prefill_buckets, kMaxPrefillRows>,
     .write = WriteList<&PipelineOptions::prefill_buckets>},
    {.name = "functions",
     .value = "LIST",
     .list = true,
     .help = "functions of the model to make programs of",
     .page =
         "`trunk`: tokens to logits; `mtp`: the NextN block of a model that has one, with which qrun "
         "guesses tokens. A name that the model lacks is an error that lists its own. `--functions=trunk` "
         "leaves the block out",
     .usual = "all that the model has; with --traceable the trunk",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kFuse,
     .read = ReadNames<&PipelineOptions::functions>,
     .write = WriteList<&PipelineOptions::functions>},
    {.name = "mtp",
     .value = "FILE",
     .help = "GGUF of the model's NextN block, as it is published beside models without it",
     .page = "Both become one artifact, that of the whole model but for the name and hash of its source. "
             "Embedding, norm and head are the model's own",
     .changes = OptionChanges::kArtifact,
     .read = ReadText<&PipelineOptions::mtp>,
     .write = WriteMtp},
    {.name = "draft_vocab",
     .value = "N|all",
     .help = "tokens that the NextN block chooses its guesses among: the first N by id",
     .page =
         "Low ids are the frequent ones. The text stays the same: what is not among them is never "
         "guessed, and a head of N rows is read instead of the whole. N is rounded up to a multiple of 16. "
         "A file that has a trimmed head of its own (`d2t`) keeps that",
     .usual = "32768",
     .changes = OptionChanges::kArtifact,
     .needs = ModelPart::kNextnBlock,
     .read = ReadDraftVocab,
     .write = WriteDraftVocab},
    {.name = "draft",
     .help =
         "compile the NextN block of a model, or the file that holds it alone, as a draft for qrun --draft",
     .page = "The artifact guesses tokens for one of the model itself that was compiled with "
             "`--last-ffn=all`; both "
             "share nothing. Without it, model and block are one artifact and share their weights",
     .changes = OptionChanges::kArtifact,
     .words = kSwitchWords,
     .implied = "on",
     .read = ReadChoice<&PipelineOptions::draft>,
     .write = WriteChoice<&PipelineOptions::draft>},
    {.name = "goldens",
     .value = "N|off",
     .help = "tokens of the prompt whose logits go into the artifact, for qrun check",
     .page = "The compiler's reference computes them, which takes long for a large model: by itself it stays "
             "below about 10 s. There are none where no function gives logits of tokens (`--functions=mtp`, "
             "`--draft`)",
     .usual = "64, fewer or none for a large model",
     .changes = OptionChanges::kArtifact,
     .from = CompilePhase::kArtifact,
     .read = ReadGoldens,
     .write = WriteGoldens},
    {.name = "require_fused",
     .value = "LIST",
     .list = true,
     .help = "fail where a group of these kinds is not fused: gdn, moe, and the others that --report=fusion "
             "names",
     .from = CompilePhase::kFuse,
     .read = ReadRequiredFusion,
     .write = WriteList<&PipelineOptions::require_fused>},
    {.name = "cache_dir",
     .value = "DIR",
     .help = "where compiled code is kept, so that a later compile need not make it again",
     .page = "Made if missing, and kept below 32 GiB or a quarter of the disk; see `qcc cache`",
     .usual = "~/.cache/qcc",
     .read = ReadCacheFolder,
     .write = WriteText<&PipelineOptions::cache_dir>},
    {.name = "no_cache",
     .help = "make all code again, and keep none",
     .words = kSwitchWords,
     .implied = "on",
     .read = ReadChoice<&PipelineOptions::no_cache>,
     .write = WriteChoice<&PipelineOptions::no_cache>},
    {.name = "strict",
     .help = "fail at the first warning",
     .page = "About the file (a default that stands in for a missing key, a key or a tensor that is not "
             "used), and "
             "about options without effect",
     .words = kSwitchWords,
     .implied = "on",
     .read = ReadChoice<&PipelineOptions::strict>,
     .write = WriteChoice<&PipelineOptions::strict>},
    {.name = "progress",
     .help = "how stages are shown on standard error: auto: as the terminal takes it; plain: lines; json: "
             "JSON lines for a program",
     .words = kProgressWords,
     .read = ReadChoice<&PipelineOptions::progress>,
     .write = WriteChoice<&PipelineOptions::progress>},
    {.name = "report",
     .value = "LIST",
     .list = true,
     .help = "print reports: fusion (every fused group, and every missed one with the reason), memory "
             "(weights, states, arenas of the programs, scratch of threads), formats (tensors and bytes by "
             "GGUF format and pack layout)",
     .from = CompilePhase::kFuse,
     .words = kReportWords,
     .read = ReadReports,
     .write = WriteReports},
    {.name = "report_form",
     .help = "how --report is printed: tables, or a JSON object on a line for each",
     .from = CompilePhase::kFuse,
     .words = kReportFormWords,
     .read = ReadChoice<&PipelineOptions::report_form>,
     .write = WriteChoice<&PipelineOptions::report_form>},
    {.name = "emit",
     .help = "print a part of the finished artifact, as qcc inspect --emit does",
     .from = CompilePhase::kArtifact,
     .words = kEmittedPartNames,
     .read = ReadChoice<&PipelineOptions::emit>,
     .write = WriteChoice<&PipelineOptions::emit>},
    {.name = "compile_to",
     .value = "PHASE",
     .help = "stop after a phase and print its IR: import, fuse, plan, code, artifact",
     .words = kCompilePhaseNames,
     .read = ReadChoice<&PipelineOptions::compile_to>,
     .write = WriteChoice<&PipelineOptions::compile_to>},
    {.name = "dump_ir",
     .value = "DIR",
     .help = "write the IR after each phase into a folder",
     .read = ReadText<&PipelineOptions::dump_ir>,
     .write = WriteText<&PipelineOptions::dump_ir>},
    {.name = "dump_kernels",
     .value = "DIR",
     .help = "write every kernel's IR and assembly into a folder: LLVM IR, MLIR, SPIR-V, PTX",
     .page = "A folder for each ISA level, with a file for each piece that is compiled on its own; for each "
             "GPU profile in a folder `TARGET-PROFILE`, of CUDA one PTX module",
     .from = CompilePhase::kCode,
     .read = ReadText<&PipelineOptions::dump_kernels>,
     .write = WriteText<&PipelineOptions::dump_kernels>},
};

bool IsAmong(const TargetInfo& target, OptionTargets targets) {
  switch (targets) {
    case OptionTargets::kAll:
      return true;
    case OptionTargets::kCpu:
      return target.backend == nullptr;
    case OptionTargets::kGpu:
      return target.backend != nullptr;
    case OptionTargets::kUserKernels:
      return target.backend != nullptr && target.backend->userKernels;
  }
  return false;
}

std::string TargetsText(OptionTargets targets) {
  std::vector<std::string_view> names;
  for (const TargetInfo& target : Targets()) {
    if (IsAmong(target, targets)) names.push_back(target.name);
  }
  return Joined(names, " or ");
}

std::string_view LackText(ModelPart part) {
  switch (part) {
    case ModelPart::kAny:
      return "";
    case ModelPart::kDeltaNets:
      return "the model has no delta nets";
    case ModelPart::kQuantisedWeights:
      return "the model has no quantised weights";
    case ModelPart::kNextnBlock:
      return "the model has no NextN block";
  }
  return "";
}

// Why other options make one change nothing; empty: they do not.
std::string LeftOutText(const CompileOption& option, const PipelineOptions& options) {
  if (option.name == "report_form" && options.reports.empty()) return "there is no --report";
  if (option.name == "last_ffn" && options.last_ffn != options.made_last_ffn()) {
    return "--traceable shows what a layer makes of every row";
  }
  if (option.name == "cache_dir" && options.no_cache) return "--no-cache keeps nothing";
  const bool trunk = options.functions.empty() || Contains(options.functions, models::kTrunkFunction);
  if (option.name == "last_ffn" && !trunk) return "no program is made of the model's layers";
  const bool made = options.functions.empty() || Contains(options.functions, models::kMtpFunction);
  if (option.needs == ModelPart::kNextnBlock && !made && options.compile_to != CompilePhase::kImport) {
    return Concat("no program is made of the NextN block, only of ", Joined(options.functions));
  }
  return "";
}

}  // namespace

std::string CompileOption::Flag() const {
  std::string flag = Concat("--", name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string CompileOption::ValueText() const {
  return value.empty() ? Joined(words, "|") : std::string(value);
}

std::string CompileOption::DefaultText() const {
  return usual.empty() ? write(*this, PipelineOptions()) : std::string(usual);
}

std::string CompileOption::HelpText() const {
  return HelpText(DefaultText());
}

std::string CompileOption::HelpText(std::string_view by_default) const {
  return Concat(help, by_default.empty() ? "" : "; default: ", by_default);
}

bool CompileOption::AppliesTo(const PipelineOptions& options) const {
  if (targets == OptionTargets::kAll) return true;
  return std::any_of(Targets().begin(), Targets().end(), [&](const TargetInfo& target) {
    return IsAmong(target, targets) && Contains(options.targets, target.name);
  });
}

std::span<const CompileOption> CompileOptions() {
  return kOptions;
}

const CompileOption* FindCompileOption(std::string_view name) {
  const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                  [name](const CompileOption& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

absl::StatusOr<PipelineOptions> ReadCompileOptions(const std::string& input, const GivenOptions& given) {
  for (const auto& [name, values] : given) {
    if (FindCompileOption(name) == nullptr) {
      return absl::InternalError(Concat("there is no option '", name, "'"));
    }
  }
  PipelineOptions options;
  options.input = input;
  for (const CompileOption& option : kOptions) {
    const auto found = given.find(option.name);
    const bool is_given = found != given.end();
    if (absl::Status s = option.read(option, is_given ? found->second : CompileOption::Values(), options);
        !s.ok())
      return s;
    if (!is_given) continue;
    if (!option.AppliesTo(options)) {
      return NotChosen(option.Flag(), option.Flag(), TargetsText(option.targets));
    }
    options.given.emplace_back(option.name);
  }
  if (absl::Status s = CheckParts(options); !s.ok()) return s;
  if (absl::Status s = CheckFunctions(options); !s.ok()) return s;
  if (absl::Status s = CheckDraft(options); !s.ok()) return s;
  if (absl::Status s = CheckTraceable(options); !s.ok()) return s;
  return options;
}

std::vector<std::string> OptionsWithoutEffect(const PipelineOptions& options,
                                              const std::set<ModelPart>& has) {
  std::vector<std::string> out;
  for (const std::string& name : options.given) {
    const CompileOption* option = FindCompileOption(name);
    if (option == nullptr) continue;
    std::string reason;
    if (option->needs != ModelPart::kAny && !has.contains(option->needs)) {
      reason = LackText(option->needs);
    } else if (option->from > options.compile_to) {
      reason = Concat("--compile-to=", Name(options.compile_to), " stops before it is used");
    } else {
      reason = LeftOutText(*option, options);
    }
    if (!reason.empty()) out.push_back(Concat(option->Flag(), " has no effect: ", reason));
  }
  for (const ReportKind kind : options.reports) {
    const auto i = static_cast<size_t>(kind);
    if (options.compile_to < CompilePhase::kFuse || kReportPhases[i] <= options.compile_to) continue;
    out.push_back(Concat("--report=", kReportWords[i], " has no effect: --compile-to=",
                         Name(options.compile_to), " stops before it is used"));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> OptionsOfArtifact(const PipelineOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const CompileOption& option : kOptions) {
    if (option.changes != OptionChanges::kArtifact || !option.AppliesTo(options)) continue;
    std::string value = option.write(option, options);
    if (!value.empty()) out.emplace_back(option.name, std::move(value));
  }
  return out;
}

std::string CacheKeyText(const PipelineOptions& options, const UserKernels& kernels) {
  std::string text;
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += Concat(qrt::aot::NamePiece(key), qrt::aot::NamePiece(value));
  };
  add("compiler", CompilerVersion());
  add("source", std::filesystem::path(options.input).filename().string());
  for (const auto& [name, value] : OptionsOfArtifact(options)) add(name, value);
  for (const auto& [name, hash] : kernels.Provenance()) add(name, hash);
  return text;
}

}  // namespace qcc::compiler
