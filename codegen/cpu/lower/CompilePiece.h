// One piece of a program to an object file of one ISA level.
#ifndef QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_
#define QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/lower/SplitProgram.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace qcc::cpu {

// Bytes of the stack that a function takes.
struct StackShare {
  std::string function;
  uint64_t bytes = 0;
};

struct CompiledPiece {
  llvm::SmallVector<char, 0> object;
  StackShare deepest;  // of the functions that it exports, but for what they call in other pieces
  StackShare largest;  // frame
};

struct PieceRequest {
  const Piece& piece;
  const IsaInfo& isa;
  bool hasTable;         // the piece of the steps: the code header goes with them
  int64_t scratchBytes;  // of each thread, for that header
  std::string dumpPath;  // if not empty: <dumpPath>.ll (optimised) and <dumpPath>.s are written
  const std::function<bool()>& interrupted;
};

// Before pieces are compiled side by side.
void prepareCodeGenerator();

// Links the kernels' bitcode that the piece calls, inlines, optimises and generates code. Uses nothing that
// another thread may use: pieces are compiled side by side. Errors name the stage and the symbol.
llvm::Expected<CompiledPiece> compilePiece(const PieceRequest& request);

// Whether the kernels that `program` calls are those of the level's bitcode, with the same arguments.
llvm::Error checkKernels(const llvm::Module& program, const IsaInfo& isa);

// The compiled piece as bytes, to be kept, and back. Nothing where the bytes are not whole.
std::vector<uint8_t> pieceBytes(const CompiledPiece& piece);
std::optional<CompiledPiece> pieceFromBytes(llvm::ArrayRef<uint8_t> bytes);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_
