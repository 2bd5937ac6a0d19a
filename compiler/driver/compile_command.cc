#include <sys/stat.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/artifact/output_file.h"
#include "compiler/driver/commands.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/targets.h"
#include "frontends/gguf/error.h"
#include "frontends/gguf/text.h"

namespace qcc::compiler {
namespace {

using gguf::Concat;

constexpr int64_t kMaxDecodeRows = 64, kMaxPrefillRows = 4096;

std::string Joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& s : list) out += (out.empty() ? "" : ", ") + s;
  return out;
}

std::string Joined(const std::vector<int64_t>& list) {
  std::string out;
  for (int64_t n : list) out += Concat(out.empty() ? "" : ",", n);
  return out;
}

absl::Status UnknownValue(std::string_view option, std::string_view value,
                          const std::vector<std::string>& accepted) {
  return MakeError("Q0102", Concat("unknown value '", value, "', accepted: ", Joined(accepted)),
                   std::string(option),
                   option == "--target" || option == "--cpu" || option == "--gpu-profiles"
                       ? "qcc targets lists what each needs"
                       : "");
}

template <typename T>
absl::StatusOr<T> Choose(std::string_view option, const std::string& value,
                         const std::vector<std::pair<std::string, T>>& values) {
  std::vector<std::string> names;
  for (const auto& [name, v] : values) {
    if (name == value) return v;
    names.push_back(name);
  }
  return UnknownValue(option, value, names);
}

absl::StatusOr<std::vector<int64_t>> Buckets(std::string_view option, const std::vector<std::string>& values,
                                             int64_t max) {
  std::vector<int64_t> rows;
  for (const std::string& value : values) {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc() || end != value.data() + value.size() || n < 1 || n > max) {
      return MakeError("Q0102",
                       Concat("the bucket is '", value, "', expected a number of rows from 1 to ", max),
                       std::string(option));
    }
    rows.push_back(n);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

absl::StatusOr<std::vector<std::string>> CpuLevels(const std::vector<std::string>& values) {
  std::vector<std::string> accepted = {"native"};
  for (const cpu::IsaInfo& isa : cpu::isa_table()) accepted.emplace_back(isa.name);
  std::vector<bool> wanted(cpu::isa_table().size(), values.empty());
  for (const std::string& value : values) {
    const std::optional<cpu::Isa> isa = value == "native" ? cpu::host_isa() : cpu::isa_from_name(value);
    if (!isa) return UnknownValue("--cpu", value, accepted);
    wanted[static_cast<size_t>(*isa)] = true;
  }
  std::vector<std::string> levels;
  for (const cpu::IsaInfo& isa : cpu::isa_table()) {
    if (wanted[static_cast<size_t>(isa.id)]) levels.emplace_back(isa.name);
  }
  return levels;
}

absl::Status NotChosen(std::string_view option, std::string_view targets) {
  return MakeError("Q0102", Concat("it is for target ", targets, ", which is not chosen"),
                   std::string(option), Concat("add it to --target, or leave out ", option));
}

bool Chosen(const PipelineOptions& options, std::string_view target) {
  return std::find(options.targets.begin(), options.targets.end(), target) != options.targets.end();
}

// In the order of the table, without repetition.
absl::StatusOr<std::vector<std::string>> TargetList(const std::vector<std::string>& values) {
  std::vector<std::string> accepted, targets;
  for (const TargetInfo& target : Targets()) {
    accepted.emplace_back(target.name);
    const bool wanted = std::find(values.begin(), values.end(), target.name) != values.end();
    if (wanted || (values.empty() && target.name == "cpu")) targets.emplace_back(target.name);
  }
  for (const std::string& value : values) {
    if (FindTarget(value) == nullptr) return UnknownValue("--target", value, accepted);
  }
  return targets;
}

// The named profiles of the chosen targets; a target of which none is named gets its usual ones.
absl::StatusOr<std::vector<std::string>> GpuProfiles(const PipelineOptions& options,
                                                     const std::vector<std::string>& values) {
  std::vector<std::string> accepted, profiles;
  for (const gpu::ProfileInfo& info : gpu::Profiles()) accepted.push_back(info.profile.name);
  for (const std::string& value : values) {
    const gpu::ProfileInfo* info = gpu::FindProfile(value);
    if (info == nullptr) return UnknownValue("--gpu-profiles", value, accepted);
    if (!Chosen(options, info->target)) {
      return NotChosen(Concat("--gpu-profiles=", value), info->target);
    }
  }
  auto named = [&](const gpu::ProfileInfo& info) {
    return std::find(values.begin(), values.end(), info.profile.name) != values.end();
  };
  for (const gpu::ProfileInfo& info : gpu::Profiles()) {
    if (!Chosen(options, info.target)) continue;
    const bool any = std::any_of(gpu::Profiles().begin(), gpu::Profiles().end(), [&](const auto& other) {
      return other.target == info.target && named(other);
    });
    if (any ? named(info) : info.by_default) profiles.push_back(info.profile.name);
  }
  return profiles;
}

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
  absl::StatusOr<PipelineOptions> options = ToPipelineOptions(arguments);
  if (!options.ok()) return options.status();
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
  if (cli.verbosity() > 0) {
    std::fprintf(
        stderr,
        "qcc: %s -> %s: targets %s, cpu %s, GPU profiles %s, numerics %s, kv %s, decode %s, prefill %s\n",
        options->input.c_str(), options->output.c_str(), Joined(options->targets).c_str(),
        Joined(options->cpu).c_str(), Joined(options->gpu_profiles).c_str(), arguments.numerics.c_str(),
        arguments.kv.c_str(), Joined(options->decode_buckets).c_str(),
        Joined(options->prefill_buckets).c_str());
  }
  ConsoleProgress progress = MakeProgress(cli);
  return CompileModel(*options, progress);
}

}  // namespace

