#include "passes/Passes.h"

#include "dialects/layouts/layouts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contract/EntryPoint.h"
#include "passes/plan/PackedUses.h"

namespace qcc::passes {
#define GEN_PASS_DEF_LAYOUTWEIGHTS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// Number N of a call's layer = "blk.N".
FailureOr<int64_t> layerNumber(func::CallOp call) {
  auto layer = call->getAttrOfType<StringAttr>("layer");
  int64_t number = 0;
  if (!layer || !layer.getValue().starts_with("blk.") ||
      layer.getValue().drop_front(4).getAsInteger(10, number))
    return call.emitError("call of '") << call.getCallee() << "' needs an attribute layer = \"blk.N\"";
  return number;
}

plan::StateKind planKind(hir::StateKind kind) {
  switch (kind) {
    case hir::StateKind::Conv:
      return plan::StateKind::Conv;
    case hir::StateKind::Delta:
      return plan::StateKind::Delta;
    case hir::StateKind::KV:
      return plan::StateKind::KV;
    case hir::StateKind::Trace:
      return plan::StateKind::Trace;
  }
  llvm_unreachable("all kinds are listed");
}

struct LayoutWeightsPass : impl::LayoutWeightsBase<LayoutWeightsPass> {
  explicit LayoutWeightsPass(layouts::Policy policy = layouts::X16Everywhere) : policy(policy) {}

