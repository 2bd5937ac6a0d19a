// The kernels of one ISA level as one LLVM bitcode module, embedded in this program.
#ifndef QCC_CODEGEN_CPU_KERNELS_BITCODE_H_
#define QCC_CODEGEN_CPU_KERNELS_BITCODE_H_

#include <string_view>

#include "codegen/cpu/kernels/isa.h"

namespace qcc::cpu {

// Bytes of the module; static storage, 16-byte aligned. Functions qk_* (kernels.h) have external linkage,
// carry the level's target-cpu and target-features, `no-builtins` and `alwaysinline`. So have the
// constants <kernel>_signature, what each of them takes (kernel_args.h); nothing else is external or
// undefined.
std::string_view kernel_bitcode(Isa isa);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_BITCODE_H_
