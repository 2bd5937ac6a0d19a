#include "dialects/plan/IR/Plan.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/sequence_state.h"
#include "dialects/plan/IR/PackLayout.h"
#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#define GET_OP_CLASSES
#include "dialects/plan/IR/PlanOps.cpp.inc"

using namespace mlir;

namespace qcc::plan {
namespace {

LogicalResult verifyPlaced(Operation* op, int64_t offset, int64_t bytes) {
  if (offset < 0 || offset % kAlignment != 0)
    return op->emitOpError() << "offset must be a non-negative multiple of " << kAlignment << ", found "
                             << offset;
  if (bytes <= 0) return op->emitOpError() << "size must be positive, found " << bytes;
  if (int64_t end = 0; llvm::AddOverflow(offset, bytes, end))
    return op->emitOpError() << "end must fit in 64 bits, found offset " << offset << " and size " << bytes;
  return success();
}

// One binding against its role. `rows`: what the bindings of so many rows before it agree on, 0 before the
// first.
LogicalResult verifyBinding(DispatchOp op, const Role& role, RefAttr ref, int64_t& rows) {
  StringRef name = role.name;
  const bool ofThread = role.space == Space::Arena && ref.getSpace() == Space::Thread;
  if (ref.getSpace() != role.space && !ofThread && !(role.mayBeLogits && ref.getSpace() == Space::Logits))
    return op.emitOpError() << "role '" << name << "' must be in space " << stringifySpace(role.space)
                            << ", found " << stringifySpace(ref.getSpace());
  if (ref.getAccess() != role.access)
    return op.emitOpError() << "role '" << name << "' must be " << stringifyAccess(role.access) << ", found "
                            << stringifyAccess(ref.getAccess());
  if (ref.getAccess() != Access::Read && ofThread != op.getReplicated())
    return op.emitOpError() << "role '" << name << "' is written to " << stringifySpace(ref.getSpace())
                            << (ofThread ? ", which only a replicated dispatch does"
                                         : ", though each thread writes what a replicated dispatch does");
  int64_t unit = role.bytes;
  if (unit <= 0)  // less than a block of the format
    return op.emitOpError() << "role '" << name << "' comes to " << unit
                            << " bytes with this spec, expected a positive size";
  switch (role.unit) {
    case Unit::Whole:
      if (ref.getBytes() != unit)
        return op.emitOpError() << "role '" << name << "' has " << unit << " bytes, found " << ref.getBytes();
      break;
    case Unit::AnyRows:
      if (ref.getBytes() % unit != 0)
        return op.emitOpError() << "role '" << name << "' must be a multiple of " << unit << " bytes, found "
                                << ref.getBytes();
      break;
    case Unit::Rows:
      if (rows == 0 && ref.getBytes() % unit == 0) rows = ref.getBytes() / unit;
      if (ref.getBytes() % unit != 0 || ref.getBytes() / unit != rows)
        return op.emitOpError() << "role '" << name << "' has " << unit << " bytes per row"
                                << (rows ? " and " + std::to_string(rows) + " rows" : "") << ", found "
                                << ref.getBytes();
      break;
  }
  return success();
}

// Whether the bytes of a weight of this shape, positive, fit in 64 bits: no layout takes more than 8 for one
// of its values, with rows rounded up to a group.
bool fitsPacked(int64_t rows, int64_t cols) {
  int64_t padded = 0, values = 0, bytes = 0;
  return !llvm::AddOverflow(rows, int64_t{layouts::kGroupRows}, padded) &&
         !llvm::MulOverflow(padded, cols, values) && !llvm::MulOverflow(values, int64_t{8}, bytes);
}

}  // namespace

hir::RowPiecesAttr WeightOp::getPiecesOf(size_t source) {
  return getPieces() ? dyn_cast<hir::RowPiecesAttr>((*getPieces())[source]) : nullptr;
}

static LogicalResult verifyPieces(WeightOp op) {
  if (!op.getPieces()) return success();
  if (op.getPieces()->size() != op.getSources().size())
    return op.emitOpError() << "has " << op.getSources().size() << " sources, but pieces of "
                            << op.getPieces()->size();
  for (auto [i, piece] : llvm::enumerate(*op.getPieces())) {
    if (isa<UnitAttr>(piece)) continue;
    hir::RowPiecesAttr pieces = op.getPiecesOf(i);
    if (!pieces) return op.emitOpError() << "pieces must be #hir.row_pieces or unit, found " << piece;
    if (pieces.getRows() != op.getSourceRows())
      return op.emitOpError() << "pieces have " << pieces.getRows() << " rows, the weight "
                              << op.getSourceRows();
  }
  return success();
}

// Columns have room behind them where they lie one by one, not in blocks.
static LogicalResult verifyPadding(WeightOp op, Format format) {
  std::optional<ArrayRef<int64_t>> padded = op.getPadded();
  if (!padded) return success();
  if (padded->size() != 3 || llvm::any_of(*padded, [](int64_t n) { return n < 1; }))
    return op.emitOpError() << "padded must be matrices, rows and columns, all positive";
  int64_t matrices = (*padded)[0], rows = op.getRows(), cols = op.getCols();
  if (rows % matrices != 0 || rows / matrices < (*padded)[1] || cols < (*padded)[2])
    return op.emitOpError() << "of " << rows << " x " << cols << " cannot hold " << matrices
                            << " matrices of " << (*padded)[1] << " x " << (*padded)[2];
  if (op.getLayout() != Layout::X16 && op.getLayout() != Layout::X16Pair)
    return op.emitOpError() << "is padded, but layout " << stringifyLayout(op.getLayout()) << " is not";
  if (cols != (*padded)[2] && format_info(format).cls != FormatClass::kPlain)
    return op.emitOpError() << "pads the columns of format " << op.getFormat() << ", which lie in blocks";
  return success();
}

LogicalResult WeightOp::verify() {
  if (failed(verifyPlaced(*this, getOffset(), getBytes()))) return failure();
  StringRef name = getFormat();
  std::optional<Format> format = format_from_name(std::string_view(name.data(), name.size()));
  if (!format) return emitOpError() << "has unknown format '" << name << "'";
  size_t sources = layouts::SourcesOf(packLayout(getLayout()));
  if (getSources().size() != sources)
    return emitOpError() << "layout " << stringifyLayout(getLayout()) << " packs " << sources << " tensor"
                         << (sources == 1 ? "" : "s") << ", found " << getSources().size();
  if (failed(verifyPadding(*this, *format)) || failed(verifyPieces(*this))) return failure();
  if (static_cast<int64_t>(getRows()) <= 0 || static_cast<int64_t>(getCols()) <= 0)
    return emitOpError() << "shape must be positive, found " << getRows() << " x " << getCols();
  if (!fitsPacked(getRows(), getCols()))
    return emitOpError() << "of " << getRows() << " x " << getCols() << " has more bytes than fit in 64 bits";
  std::optional<int64_t> expected =
      layouts::PackedBytes(packLayout(getLayout()), *format, getRows(), getCols());
  if (!expected)
    return emitOpError() << "columns (" << getCols() << ") must be a multiple of the block ("
                         << format_info(*format).block_elems << ") of " << name;
  if (static_cast<int64_t>(getBytes()) != *expected)
    return emitOpError() << "of " << getRows() << " x " << getCols() << " in layout "
                         << stringifyLayout(getLayout()) << " has " << *expected << " bytes, found size "
                         << getBytes();
  return success();
}

LogicalResult ConstantOp::verify() {
  return verifyPlaced(*this, getOffset(), 8 * getValues().size());
}

LogicalResult StateOp::verify() {
  if (failed(verifyPlaced(*this, getOffset(), getBytes()))) return failure();
  bool kv = isKv();
  size_t rank = getKind() == StateKind::Delta ? 3 : getKind() == StateKind::Trace ? 1 : 2;
  if (getShape().size() != rank)
    return emitOpError() << "kind " << stringifyStateKind(getKind()) << " has rank " << rank << ", found "
                         << getShape().size();
  int64_t expected = (getElement() == Element::F32 ? 4 : 2) * (kv ? 2 : 1);
  for (int64_t dim : getShape()) {
    if (dim <= 0) return emitOpError() << "dimensions must be positive, found " << dim;
    if (llvm::MulOverflow(expected, dim, expected))
      return emitOpError() << "of this shape has more bytes than fit in 64 bits";
  }
  auto entry = static_cast<int64_t>(getEntry());
  bool conv = getKind() == StateKind::Conv;
  if (entry != 0 && !conv && getKind() != StateKind::Delta)
    return emitOpError() << "kind " << stringifyStateKind(getKind()) << " has no entries, found " << entry
                         << " bytes";
  if (entry != 0 && conv) {
    // That a block has room for the tokens before the next one is a limit of kernels, which they check.
    if (entry != expected / getShape()[0])
      return emitOpError() << "of this shape keeps " << expected / getShape()[0]
                           << " bytes of each token, found entries of " << entry;
    expected = 0;
  }
  int64_t entries;
  if (entry < 0 || llvm::MulOverflow(entry, layouts::kStateBlock, entries) ||
      llvm::AddOverflow(expected, entries, expected))
    return emitOpError() << "has entries of more bytes than fit in 64 bits, or of less than none: " << entry;
  if (static_cast<int64_t>(getBytes()) != expected)
    return emitOpError() << "of this shape has " << expected << " bytes" << (kv ? " per token" : "")
                         << ", found size " << getBytes();
  return success();
}

LogicalResult BlockOp::verify() {
  for (Operation& op : getBody().front())
    if (!isa<DispatchOp, BarrierOp>(op)) return op.emitOpError() << "may not stand in a plan.block";
  return success();
}

LogicalResult ProgramOp::verify() {
  if (static_cast<int64_t>(getRows()) <= 0)
    return emitOpError() << "rows must be positive, found " << getRows();
  if (static_cast<int64_t>(getArenaBytes()) < 0)
    return emitOpError() << "arena must not be negative, found " << getArenaBytes();
  if (!getTokens() && !getGiven() && !getStream())
    return emitOpError() << "takes nothing: expected tokens, given rows or a stream";
  if (getGiven() && getStream())
    return emitOpError() << "takes given rows and a stream, which both lie at the arena's begin";
  if (getGiven() && static_cast<int64_t>(*getGiven()) <= 0)
    return emitOpError() << "given rows must have a positive width, found " << *getGiven();
  for (Operation& op : getBody().front())
    if (!isa<DispatchOp, BarrierOp, CallOp>(op)) return op.emitOpError() << "may not stand in a plan.program";
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection& symbols) {
  auto block = symbols.lookupNearestSymbolFrom<BlockOp>(*this, getBlockAttr());
  if (!block) return emitOpError() << "calls " << getBlockAttr() << ", which is not a plan.block";
  return success();
}

// What a dispatch may be is in one table, see kernel_families.h; this checks one op against it.
LogicalResult DispatchOp::verify() {
  if (failed(checkSpec(getFamily(), getSpec(), [&] { return emitOpError(); }))) return failure();
  if (getRoles().size() != getBindings().size())
    return emitOpError() << "has " << getRoles().size() << " roles but " << getBindings().size()
                         << " bindings";
  if (getBuffers() && getBuffers()->size() != getBindings().size())
    return emitOpError() << "has " << getBindings().size() << " bindings but " << getBuffers()->size()
                         << " buffers";

  std::vector<Role> roles = rolesOf(getFamily(), getSpec());
  int64_t rows = 0;
  llvm::SmallDenseSet<StringRef> seen;
  for (auto [nameAttr, binding] : llvm::zip(getRoles().getAsRange<StringAttr>(), getBindings())) {
    StringRef name = nameAttr.getValue();
    auto ref = dyn_cast<RefAttr>(binding);
    if (!ref)
      return emitOpError() << "binding of role '" << name << "' must be a #plan.ref, found " << binding;
    auto role = llvm::find_if(roles, [&](const Role& r) { return StringRef(r.name) == name; });
    if (role == roles.end() || role->presence == Presence::Absent)
      return emitOpError() << "family '" << getFamily() << "' has no role '" << name << "' with this spec";
    if (!seen.insert(name).second) return emitOpError() << "role '" << name << "' is bound twice";
    if (failed(verifyBinding(*this, *role, ref, rows))) return failure();
  }
  SmallVector<StringRef> oneOf;
  for (const Role& role : roles) {
    if (role.presence == Presence::Required && !seen.contains(StringRef(role.name)))
      return emitOpError() << "family '" << getFamily() << "' needs role '" << StringRef(role.name) << "'";
    if (role.presence == Presence::OneOf) oneOf.push_back(role.name);
  }
  if (!oneOf.empty() && llvm::none_of(oneOf, [&](StringRef name) { return seen.contains(name); }))
    return emitOpError() << "family '" << getFamily() << "' needs role '" << llvm::join(oneOf, "' or '")
                         << "'";
  if (auto program = dyn_cast<ProgramOp>((*this)->getParentOp()); program && rows != 0)
    if (rows != static_cast<int64_t>(program.getRows()))
      return emitOpError() << "is for " << rows << " rows in a program of " << program.getRows();
  return success();
}

}  // namespace qcc::plan