  void getDependentDialects(DialectRegistry& registry) const override {
    LayoutWeightsBase::getDependentDialects(registry);
    registerLowerings(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<EntryPoint>> entries = entryPoints(module);
    if (failed(entries)) return signalPassFailure();
    Layout layout(module, policy);
    for (EntryPoint& entry : *entries)
      if (failed(layout.entry(entry.func))) return signalPassFailure();
  }

  struct Layout {
    Layout(ModuleOp module, layouts::Policy policy) : module(module), policy(policy), b(module.getContext()) {
      b.setInsertionPointToStart(module.getBody());
    }

    // Ops of an entry function in order; a call places what its layer needs, one thing behind the other.
    LogicalResult entry(func::FuncOp func) {
      Block& body = func.getBody().front();
      FailureOr<SmallVector<PackedUse>> uses = packedUses(body, policy);
      if (failed(uses)) return failure();
      const PackedUse* next = uses->begin();
      for (Operation& op : body) {
        if (auto call = dyn_cast<func::CallOp>(op)) {
          if (failed(layer(call))) return failure();
        } else if (auto rope = dyn_cast<hir::RopeTableOp>(op)) {
          constant(rope);
        }
        for (; next != uses->end() && next->user == &op; ++next)
          if (failed(weight(*next, {}, /*own=*/nullptr))) return failure();
      }
      return success();
    }

    LogicalResult layer(func::CallOp call) {
      auto func = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!func || func.isExternal())
        return call.emitError("call of unknown function '") << call.getCallee() << "'";
      FailureOr<int64_t> number = layerNumber(call);
      if (failed(number)) return failure();
      llvm::StringSet<> own;
      FailureOr<SmallVector<PackedUse>> uses = packedUses(func.getBody().front(), policy);
      if (failed(uses)) return failure();
      for (const PackedUse& use : *uses)
        if (failed(weight(use, call.getOperands(), &own))) return failure();
      llvm::DenseMap<Value, int64_t> entries;  // by the block's argument
      for (const StateEntry& entry : stateEntries(func.getBody().front())) entries[entry.state] = entry.bytes;
      for (auto [argument, operand] : llvm::zip_equal(func.getArguments(), call.getOperands()))
        if (isa<hir::StateType>(operand.getType()) &&
            failed(state(call, operand, *number, stateElement(argument), entries.lookup(argument))))
          return failure();
      return success();
    }

    // `own`: keys of the layer that is being placed. A block finds its weights relative to the layer's base,
    // so none of them can lie with another layer.
    LogicalResult weight(const PackedUse& use, ValueRange callOperands, llvm::StringSet<>* own) {
      SmallVector<TensorRows> sources;
      for (Value source : use.sources) {
        sources.push_back(tensorRows(source, callOperands));
        if (sources.back().tensor.empty())
          return use.user->emitError("weight is neither a hir.param nor an argument of its block");
      }
      std::string key = packedKey(use, sources);
      if (placed.contains(key)) {
        if (own && !own->contains(key))
          return use.user->emitError("weight '")
                 << sources.front().text() << "' is used by a layer and somewhere else";
        return success();
      }
      if (own) own->insert(key);
      placed.insert(key);

      hir::WeightType type = use.type();
      for (Value source : use.sources)
        if (source.getType() != type) return use.user->emitError("weights packed as a pair differ in type");

      std::string_view format = format_info(type.getFormat()).name;
      auto texts = llvm::map_range(sources, [](const TensorRows& source) { return source.text(); });
      plan::WeightOp::create(b, use.user->getLoc(), symbol(llvm::join(texts, "+"), use.layout),
                             tensorNames(sources), pieces(sources), StringRef(format.data(), format.size()),
                             use.layout, use.rows, use.cols, weightEnd, use.bytes(), padded(use));
      weightEnd = layouts::AlignUp(weightEnd + use.bytes(), plan::kAlignment);
      return success();
    }

    ArrayAttr tensorNames(ArrayRef<TensorRows> sources) {
      return b.getArrayAttr(llvm::map_to_vector(
          sources, [&](const TensorRows& source) -> Attribute { return b.getStringAttr(source.tensor); }));
    }

    // Null where the weight has its sources' shape.
    DenseI64ArrayAttr padded(const PackedUse& use) {
      MatrixShape shape = matrixShape(use.type());
      if (use.rows == shape.matrices * shape.rows && use.cols == shape.cols) return {};
      return b.getDenseI64ArrayAttr({shape.matrices, shape.rows, shape.cols});
    }

    // Null where all sources are whole tensors.
    ArrayAttr pieces(ArrayRef<TensorRows> sources) {
      if (llvm::none_of(sources, [](const TensorRows& source) { return bool(source.pieces); })) return {};
      return b.getArrayAttr(llvm::map_to_vector(sources, [&](const TensorRows& source) -> Attribute {
        return source.pieces ? Attribute(source.pieces) : b.getUnitAttr();
      }));
    }

    // The tensor's name; with the layout behind it when the tensor is also stored in another one.
    std::string symbol(const std::string& name, plan::Layout layout) {
      if (symbols.insert(name).second) return name;
      std::string withLayout = name + ":" + stringifyLayout(layout).str();
      symbols.insert(withLayout);
      return withLayout;
    }

    void constant(hir::RopeTableOp rope) {
      if (!constants.insert(rope.getInvFreqAttr())) return;
      std::string name = "rope.inv_freq";
      if (constants.size() > 1) name += "." + std::to_string(constants.size() - 1);
      plan::ConstantOp::create(b, rope.getLoc(), b.getStringAttr(name), rope.getInvFreqAttr(),
                               b.getI64IntegerAttr(weightEnd));
      auto bytes = static_cast<int64_t>(sizeof(double) * rope.getInvFreq().size());
      weightEnd = layouts::AlignUp(weightEnd + bytes, plan::kAlignment);
    }

    LogicalResult state(func::CallOp call, Value value, int64_t layer, plan::Element element, int64_t entry) {
      std::string name = stateName(value, {});
      if (name.empty()) return call.emitError("state does not come from a hir.state");
      if (!states.insert(name).second) return call.emitError("state '") << name << "' is used by two layers";
      auto type = cast<hir::StateType>(value.getType());
      auto [bytes, entryBytes] = stateMemory(type, entry);
      int64_t& end = type.getKind() == hir::StateKind::KV ? kvEnd : stateEnd;
      plan::StateOp::create(b, value.getLoc(), name, planKind(type.getKind()), layer, type.getShape(),
                            element, end, bytes, entryBytes);
      end = layouts::AlignUp(end + bytes, plan::kAlignment);
      return success();
    }

    ModuleOp module;
    layouts::Policy policy;
    OpBuilder b;
    llvm::StringSet<> placed, symbols, states;
    llvm::SmallSetVector<Attribute, 2> constants;
    int64_t weightEnd = 0, stateEnd = 0, kvEnd = 0;
  };

  layouts::Policy policy;
};
}  // namespace

std::unique_ptr<Pass> createLayoutWeights(layouts::Policy policy) {
  return std::make_unique<LayoutWeightsPass>(policy);
}

}  // namespace qcc::passes
