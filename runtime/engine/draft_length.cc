#include "runtime/engine/draft_length.h"

#include <algorithm>

namespace qrt {
namespace {

constexpr uint32_t kBegin = 3;            // the length before anything is known
constexpr uint32_t kFixed = 4;            // choices that measure kBegin and plain decoding in turn
constexpr uint32_t kLeastBetween = 8;     // steps between two probes
constexpr double kMemory = 1 - 1.0 / 32;  // of how often guesses were right, a trial
constexpr double kPrior = 2;              // trials that the share of the depth before stands for
constexpr double kFirstShare = 0.6;       // before the first trial
constexpr double kMostCredit = 2;         // in plain steps

}  // namespace

DraftLength::DraftLength(uint32_t most, StepClock clock) : clock_(clock), most_(std::min(most, kMost)) {}

void DraftLength::Cost::Add(double sample) {
  // The first runs of a program read it from memory that nobody has touched; later ones are held up now and
  // then by what else the machine does.
  if (samples == 0) {
    value = sample;
  } else if (samples < 3) {
    value = std::min(value, sample);
  } else {
    value += (std::min(sample, 2 * value) - value) / 8;
  }
  ++samples;
}

double DraftLength::Estimate(const Costs& costs, uint32_t count) {
  if (costs[count].samples != 0) return costs[count].value;
  uint32_t lowest = 0, below = 0, above = 0;
  for (uint32_t i = 1; i < costs.size(); ++i) {
    if (costs[i].samples == 0) continue;
    if (lowest == 0) lowest = i;
    if (i < count) below = i;
    if (i > count && above == 0) above = i;
  }
  if (below == 0) return above == 0 ? 0 : costs[above].value * count / above;
  // The line through the nearest on both sides; beyond the last, through the first and the last.
  const uint32_t from = above != 0 ? below : lowest, to = above != 0 ? above : below;
  if (from == to) return costs[from].value;
  const double slope = (costs[to].value - costs[from].value) / (to - from);
  return costs[below].value + std::max(slope, 0.0) * (count - below);
}

std::array<double, DraftLength::kMost + 1> DraftLength::Shares() const {
  std::array<double, kMost + 1> shares;
  shares[0] = kFirstShare;
  for (uint32_t depth = 1; depth <= kMost; ++depth) {
    shares[depth] = (right_[depth] + kPrior * shares[depth - 1]) / (looked_[depth] + kPrior);
  }
  return shares;
}

double DraftLength::Nanoseconds(uint32_t length) const {
  const double guessing = length == 0 ? 0 : Estimate(guessing_, length);
  return std::max(1.0, guessing + Estimate(checking_, length + 1));
}

double DraftLength::Tokens(uint32_t length) const {
  const std::array<double, kMost + 1> shares = Shares();
  double tokens = 1, reached = 1;
  for (uint32_t depth = 1; depth <= length; ++depth) {
    reached *= shares[depth];
    tokens += reached;
  }
  return tokens;
}

uint32_t DraftLength::Best(uint32_t low, uint32_t high) const {
  uint32_t best = low;
  for (uint32_t length = low + 1; length <= high; ++length) {
    if (Rate(length) > Rate(best)) best = length;
  }
  return best;
}

uint32_t DraftLength::Probe(uint32_t best, uint32_t high) {
  if (high == 0 || since_probe_ < kLeastBetween) return best;
  // In turn: what looks best of the others, which may become better than `best`, and each length for itself,
  // whose cost may be another than its neighbours' tell.
  uint32_t other = round_ + 1 > high ? 0 : round_ + 1;
  const bool in_turn = probes_ % 2 != 0;
  if (!in_turn) {
    const uint32_t above = best == high ? 0 : Best(best + 1, high),
                   below = best == 0 ? high : Best(0, best - 1);
    other = best == high || (best != 0 && Rate(below) > Rate(above)) ? below : above;
  }
  const double pace = 1 / Rate(best), loss = Nanoseconds(other) - Tokens(other) * pace;
  const bool never = other == best || loss > kMostCredit * Estimate(checking_, 1);
  if (!never && loss > credit_) return best;
  if (in_turn) round_ = other;
  ++probes_;
  if (never) return best;
  since_probe_ = 0;
  probe_pace_ = pace;
  return other;
}

uint32_t DraftLength::Choose(uint32_t room) {
  probe_pace_ = 0;
  if (room == 0) return 0;
  if (choices_ < kFixed) return choices_++ % 2 == 0 ? std::min({kBegin, room, most_}) : 0;
  // Beyond what was measured a step further: estimates far off are guesses themselves.
  uint32_t known = std::min(kBegin, most_);
  for (uint32_t length = known; length < most_; ++length) {
    if (guessing_[length].samples != 0) known = length + 1;
  }
  const uint32_t high = std::min(known, room);
  return Probe(Best(0, high), high);
}

void DraftLength::Saw(const Step& step) {
  const uint32_t guessed = std::min(step.guessed, kMost), accepted = std::min(step.accepted, guessed);
  double spent = static_cast<double>(step.checking);
  checking_[guessed + 1].Add(spent);
  if (guessed != 0) {
    guessing_[guessed].Add(static_cast<double>(step.guessing));
    spent += static_cast<double>(step.guessing);
  }
  for (uint32_t depth = 1; depth <= std::min(accepted + 1, guessed); ++depth) {
    looked_[depth] = looked_[depth] * kMemory + 1;
    right_[depth] = right_[depth] * kMemory + (depth <= accepted);
  }
  if (probe_pace_ != 0) credit_ -= std::max(0.0, spent - Tokens(guessed) * probe_pace_);
  probe_pace_ = 0;
  ++since_probe_;
  credit_ = std::min(credit_ + kProbeShare * spent, kMostCredit * Estimate(checking_, 1));
}

}  // namespace qrt
