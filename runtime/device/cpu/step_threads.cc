#include "runtime/device/cpu/step_threads.h"

#include <algorithm>
#include <bit>

namespace qrt {
namespace {

// Seconds of steps, all of them. A look and a trial last for some time slices (3 ms and more), which two
// programs on a core take in turns; a trial of steps whose kind never came before ends without a verdict.
constexpr double kLook = 0.06, kTrial = 0.05, kLongestTrial = 1;
// What fails is not tried again at once, so that trials cost a hundredth in the end. A trial is a step at
// least, and one of many rows takes long where few of many threads run it: what costs more than a usual trial
// is waited for longer.
constexpr double kShortestWait = 0.25, kLongestWait = 8, kTrialShare = 0.01;
// Of a step's time, the part for which its threads had no core, in the mean: 0.5 where two threads share two
// cores with a program; 0.02 where nothing else runs and 0.13 of steps of 0.3 ms, in which threads sleep at
// barriers now and then (Zen 5).
constexpr double kWithoutCore = 0.2;
// Of the time before: what is less is worth a change.
constexpr double kFaster = 0.97;

}  // namespace

void StepThreads::Took(StepKind kind, const StepTime& time) {
  if (most_ == 1) return;
  if (trying_ != 0) {
    Judge(kind, time.seconds);
    return;
  }
  if (!Learn(kind, time.seconds)) return;
  watched_.seconds += time.seconds;
  watched_.running_seconds += time.running_seconds;
  if (watched_.seconds >= kLook) Look();
}

StepThreads::Usual* StepThreads::Find(StepKind kind) {
  for (Usual& usual : usual_)
    if (usual.kind == kind) return &usual;
  return nullptr;
}

// False of the first step of a kind, in which threads wait for pages: it says nothing of the others. Of those
// the last count most: the context grows, and other programs come and go.
bool StepThreads::Learn(StepKind kind, double seconds) {
  Usual* usual = Find(kind);
  if (usual == nullptr) {
    usual_[replaced_] = {kind};
    replaced_ = (replaced_ + 1) % usual_.size();
    return false;
  }
  usual->seconds += usual->seconds == 0 ? seconds : (seconds - usual->seconds) / 4;
  return true;
}

void StepThreads::Look() {
  const StepTime seen = watched_;
  watched_ = {};
  fewer_.left -= seen.seconds;
  more_.left -= seen.seconds;
  running_ = seen.running_seconds / seen.seconds;
  const bool without_core = running_ < (1 - kWithoutCore) * count_;
  calm_seconds_ = without_core ? 0 : calm_seconds_ + seen.seconds;
  if (calm_seconds_ > fewer_.wait) fewer_ = {};
  if (without_core && count_ > 1 && fewer_.left <= 0) {
    Try(Fewer());
  } else if (count_ < most_ && more_.left <= 0) {
    Try(More());
  }
}

// One less, a half, a quarter and so on to one, and again; but not so few, beside the threads that had a
// core, that a single step may take longer than a trial.
uint32_t StepThreads::Fewer() const {
  double longest = 0;
  for (const Usual& usual : usual_) longest = std::max(longest, usual.seconds);
  auto halvings = static_cast<uint32_t>(std::bit_width(count_)) - 1;
  while (halvings > 1 && longest * running_ > kLongestTrial * (count_ >> halvings)) --halvings;
  const uint32_t turn = fewer_.failed % (halvings + 1);
  return turn == 0 ? count_ - 1 : count_ >> turn;
}

// All and one more, in turns.
uint32_t StepThreads::More() const {
  return more_.failed % 2 == 0 ? most_ : count_ + 1;
}

void StepThreads::Try(uint32_t count) {
  trying_ = count;
  trial_seconds_ = tried_seconds_ = usual_seconds_ = 0;
}

void StepThreads::Judge(StepKind kind, double seconds) {
  trial_seconds_ += seconds;
  const Usual* usual = Find(kind);
  if (usual != nullptr && usual->seconds != 0) {
    tried_seconds_ += seconds;
    usual_seconds_ += usual->seconds;
  }
  const double lost = tried_seconds_ - usual_seconds_;
  const bool over = usual_seconds_ >= kTrial || lost >= kTrial;
  if (!over && trial_seconds_ < kLongestTrial) return;
  if (over && tried_seconds_ < kFaster * usual_seconds_) {
    count_ = trying_;
    for (Usual& each : usual_) each.seconds = 0;
    fewer_ = {};
    more_ = {kShortestWait, kShortestWait, 0};
  } else {
    Trials& trials = trying_ < count_ ? fewer_ : more_;
    trials.wait = std::clamp(2 * trials.wait, kShortestWait, kLongestWait);
    if (lost > 2 * kTrial) trials.wait = std::max(trials.wait, lost / kTrialShare);
    trials.left = trials.wait;
    ++trials.failed;
  }
  trying_ = 0;
}

}  // namespace qrt
