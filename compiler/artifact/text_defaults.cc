#include "compiler/artifact/text_defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/file_text.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/abi/qbin.h"
#include "runtime/abi/sampling.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/template_parser.h"
#include "runtime/text/unicode.h"

namespace qcc::compiler {
namespace {

constexpr char kTemplateKey[] = "tokenizer.chat_template";
constexpr std::string_view kSamplingPrefix = "general.sampling.";

std::string KeyPlace(const gguf::File& file, std::string_view key) {
  return Concat(file.path(), ", key ", key);
}

// Converters write a template for each use under a name of its own, and a list of the names.
void WarnOfOtherTemplates(const gguf::File& file, std::vector<std::string>& warnings) {
  constexpr size_t kNamed = 8;
  std::string names;
  size_t count = 0;
  for (const std::string_view key : file.keys()) {
    if (!key.starts_with(kTemplateKey) || key.substr(std::size(kTemplateKey) - 1).find('.') != 0) continue;
    if (++count > kNamed) continue;
    names += Concat(names.empty() ? "" : ", ", ShortName(key.substr(std::size(kTemplateKey))));
  }
  if (count == 0) return;
  if (count > kNamed) names += Concat(" and ", count - kNamed, " more");
  warnings.push_back(Concat("the file has more chat templates, which are not taken along: ", names, "; ",
                            file.Has(kTemplateKey) ? "chats use the one without a name"
                                                   : "none is without a name, so there is none for chats"));
}

// Of keys that ask for nothing: what is off, and what says more of it.
bool AsksForNothing(const gguf::File& file, std::string_view key) {
  const std::string_view name = key.substr(kSamplingPrefix.size());
  if (name == "mirostat_tau" || name == "mirostat_eta") return true;
  if (name == "xtc_threshold") return file.Has("general.sampling.xtc_probability");
  if (name == "mirostat") {
    const absl::StatusOr<int64_t> value = file.GetInt(key);
    return value.ok() && *value == 0;
  }
  if (name == "xtc_probability") {
    const absl::StatusOr<double> value = file.GetFloat(key);
    return value.ok() && *value == 0;
  }
  return false;
}

}  // namespace

std::string ReadModelName(const gguf::File& file, std::vector<std::string>& warnings) {
  const auto name = file.GetString("general.name");
  if (!name.ok()) return "";
  if (name->size() <= QBIN_MAX_STRING) return std::string(*name);
  warnings.push_back(
      Concat("general.name has ", name->size(), " bytes, at most ", QBIN_MAX_STRING, " are kept: it is cut"));
  return std::string(CutText(*name, QBIN_MAX_STRING));
}

absl::StatusOr<std::optional<std::string>> ReadChatTemplate(const gguf::File& file,
                                                            std::vector<std::string>& warnings) {
  WarnOfOtherTemplates(file, warnings);
  if (!file.Has(kTemplateKey)) return std::nullopt;
  auto bad = [&](std::string what) {
    return MakeError("Q2301", std::move(what), KeyPlace(file, kTemplateKey),
                     "convert the model again, or remove the key");
  };
  absl::StatusOr<std::string_view> text = file.GetString(kTemplateKey);
  if (!text.ok()) return text.status();
  if (text->empty()) return std::nullopt;
  if (text->size() > qrt::text::kMaxTemplateBytes) {
    return bad(Concat("the chat template has ", text->size(), " bytes, expected at most ",
                      qrt::text::kMaxTemplateBytes));
  }
  for (size_t at = 0; at < text->size();) {
    const size_t n = qrt::text::Utf8SequenceLength(*text, at);
    if (n == 0) {
      warnings.push_back(Concat("chats will be refused: the chat template is not UTF-8 at its byte ", at,
                                ", and is left out"));
      return std::nullopt;
    }
    at += n;
  }
  if (const auto parsed = qrt::text::ChatTemplate::Parse(*text); !parsed.ok()) {
    warnings.push_back(Concat("chats will be refused: the chat template cannot be used: ",
                              parsed.status().message(), " (", parsed.status().note(), ")"));
  } else if (parsed->leaves_out_users()) {
    warnings.push_back("the chat template leaves out what a user says: answers will be to nothing");
  }
  return std::optional<std::string>(std::string(*text));
}

absl::StatusOr<SamplingSpec> ReadSampling(const gguf::File& file, std::vector<std::string>& warnings) {
  SamplingSpec spec;
  const struct {
    const char* key;
    std::optional<float>* value;
    double low, high;
  } floats[] = {{"general.sampling.temp", &spec.temperature, 0, 1000},
                {"general.sampling.top_p", &spec.top_p, 0, 1},
                {"general.sampling.min_p", &spec.min_p, 0, 1},
                {"general.sampling.penalty_repeat", &spec.repeat_penalty, 0.01, 100}};
  for (const auto& [key, value, low, high] : floats) {
    if (!file.Has(key)) continue;
    absl::StatusOr<double> found = file.GetFloat(key);
    if (!found.ok()) return found.status();
    if (!std::isfinite(*found) || *found < low || *found > high) {
      return MakeError("Q2308", absl::StrCat("the value is ", *found, ", expected ", low, " to ", high),
                       KeyPlace(file, key), "correct or remove the key");
    }
    *value = static_cast<float>(*found);
  }
  const struct {
    const char* key;
    std::optional<int32_t>* value;
    int64_t low, high;
    bool clamp;  // more than `high` is taken for it
  } ints[] = {{"general.sampling.top_k", &spec.top_k, -1, std::numeric_limits<int32_t>::max(), false},
              {"general.sampling.penalty_last_n", &spec.penalty_window, -1, QRT_SAMPLING_MAX_WINDOW, true}};
  for (const auto& [key, value, low, high, clamp] : ints) {
    if (!file.Has(key)) continue;
    absl::StatusOr<int64_t> found = file.GetInt(key);
    if (!found.ok()) return found.status();
    if (*found < low || (*found > high && !clamp)) {
      return MakeError("Q2308", Concat("the value is ", *found, ", expected ", low, " to ", high),
                       KeyPlace(file, key), "correct or remove the key");
    }
    if (*found > high) warnings.push_back(Concat(key, " is ", *found, ", using ", high, ", the longest"));
    *value = static_cast<int32_t>(std::min(*found, high));
  }
  for (const std::string_view key : file.keys()) {
    if (!key.starts_with(kSamplingPrefix) || AsksForNothing(file, key)) continue;
    const auto is_key = [key](const auto& row) { return key == row.key; };
    if (std::any_of(std::begin(floats), std::end(floats), is_key)) continue;
    if (std::any_of(std::begin(ints), std::end(ints), is_key)) continue;
    warnings.push_back(Concat(ShortName(key), " is not followed: qcc knows no setting of this name"));
  }
  if (spec.top_k == -1) spec.top_k = 0;  // some generation configurations say "off" so
  return spec;
}

}  // namespace qcc::compiler
