#include "compiler/pipeline/fusion_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dialects/hir/IR/Fused.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

constexpr std::string_view kFused = "fused ", kMissed = "missed ", kMoved = "moved ", kKept = "kept ";
constexpr std::string_view kGatedDelta = "gated_delta", kGatedDeltaShort = "gdn";

bool Begins(const DiagnosticCollector::Remark& remark, std::string_view verb, std::string_view kind = "") {
  const std::string_view text = remark.text;
  if (!text.starts_with(verb)) return false;
  return kind.empty() || text.substr(verb.size()).starts_with(Concat(kind, ":"));
}

}  // namespace

std::string FusionReport(Remarks remarks, ReportForm form) {
  using Json = nlohmann::ordered_json;
  std::string text;
  Json json = {{"report", "fusion"}};
  for (const std::string_view verb : {kFused, kMissed, kMoved, kKept}) {
    Json& list = json[std::string(verb.substr(0, verb.size() - 1))] = Json::array();
    for (const DiagnosticCollector::Remark& remark : remarks) {
      if (!Begins(remark, verb)) continue;
      text += Concat(remark.text, remark.place.empty() ? "" : "  at ", remark.place, "\n");
      const std::string what = remark.text.substr(verb.size());
      const size_t colon = std::min(what.find(": "), what.size());
      list.push_back({{"kind", what.substr(0, colon)},
                      {"text", what.substr(std::min(colon + 2, what.size()))},
                      {"place", remark.place}});
    }
  }
  if (form == ReportForm::kText) return text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FusionSummary(Remarks remarks) {
  const auto count = [&](std::string_view verb) {
    return std::count_if(remarks.begin(), remarks.end(), [&](const auto& r) { return Begins(r, verb); });
  };
  return Concat(count(kFused), " groups, ", count(kMissed), " missed");
}

std::vector<std::string> FusionKinds() {
  std::vector<std::string> kinds = {std::string(kGatedDeltaShort)};
  for (const llvm::StringRef kind : hir::fusedKinds()) kinds.push_back(kind.str());
  return kinds;
}

absl::Status CheckRequiredFusion(std::span<const std::string> required, Remarks remarks,
                                 const std::string& file) {
  for (const std::string& name : required) {
    const std::string_view kind = name == kGatedDeltaShort ? kGatedDelta : std::string_view(name);
    const auto missed = std::find_if(remarks.begin(), remarks.end(),
                                     [&](const auto& remark) { return Begins(remark, kMissed, kind); });
    if (missed != remarks.end())
      return MakeError("Q3007",
                       Concat("--require-fused=", name, ", but a group was not fused: ", missed->text),
                       missed->place.empty() ? file : Concat(file, ", tensor ", missed->place),
                       "--report=fusion lists all groups");
    const bool fused = std::any_of(remarks.begin(), remarks.end(),
                                   [&](const auto& remark) { return Begins(remark, kFused, kind); });
    if (!fused)
      return MakeError("Q3007", Concat("--require-fused=", name, ", but the model has no such group"), file,
                       "--report=fusion lists all groups");
  }
  return absl::OkStatus();
}

}  // namespace qcc::compiler
