// The kernels of one level as a table of functions: for tests and benchmarks, which run the embedded bitcode
// as native code (qcc_kernel_object in CMakeLists.txt). No part of any product.
#ifndef QCC_CODEGEN_CPU_KERNELS_NATIVE_TABLE_H_
#define QCC_CODEGEN_CPU_KERNELS_NATIVE_TABLE_H_

#include "codegen/cpu/kernels/kernels.h"

namespace qcc::cpu {

struct Kernels {
#define QK_FUNCTION(name, symbol) decltype(&::name) name;
#include "codegen/cpu/kernels/kernel_functions.def"
#undef QK_FUNCTION
};

}  // namespace qcc::cpu

// Those of every level; static storage.
#define QCC_ISA(id, ...) extern "C" const qcc::cpu::Kernels* id##_qk_native_table();
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA

#endif  // QCC_CODEGEN_CPU_KERNELS_NATIVE_TABLE_H_