absl::StatusOr<PipelineOptions> ToPipelineOptions(const CompileArguments& arguments) {
  PipelineOptions options;
  options.input = arguments.input;
  options.output = arguments.output;
  if (options.output.empty()) {
    options.output = std::filesystem::path(arguments.input).filename().replace_extension(".qbin").string();
  }
  absl::StatusOr<std::vector<std::string>> targets = TargetList(arguments.targets);
  if (!targets.ok()) return targets.status();
  options.targets = *std::move(targets);
  if (!arguments.cpu.empty() && !Chosen(options, "cpu")) return NotChosen("--cpu", "cpu");
  absl::StatusOr<std::vector<std::string>> profiles = GpuProfiles(options, arguments.gpu_profiles);
  if (!profiles.ok()) return profiles.status();
  options.gpu_profiles = *std::move(profiles);
  if (!arguments.kernels.empty() && !Chosen(options, "vulkan")) return NotChosen("--kernels", "vulkan");
  options.kernels = arguments.kernels;
  absl::StatusOr<std::vector<std::string>> levels = CpuLevels(arguments.cpu);
  if (!levels.ok()) return levels.status();
  if (Chosen(options, "cpu")) {
    options.cpu = *std::move(levels);
  } else {
    options.cpu.clear();
  }

  auto numerics = Choose<NumericsMode>("--numerics", arguments.numerics,
                                       {{"int8", NumericsMode::kInt8}, {"f32", NumericsMode::kF32}});
  if (!numerics.ok()) return numerics.status();
  options.numerics = *numerics;
  auto kv = Choose<KvMode>("--kv", arguments.kv, {{"f16", KvMode::kF16}, {"f32", KvMode::kF32}});
  if (!kv.ok()) return kv.status();
  options.kv = *kv;
  auto l2_norm = Choose<L2NormMode>("--l2-norm", arguments.l2_norm,
                                    {{"sum", L2NormMode::kSum}, {"max", L2NormMode::kMax}});
  if (!l2_norm.ok()) return l2_norm.status();
  options.l2_norm = *l2_norm;
  if (!arguments.delta_rule.empty()) {
    if (options.gpu_profiles.empty()) return NotChosen("--delta-rule", "vulkan or cuda");
    auto rule =
        Choose<DeltaRuleMode>("--delta-rule", arguments.delta_rule,
                              {{"exact", DeltaRuleMode::kExact}, {"chunked", DeltaRuleMode::kChunked}});
    if (!rule.ok()) return rule.status();
    options.delta_rule = *rule;
  }
  std::vector<std::pair<std::string, CompilePhase>> phases;
  for (CompilePhase phase : {CompilePhase::kImport, CompilePhase::kFuse, CompilePhase::kPlan,
                             CompilePhase::kCode, CompilePhase::kArtifact}) {
    phases.emplace_back(Name(phase), phase);
  }
  auto phase = Choose<CompilePhase>("--compile-to", arguments.compile_to, phases);
  if (!phase.ok()) return phase.status();
  options.compile_to = *phase;
  for (const std::string& report : arguments.report) {
    if (report != "fusion") return UnknownValue("--report", report, {"fusion"});
    options.report_fusion = true;
  }
  if (!arguments.decode.empty()) {
    auto rows = Buckets("--decode", arguments.decode, kMaxDecodeRows);
    if (!rows.ok()) return rows.status();
    options.decode_buckets = *std::move(rows);
  }
  if (!arguments.prefill.empty()) {
    auto rows = Buckets("--prefill", arguments.prefill, kMaxPrefillRows);
    if (!rows.ok()) return rows.status();
    options.prefill_buckets = *std::move(rows);
  }
  options.dump_ir = arguments.dump_ir;
  options.dump_kernels = arguments.dump_kernels;
  options.verbosity = arguments.verbosity;
  return options;
}

