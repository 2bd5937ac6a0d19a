// eval, synth.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "compiler/driver/commands.h"
#include "compiler/driver/eval.h"
#include "frontends/gguf/error.h"
#include "frontends/gguf/text.h"

namespace qcc::compiler {

void AddEval(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("eval", "run a model through the reference evaluator (slow)");
  struct Arguments {
    EvalOptions options;
    std::string arithmetic = "f64", kv = "f32";
  };
  auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->options.model, "the GGUF file")->required();
  command->add_option("--tokens", arguments->options.tokens, "text file of token ids")->required();
  command->add_option("-o,--output", arguments->options.output, "logits file (LGT1)")->required();
  command->add_option("--arithmetic", arguments->arithmetic, "precision of the evaluator")
      ->type_name("f64|f32")
      ->capture_default_str();
  command->add_option("--kv", arguments->kv, "elements of the KV cache")
      ->type_name("f32|f16")
      ->capture_default_str();
  command
      ->add_option("--split", arguments->options.split,
                   "lengths of the pieces the prompt is fed in, the last repeats")
      ->delimiter(',')
      ->type_name("LIST");
  command->callback([arguments, &cli] {
    cli.run = [arguments]() -> absl::Status {
      const struct {
        const char* option;
        const std::string& value;
        const char *yes, *no;
        bool& flag;
      } choices[] = {{"--arithmetic", arguments->arithmetic, "f64", "f32", arguments->options.f64},
                     {"--kv", arguments->kv, "f16", "f32", arguments->options.kv_f16}};
      for (const auto& c : choices) {
        if (c.value != c.yes && c.value != c.no) {
          return MakeError("Q0102",
                           gguf::Concat("unknown value '", c.value, "', accepted: ", c.yes, ", ", c.no),
                           c.option);
        }
        c.flag = c.value == c.yes;
      }
      return RunEval(arguments->options);
    };
  });
}

}  // namespace qcc::compiler
