#include "compiler/pipeline/layout_plans.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/IR/Plan.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "runtime/artifact/manifest.h"

namespace qcc::compiler {
namespace {

// `part`: of options.layers; null: all layers.
mlir::LogicalResult RunPlanPasses(const LayoutPlan& of, layouts::Policy policy,
                                  const PipelineOptions& options, const LayerPart* part = nullptr) {
  mlir::ModuleOp module = of.module.get();
  mlir::PassManager pm(module.getContext());
  passes::BuildPlanOptions plan;
  plan.target = absl::StrJoin(of.targets, "+");
  plan.decode.assign(options.decode_buckets.begin(), options.decode_buckets.end());
  plan.prefill.assign(options.prefill_buckets.begin(), options.prefill_buckets.end());
  std::optional<passes::CutLayersOptions> cut;
  if (part != nullptr) {
    cut.emplace();
    cut->first = part->first;
    cut->last = part->last;
    if (part != &options.layers.back()) {
      // A part that gives no logits runs for a token as well as for a prompt.
      std::set<int64_t> rows(options.decode_buckets.begin(), options.decode_buckets.end());
      rows.insert(options.prefill_buckets.begin(), options.prefill_buckets.end());
      plan.prefill.assign(rows.begin(), rows.end());
    }
  }
  passes::addPlanPasses(pm, plan, policy, cut);
  return pm.run(module);
}

// Weights are placed in the order of their use, so equal lists of them lie at equal places, and what differs
// between plans follows from them alone.
bool SameLayouts(mlir::ModuleOp a, mlir::ModuleOp b) {
  auto of = [](mlir::ModuleOp plan) { return plan.getOps<plan::WeightOp>(); };
  auto same = [](plan::WeightOp x, plan::WeightOp y) {
    return x.getLayout() == y.getLayout() && x.getSources() == y.getSources() &&
           x.getPiecesAttr() == y.getPiecesAttr();
  };
  auto listA = of(a), listB = of(b);
  return std::equal(listA.begin(), listA.end(), listB.begin(), listB.end(), same);
}

absl::Status ShareArenaBytes(std::vector<LayoutPlan>& plans) {
  std::vector<std::vector<plan::ProgramOp>> programs;
  for (LayoutPlan& plan : plans) {
    auto ops = plan.module.get().getOps<plan::ProgramOp>();
    programs.emplace_back(ops.begin(), ops.end());
    if (programs.back().size() != programs.front().size())
      return absl::InternalError("plans of one model have different programs");
  }
  for (size_t i = 0; i < programs.front().size(); ++i) {
    uint64_t most = 0;
    for (auto& ofPlan : programs) {
      if (ofPlan[i].getSymName() != programs.front()[i].getSymName())
        return absl::InternalError("plans of one model have different programs");
      most = std::max<uint64_t>(most, ofPlan[i].getArenaBytes());
    }
    for (auto& ofPlan : programs) ofPlan[i].setArenaBytes(most);
  }
  return absl::OkStatus();
}

// An artifact's reader refuses larger ones.
absl::Status CheckArenaBytes(std::span<const LayoutPlan> plans, const std::string& file) {
  for (const LayoutPlan& plan : plans) {
    mlir::ModuleOp module = plan.module.get();
    auto embedding = module->getAttrOfType<mlir::IntegerAttr>(hir::kEmbeddingLength);
    uint64_t rows = 0, cols = embedding ? static_cast<uint64_t>(embedding.getInt()) : 0;
    for (auto op : module.getOps<plan::WeightOp>()) cols = std::max<uint64_t>(cols, op.getCols());
    for (auto op : module.getOps<plan::ProgramOp>()) rows = std::max<uint64_t>(rows, op.getRows());
    const uint64_t most = qrt::MostArenaBytes(rows, cols);
    for (auto op : module.getOps<plan::ProgramOp>()) {
      if (op.getArenaBytes() <= most) continue;
      return MakeError(
          "Q3003",
          Concat("program '", op.getSymName().str(), "' needs ", op.getArenaBytes(),
                 " bytes of scratch, at most ", most, " are possible where the largest has ", rows, " rows"),
          file, "give fewer rows with --prefill");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LayoutPlan>> PlanForTargets(mlir::OwningOpRef<mlir::ModuleOp> hir,
                                                       std::span<const TargetInfo* const> targets,
                                                       const PipelineOptions& options,
                                                       DiagnosticCollector& diagnostics) {
  std::vector<std::pair<layouts::Policy, std::vector<std::string>>> policies;
  for (const TargetInfo* target : targets) {
    auto known = std::find_if(policies.begin(), policies.end(),
                              [&](const auto& p) { return p.first == target->layouts; });
    if (known == policies.end()) known = policies.insert(known, {target->layouts, {}});
    known->second.emplace_back(target->name);
  }
  std::vector<LayoutPlan> plans;
  for (auto& [policy, names] : policies) {
    const bool last = policy == policies.back().first;
    LayoutPlan plan{last ? std::move(hir) : mlir::OwningOpRef<mlir::ModuleOp>(hir->clone()),
                    std::move(names)};
    if (mlir::failed(RunPlanPasses(plan, policy, options))) return diagnostics.ToStatus("Q3003", "plan");
    auto same = std::find_if(plans.begin(), plans.end(), [&](const LayoutPlan& other) {
      return SameLayouts(other.module.get(), plan.module.get());
    });
    if (same == plans.end()) {
      plans.push_back(std::move(plan));
    } else {
      same->targets.insert(same->targets.end(), plan.targets.begin(), plan.targets.end());
    }
  }
  if (absl::Status s = ShareArenaBytes(plans); !s.ok()) return s;
  if (absl::Status s = CheckArenaBytes(plans, options.input); !s.ok()) return s;
  return plans;
}

absl::StatusOr<std::vector<LayoutPlan>> PlanParts(mlir::OwningOpRef<mlir::ModuleOp> hir,
                                                  std::span<const TargetInfo* const> targets,
                                                  const PipelineOptions& options,
                                                  DiagnosticCollector& diagnostics) {
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  for (size_t i = 1; i < options.layers.size(); ++i) modules.emplace_back(hir->clone());
  modules.push_back(std::move(hir));
  std::vector<LayoutPlan> plans;
  for (size_t i = 0; i < options.layers.size(); ++i) {
    LayoutPlan plan{std::move(modules[i]), {std::string(targets[i]->name)}, true};
    if (mlir::failed(RunPlanPasses(plan, targets[i]->layouts, options, &options.layers[i]))) {
      return diagnostics.ToStatus("Q3003", "plan");
    }
    plans.push_back(std::move(plan));
  }
  if (absl::Status s = CheckArenaBytes(plans, options.input); !s.ok()) return s;
  return plans;
}

size_t CountPrograms(std::span<const LayoutPlan> plans) {
  size_t programs = 0;
  for (const LayoutPlan& plan : plans) {
    auto own = plan.module.get().getOps<plan::ProgramOp>();
    const auto count = static_cast<size_t>(std::distance(own.begin(), own.end()));
    programs = plan.part ? programs + count : count;
  }
  return programs;
}

const LayoutPlan& PlanOf(std::span<const LayoutPlan> plans, std::string_view target) {
  return *std::find_if(plans.begin(), plans.end(), [&](const LayoutPlan& plan) {
    return std::find(plan.targets.begin(), plan.targets.end(), target) != plan.targets.end();
  });
}

}  // namespace qcc::compiler
