// The gx dialect: include this one for its dialect and ops.
#ifndef QCC_CODEGEN_GPU_IR_GX_H_
#define QCC_CODEGEN_GPU_IR_GX_H_

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "runtime/abi/gpu_limits.h"

#include "codegen/gpu/IR/GxDialect.h.inc"

#define GET_OP_CLASSES
#include "codegen/gpu/IR/GxOps.h.inc"

namespace qcc::gx {

// Most arguments of a launch, 8 bytes each of push constants.
inline constexpr int kMaxArgs = QRT_VULKAN_PUSH_BYTES / 8;

// How many arguments a kernel says it has, in its attribute gx.args (without it none). Errors, on the kernel
// or the gx.arg: more than kMaxArgs, less than none, a gx.arg beyond them.
mlir::FailureOr<int32_t> argsOf(mlir::Operation* kernel);

}  // namespace qcc::gx

#endif  // QCC_CODEGEN_GPU_IR_GX_H_
