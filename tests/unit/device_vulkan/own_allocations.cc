#include "tests/unit/device_vulkan/own_allocations.h"

#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QRT_TEST_SYSTEM_MALLOC std::malloc  // which the sanitizer has replaced already
#else
extern "C" void* __libc_malloc(size_t size);
#define QRT_TEST_SYSTEM_MALLOC __libc_malloc
#endif

namespace {

struct Range {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool Has(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
  }
};
Range program, library;  // where they are loaded
std::atomic<bool> counting{false};
std::atomic<long> count{0};
bool (*driver)() = nullptr;
thread_local bool inside = false;  // what walking the stack allocates itself

int Find(dl_phdr_info* info, size_t, void* first) {
  Range range;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + segment.p_memsz > range.end) range.end = begin + segment.p_memsz;
  }
  if (*static_cast<bool*>(first)) program = range;
  *static_cast<bool*>(first) = false;
  if (std::strstr(info->dlpi_name, "libstdc++") != nullptr) library = range;
  return 0;
}

// `caller`: of the allocating function. Where that is the C++ library, who called into it counts.
void Count(const void* caller) {
  if (!counting.load() || inside || (driver != nullptr && driver())) return;
  if (library.Has(caller)) {
    inside = true;
    void* frames[16];
    const int depth = backtrace(frames, static_cast<int>(std::size(frames)));
    int i = 0;
    while (i < depth && !library.Has(frames[i])) ++i;
    while (i < depth && library.Has(frames[i])) ++i;
    caller = i < depth ? frames[i] : nullptr;
    inside = false;
  }
  if (program.Has(caller)) count.fetch_add(1);
}

void* New(size_t size, const void* caller) {
  Count(caller);
  return QRT_TEST_SYSTEM_MALLOC(size != 0 ? size : 1);
}

}  // namespace

namespace qrt::testing {

OwnAllocations::OwnAllocations(bool (*elsewhere)()) {
  driver = elsewhere;
  bool first = true;
  dl_iterate_phdr(Find, &first);
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  count = 0;
  counting = true;
}

long OwnAllocations::Stop() {
  counting = false;
  return count.load();
}

}  // namespace qrt::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* malloc(size_t size) {
  Count(__builtin_return_address(0));
  return __libc_malloc(size);
}
#endif

void* operator new(size_t size) {
  void* memory = New(size, __builtin_return_address(0));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return New(size, __builtin_return_address(0));
}
void* operator new(size_t size, std::align_val_t alignment) {
  Count(__builtin_return_address(0));
  const size_t a = static_cast<size_t>(alignment);
  void* memory = std::aligned_alloc(a, (size + a - 1) / a * a);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
