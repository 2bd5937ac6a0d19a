// The options of `qcc compile`: one row each. The row is what the command line, its help, the checks, the
// provenance, the cache key and the page docs/reference/cli-qcc.md know of an option. A new option is a field
// of PipelineOptions, a row here, and the place that reads the field.
#ifndef QCC_COMPILER_PIPELINE_COMPILE_OPTIONS_H_
#define QCC_COMPILER_PIPELINE_COMPILE_OPTIONS_H_

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/pipeline/options.h"

namespace qcc::compiler {

class UserKernels;

// Whether the artifact's bytes depend on an option.
enum class OptionChanges : uint8_t {
  kNothing,           // what is shown, or where the artifact goes
  kArtifact,          // by its value: recorded in the provenance, part of the cache key
  kArtifactByContent  // by what lies in the folder that it names: recorded as hashes
};

// The targets for which an option means something, by what the table of targets says of them.
enum class OptionTargets : uint8_t {
  kAll,
  kCpu,
  kGpu,
  kUserKernels  // those that take a product's own kernels
};

// What a model must have for an option to mean something.
enum class ModelPart : uint8_t { kAny, kDeltaNets, kQuantisedWeights, kNextnBlock };

struct CompileOption {
  using Values = std::vector<std::string>;

  std::string_view name;             // "l2_norm": --l2-norm; the key in the provenance
  std::string_view short_flag = {};  // "-o"
  std::string_view value = {};       // how help shows the value: "LIST"; with `words` these
  bool list = false;                 // takes several values, with commas
  std::string_view help;             // one line; plain text
  std::string_view page = {};        // what the reference page says after `help`; Markdown
  std::string_view usual = {};       // the default in words, where the field's own value does not say it
  OptionChanges changes = OptionChanges::kNothing;
  CompilePhase from = CompilePhase::kImport;  // the first phase whose work depends on it
  OptionTargets targets = OptionTargets::kAll;
  ModelPart needs = ModelPart::kAny;
  std::span<const std::string_view> words = {};  // of a choice: in the order of its enum
  std::string_view implied = {};  // of a switch: the word that the flag alone means; others need `=`

  // Checks the values and stores them. Called in the table's order, without values where the option was not
  // given. Errors: Q0102.
  absl::Status (*read)(const CompileOption& option, const Values& values, PipelineOptions& options);
  // The field as text, as the provenance has it; empty: there is nothing to say.
  std::string (*write)(const CompileOption& option, const PipelineOptions& options);

  std::string Flag() const;                                 // "--l2-norm"
  std::string ValueText() const;                            // "sum|max"
  std::string DefaultText() const;                          // "exact"; empty: none
  std::string HelpText() const;                             // with the default
  std::string HelpText(std::string_view by_default) const;  // of a command that has another
  bool AppliesTo(const PipelineOptions& options) const;     // a target is chosen for which it means something
};

// In the order in which they are read: later ones may look at what earlier ones stored.
std::span<const CompileOption> CompileOptions();
// Null when there is none of that name.
const CompileOption* FindCompileOption(std::string_view name);

// Values by option name; an option that was not given is absent, and a name that is in no row is a bug.
using GivenOptions = std::map<std::string, CompileOption::Values, std::less<>>;

// Errors: Q0102, an unknown value: names the option, the value and what is accepted; or an option of a target
// that is not chosen. "native" becomes the level of this machine. Lists come out sorted, without repetition.
// Without output: the input's name with .qbin, in the current folder.
absl::StatusOr<PipelineOptions> ReadCompileOptions(const std::string& input, const GivenOptions& given);

// One sentence for each option that was given and changes nothing: the model, which has these parts, lacks
// what it is about, --compile-to stops before the phase that reads it, or other options leave out what it is
// about.
std::vector<std::string> OptionsWithoutEffect(const PipelineOptions& options, const std::set<ModelPart>& has);

// Name and value of each option that the artifact depends on by value, for the artifact's provenance.
std::vector<std::pair<std::string, std::string>> OptionsOfArtifact(const PipelineOptions& options);

// All that the artifact depends on besides the bytes of the model: compiler, the name of the model's file (it
// stands in the provenance), options, hashes of `kernels`, which are those of --kernels. A key and a value
// each, told apart by their sizes; equal texts give equal artifacts.
std::string CacheKeyText(const PipelineOptions& options, const UserKernels& kernels);

// The table of docs/reference/cli-qcc.md, in Markdown.
std::string CompileOptionsPage();

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_COMPILE_OPTIONS_H_
