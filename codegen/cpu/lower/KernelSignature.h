// Whether a program and the kernels that are linked into it agree on what the kernels take.
#ifndef QCC_CODEGEN_CPU_LOWER_KERNELSIGNATURE_H_
#define QCC_CODEGEN_CPU_LOWER_KERNELSIGNATURE_H_

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace qcc::cpu {

// Function attribute of a kernel's declaration in a program: the fields of the argument struct that the
// program fills, as text (codegen/cpu/kernels/kernel_args.h). The kernel's own are in its constant
// <kernel>_signature.
inline constexpr llvm::StringLiteral kKernelArgsAttr = "qcc-kernel-args";

// Compares every kernel that `program` declares with its definition in `kernels`. Errors name the kernel, and
// the first field that differs, with what the program fills and what the kernel reads.
llvm::Error checkKernelSignatures(const llvm::Module& program, const llvm::Module& kernels);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_KERNELSIGNATURE_H_
