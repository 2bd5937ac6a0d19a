// From an LLVM-dialect module with calls to micro-kernels to a flat, position-independent code blob.
#ifndef QCC_CODEGEN_CPU_LOWER_EMITBLOB_H_
#define QCC_CODEGEN_CPU_LOWER_EMITBLOB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/cpu/kernels/bitcode.h"
#include "codegen/cpu/kernels/scratch.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::cpu {

struct BlobRequest {
  mlir::ModuleOp module;  // only llvm dialect ops; step functions have external linkage
  std::vector<Isa> isas;
  std::vector<std::string> entries;  // step functions in manifest order
  std::string dumpDir;  // if not empty: there, <isa>/<piece>.ll (optimised) and <isa>/<piece>.s are written
  // Asked before every pass, from all threads. Once it is true the passes that are left are skipped and the
  // error is std::errc::operation_canceled. May be empty.
  std::function<bool()> interrupted;
  ScratchBytes scratch;                                     // LoweredPrograms::scratch
  int64_t stages = 0;                                       // LoweredPrograms::stages
  std::function<void(size_t done, size_t total)> progress;  // pieces; may be empty
  // Compiled pieces that are kept between compiles, by a hash of all that the bytes depend on but for this
  // compiler; `find` gives no bytes for what is not there. Called from all threads, and not where code is
  // dumped. May be empty.
  std::function<std::vector<uint8_t>(const std::string& key)> find;
  std::function<void(const std::string& key, llvm::ArrayRef<uint8_t> bytes)> keep;
};

// A function that was compiled into a blob.
struct BlobFunction {
  std::string name;
  uint64_t codeBytes = 0;         // without what it calls, and its constants
  std::vector<uint32_t> entries;  // that call it or are it: places in BlobRequest::entries, rising
};

struct Blob {
  std::vector<uint8_t> bytes;           // begins with a qrt_code_header
  std::vector<BlobFunction> functions;  // the entries, then the others by name
};

// For each ISA level, in the order asked: the program is cut into pieces (SplitProgram.h), each is compiled
// or taken from the store, and lld links them; of functions that turn out equal the image holds one copy.
// Pieces are compiled side by side on `threads` threads; the bytes depend neither on how many nor on the
// store. Errors name the level, the stage and the symbol; code that takes more stack than
// QRT_STEP_STACK_BYTES, or scratch than QRT_MAX_THREAD_SCRATCH and QRT_MAX_SHARED_SCRATCH, is one, and so are
// more stages than QRT_MAX_STAGES.
llvm::Expected<std::vector<Blob>> emitBlobs(const BlobRequest& request, unsigned threads);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_EMITBLOB_H_
