// How the options of `qcc compile` are read from their values and written again: what the table of
// compile_options.cc names for each. A reader leaves its field alone where no value is given, and says what
// it would have accepted.
#ifndef QCC_COMPILER_PIPELINE_OPTION_VALUES_H_
#define QCC_COMPILER_PIPELINE_OPTION_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/compile_options.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler::option_values {

using Values = CompileOption::Values;

inline constexpr std::string_view kNoGoldens = "off";
inline constexpr int64_t kMaxGoldenTokens = 64;
inline constexpr std::string_view kAllTokens = "all";
inline constexpr int64_t kMaxVocabulary = 1 << 23;  // that the runtime takes

inline std::string Piece(const std::string& text) {
  return text;
}
inline std::string Piece(std::string_view text) {
  return std::string(text);
}
inline std::string Piece(int64_t number) {
  return std::to_string(number);
}
template <typename List>
std::string Joined(const List& list, std::string_view separator = ",") {
  std::string out;
  for (const auto& item : list) out += Concat(out.empty() ? "" : separator, Piece(item));
  return out;
}

inline bool Contains(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

template <typename List>
absl::Status UnknownValue(const CompileOption& option, std::string_view value, const List& accepted,
                          std::string_view help = "") {
  return MakeError("Q0102", Concat("unknown value '", value, "', accepted: ", Joined(accepted, ", ")),
                   option.Flag(), std::string(help));
}

// `given` is for targets of which none is chosen.
absl::Status NotChosen(const std::string& given, std::string_view flag, std::string_view targets);

// Fields of one kind are read and written by one pair of functions.

template <auto kField>
absl::Status ReadChoice(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  const auto word = std::find(option.words.begin(), option.words.end(), values.front());
  if (word == option.words.end()) return UnknownValue(option, values.front(), option.words);
  auto& field = options.*kField;
  field = static_cast<std::remove_reference_t<decltype(field)>>(word - option.words.begin());
  return absl::OkStatus();
}
template <auto kField>
std::string WriteChoice(const CompileOption& option, const PipelineOptions& options) {
  return std::string(option.words[static_cast<size_t>(options.*kField)]);
}

template <auto kField>
absl::Status ReadText(const CompileOption&, const Values& values, PipelineOptions& options) {
  if (!values.empty()) options.*kField = values.front();
  return absl::OkStatus();
}
template <auto kField>
std::string WriteText(const CompileOption&, const PipelineOptions& options) {
  return options.*kField;
}

// A number from 1 to `most`.
std::optional<int64_t> ReadNumber(const std::string& text, int64_t most);

template <auto kField, int64_t kMax>
absl::Status ReadBuckets(const CompileOption& option, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  std::vector<int64_t> rows;
  for (const std::string& value : values) {
    const std::optional<int64_t> n = ReadNumber(value, kMax);
    if (!n) {
      return MakeError("Q0102",
                       Concat("the bucket is '", value, "', expected a number of rows from 1 to ", kMax),
                       option.Flag());
    }
    rows.push_back(*n);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  options.*kField = std::move(rows);
  return absl::OkStatus();
}
template <auto kField>
std::string WriteList(const CompileOption&, const PipelineOptions& options) {
  return Joined(options.*kField);
}

// Names that only the model can judge; each once, in the order given.
template <auto kField>
absl::Status ReadNames(const CompileOption&, const Values& values, PipelineOptions& options) {
  if (values.empty()) return absl::OkStatus();
  auto& names = options.*kField;
  names.clear();
  for (const std::string& value : values) {
    if (!Contains(names, value)) names.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status ReadOutput(const CompileOption&, const Values& values, PipelineOptions& options);
absl::Status ReadCacheFolder(const CompileOption&, const Values& values, PipelineOptions& options);
absl::Status ReadName(const CompileOption& option, const Values& values, PipelineOptions& options);
// In the order of the table of targets, without repetition.
absl::Status ReadTargets(const CompileOption& option, const Values& values, PipelineOptions& options);
// The targets follow from it.
absl::Status ReadLayers(const CompileOption& option, const Values& values, PipelineOptions& options);
std::string WriteLayers(const CompileOption&, const PipelineOptions& options);
// What a model in parts cannot have yet.
absl::Status CheckParts(const PipelineOptions& options);
absl::Status CheckTraceable(const PipelineOptions& options);
// A model in parts, and one whose layers are traced, has the trunk alone unless more is asked for. A block of
// a file of its own is there to be used.
absl::Status CheckFunctions(PipelineOptions& options);
// A draft is made of one function, and has no logits of its own for `qrun check`.
absl::Status CheckDraft(PipelineOptions& options);
absl::Status ReadCpuLevels(const CompileOption& option, const Values& values, PipelineOptions& options);
// The named profiles of the chosen targets; a target of which none is named gets its usual ones.
absl::Status ReadGpuProfiles(const CompileOption& option, const Values& values, PipelineOptions& options);
absl::Status ReadRequiredFusion(const CompileOption& option, const Values& values, PipelineOptions& options);
absl::Status ReadGoldens(const CompileOption& option, const Values& values, PipelineOptions& options);
std::string WriteGoldens(const CompileOption&, const PipelineOptions& options);
// The file's name: its bytes are in the hash of the source.
std::string WriteMtp(const CompileOption& option, const PipelineOptions& options);
absl::Status ReadDraftVocab(const CompileOption& option, const Values& values, PipelineOptions& options);
std::string WriteDraftVocab(const CompileOption& option, const PipelineOptions& options);
absl::Status ReadReports(const CompileOption& option, const Values& values, PipelineOptions& options);
std::string WriteReports(const CompileOption& option, const PipelineOptions& options);

}  // namespace qcc::compiler::option_values

#endif  // QCC_COMPILER_PIPELINE_OPTION_VALUES_H_
