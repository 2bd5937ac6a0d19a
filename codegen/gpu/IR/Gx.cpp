#include "codegen/gpu/IR/Gx.h"

#include "codegen/gpu/IR/GxDialect.cpp.inc"

#define GET_OP_CLASSES
#include "codegen/gpu/IR/GxOps.cpp.inc"

using namespace mlir;

namespace qcc::gx {

void GxDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "codegen/gpu/IR/GxOps.cpp.inc"
      >();
}

LogicalResult ArgOp::verify() {
  int32_t index = static_cast<int32_t>(getIndex());
  if (index < 0 || index >= kMaxArgs)
    return emitOpError() << "index must lie in 0 .. " << kMaxArgs - 1 << ", found " << index;
  return success();
}

LogicalResult MmaS8Op::verify() {
  if (getA().size() != 4 || getB().size() != 2 || getC().size() != 4 || getResults().size() != 4)
    return emitOpError() << "wants 4, 2 and 4 words and gives 4, found " << getA().size() << ", "
                         << getB().size() << " and " << getC().size() << ", giving " << getResults().size();
  return success();
}

}  // namespace qcc::gx
