// A program in pieces that are compiled on their own: so all cores take part, and a piece that another
// program has, too, need not be compiled again.
#ifndef QCC_CODEGEN_CPU_LOWER_SPLITPROGRAM_H_
#define QCC_CODEGEN_CPU_LOWER_SPLITPROGRAM_H_

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"

namespace qcc::cpu {

// LLVM bitcode of some of a program's functions, for any ISA level. What it calls besides is declared:
// kernels, and specialised functions. Equal functions give equal bytes, whatever else the program has.
struct Piece {
  std::vector<std::string> exports;  // functions that others call; the first names the piece
  llvm::SmallVector<char, 0> bitcode;
};

// The step functions `entries` with the blocks that they call; then each specialised function (kSpecialised),
// by name.
std::vector<Piece> splitProgram(const llvm::Module& program, llvm::ArrayRef<std::string> entries);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_SPLITPROGRAM_H_
