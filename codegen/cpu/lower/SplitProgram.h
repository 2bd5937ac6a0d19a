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

// LLVM bitcode of one function, for any ISA level. What it calls is declared: kernels, and functions of other
// pieces. Equal functions give equal bytes, whatever else the program has.
struct Piece {
  std::string name;  // of the function
  llvm::SmallVector<char, 0> bitcode;
};

// Every function that `program` defines: `entries` in their order, then the others by name.
std::vector<Piece> splitProgram(const llvm::Module& program, llvm::ArrayRef<std::string> entries);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_SPLITPROGRAM_H_
