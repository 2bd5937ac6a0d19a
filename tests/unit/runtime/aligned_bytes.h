// Bytes where a FlatBuffer or a whole artifact may be read.
#ifndef QCC_TESTS_UNIT_RUNTIME_ALIGNED_BYTES_H_
#define QCC_TESTS_UNIT_RUNTIME_ALIGNED_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace qrt::testing {

// Exactly `size` bytes, aligned to 64: an access behind them is an error that a sanitizer sees.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const uint8_t> bytes) : size_(bytes.size()) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<size_t>(bytes.size(), 1)) != 0) throw std::bad_alloc();
    data_.reset(static_cast<uint8_t*>(memory));
    std::copy(bytes.begin(), bytes.end(), data_.get());
  }
  std::span<const uint8_t> span() const { return {data_.get(), size_}; }
  uint8_t* data() { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_;
};

}  // namespace qrt::testing

#endif  // QCC_TESTS_UNIT_RUNTIME_ALIGNED_BYTES_H_
