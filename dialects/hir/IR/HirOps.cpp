// Verifiers and result types of the hir ops.
#include "dialects/hir/IR/Hir.h"

#include <cmath>

#include "llvm/Support/MathExtras.h"

#define GET_OP_CLASSES
#include "dialects/hir/IR/HirOps.cpp.inc"

using namespace mlir;

namespace qcc::hir {
namespace {

std::string dimText(int64_t dim) {
  return dim == ShapedType::kDynamic ? "?" : std::to_string(dim);
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "x" : "") + dimText(shape[i]);
  return text;
}

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RankedTensorType f32Tensor(MLIRContext* context, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, Float32Type::get(context));
}

// The operand's tensor type if it has this rank; result inference runs before operands are verified.
RankedTensorType tensorOfRank(ValueRange operands, size_t index, int64_t rank) {
  if (index >= operands.size()) return {};
  auto type = dyn_cast<RankedTensorType>(operands[index].getType());
  return type && type.getRank() == rank ? type : RankedTensorType();
}
WeightType weightOfRank(ValueRange operands, size_t index, int64_t rank) {
  if (index >= operands.size()) return {};
  auto type = dyn_cast<WeightType>(operands[index].getType());
  return type && type.getRank() == rank ? type : WeightType();
}

LogicalResult inferenceError(std::optional<Location> loc, StringRef op, const Twine& needs) {
  return emitOptionalError(loc, "'", op, "' cannot infer its result type: needs ", needs.str());
}

LogicalResult inferSameAs(std::optional<Location> loc, StringRef op, ValueRange operands,
                          SmallVectorImpl<Type>& results) {
  auto type = operands.empty() ? RankedTensorType() : dyn_cast<RankedTensorType>(operands[0].getType());
  if (!type) return inferenceError(loc, op, "a ranked tensor");
  results.push_back(type);
  return success();
}

LogicalResult checkRows(Operation* op, StringRef name, Value value, StringRef otherName, Value other) {
  int64_t rows = shapeOf(value)[0], otherRows = shapeOf(other)[0];
  if (rows != ShapedType::kDynamic && otherRows != ShapedType::kDynamic && rows != otherRows)
    return op->emitOpError() << name << " has " << rows << " rows, " << otherName << " has " << otherRows;
  return success();
}

LogicalResult checkVector(Operation* op, StringRef name, WeightType weight, StringRef ofWhat,
                          int64_t length) {
  if (weight.getRank() != 1)
    return op->emitOpError() << name << " must have 1 dimension, found " << weight.getRank() << " in "
                             << weight;
  if (weight.getShape()[0] != length)
    return op->emitOpError() << name << " must have " << length << " elements (" << ofWhat << "), found "
                             << weight.getShape()[0];
  return success();
}

LogicalResult checkPositive(Operation* op, StringRef name, const APFloat& value) {
  if (!value.isFinite() || value.isNegative() || value.isZero())
    return op->emitOpError() << name << " must be positive and finite, found " << value.convertToDouble();
  return success();
}

LogicalResult checkState(Operation* op, StateType state, StateKind kind, ArrayRef<int64_t> shape,
                         StringRef ofWhat) {
  if (state.getKind() != kind)
    return op->emitOpError() << "needs a " << stringifyStateKind(kind) << " state, found "
                             << stringifyStateKind(state.getKind());
  if (state.getShape() != shape)
    return op->emitOpError() << "state must be " << shapeText(shape) << " (" << ofWhat << "), found "
                             << shapeText(state.getShape());
  return success();
}

LogicalResult checkName(Operation* op, StringRef name) {
  if (name.empty()) return op->emitOpError() << "needs a name, found an empty one";
  return success();
}

}  // namespace

LogicalResult ParamOp::verify() {
  if (failed(checkName(*this, getName()))) return failure();
  RowPiecesAttr pieces = getPiecesAttr();
  int64_t rows = getType().getNumElements() / getType().getShape().back();
  if (pieces && pieces.getRows() != rows)
    return emitOpError() << "pieces have " << pieces.getRows() << " rows, " << getType() << " has " << rows;
  return success();
}
LogicalResult StateOp::verify() {
  return checkName(*this, getName());
}

