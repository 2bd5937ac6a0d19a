#include "passes/plan/PackedUses.h"

#include "dialects/layouts/sequence_state.h"
#include "dialects/plan/IR/PackLayout.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/plan/Lowerings.h"

using namespace mlir;

#include "passes/plan/LoweringInterface.cpp.inc"

namespace qcc::passes {

void registerLowerings(DialectRegistry& registry) {
  registry.addExtension(+[](MLIRContext* context, hir::HirDialect*) {
    attachRowLowerings(*context);
    attachLinearLowerings(*context);
    attachMoeLowerings(*context);
    attachSequenceLowerings(*context);
  });
}

MatrixShape matrixShape(hir::WeightType type) {
  ArrayRef<int64_t> shape = type.getShape();
  int64_t cols = shape.back(), rows = shape.size() == 1 ? 1 : shape.drop_back().back();
  return {llvm::product_of(shape) / (rows * cols), rows, cols};
}

int64_t PackedUse::bytes() const {
  // A !hir.weight has whole blocks only; plan.weight's verifier says so again.
  return layouts::PackedBytes(plan::packLayout(layout), type().getFormat(), rows, cols).value_or(0);
}

StateMemory stateMemory(hir::StateType type, int64_t entry) {
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  if (type.getKind() == hir::StateKind::KV) bytes *= 2;
  for (int64_t dim : type.getShape()) bytes *= dim;
  // Of a convolution a block keeps its own tokens' inputs, whatever the type says of earlier ones.
  if (entry && type.getKind() == hir::StateKind::Conv) bytes = 0;
  return {bytes + layouts::kStateBlock * entry, entry};
}

// Whether all that is made of these rows is rounded to int8 first. To look at them changes nothing.
static bool goesOnAsInt8(Value rows) {
  auto readers =
      llvm::make_filter_range(rows.getUsers(), [](Operation* user) { return !isa<hir::TraceOp>(user); });
  return !readers.empty() && llvm::all_of(readers, [](Operation* user) {
    auto type = user->getNumResults() == 1 ? dyn_cast<RankedTensorType>(user->getResult(0).getType())
                                           : RankedTensorType();
    auto blocks = type ? dyn_cast_or_null<hir::Int8Attr>(type.getEncoding()) : hir::Int8Attr();
    return blocks && blocks.getTerms() == 1;
  });
}

plan::Element stateElement(Value state) {
  if (!cast<hir::StateType>(state.getType()).getElementType().isF16()) return plan::Element::F32;
  auto readers = llvm::make_filter_range(state.getUsers(), llvm::IsaPred<hir::FusedGatedAttentionOp>);
  bool rounded = !readers.empty() && llvm::all_of(readers, [](Operation* reader) {
    return goesOnAsInt8(cast<hir::FusedGatedAttentionOp>(reader).getResult());
  });
  return rounded ? plan::Element::B16 : plan::Element::F16;
}

SmallVector<StateEntry> stateEntries(Block& block) {
  SmallVector<StateEntry> entries;
  for (Operation& op : block)
    if (auto lowerable = dyn_cast<LowerableOpInterface>(op)) lowerable.collectEntries(entries);
  return entries;
}

FailureOr<SmallVector<PackedUse>> packedUses(Operation* op, layouts::Policy policy) {
  SmallVector<PackedUse> packed;
  SmallVector<WeightUse> uses;
  if (auto lowerable = dyn_cast<LowerableOpInterface>(op)) lowerable.collectWeights(uses);
  for (const WeightUse& use : uses) {
    auto type = cast<hir::WeightType>(use.sources.front().getType());
    MatrixShape shape = matrixShape(type);
    int64_t rows = shape.matrices * layouts::AlignUp(shape.rows, use.padding.rows);
    int64_t cols = layouts::AlignUp(shape.cols, use.padding.cols);
    layouts::Layout chosen = policy(use.use, type.getFormat(), rows, cols);
    plan::Layout layout = plan::planLayout(chosen);
    auto sources = static_cast<int64_t>(use.sources.size());
    if (layouts::SourcesOf(chosen) == sources) {
      packed.push_back({use.sources, layout, op, rows, cols});
    } else if (layouts::SourcesOf(chosen) == 1) {
      for (Value source : use.sources) packed.push_back({{source}, layout, op, rows, cols});
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

std::string TensorRows::text() const {
  if (!pieces) return tensor;
  std::string text;
  for (auto [begin, count] : llvm::zip_equal(pieces.getBegins(), pieces.getCounts()))
    text += (text.empty() ? "" : ",") + std::to_string(begin) + ":" + std::to_string(count);
  return tensor + "[" + text + "/" + std::to_string(pieces.getGroupRows()) + "]";
}

static std::string packedKey(plan::Layout layout, int64_t rows, int64_t cols, ArrayRef<TensorRows> sources) {
  std::string key = stringifyLayout(layout).str() + ' ' + std::to_string(rows) + 'x' + std::to_string(cols);
  for (const TensorRows& source : sources) key += '\n' + source.text();
  return key;
}

std::string packedKey(const PackedUse& use, ArrayRef<TensorRows> sources) {
  return packedKey(use.layout, use.rows, use.cols, sources);
}

std::string packedKey(plan::WeightOp op) {
  SmallVector<TensorRows> sources;
  for (auto [i, name] : llvm::enumerate(op.getSources().getAsRange<StringAttr>()))
    sources.push_back({name.str(), op.getPiecesOf(i)});
  return packedKey(op.getLayout(), op.getRows(), op.getCols(), sources);
}

// The op behind a value that is the result of one, or an argument of a block that is called with `operands`.
static Operation* originOf(Value value, ValueRange operands) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getArgNumber() >= operands.size()) return nullptr;
    return operands[argument.getArgNumber()].getDefiningOp();
  }
  return value.getDefiningOp();
}

TensorRows tensorRows(Value weight, ValueRange callOperands) {
  auto param = dyn_cast_or_null<hir::ParamOp>(originOf(weight, callOperands));
  return param ? TensorRows{param.getName().str(), param.getPiecesAttr()} : TensorRows{};
}

std::string stateName(Value state, ValueRange callOperands) {
  auto op = dyn_cast_or_null<hir::StateOp>(originOf(state, callOperands));
  return op ? op.getName().str() : "";
}

}  // namespace qcc::passes
