// One piece of a program to an object file of one ISA level.
#ifndef QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_
#define QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/scratch.h"
#include "codegen/cpu/lower/SplitProgram.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

namespace qcc::cpu {

struct CompiledPiece {
  llvm::SmallVector<char, 0> object;
  uint64_t stack = 0;  // bytes that a call takes at most, but for calls of other pieces
  // The largest frame among them, and whose it is.
  uint64_t frame = 0;
  std::string frameOf;
  std::vector<std::string> calls;  // functions of other pieces
};

struct PieceRequest {
  const Piece& piece;
  const IsaInfo& isa;
  const llvm::StringSet<>& others;  // functions of other pieces
  std::string dumpPath;             // if not empty: <dumpPath>.ll (optimised) and <dumpPath>.s are written
  const std::function<bool()>& interrupted;
};

// Before pieces are compiled side by side.
void prepareCodeGenerator();

// Links the kernels' bitcode that the piece calls, inlines, optimises and generates code. Uses nothing that
// another thread may use: pieces are compiled side by side. Errors name the stage and the symbol.
llvm::Expected<CompiledPiece> compilePiece(const PieceRequest& request);

// What a blob's header says.
struct BlobHeader {
  llvm::ArrayRef<std::string> entries;  // step functions
  ScratchBytes scratch;
  int64_t stages;
};

// The header (qrt_code_header) of a blob as an object file.
llvm::Expected<llvm::SmallVector<char, 0>> compileHeader(const BlobHeader& header, const IsaInfo& isa);

// Whether the kernels that `program` calls are those of the level's bitcode, with the same arguments.
llvm::Error checkKernels(const llvm::Module& program, const IsaInfo& isa);

// Bytes of machine code in the piece's object.
llvm::Expected<uint64_t> codeBytes(const CompiledPiece& piece);

// The compiled piece as bytes, to be kept, and back. Nothing where the bytes are not whole.
std::vector<uint8_t> pieceBytes(const CompiledPiece& piece);
std::optional<CompiledPiece> pieceFromBytes(llvm::ArrayRef<uint8_t> bytes);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_COMPILEPIECE_H_
