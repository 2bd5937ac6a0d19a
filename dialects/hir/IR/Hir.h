// The hir dialect: include this one for its dialect, types, attributes, interfaces and ops.
#ifndef QCC_DIALECTS_HIR_IR_HIR_H_
#define QCC_DIALECTS_HIR_IR_HIR_H_

#include "dialects/formats/formats.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace qcc::hir {
class Evaluator;  // dialects/hir/eval/Evaluator.h
}

#include "dialects/hir/IR/HirDialect.h.inc"
#include "dialects/hir/IR/HirEnums.h.inc"
#include "dialects/hir/IR/HirInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/hir/IR/HirAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/hir/IR/HirTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/hir/IR/HirOps.h.inc"

#endif  // QCC_DIALECTS_HIR_IR_HIR_H_
