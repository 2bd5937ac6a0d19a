// A mutex that threads get in the order in which they asked for it.
#ifndef RUNTIME_BASE_FAIR_MUTEX_H_
#define RUNTIME_BASE_FAIR_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace qrt {

// For what is held long, and taken again at once: of a std::mutex the thread that gives it back gets it again
// long before one that sleeps for it is awake. Allocates nothing: who waits is listed in its own stack.
class FairMutex {
 public:
  FairMutex() = default;
  FairMutex(const FairMutex&) = delete;
  FairMutex& operator=(const FairMutex&) = delete;

  // For how long others had it.
  std::chrono::nanoseconds lock() {
    std::unique_lock<std::mutex> guard(mutex_);
    if (!taken_) {
      taken_ = true;
      return {};
    }
    const auto begin = std::chrono::steady_clock::now();
    Waiter self;
    (last_ != nullptr ? last_->next : first_) = &self;
    last_ = &self;
    self.turn.wait(guard, [&] { return self.has_it; });
    return std::chrono::steady_clock::now() - begin;
  }

  void unlock() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (first_ == nullptr) {
      taken_ = false;
      return;
    }
    Waiter* const next = first_;
    first_ = next->next;
    if (first_ == nullptr) last_ = nullptr;
    next->has_it = true;
    next->turn.notify_one();  // with the guard: `next` is gone as soon as its thread goes on
  }

 private:
  struct Waiter {
    std::condition_variable turn;
    Waiter* next = nullptr;
    bool has_it = false;
  };

  std::mutex mutex_;
  bool taken_ = false;
  Waiter *first_ = nullptr, *last_ = nullptr;
};

}  // namespace qrt

#endif  // RUNTIME_BASE_FAIR_MUTEX_H_
