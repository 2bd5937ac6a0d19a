// How much of a thread's stack compiled functions take: measured where they are compiled, so that a program
// that takes more than the interface allows (runtime/abi/program.h) is never written.
#ifndef QCC_CODEGEN_CPU_LOWER_STACKUSE_H_
#define QCC_CODEGEN_CPU_LOWER_STACKUSE_H_

#include <cstdint>
#include <utility>

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace qcc::cpu {

// Makes code generation tell a StackUse about `f`, and its frames, where they span pages, touch each: what
// runs out of stack then meets the guard page and never jumps over it.
void watchStack(llvm::Function& f);

// The frames of the functions of one context.
class StackUse {
 public:
  // Installs itself as what `context` tells of them. Must outlive the code generation.
  explicit StackUse(llvm::LLVMContext& context);

  // Bytes that a call of `entry` takes at most: of all chains of calls in its module the deepest. Errors:
  // functions that call themselves.
  llvm::Expected<uint64_t> deepest(const llvm::Function& entry) const;
  // The function with the largest frame, of equal ones the first by name; no name: there are no frames.
  std::pair<llvm::StringRef, uint64_t> largest() const;

 private:
  llvm::Expected<uint64_t> deepest(const llvm::Function& f, llvm::StringMap<uint64_t>& known) const;
  llvm::StringMap<uint64_t> frames;  // bytes, by function; none: no frame
};

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_STACKUSE_H_
