// How many of a device's threads a step runs on.
#ifndef RUNTIME_DEVICE_CPU_STEP_THREADS_H_
#define RUNTIME_DEVICE_CPU_STEP_THREADS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace qrt {

// Steps of a kind take about as long as each other.
struct StepKind {
  uint32_t program = 0;
  int64_t rows = 0;  // 0: of no step
  bool operator==(const StepKind&) const = default;
};

struct StepTime {
  double seconds = 0;
  double running_seconds = 0;  // that its threads had a core, together
};

// Threads of a step meet at barriers, where all wait for one whose core another program took, until the
// system gives it back some milliseconds later: slower than without that thread. So where threads have no
// core for a good part of their time, fewer are tried for a while and kept if steps become faster; from then
// on, now and then, more are tried. Which threads ran a step changes no bit of what it gives. While all run
// nothing is tried.
class StepThreads {
 public:
  // `most` >= 1: the threads there are.
  explicit StepThreads(uint32_t most) : most_(most), count_(most) {}

  // For the next step: 1 to `most`.
  uint32_t count() const { return trying_ != 0 ? trying_ : count_; }

  // A step ran on count() threads.
  void Took(StepKind kind, const StepTime& time);

 private:
  // A kind that came, and what its steps take on count_ threads; 0: not known.
  struct Usual {
    StepKind kind;
    double seconds = 0;
  };
  // Trials of fewer threads, or of more.
  struct Trials {
    double left = 0;      // seconds of steps until the next
    double wait = 0;      // of them after the last that failed
    uint32_t failed = 0;  // in a row
  };

  Usual* Find(StepKind kind);
  bool Learn(StepKind kind, double seconds);
  void Look();
  uint32_t Fewer() const;
  uint32_t More() const;
  void Try(uint32_t count);
  void Judge(StepKind kind, double seconds);

  const uint32_t most_;
  uint32_t count_;                // where nothing is tried
  uint32_t trying_ = 0;           // 0: nothing is
  std::array<Usual, 8> usual_{};  // a draft's steps and those that check them have a few kinds
  size_t replaced_ = 0;           // of usual_, by the next kind that is not known
  StepTime watched_;              // sums over steps on count_ threads since the last look
  double running_ = 0;            // threads that had a core then, in the mean
  double calm_seconds_ = 0;       // since a look that found threads without a core
  // Of a trial: all its steps; those of a kind that is known, and what these usually take.
  double trial_seconds_ = 0, tried_seconds_ = 0, usual_seconds_ = 0;
  Trials fewer_, more_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_STEP_THREADS_H_