LogicalResult EmbedOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                        ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                        SmallVectorImpl<Type>& results) {
  WeightType table = weightOfRank(operands, 0, 2);
  RankedTensorType ids = tensorOfRank(operands, 1, 1);
  if (!table || !ids)
    return inferenceError(loc, getOperationName(), "a table of 2 dimensions and a list of ids");
  results.push_back(f32Tensor(context, {ids.getDimSize(0), table.getShape()[1]}));
  return success();
}

LogicalResult EmbedOp::verify() {
  if (getTable().getType().getRank() != 2)
    return emitOpError() << "table must have 2 dimensions, found " << getTable().getType().getRank();
  return success();
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                          DictionaryAttr, OpaqueProperties, RegionRange,
                                          SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult RmsNormOp::verify() {
  if (failed(checkPositive(*this, "eps", getEps()))) return failure();
  return checkVector(*this, "weight", getWeight().getType(), "the last dimension of x",
                     shapeOf(getX()).back());
}

LogicalResult L2NormOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult L2NormOp::verify() {
  return checkPositive(*this, "eps", getEps());
}

LogicalResult QuantizeOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                           ValueRange operands, DictionaryAttr attributes,
                                           OpaqueProperties properties, RegionRange regions,
                                           SmallVectorImpl<Type>& results) {
  RankedTensorType x = tensorOfRank(operands, 0, 2);
  Adaptor adaptor(operands, attributes, properties, regions);
  if (!x || !adaptor.getBlockAttr())
    return inferenceError(loc, getOperationName(), "[rows, features] and a block");
  int64_t block = adaptor.getBlock(), features = x.getDimSize(1);
  if (block < 1) return emitOptionalError(loc, "'hir.quantize' op block must be at least 1, found ", block);
  if (features == ShapedType::kDynamic || features % block != 0)
    return emitOptionalError(loc, "'hir.quantize' op features must be a multiple of the block ", block,
                             ", found ", dimText(features));
  // Parsing infers before defaults are in.
  int64_t terms = adaptor.getTermsAttr() ? adaptor.getTerms() : 1;
  if (terms < 1 || terms > 2)
    return emitOptionalError(loc, "'hir.quantize' op terms must be 1 or 2, found ", terms);
  results.push_back(
      RankedTensorType::get(x.getShape(), x.getElementType(), Int8Attr::get(context, block, terms)));
  return success();
}

LogicalResult QuantizeOp::verify() {
  // The encoding's own verifier has compared the block with the features; only the pairing is left.
  auto encoding = dyn_cast_or_null<Int8Attr>(tensorOf(getResult()).getEncoding());
  auto expected = Int8Attr::get(getContext(), getBlock(), getTerms());
  if (encoding != expected)
    return emitOpError() << "result must have the encoding " << expected << ", found "
                         << tensorOf(getResult());
  return success();
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                         ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type>& results) {
  RankedTensorType x = tensorOfRank(operands, 0, 2);
  WeightType weight = weightOfRank(operands, 1, 2);
  if (!x || !weight)
    return inferenceError(loc, getOperationName(), "[rows, features] and a weight of 2 dimensions");
  results.push_back(f32Tensor(context, {x.getDimSize(0), weight.getShape()[0]}));
  return success();
}

LogicalResult LinearOp::verify() {
  WeightType weight = getWeight().getType();
  if (weight.getRank() != 2)
    return emitOpError() << "weight must have 2 dimensions, found " << weight.getRank();
  if (weight.getShape()[1] != shapeOf(getX())[1])
    return emitOpError() << "weight has " << weight.getShape()[1] << " columns, x has " << shapeOf(getX())[1]
                         << " features";
  if (getScale() && getScale().getType() != WeightType::get(getContext(), {1}, Format::F32))
    return emitOpError() << "scale must be one f32 number, found " << getScale().getType();
  return success();
}

// Elements of a row; none where they are more than fit in 64 bits.
static std::optional<int64_t> elementsOfRow(ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t dim : shape.drop_front())
    if (llvm::MulOverflow(elements, dim, elements)) return std::nullopt;
  return elements;
}

