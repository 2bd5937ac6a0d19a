#ifndef TESTS_UNIT_RUNTIME_COUNTING_ALLOCATOR_H_
#define TESTS_UNIT_RUNTIME_COUNTING_ALLOCATOR_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/include/qrt/qrt.h"
#include "tests/unit/runtime/engine_memory_hooks.h"

// An injected allocator that counts, and shares the failing allocation's number with operator new.
struct CountingAllocator {
  uint64_t live = 0;  // bytes
  uint64_t calls = 0;

  // For as long as this lives.
  qrt_allocator allocator() {
    return {this,
            [](void* self, size_t bytes, size_t alignment) -> void* {
              CountingAllocator& counting = *static_cast<CountingAllocator*>(self);
              ++counting.calls;
              if (!MayAllocate()) return nullptr;
              void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
              std::memset(memory, 0xAB, bytes);  // memory from an allocator is not zero by itself
              counting.live += bytes;
              return memory;
            },
            [](void* self, void* memory, size_t bytes, size_t) {
              static_cast<CountingAllocator*>(self)->live -= bytes;
              std::free(memory);
            }};
  }
};

#endif  // TESTS_UNIT_RUNTIME_COUNTING_ALLOCATOR_H_
