// Memory whose size follows the model or the context, from the embedder's allocator or from the system.
#ifndef RUNTIME_BASE_MEMORY_H_
#define RUNTIME_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/include/qrt/qrt.h"

namespace qrt {

// Of x86-64.
inline constexpr uint64_t kLargePage = 2 << 20;

// Asks the system for large pages behind [data, data + bytes): a hint. They cost what is not used of the last
// of each array. Nothing where the bytes are few, or do not begin with a page.
void PreferLargePages(const void* data, uint64_t bytes);

// Asks for small ones: of memory whose parts fill one by one, far from each other, a large page would be
// resident for the first byte of each part.
void PreferSmallPages(const void* data, uint64_t bytes);

// An owned block of zeroed, aligned bytes. Movable; empty when default-made.
class Memory {
 public:
  Memory() = default;
  ~Memory() { Free(); }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  // Zeroed memory of `bytes` > 0, aligned to 64. With `allocator` NULL the pages come from the system and
  // become resident when they are first touched, large ones where the system gives them. False: out of
  // memory, and the object is empty.
  bool Allocate(const qrt_allocator* allocator, uint64_t bytes);

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  void Free();

  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  bool injected_ = false;
  qrt_allocator allocator_ = {};
};

}  // namespace qrt

#endif  // RUNTIME_BASE_MEMORY_H_
