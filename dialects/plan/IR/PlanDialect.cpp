#include <limits>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#include "dialects/plan/IR/Plan.h"

#include "dialects/hir/IR/Hir.h"

#include "dialects/plan/IR/PlanDialect.cpp.inc"
#include "dialects/plan/IR/PlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/IR/PlanAttrs.cpp.inc"

using namespace mlir;

namespace qcc::plan {

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/IR/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/IR/PlanOps.cpp.inc"
      >();
}

LogicalResult RefAttr::verify(function_ref<InFlightDiagnostic()> emitError, Space space, int64_t offset,
                              int64_t bytes, Access access) {
  if (offset < 0 || bytes <= 0)
    return emitError() << "a reference needs offset >= 0 and bytes > 0, found offset " << offset << ", bytes "
                       << bytes;
  if (offset > std::numeric_limits<int64_t>::max() - bytes)
    return emitError() << "a reference needs an end that fits in 64 bits, found offset " << offset
                       << ", bytes " << bytes;
  return success();
}

}  // namespace qcc::plan
