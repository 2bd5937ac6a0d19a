// Threads with as much stack as a test says, and not a byte more.
#ifndef TESTS_UNIT_RUNTIME_SMALL_STACK_H_
#define TESTS_UNIT_RUNTIME_SMALL_STACK_H_

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

namespace qrt::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// Sanitizers make frames several times as large, and so does code that is not optimised.
#if defined(NDEBUG)
inline constexpr size_t kStackScale = kSanitized ? 16 : 1;
#else
inline constexpr size_t kStackScale = 16;
#endif

// What libraries keep per thread lies on its stack too, and counts with pthread_create: 0.9 MB of TSan's.
inline constexpr size_t kThreadStatics = kSanitized ? size_t{2} << 20 : 0;

// A thread that runs `body` on `bytes` of stack (whole pages; sanitizers take theirs beside it). Below them
// lies a megabyte that nothing may touch, so that what jumps over a guard page faults too.
class SmallStackThread {
 public:
  SmallStackThread(size_t bytes, std::function<void()> body)
      : bytes_(bytes + kThreadStatics), body_(std::move(body)) {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, kForbidden + bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED || mprotect(stack(), bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
    std::memset(stack(), kPaint, bytes_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const int refused = pthread_attr_setstack(&attributes, stack(), bytes_) != 0 ||
                        pthread_create(&thread_, &attributes, Main, this) != 0;
    pthread_attr_destroy(&attributes);
    if (refused) std::abort();
  }
  ~SmallStackThread() {
    if (thread_ != 0) Join();
    munmap(base_, kForbidden + bytes_);
  }
  SmallStackThread(const SmallStackThread&) = delete;
  SmallStackThread& operator=(const SmallStackThread&) = delete;

  // Waits for the end; how many bytes of the stack `body` has touched.
  size_t Join() {
    pthread_join(thread_, nullptr);
    thread_ = 0;
    const uint8_t* deepest =
        std::find_if(stack(), stack() + bytes_, [](uint8_t byte) { return byte != kPaint; });
    return static_cast<size_t>(top_ - deepest);
  }

 private:
  static constexpr size_t kForbidden = 1 << 20;
  static constexpr uint8_t kPaint = 0xa5;

  static void* Main(void* self) {
    auto* thread = static_cast<SmallStackThread*>(self);
    thread->top_ = static_cast<const uint8_t*>(__builtin_frame_address(0));
    thread->body_();
    return nullptr;
  }
  uint8_t* stack() const { return base_ + kForbidden; }

  const size_t bytes_;
  const std::function<void()> body_;
  uint8_t* base_ = nullptr;
  const uint8_t* top_ = nullptr;
  pthread_t thread_ = 0;
};

}  // namespace qrt::testing

#endif  // TESTS_UNIT_RUNTIME_SMALL_STACK_H_
