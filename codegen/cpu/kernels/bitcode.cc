#include "codegen/cpu/kernels/bitcode.h"

// One local symbol pair per level around the file that the build made (QCC_KERNEL_BITCODE_DIR/<level>.bc).
#define QCC_ISA(id, ...)                                                                  \
  __asm__(                                                                                \
      ".pushsection .rodata\n.balign 16\n"                                                \
      "qcc_kernels_" #id "_begin:\n.incbin \"" QCC_KERNEL_BITCODE_DIR "/" #id             \
      ".bc\"\n"                                                                           \
      "qcc_kernels_" #id "_end:\n.byte 0\n.popsection\n");                                \
  extern "C" const char qcc_kernels_##id##_begin[] __attribute__((visibility("hidden"))); \
  extern "C" const char qcc_kernels_##id##_end[] __attribute__((visibility("hidden")));
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA

namespace qcc::cpu {

std::string_view kernel_bitcode(Isa isa) {
  switch (isa) {
#define QCC_ISA(id, ...) \
  case Isa::id:          \
    return {qcc_kernels_##id##_begin, static_cast<size_t>(qcc_kernels_##id##_end - qcc_kernels_##id##_begin)};
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
  }
  return {};
}

}  // namespace qcc::cpu
