/* Loaded ahead of the C library (LD_PRELOAD): the allocation number FAIL_ALLOCATION of the process fails,
 * counted from 0 from the very first; with FAIL_ALLOCATIONS_AFTER all behind it, too. Both of qcc, whose
 * malloc calls glibc's, and of qrun. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

extern char** environ;

static atomic_long next_allocation;
static long failing = -1;
static int all_behind;
static int ready;

static const char* value_of(const char* name) {
  const size_t length = strlen(name);
  for (char** entry = environ; entry != NULL && *entry != NULL; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return NULL;
}

static int fails(void) {
  if (!ready) { /* the loader's own thread, before any other */
    ready = 1;
    const char* number = value_of("FAIL_ALLOCATION");
    if (number != NULL) failing = atol(number);
    all_behind = value_of("FAIL_ALLOCATIONS_AFTER") != NULL;
  }
  if (failing < 0) return 0;
  const long number = atomic_fetch_add(&next_allocation, 1);
  return number == failing || (all_behind && number > failing);
}

#define NEXT(name, ...)                                       \
  static void* (*next)(__VA_ARGS__);                          \
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name); \
  if (fails()) {                                              \
    errno = ENOMEM;                                           \
    return NULL;                                              \
  }

void* __libc_malloc(size_t bytes) {
  NEXT(__libc_malloc, size_t)
  return next(bytes);
}
void* __libc_calloc(size_t count, size_t bytes) {
  NEXT(__libc_calloc, size_t, size_t)
  return next(count, bytes);
}
void* __libc_realloc(void* memory, size_t bytes) {
  NEXT(__libc_realloc, void*, size_t)
  return next(memory, bytes);
}
void* __libc_memalign(size_t alignment, size_t bytes) {
  NEXT(__libc_memalign, size_t, size_t)
  return next(alignment, bytes);
}

void* malloc(size_t bytes) {
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* taken = __libc_memalign(alignment, bytes);
  if (taken == NULL) return ENOMEM;
  *memory = taken;
  return 0;
}
