// How many tokens a device decodes one behind the other before the host looks at what it chose.
#ifndef RUNTIME_ENGINE_TOKENS_AHEAD_H_
#define RUNTIME_ENGINE_TOKENS_AHEAD_H_

#include <algorithm>
#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/engine/step_clock.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

// Between two tokens that the host looks at the device waits: for the token to arrive, for the next step's
// block and launches. A few steps at once leave one such wait of several. But the text comes in pieces of so
// many tokens, a cancel waits that long, and what was decoded behind a token that ends the text was in vain.
//
// What it says changes how fast text comes and no token of it. Allocates nothing.
class TokensAhead {
 public:
  static constexpr uint32_t kMost = kMostChainSteps;
  // Of a count that adapts: the most, which leaves each token an eighth of a wait; and how long its steps may
  // take, which nobody notices.
  static constexpr uint32_t kMostAdapted = QRT_TOKENS_AHEAD_MOST;
  static constexpr uint64_t kMostNanoseconds = 20'000'000;

  // Always `count`; 0: as many as kMostNanoseconds allow.
  explicit TokensAhead(uint32_t count, StepClock clock = {})
      : count_(std::min(count, kMost)), clock_(clock) {}

  uint64_t Now() const { return clock_.Now(); }
  // For the next steps, at most `room` >= 1.
  uint32_t Choose(uint32_t room) const {
    if (count_ != 0) return std::min(count_, room);
    if (nanoseconds_ == 0) return 1;
    const uint64_t most = std::clamp<uint64_t>(kMostNanoseconds / nanoseconds_, 1, kMostAdapted);
    return std::min(static_cast<uint32_t>(most), room);
  }
  // What `steps` steps took.
  void Saw(uint32_t steps, uint64_t nanoseconds) {
    nanoseconds_ = std::max<uint64_t>(nanoseconds / steps, 1);
  }

 private:
  uint32_t count_;
  StepClock clock_;
  uint64_t nanoseconds_ = 0;  // a step took last time; 0: there was none
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_TOKENS_AHEAD_H_
