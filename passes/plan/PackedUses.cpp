#include "passes/plan/PackedUses.h"

#include "dialects/plan/IR/PackLayout.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

#include "passes/plan/LoweringInterface.cpp.inc"

namespace qcc::passes {

void registerLowerings(DialectRegistry& registry) {
  registry.addExtension(+[](MLIRContext* context, hir::HirDialect*) {
    attachRowLowerings(*context);
    attachLinearLowerings(*context);
    attachSequenceLowerings(*context);
  });
}

std::pair<int64_t, int64_t> matrixShape(hir::WeightType type) {
  ArrayRef<int64_t> shape = type.getShape();
  return {shape.size() == 1 ? 1 : shape.front(), shape.back()};
}

int64_t packedBytes(plan::Layout layout, hir::WeightType type) {
  auto [rows, cols] = matrixShape(type);
  // A !hir.weight has whole blocks only; plan.weight's verifier says so again.
  return layouts::PackedBytes(plan::packLayout(layout), type.getFormat(), rows, cols).value_or(0);
}

int64_t stateBytes(hir::StateType type) {
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  if (type.getKind() == hir::StateKind::KV) bytes *= 2;
  for (int64_t dim : type.getShape()) bytes *= dim;
  return bytes;
}

FailureOr<SmallVector<PackedUse>> packedUses(Operation* op, layouts::Policy policy) {
  SmallVector<PackedUse> packed;
  SmallVector<WeightUse> uses;
  if (auto lowerable = dyn_cast<LowerableOpInterface>(op)) lowerable.collectWeights(uses);
  for (const WeightUse& use : uses) {
    auto type = cast<hir::WeightType>(use.sources.front().getType());
    auto [rows, cols] = matrixShape(type);
    layouts::Layout chosen = policy(use.use, type.getFormat(), rows, cols);
    plan::Layout layout = plan::planLayout(chosen);
    auto sources = static_cast<int64_t>(use.sources.size());
    if (layouts::SourcesOf(chosen) == sources) {
      packed.push_back({use.sources, layout, op});
    } else if (layouts::SourcesOf(chosen) == 1) {
      for (Value source : use.sources) packed.push_back({{source}, layout, op});
    } else {
      return op->emitError("the target's policy lays ")
             << sources << " weight of type " << type << " out as '" << stringifyLayout(layout)
             << "', which takes " << layouts::SourcesOf(chosen);
    }
  }
  return packed;
}

FailureOr<SmallVector<PackedUse>> packedUses(Block& block, layouts::Policy policy) {
  SmallVector<PackedUse> uses;
  for (Operation& op : block) {
    FailureOr<SmallVector<PackedUse>> ofOp = packedUses(&op, policy);
    if (failed(ofOp)) return failure();
    uses.append(*ofOp);
  }
  return uses;
}

std::string packedKey(plan::Layout layout, ArrayRef<std::string> sources) {
  std::string key = stringifyLayout(layout).str();
  for (const std::string& source : sources) key += '\n' + source;
  return key;
}

std::string sourceName(Value value, ValueRange callOperands) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getArgNumber() >= callOperands.size()) return {};
    return sourceName(callOperands[argument.getArgNumber()], {});
  }
  if (auto param = value.getDefiningOp<hir::ParamOp>()) return param.getName().str();
  if (auto state = value.getDefiningOp<hir::StateOp>()) return state.getName().str();
  return {};
}

}  // namespace qcc::passes
