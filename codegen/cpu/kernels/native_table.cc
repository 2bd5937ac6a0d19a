// Compiled once per level; the build puts <level>_ before the name.
#include "codegen/cpu/kernels/native_table.h"

extern "C" const qcc::cpu::Kernels* qk_native_table() {
  static constexpr qcc::cpu::Kernels kTable{
#define QK_FUNCTION(name, symbol) &name,
#include "codegen/cpu/kernels/kernel_functions.def"
#undef QK_FUNCTION
  };
  return &kTable;
}
