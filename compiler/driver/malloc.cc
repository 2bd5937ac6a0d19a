// malloc of the program qcc: where glibc's has no memory, qcc ends (ending.h). Libraries that qcc lives on
// use what malloc gives without a look (MLIR for every operation), or abort where it gives nothing (LLVM,
// already while it is loaded); none can say it to its caller. Not in libraries, tests, or builds with a
// sanitizer, which brings a malloc of its own.
#include <cstddef>

#include "compiler/driver/ending.h"

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  void* memory = __libc_malloc(bytes);
  if (memory == nullptr) qcc::compiler::EndOutOfMemory();
  return memory;
}

void* calloc(size_t count, size_t bytes) {
  void* memory = __libc_calloc(count, bytes);
  if (memory == nullptr) qcc::compiler::EndOutOfMemory();
  return memory;
}

void* realloc(void* old, size_t bytes) {
  void* memory = __libc_realloc(old, bytes);
  if (memory == nullptr && bytes > 0) qcc::compiler::EndOutOfMemory();
  return memory;
}

// What operator new takes more than usually aligned memory from.
void* aligned_alloc(size_t alignment, size_t bytes) {
  void* memory = __libc_memalign(alignment, bytes);
  if (memory == nullptr) qcc::compiler::EndOutOfMemory();
  return memory;
}

}  // extern "C"
