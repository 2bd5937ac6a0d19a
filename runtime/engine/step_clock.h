// The clock by which steps are timed, where their time decides how the next are cut.
#ifndef RUNTIME_ENGINE_STEP_CLOCK_H_
#define RUNTIME_ENGINE_STEP_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace qrt {

// Nanoseconds since any moment.
struct StepClock {
  uint64_t (*now)(void* ctx) = nullptr;  // null: the system's steady clock
  void* ctx = nullptr;

  uint64_t Now() const {
    if (now != nullptr) return now(ctx);
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_STEP_CLOCK_H_
