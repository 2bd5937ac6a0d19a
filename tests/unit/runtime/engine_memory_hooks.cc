#include "tests/unit/runtime/engine_memory_hooks.h"

#include <cstdlib>
#include <new>

std::atomic<long> allocations{0};
std::atomic<long> fail_at{-1};

bool MayAllocate() {
  return allocations.fetch_add(1) != fail_at.load();
}

void* operator new(size_t size) {
  void* memory = MayAllocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, std::align_val_t alignment) {
  const size_t a = static_cast<size_t>(alignment);
  void* memory = MayAllocate() ? std::aligned_alloc(a, (size + a - 1) / a * a) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return MayAllocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const size_t a = static_cast<size_t>(alignment);
  return MayAllocate() ? std::aligned_alloc(a, (size + a - 1) / a * a) : nullptr;
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
