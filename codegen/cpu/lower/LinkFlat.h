// ELF objects to a flat binary image through lld.
#ifndef QCC_CODEGEN_CPU_LOWER_LINKFLAT_H_
#define QCC_CODEGEN_CPU_LOWER_LINKFLAT_H_

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace qcc::cpu {

// Image layout: section .qrt_table (the code header), read-only data, text; of what equal sections hold, one
// copy. The objects' order is that of the image. Writable data, a GOT, or a
// relocation that would need a loader are errors. lld keeps global state: not to be called from two threads
// at once.
llvm::Expected<std::vector<uint8_t>> linkFlat(llvm::ArrayRef<llvm::StringRef> objects);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_LINKFLAT_H_
