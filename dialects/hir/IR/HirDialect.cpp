#include "dialects/hir/IR/Hir.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/DialectImplementation.h"

#include "dialects/hir/IR/HirDialect.cpp.inc"
#include "dialects/hir/IR/HirInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/hir/IR/HirAttrs.cpp.inc"

using namespace mlir;

namespace qcc::hir {

void HirDialect::initialize() {
  registerTypes();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/hir/IR/HirAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/hir/IR/HirOps.cpp.inc"
      >();
}

LogicalResult verifyRowWise(Operation* op) {
  for (Type type : op->getOperandTypes())
    if (isa<StateType, RowsType>(type)) return op->emitOpError("works row by row, but takes ") << type;
  return success();
}

LogicalResult Int8Attr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t block, int64_t terms) {
  if (block < 1) return emitError() << "int8 block must be at least 1, found " << block;
  if (terms < 1 || terms > 2) return emitError() << "int8 values have 1 or 2 terms, found " << terms;
  return success();
}

LogicalResult Int8Attr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (!elementType.isF32())
    return emitError() << "int8 encoding stands for f32 values, found element type " << elementType;
  if (shape.size() != 2)
    return emitError() << "int8 encoding needs [rows, features], found rank " << shape.size();
  if (shape[1] == ShapedType::kDynamic || shape[1] % getBlock() != 0)
    return emitError() << "int8 encoding needs features that are a multiple of the block " << getBlock()
                       << ", found "
                       << (shape[1] == ShapedType::kDynamic ? std::string("?") : std::to_string(shape[1]));
  return success();
}

LogicalResult RowPiecesAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t groups,
                                    int64_t groupRows, ArrayRef<int64_t> begins, ArrayRef<int64_t> counts) {
  int64_t rows = 0;
  if (groups < 1 || groupRows < 1 || llvm::MulOverflow(groups, groupRows, rows))
    return emitError() << "row pieces need groups and rows of a group, found " << groups << " and "
                       << groupRows;
  if (begins.empty() || begins.size() != counts.size())
    return emitError() << "row pieces need a begin and a count for each piece, found " << begins.size()
                       << " and " << counts.size();
  int64_t picked = 0, total = 0;
  for (auto [begin, count] : llvm::zip_equal(begins, counts)) {
    if (begin < 0 || count < 1 || begin >= groupRows || count > groupRows - begin)
      return emitError() << "rows [" << begin << ", " << begin << " + " << count
                         << ") are not inside a group of " << groupRows;
    if (llvm::AddOverflow(picked, count, picked) || llvm::MulOverflow(groups, picked, total))
      return emitError() << "row pieces have more rows than fit in 64 bits";
  }
  return success();
}

int64_t RowPiecesAttr::getRows() const {
  return getGroups() * llvm::sum_of(getCounts());
}

int64_t RowPiecesAttr::getTensorRow(int64_t row) const {
  for (auto [begin, count] : llvm::zip_equal(getBegins(), getCounts())) {
    if (row < getGroups() * count) return row / count * getGroupRows() + begin + row % count;
    row -= getGroups() * count;
  }
  return getTensorRows();  // behind the last one
}

}  // namespace qcc::hir