void AddCompile(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("compile", "compile a GGUF model into a .qbin artifact");
  auto arguments = std::make_shared<CompileArguments>();
  const PipelineOptions defaults;
  auto list = [command](const char* name, std::vector<std::string>& values, const std::string& help) {
    return command->add_option(name, values, help)->delimiter(',')->take_all()->allow_extra_args(false);
  };
  command->add_option("model", arguments->input, "the GGUF file")->required();
  command->add_option("-o,--output", arguments->output, "the artifact; default: the model's name with .qbin");
  list("--target", arguments->targets, "what to compile for (see qcc targets); default: cpu")
      ->type_name("LIST");
  list("--cpu", arguments->cpu, "ISA levels in the artifact, or native (see qcc targets); default: all")
      ->type_name("LIST");
  list("--gpu-profiles", arguments->gpu_profiles,
       "GPU profiles in the artifact (see qcc targets); default: the usual ones of each target")
      ->type_name("LIST");
  command
      ->add_option(
          "--kernels", arguments->kernels,
          "folder with GLSL kernels of your own, NAME.comp each, which replace those of that name (vulkan)")
      ->type_name("DIR");
  command
      ->add_option("--numerics", arguments->numerics,
                   "int8: activations of quantised weights in 8 bits; f32: the reference")
      ->type_name("int8|f32")
      ->capture_default_str();
  command->add_option("--kv", arguments->kv, "elements of the KV cache")
      ->type_name("f16|f32")
      ->capture_default_str();
  command
      ->add_option("--l2-norm", arguments->l2_norm,
                   "unit length of the delta net's queries and keys: sum: x * rsqrt(sum x^2 + eps); max: x / "
                   "max(sqrt(sum x^2), eps)")
      ->type_name("sum|max")
      ->capture_default_str();
  command
      ->add_option(
          "--delta-rule", arguments->delta_rule,
          "how GPUs prefill delta nets: exact: token by token, and where a prompt is cut changes no bit; "
          "chunked: 16 tokens at a time; default: exact")
      ->type_name("exact|chunked");
  list("--decode", arguments->decode,
       "rows of the decode programs; default: " + Joined(defaults.decode_buckets))
      ->type_name("LIST");
  list("--prefill", arguments->prefill,
       "rows of the prefill programs, the chunk ladder; default: " + Joined(defaults.prefill_buckets))
      ->type_name("LIST");
  list("--report", arguments->report, "print a report: fusion")->type_name("LIST");
  command
      ->add_option("--compile-to", arguments->compile_to,
                   "stop after a phase: import, fuse, plan, code, artifact")
      ->type_name("PHASE")
      ->capture_default_str();
  command->add_option("--dump-ir", arguments->dump_ir, "write the IR after each phase into a folder")
      ->type_name("DIR");
  command
      ->add_option("--dump-kernels", arguments->dump_kernels,
                   "write every kernel's IR and assembly into a folder: LLVM IR, MLIR, SPIR-V, PTX")
      ->type_name("DIR");
  command->callback([arguments, &cli] {
    cli.run = [arguments, &cli] {
      arguments->verbosity = cli.verbosity();
      return RunCompile(*arguments, cli);
    };
  });
}

}  // namespace qcc::compiler
