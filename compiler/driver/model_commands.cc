// eval, synth.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <limits>
#include <memory>

#include "compiler/artifact/output_file.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/eval.h"
#include "compiler/driver/synth.h"
#include "compiler/pipeline/compile_options.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {

void AddEval(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("eval", "run a model through the reference evaluator (slow)");
  struct Arguments {
    EvalOptions options;
    std::string arithmetic = "f64", kv = "f32", l2_norm = "sum";
  };
  auto arguments = std::make_shared<Arguments>();
  const CompileOption& kv = *FindCompileOption("kv");
  const CompileOption& l2_norm = *FindCompileOption("l2_norm");
  command->add_option("model", arguments->options.model, "the GGUF file")->required();
  command->add_option("--tokens", arguments->options.tokens, "text file of token ids")->required();
  command->add_option("-o,--output", arguments->options.output, "logits file (LGT1)")->required();
  command->add_option("--arithmetic", arguments->arithmetic, "precision of the evaluator")
      ->type_name("f64|f32")
      ->capture_default_str();
  command->add_option(kv.Flag(), arguments->kv, std::string(kv.help))
      ->type_name(kv.ValueText())
      ->capture_default_str();
  command->add_option(l2_norm.Flag(), arguments->l2_norm, std::string(l2_norm.help))
      ->type_name(l2_norm.ValueText())
      ->capture_default_str();
  command
      ->add_option("--split", arguments->options.split,
                   "lengths of the pieces the prompt is fed in, the last repeats")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(Decimal())
      ->type_name("LIST");
  command->callback([arguments, &cli, &kv, &l2_norm] {
    cli.run = [arguments, &cli, &kv, &l2_norm]() -> absl::Status {
      if (arguments->arithmetic != "f64" && arguments->arithmetic != "f32") {
        return MakeError("Q0102", Concat("unknown value '", arguments->arithmetic, "', accepted: f64, f32"),
                         "--arithmetic");
      }
      PipelineOptions chosen;
      if (absl::Status s = kv.read(kv, {arguments->kv}, chosen); !s.ok()) return s;
      if (absl::Status s = l2_norm.read(l2_norm, {arguments->l2_norm}, chosen); !s.ok()) return s;
      arguments->options.f64 = arguments->arithmetic == "f64";
      arguments->options.kv_f16 = chosen.kv == KvMode::kF16;
      arguments->options.l2_max = chosen.l2_norm == L2NormMode::kMax;
      if (absl::Status s = CheckNotAStream(arguments->options.output); !s.ok()) return s;
      return RunEval(arguments->options, [&cli] { return *cli.interrupted != 0; });
    };
  });
}

void AddSynth(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("synth", "write a GGUF with random weights, for benchmarks and tests");
  auto options = std::make_shared<SynthOptions>();
  std::string formats;
  for (std::string_view name : SynthFormats()) formats += (formats.empty() ? "" : ", ") + std::string(name);
  command->add_option("-o,--output", options->output, "the GGUF file")->required();
  command->add_option("--arch", options->arch, "architecture")->type_name("ARCH")->capture_default_str();
  command->add_option("--preset", options->preset, "sizes: " + SynthPresetsText())
      ->type_name("PRESET")
      ->capture_default_str();
  command->add_option("--format", options->format, "format mix: " + formats)
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the random weights")
      ->type_name("N")
      ->transform(Decimal(std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->add_flag("--mtp", options->mtp, "with a NextN block");
  const struct {
    const char *name, *help;
    std::optional<int64_t>& value;
  } sizes[] = {
      {"--layers", "layers, without the NextN block", options->layers},
      {"--hidden", "embedding length", options->hidden},
      {"--ffn", "feed-forward length", options->ffn},
      {"--heads", "attention heads", options->heads},
      {"--kv-heads", "key/value heads", options->kv_heads},
      {"--head-dim", "size of an attention head", options->head_dim},
      {"--rope-dims", "rotated dimensions of a head", options->rope_dims},
      {"--context", "context length", options->context},
      {"--vocab", "vocabulary", options->vocab},
      {"--linear-key-heads", "key heads of the delta rule (hybrids)", options->linear_key_heads},
      {"--linear-value-heads", "value heads of the delta rule (hybrids)", options->linear_value_heads},
      {"--linear-head-dim", "size of a delta-rule head (hybrids)", options->linear_head_dim},
      {"--full-attention-interval", "every n-th layer is full attention (hybrids)",
       options->full_attention_interval},
      {"--experts", "experts of a layer (qwen35moe, qwen3moe, qwen3next)", options->experts},
      {"--experts-used", "experts that a token uses", options->experts_used},
      {"--expert-ffn", "feed-forward length of an expert", options->expert_ffn},
      {"--shared-ffn", "of the shared expert; 0: none (qwen35moe, qwen3next)", options->shared_ffn},
  };
  for (const auto& size : sizes) {
    command->add_option(size.name, size.value, size.help)
        ->type_name("N")
        ->transform(Decimal())
        ->group("Instead of the preset's");
  }
  command->add_option("--tied", options->tied, "the token embedding is the output matrix")
      ->type_name("0|1")
      ->check([](const std::string& value) {
        return value == "0" || value == "1" ? "" : "the value is " + value + ", expected 0 or 1";
      })
      ->group("Instead of the preset's");
  command->callback([options, &cli] {
    cli.run = [options, &cli]() -> absl::Status {
      if (absl::Status s = CheckNotAStream(options->output); !s.ok()) return s;
      if (absl::Status s = CheckOutput(options->output, "", 0); !s.ok()) return s;
      ConsoleProgress progress = MakeProgress(cli);
      progress.BeginStage(1, 1, "write random weights");
      uint64_t bytes = 0;
      absl::Status status = RunSynth(*options, [&](uint64_t done, uint64_t total) -> absl::Status {
        bytes = total;
        progress.Progress(done, total, "B");
        if (progress.Interrupted()) return absl::CancelledError("interrupted");
        return absl::OkStatus();
      });
      if (status.ok()) progress.EndStage(HumanBytes(bytes));
      return status;
    };
  });
}

}  // namespace qcc::compiler
