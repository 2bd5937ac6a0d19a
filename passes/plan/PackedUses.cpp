#include "passes/plan/PackedUses.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qcc::passes {

SmallVector<PackedUse> collectPackedUses(Block& block) {
  SmallVector<PackedUse> uses;
  auto add = [&](ArrayRef<Value> sources, plan::Layout layout, Operation* user) {
    uses.push_back({SmallVector<Value, 2>(sources), layout, user});
  };
  for (Operation& op : block) {
    llvm::TypeSwitch<Operation*>(&op)
        .Case([&](hir::EmbedOp e) { add({e.getTable()}, plan::Layout::X16, e); })
        .Case([&](hir::LinearOp l) { add({l.getWeight()}, plan::Layout::X16, l); })
        .Case([&](hir::RmsNormOp n) { add({n.getWeight()}, plan::Layout::F32, n); })
        .Case([&](hir::CausalConv1dOp c) { add({c.getWeight()}, plan::Layout::ConvTaps, c); })
        .Case([&](hir::GdnDecayOp g) {
          add({g.getSsmA()}, plan::Layout::F32, g);
          add({g.getDtBias()}, plan::Layout::F32, g);
        })
        .Case([&](hir::GroupOp group) {
          Block& body = group.getBody().front();
          if (group.getKind() != hir::GroupKind::LinearSwiglu) {
            uses.append(collectPackedUses(body));
            return;
          }
          for (auto swiglu : body.getOps<hir::SwigluOp>()) {
            auto gate = swiglu.getGate().getDefiningOp<hir::LinearOp>();
            auto up = swiglu.getUp().getDefiningOp<hir::LinearOp>();
            // Anything else in such a group is refused where it is lowered.
            if (gate && up) add({gate.getWeight(), up.getWeight()}, plan::Layout::X16Pair, swiglu);
          }
        });
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