LogicalResult ReshapeOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  if (from[0] != to[0])
    return emitOpError() << "must keep the rows: x has " << dimText(from[0]) << ", the result has "
                         << dimText(to[0]);
  std::optional<int64_t> fromSize = elementsOfRow(from), toSize = elementsOfRow(to);
  if (!fromSize || !toSize) return emitOpError() << "has rows of more elements than fit in 64 bits";
  if (*fromSize != *toSize)
    return emitOpError() << "must keep the elements of a row: x has " << *fromSize << ", the result has "
                         << *toSize;
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                        ValueRange operands, DictionaryAttr attributes,
                                        OpaqueProperties properties, RegionRange regions,
                                        SmallVectorImpl<Type>& results) {
  auto x = operands.empty() ? RankedTensorType() : dyn_cast<RankedTensorType>(operands[0].getType());
  Adaptor adaptor(operands, attributes, properties, regions);
  if (!x || x.getRank() < 2 || !adaptor.getSizeAttr())
    return inferenceError(loc, getOperationName(), "a tensor of 2 or 3 dimensions and a size");
  SmallVector<int64_t> shape(x.getShape());
  shape.back() = adaptor.getSize();
  if (shape.back() < 1)
    return emitOptionalError(loc, "'hir.slice' op size must be at least 1, found ", shape.back());
  results.push_back(f32Tensor(context, shape));
  return success();
}

LogicalResult SliceOp::verify() {
  int64_t offset = getOffset(), size = getSize(), extent = shapeOf(getX()).back();
  if (offset < 0 || offset >= extent || size > extent - offset)
    return emitOpError() << "elements [" << offset << ", " << offset << " + " << size
                         << ") are not inside the last dimension of " << extent;
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                         ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type>& results) {
  RankedTensorType lhs = tensorOfRank(operands, 0, 2), rhs = tensorOfRank(operands, 1, 2);
  if (!lhs || !rhs || lhs.isDynamicDim(1) || rhs.isDynamicDim(1))
    return inferenceError(loc, getOperationName(), "two [rows, features]");
  results.push_back(f32Tensor(context, {lhs.getDimSize(0), lhs.getDimSize(1) + rhs.getDimSize(1)}));
  return success();
}

LogicalResult ConcatOp::verify() {
  return checkRows(*this, "lhs", getLhs(), "rhs", getRhs());
}

LogicalResult SelectRowsOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                             ValueRange operands, DictionaryAttr, OpaqueProperties,
                                             RegionRange, SmallVectorImpl<Type>& results) {
  RankedTensorType x = tensorOfRank(operands, 0, 2), indices = tensorOfRank(operands, 1, 1);
  if (!x || !indices)
    return inferenceError(loc, getOperationName(), "[rows, features] and a list of indices");
  results.push_back(f32Tensor(context, {indices.getDimSize(0), x.getDimSize(1)}));
  return success();
}

LogicalResult CausalConv1dOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                               DictionaryAttr, OpaqueProperties, RegionRange,
                                               SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult CausalConv1dOp::verify() {
  WeightType weight = getWeight().getType();
  int64_t channels = shapeOf(getX())[1];
  if (weight.getRank() != 2)
    return emitOpError() << "weight must have 2 dimensions, found " << weight.getRank();
  if (weight.getShape()[0] != channels)
    return emitOpError() << "weight has " << weight.getShape()[0] << " channels, x has " << channels;
  int64_t taps = weight.getShape()[1];
  if (taps < 2) return emitOpError() << "weight must have at least 2 taps, found " << taps;
  return checkState(*this, getState().getType(), StateKind::Conv, {taps - 1, channels},
                    "taps - 1 x channels");
}

LogicalResult GdnDecayOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                           DictionaryAttr, OpaqueProperties, RegionRange,
                                           SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult GdnDecayOp::verify() {
  int64_t heads = shapeOf(getA())[1];
  if (failed(checkVector(*this, "ssm_a", getSsmA().getType(), "value heads of a", heads))) return failure();
  return checkVector(*this, "dt_bias", getDtBias().getType(), "value heads of a", heads);
}

