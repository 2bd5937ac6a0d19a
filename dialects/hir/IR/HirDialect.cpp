#include "dialects/hir/IR/Hir.h"

#include "llvm/ADT/TypeSwitch.h"
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

LogicalResult Int8Attr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t block) {
  if (block < 1) return emitError() << "int8 block must be at least 1, found " << block;
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

}  // namespace qcc::hir
