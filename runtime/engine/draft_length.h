// How many tokens to have guessed at once: as many as pay, on this machine and for this text.
#ifndef RUNTIME_ENGINE_DRAFT_LENGTH_H_
#define RUNTIME_ENGINE_DRAFT_LENGTH_H_

#include <array>
#include <cstdint>

#include "runtime/engine/step_clock.h"

namespace qrt {

// Measures what steps cost by their rows, what guesses cost by their number, and how often a guess at each
// depth is right where those before it were; from that takes the length with the most expected tokens per
// second. 0 is one of the lengths: then decoding is plain, and the draft only follows. Now and then another
// length is tried, for at most kProbeShare of the time.
//
// What it says changes how fast text comes and no token of it. Allocates nothing.
class DraftLength {
 public:
  static constexpr uint32_t kMost = 15;
  // The share of time that trying other lengths may lose.
  static constexpr double kProbeShare = 0.02;

  // Lengths are 0 to `most` <= kMost.
  explicit DraftLength(uint32_t most, StepClock clock = {});

  uint64_t Now() const { return clock_.Now(); }

  // The length for the next step, at most `room`.
  uint32_t Choose(uint32_t room);

  // What became of it.
  struct Step {
    uint32_t guessed = 0, accepted = 0;
    uint64_t guessing = 0;  // nanoseconds; looked at where something was guessed
    uint64_t checking = 0;  // of the step of 1 + guessed rows
  };
  void Saw(const Step& step);

 private:
  // A smoothed cost in nanoseconds.
  struct Cost {
    double value = 0;
    uint32_t samples = 0;
    void Add(double sample);
  };
  using Costs = std::array<Cost, kMost + 2>;

  // Of `count` rows or guesses, those that were not measured by what others cost.
  static double Estimate(const Costs& costs, uint32_t count);
  // That a guess at `depth` >= 1 is right where those before it were, by depth.
  std::array<double, kMost + 1> Shares() const;
  double Nanoseconds(uint32_t length) const;
  // Expected of a step with so many guesses.
  double Tokens(uint32_t length) const;
  double Rate(uint32_t length) const { return Tokens(length) / Nanoseconds(length); }
  // With the highest rate, of [low, high].
  uint32_t Best(uint32_t low, uint32_t high) const;
  // The length to try instead of `best`, or `best`.
  uint32_t Probe(uint32_t best, uint32_t high);

  StepClock clock_;
  uint32_t most_;
  Costs checking_ = {};  // by rows
  Costs guessing_ = {};  // by guesses
  // By depth: how often a guess there was looked at, and right; what is long ago counts less.
  std::array<double, kMost + 1> looked_ = {}, right_ = {};
  uint32_t choices_ = 0;      // the first few are fixed
  uint32_t since_probe_ = 0;  // steps
  uint32_t probes_ = 0;
  uint32_t round_ = 0;     // the length that was tried last in turn
  double credit_ = 0;      // nanoseconds that probes may still lose
  double probe_pace_ = 0;  // while a probe runs: nanoseconds that a token takes without it
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_DRAFT_LENGTH_H_