LogicalResult GatedDeltaOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             SmallVectorImpl<Type>& results) {
  RankedTensorType v = tensorOfRank(operands, 2, 3);
  if (!v) return inferenceError(loc, getOperationName(), "v as [rows, value_heads, value_dim]");
  results.push_back(v);
  return success();
}

LogicalResult GatedDeltaOp::verify() {
  ArrayRef<int64_t> q = shapeOf(getQ()), v = shapeOf(getV()), g = shapeOf(getG());
  if (v[1] % q[1] != 0)
    return emitOpError() << "value heads must be a multiple of the key heads, found " << v[1] << " and "
                         << q[1];
  if (g[1] != v[1]) return emitOpError() << "g and beta must have " << v[1] << " value heads, found " << g[1];
  if (failed(checkRows(*this, "v", getV(), "q", getQ())) ||
      failed(checkRows(*this, "g", getG(), "q", getQ())) || failed(checkPositive(*this, "scale", getScale())))
    return failure();
  return checkState(*this, getState().getType(), StateKind::Delta, {v[1], q[2], v[2]},
                    "value_heads x key_dim x value_dim");
}

LogicalResult RopeTableOp::verify() {
  int64_t pairs = getInvFreq().size(), features = shapeOf(getResult())[1];
  if (pairs < 1) return emitOpError() << "inv_freq must have at least one pair, found none";
  if (features != 2 * pairs)
    return emitOpError() << "result must have " << 2 * pairs << " features (2 * pairs), found " << features;
  for (double frequency : getInvFreq())
    if (!std::isfinite(frequency)) return emitOpError() << "inv_freq must be finite, found " << frequency;
  if (failed(checkPositive(*this, "magnitude", getMagnitude()))) return failure();
  ArrayRef<int64_t> sections = getSections();
  if (sections.empty()) return success();
  if (sections.size() != 4)
    return emitOpError() << "sections must be empty or [t, h, w, e], found " << sections.size() << " entries";
  for (int64_t section : sections)
    if (section < 0) return emitOpError() << "sections must not be negative, found " << section;
  return success();
}

LogicalResult RopeOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                       DictionaryAttr, OpaqueProperties, RegionRange,
                                       SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult RopeOp::verify() {
  int64_t headDim = shapeOf(getX())[2], dims = shapeOf(getTable())[1];
  if (dims % 2 != 0)
    return emitOpError() << "table must hold cos and sin of each pair, found " << dims << " features";
  if (dims > headDim)
    return emitOpError() << "rotates " << dims << " dimensions of heads that have " << headDim;
  return checkRows(*this, "table", getTable(), "x", getX());
}

LogicalResult KvStoreOp::verify() {
  ArrayRef<int64_t> k = shapeOf(getK());
  if (failed(checkRows(*this, "v", getV(), "k", getK()))) return failure();
  return checkState(*this, getState().getType(), StateKind::KV, k.drop_front(), "kv_heads x head_dim of k");
}

LogicalResult TraceOp::verify() {
  return checkState(*this, getState().getType(), StateKind::Trace, shapeOf(getX()).drop_front(),
                    "the features of x");
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult AttentionOp::verify() {
  ArrayRef<int64_t> q = shapeOf(getQ());
  StateType state = getState().getType();
  if (state.getKind() != StateKind::KV)
    return emitOpError() << "needs a kv state, found " << stringifyStateKind(state.getKind());
  if (q[1] % state.getShape()[0] != 0)
    return emitOpError() << "query heads must be a multiple of the kv heads, found " << q[1] << " and "
                         << state.getShape()[0];
  if (q[2] != state.getShape()[1])
    return emitOpError() << "head_dim of q is " << q[2] << ", of the state " << state.getShape()[1];
  return checkPositive(*this, "scale", getScale());
}

LogicalResult MoeRouteOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                           ValueRange operands, DictionaryAttr attributes,
                                           OpaqueProperties properties, RegionRange regions,
                                           SmallVectorImpl<Type>& results) {
  RankedTensorType logits = tensorOfRank(operands, 0, 2);
  Adaptor adaptor(operands, attributes, properties, regions);
  if (!logits || !adaptor.getTopKAttr())
    return inferenceError(loc, getOperationName(), "[rows, experts] and a number of experts");
  int64_t used = adaptor.getTopK(), experts = logits.getDimSize(1);
  if (used < 1 || used > experts)
    return emitOptionalError(loc, "'hir.moe_route' op top_k must be 1 to the ", dimText(experts),
                             " experts, found ", used);
  int64_t rows = logits.getDimSize(0);
  results.push_back(RankedTensorType::get({rows, used}, IntegerType::get(context, 32)));
  results.push_back(f32Tensor(context, {rows, used}));
  return success();
}

