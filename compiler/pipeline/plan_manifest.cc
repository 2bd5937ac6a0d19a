#include "compiler/pipeline/plan_manifest.h"

#include <algorithm>

#include "compiler/pipeline/weights_section.h"
#include "dialects/plan/IR/Plan.h"
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

void CountOps(mlir::ModuleOp plan, mlir::Block& body, ProgramSpec& program) {
  for (mlir::Operation& op : body) {
    program.dispatches += mlir::isa<plan::DispatchOp>(op);
    program.barriers += mlir::isa<plan::BarrierOp>(op);
    if (auto call = mlir::dyn_cast<plan::CallOp>(op))
      if (auto block = plan.lookupSymbol<plan::BlockOp>(call.getBlock()))
        CountOps(plan, block.getBody().front(), program);
  }
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
  manifest.weights_bytes = WeightSectionBytes(plan);

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
    uint64_t& total = state.kind == SpecState::kKv ? manifest.kv_bytes_per_token : manifest.state_bytes;
    total = std::max(total, state.offset + state.bytes);
    manifest.states.push_back(std::move(state));
  }
  manifest.state_bytes = plan::align_up(static_cast<int64_t>(manifest.state_bytes), 64);

  for (auto op : plan.getOps<plan::ProgramOp>()) {
    ProgramSpec program;
    program.name = op.getSymName().str();
    program.phase = PhaseOf(op.getPhase());
    program.rows = op.getRows();
    program.arena_bytes = op.getArenaBytes();
    CountOps(plan, op.getBody().front(), program);
    manifest.programs.push_back(std::move(program));
  }
}

}  // namespace qcc::compiler
