#include "compiler/pipeline/plan_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/PlanSummary.h"

namespace qcc::compiler {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct StateUse {
  uint64_t states = 0, bytes = 0;
};

// The plans that say together what states and programs a model has: each part's, or any one.
std::span<const LayoutPlan> OfModel(std::span<const LayoutPlan> plans) {
  return plans.front().part ? plans : plans.first(1);
}

// By kind, "conv" and so on; `bytes` of KV are those of a token.
std::map<std::string, StateUse> StateUses(std::span<const LayoutPlan> plans) {
  std::map<std::string, StateUse> uses;
  for (const LayoutPlan& plan : OfModel(plans)) {
    for (auto state : plan.module.get().getOps<plan::StateOp>()) {
      StateUse& use = uses[plan::stringifyStateKind(state.getKind()).str()];
      ++use.states;
      use.bytes += state.getBytes();
    }
  }
  return uses;
}

// Of all devices that run the model.
struct Totals {
  int64_t state_bytes = 0, kv_bytes_per_token = 0, arena_bytes = 0;
};
Totals TotalsOf(std::span<const LayoutPlan> plans) {
  Totals totals;
  for (const LayoutPlan& plan : OfModel(plans)) {
    const plan::PlanSummary summary = plan::summarize(plan.module.get());
    totals.state_bytes += summary.stateBytes;
    totals.kv_bytes_per_token += summary.kvBytesPerToken;
    totals.arena_bytes += summary.arenaBytes;
  }
  return totals;
}

struct FormatUse {
  std::set<std::string_view> tensors;
  uint64_t source_bytes = 0, packed_bytes = 0;
};
using FormatUses = std::map<std::pair<std::string, std::string>, FormatUse>;  // by format and layout

FormatUses UsesOf(mlir::ModuleOp plan, const gguf::File& file) {
  FormatUses uses;
  for (auto op : plan.getOps<plan::WeightOp>()) {
    FormatUse& use = uses[{op.getFormat().str(), plan::stringifyLayout(op.getLayout()).str()}];
    use.packed_bytes += op.getBytes();
    for (mlir::Attribute source : op.getSources()) {
      const llvm::StringRef name = mlir::cast<mlir::StringAttr>(source).getValue();
      const gguf::Tensor* tensor = file.FindTensor(std::string_view(name.data(), name.size()));
      if (tensor != nullptr && use.tensors.insert(tensor->name).second) use.source_bytes += tensor->bytes;
    }
  }
  return uses;
}

Json MemoryJson(std::span<const LayoutPlan> plans, std::span<const CodeScratch> scratch) {
  const Totals totals = TotalsOf(plans);
  Json json = {{"report", "memory"}};
  json["weights"] = Json::array();
  for (const LayoutPlan& of : plans) {
    json["weights"].push_back(
        {{"targets", of.targets}, {"bytes", plan::summarize(of.module.get()).weightBytes}});
  }
  json["state_bytes_per_sequence"] = totals.state_bytes;
  json["kv_bytes_per_token"] = totals.kv_bytes_per_token;
  json["states"] = Json::array();
  for (const auto& [kind, use] : StateUses(plans)) {
    json["states"].push_back({{"kind", kind}, {"states", use.states}, {"bytes", use.bytes}});
  }
  json["arena_bytes"] = totals.arena_bytes;
  json["programs"] = Json::array();
  for (const LayoutPlan& plan : OfModel(plans)) {
    for (const plan::ProgramSummary& p : plan::summarize(plan.module.get()).programs) {
      json["programs"].push_back({{"name", p.name}, {"rows", p.rows}, {"arena_bytes", p.arenaBytes}});
      if (plan.part) json["programs"].back()["part"] = &plan - plans.data();
    }
  }
  json["thread_scratch"] = json["shared_scratch"] = Json::array();
  for (const CodeScratch& of : scratch) {
    json["thread_scratch"].push_back({{"code", of.code}, {"bytes", of.thread}});
    json["shared_scratch"].push_back({{"code", of.code}, {"bytes", of.shared}});
  }
  return json;
}

std::string MemoryText(std::span<const LayoutPlan> plans, std::span<const CodeScratch> scratch) {
  const Totals totals = TotalsOf(plans);
  std::string out = absl::StrFormat("memory %35s\n", "bytes");
  auto add = [&out](std::string_view what, const std::string& name, uint64_t bytes, std::string_view note) {
    out += absl::StrFormat("  %-10s %-16s %12d  %s\n", what, name, bytes, note);
  };
  for (const LayoutPlan& of : plans) {
    add("weights", absl::StrJoin(of.targets, "+"), plan::summarize(of.module.get()).weightBytes,
        "mapped, shared by processes");
  }
  add("state", "", totals.state_bytes, "a sequence");
  add("KV", "", totals.kv_bytes_per_token, "a token of a sequence");
  for (const auto& [kind, use] : StateUses(plans)) {
    add("  of", kind, use.bytes, absl::StrFormat("%d layers", use.states));
  }
  add("arena", "", totals.arena_bytes, "an engine: the largest program's");
  for (const LayoutPlan& plan : OfModel(plans)) {
    const std::string part = plan.part ? absl::StrFormat(", part %d", &plan - plans.data()) : "";
    for (const plan::ProgramSummary& p : plan::summarize(plan.module.get()).programs) {
      add("  program", p.name, p.arenaBytes, absl::StrFormat("%d rows%s", p.rows, part));
    }
  }
  for (const CodeScratch& of : scratch) {
    add("scratch", of.code, of.thread, "a thread");
    if (of.shared != 0) add("scratch", of.code, of.shared, "shared by threads");
  }
  return out;
}

}  // namespace

std::string MemoryReport(std::span<const LayoutPlan> plans, std::span<const CodeScratch> scratch,
                         ReportForm form) {
  return form == ReportForm::kJson ? Line(MemoryJson(plans, scratch)) : MemoryText(plans, scratch);
}

std::string FormatsReport(std::span<const LayoutPlan> plans, const gguf::File& file, ReportForm form) {
  Json json = {{"report", "formats"}, {"weights", Json::array()}};
  std::string text = absl::StrFormat("formats      %-12s %8s %14s %14s  targets\n", "layout", "tensors",
                                     "in GGUF", "packed");
  for (const LayoutPlan& plan : plans) {
    for (const auto& [key, use] : UsesOf(plan.module.get(), file)) {
      json["weights"].push_back({{"targets", plan.targets},
                                 {"format", key.first},
                                 {"layout", key.second},
                                 {"tensors", use.tensors.size()},
                                 {"source_bytes", use.source_bytes},
                                 {"packed_bytes", use.packed_bytes}});
      text += absl::StrFormat("  %-10s %-12s %8d %14d %14d  %s\n", key.first, key.second, use.tensors.size(),
                              use.source_bytes, use.packed_bytes, absl::StrJoin(plan.targets, "+"));
    }
  }
  return form == ReportForm::kJson ? Line(json) : text;
}

}  // namespace qcc::compiler