LogicalResult MoeRouteOp::verify() {
  if (failed(checkPositive(*this, "floor", getNormFloor()))) return failure();
  return checkPositive(*this, "scale", getScale());
}

LogicalResult MoeExpertsOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc,
                                             ValueRange operands, DictionaryAttr, OpaqueProperties,
                                             RegionRange, SmallVectorImpl<Type>& results) {
  RankedTensorType x = tensorOfRank(operands, 0, 2);
  WeightType down = weightOfRank(operands, 5, 3);
  if (!x || !down)
    return inferenceError(loc, getOperationName(), "[rows, features] and a down matrix of each expert");
  results.push_back(f32Tensor(context, {x.getDimSize(0), down.getShape()[1]}));
  return success();
}

LogicalResult MoeExpertsOp::verify() {
  WeightType gate = getGate().getType(), up = getUp().getType(), down = getDown().getType();
  if (gate.getRank() != 3 || gate.getShape()[2] != shapeOf(getX())[1])
    return emitOpError() << "gate must be experts x width x " << shapeOf(getX())[1]
                         << " (features of x), found " << gate;
  if (up.getShape() != gate.getShape())
    return emitOpError() << "up must be " << shapeText(gate.getShape()) << " as gate, found " << up;
  int64_t experts = getExperts(), width = getWidth(), used = shapeOf(getIds())[1];
  if (down.getShape()[0] != experts || down.getShape()[2] != width)
    return emitOpError() << "down must be " << experts << " x features x " << width << ", found " << down;
  if (auto route = getIds().getDefiningOp<MoeRouteOp>(); route && shapeOf(route.getLogits())[1] != experts)
    return emitOpError() << "ids are chosen among " << shapeOf(route.getLogits())[1] << " experts, gate has "
                         << experts;
  if (used < 1 || used > experts)
    return emitOpError() << "a row must use 1 to the " << experts << " experts, found " << used;
  if (shapeOf(getWeights())[1] != used)
    return emitOpError() << "has " << used << " ids of a row, but " << shapeOf(getWeights())[1] << " weights";
  if (failed(checkRows(*this, "ids", getIds(), "x", getX())) ||
      failed(checkRows(*this, "weights", getWeights(), "x", getX())))
    return failure();
  for (auto [name, scale] : {std::pair("gate_scale", getGateScale()), std::pair("up_scale", getUpScale()),
                             std::pair("down_scale", getDownScale())}) {
    if (!scale) continue;
    WeightType type = scale.getType();
    if (type.getRank() != 1 || type.getFormat() != Format::F32 ||
        (type.getShape()[0] != 1 && type.getShape()[0] != experts))
      return emitOpError() << name << " must be one f32 number or " << experts << ", found " << type;
  }
  int64_t block = getHiddenBlock();
  if (block < 0 || (block > 0 && width % block != 0))
    return emitOpError() << "width must be a multiple of hidden_block " << block << ", found " << width;
  return success();
}

LogicalResult ScaleRowsOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type>& results) {
  return inferSameAs(loc, getOperationName(), operands, results);
}

LogicalResult ScaleRowsOp::verify() {
  if (shapeOf(getFactors())[1] != 1)
    return emitOpError() << "factors must be one number for each row, found " << shapeOf(getFactors())[1];
  return checkRows(*this, "factors", getFactors(), "x", getX());
}

}  // namespace qcc::hir
