#include "compiler/pipeline/plan_manifest.h"

#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/PlanSummary.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::compiler {
namespace {

SpecPhase PhaseOf(plan::Phase phase) {
  switch (phase) {
    case plan::Phase::Prefill:
      return SpecPhase::kPrefill;
    case plan::Phase::Decode:
      return SpecPhase::kDecode;
    case plan::Phase::Head:
      return SpecPhase::kHead;
  }
  return SpecPhase::kHead;
}

uint64_t IntAttribute(mlir::ModuleOp plan, llvm::StringRef name) {
  auto value = plan->getAttrOfType<mlir::IntegerAttr>(name);
  return value ? static_cast<uint64_t>(value.getInt()) : 0;
}

}  // namespace

void DescribePlan(mlir::ModuleOp plan, ManifestSpec& manifest) {
  if (auto arch = plan->getAttrOfType<mlir::StringAttr>("hir.arch")) manifest.arch = arch.str();
  manifest.vocab_size = IntAttribute(plan, "hir.vocab_size");
  manifest.logits_stride = plan::align_up(manifest.vocab_size, plan::kGroupRows);
  manifest.context_length = IntAttribute(plan, "hir.context_length");
  manifest.embedding_length = IntAttribute(plan, "hir.embedding_length");
  plan::PlanSummary summary = plan::summarize(plan);
  manifest.weights_bytes = summary.weightBytes;
  manifest.state_bytes = summary.stateBytes;
  manifest.kv_bytes_per_token = summary.kvBytesPerToken;

  for (auto op : plan.getOps<plan::StateOp>()) {
    StateSpec state;
    state.name = op.getSymName().str();
    state.kind = op.getKind() == "kv"     ? SpecState::kKv
                 : op.getKind() == "conv" ? SpecState::kConv
                                          : SpecState::kDelta;
    state.layer = op.getLayer();
    state.shape.assign(op.getShape().begin(), op.getShape().end());
    state.element = op.getElement() == "f16" ? SpecElement::kF16 : SpecElement::kF32;
    state.offset = op.getOffset();
    state.bytes = op.getBytes();
    manifest.states.push_back(std::move(state));
  }
  for (const plan::ProgramSummary& p : summary.programs)
    manifest.programs.push_back({p.name, PhaseOf(p.phase), static_cast<uint32_t>(p.rows),
                                 static_cast<uint64_t>(p.arenaBytes), static_cast<uint32_t>(p.dispatches),
                                 static_cast<uint32_t>(p.barriers)});
}

}  // namespace qcc::compiler
