// The plan dialect: include this one for its dialect, enums, attributes and ops.
#ifndef QCC_DIALECTS_PLAN_IR_PLAN_H_
#define QCC_DIALECTS_PLAN_IR_PLAN_H_

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

namespace qcc::plan {
// A cache line, in bytes: every weight, constant, state and arena buffer begins at a multiple of it.
inline constexpr int64_t kAlignment = 64;
}  // namespace qcc::plan

namespace qcc::hir {
class RowPiecesAttr;  // dialects/hir/IR/Hir.h, for who asks a weight for it
}

#include "dialects/plan/IR/PlanDialect.h.inc"
#include "dialects/plan/IR/PlanEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/IR/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/plan/IR/PlanOps.h.inc"

#endif  // QCC_DIALECTS_PLAN_IR_PLAN_H_
