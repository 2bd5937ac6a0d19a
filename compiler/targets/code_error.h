// llvm::Error of code generation as a status.
#ifndef QCC_COMPILER_TARGETS_CODE_ERROR_H_
#define QCC_COMPILER_TARGETS_CODE_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "llvm/Support/Error.h"

namespace qcc::compiler {

// Q6002 and Q6003 when the disk failed (temporary files, dumps, which go into `dumps`), else Q3004.
absl::Status CodeError(llvm::Error error, const std::string& dumps);

// "1.5 KiB".
std::string CodeBytes(uint64_t n);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_TARGETS_CODE_ERROR_H_
