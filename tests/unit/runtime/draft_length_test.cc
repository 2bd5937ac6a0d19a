// The draft length that adapts, on machines and texts that are made up: it finds what pays, stays plain where
// nothing does, and loses little by looking.
#include "runtime/engine/draft_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace {

using qrt::DraftLength;

struct MadeUpMachine {
  std::function<double(uint32_t rows)> step;      // nanoseconds
  std::function<double(uint32_t guesses)> guess;  // nanoseconds
  std::function<double(uint32_t depth)> right;    // of the text: the share at a depth
  double noise = 0;                               // share by which costs vary
};

struct MadeUpText {
  double tokens = 0, nanoseconds = 0;
  std::vector<uint32_t> lengths;
  double pace() const { return nanoseconds / tokens; }
};

// `steps` steps of a length that adapts, or always `fixed`.
MadeUpText WriteText(DraftLength* adapts, uint32_t fixed, const MadeUpMachine& machine, int steps,
                     uint32_t seed = 1) {
  std::mt19937 random(seed);
  const auto share = [&] { return static_cast<double>(random() >> 8) / (1 << 24); };
  const auto cost = [&](double ideal) {
    const double held_up = share() < 0.01 && machine.noise > 0 ? 5 : 1;
    return ideal * (1 + machine.noise * share()) * held_up;
  };
  MadeUpText run;
  for (int i = 0; i < steps; ++i) {
    const uint32_t length = adapts != nullptr ? adapts->Choose(15) : fixed;
    DraftLength::Step step;
    step.guessed = length;
    while (step.accepted < length && share() < machine.right(step.accepted + 1)) ++step.accepted;
    step.guessing = length == 0 ? 0 : static_cast<uint64_t>(cost(machine.guess(length)));
    step.checking = static_cast<uint64_t>(cost(machine.step(1 + length)));
    if (adapts != nullptr) adapts->Saw(step);
    run.lengths.push_back(length);
    run.tokens += 1 + step.accepted;
    run.nanoseconds += static_cast<double>(step.checking + step.guessing);
  }
  return run;
}

// Reading weights is what a step costs; a row more adds a little; a guess is a tenth of a step.
MadeUpMachine UsualMachine(double right) {
  return {[](uint32_t rows) { return 1e6 + 1e5 * (rows - 1); },
          [](uint32_t guesses) { return 1e5 * guesses; }, [right](uint32_t) { return right; }, 0.1};
}

// The pace of the best fixed length.
double BestPace(const MadeUpMachine& machine) {
  double best = WriteText(nullptr, 0, machine, 4000).pace();
  for (uint32_t length = 1; length <= 15; ++length) {
    best = std::min(best, WriteText(nullptr, length, machine, 4000).pace());
  }
  return best;
}

TEST(DraftLength, ComesNearTheBestFixedLength) {
  MadeUpMachine buckets = UsualMachine(0.85);  // programs of 1, 4, 8 and 16 rows, which cost what they have
  buckets.step = [](uint32_t rows) { return rows == 1 ? 1e6 : rows <= 4 ? 1.3e6 : rows <= 8 ? 1.5e6 : 4e6; };
  MadeUpMachine falling = UsualMachine(0.9);  // guesses behind guesses are worse
  falling.right = [](uint32_t depth) { return 0.9 - 0.12 * depth; };
  MadeUpMachine free = UsualMachine(0.5);  // lookup
  free.guess = [](uint32_t) { return 1e3; };
  MadeUpMachine calculates = UsualMachine(0.6);  // each row costs a step
  calculates.step = [](uint32_t rows) { return 1e6 * rows; };
  const struct {
    const char* name;
    MadeUpMachine machine;
  } cases[] = {{"half is right", UsualMachine(0.5)},
               {"most is right", UsualMachine(0.9)},
               {"nearly all is right", UsualMachine(0.98)},
               {"nothing is right", UsualMachine(0.02)},
               {"buckets", buckets},
               {"falling shares", falling},
               {"guesses are free", free},
               {"rows are dear", calculates}};
  for (const auto& c : cases) {
    DraftLength length(15);
    WriteText(&length, 0, c.machine, 300, 2);
    EXPECT_LT(WriteText(&length, 0, c.machine, 4000, 3).pace(), 1.05 * BestPace(c.machine)) << c.name;
  }
}

TEST(DraftLength, WhereNothingPaysItCostsAFewPercentAtMost) {
  for (const double right : {0.0, 0.05, 0.2}) {
    MadeUpMachine machine = UsualMachine(right);
    machine.step = [](uint32_t rows) { return 1e6 + 5e5 * (rows - 1); };
    DraftLength length(15);
    const MadeUpText run = WriteText(&length, 0, machine, 3000);
    EXPECT_LT(run.pace(), 1.04 * WriteText(nullptr, 0, machine, 3000).pace())
        << "from the first step on, share " << right;
    EXPECT_GT(std::count(run.lengths.begin(), run.lengths.end(), 0u), 2700) << "share " << right;
    EXPECT_GT(std::count_if(run.lengths.begin() + 1000, run.lengths.end(), [](uint32_t l) { return l != 0; }),
              3)
        << "it goes on looking";
  }
}

TEST(DraftLength, FollowsATextThatChanges) {
  DraftLength length(15);
  const auto median = [](std::vector<uint32_t> lengths) {
    std::nth_element(lengths.begin(), lengths.begin() + lengths.size() / 2, lengths.end());
    return lengths[lengths.size() / 2];
  };
  WriteText(&length, 0, UsualMachine(0.05), 1000);
  EXPECT_EQ(median(WriteText(&length, 0, UsualMachine(0.05), 300, 5).lengths), 0u);
  WriteText(&length, 0, UsualMachine(0.95), 500, 6);
  EXPECT_GE(median(WriteText(&length, 0, UsualMachine(0.95), 300, 7).lengths), 5u);
  WriteText(&length, 0, UsualMachine(0.05), 300, 8);
  EXPECT_EQ(median(WriteText(&length, 0, UsualMachine(0.05), 300, 9).lengths), 0u);
}

TEST(DraftLength, KeepsToTheRoomAndTheMost) {
  for (const uint32_t most : {0u, 1u, 2u, 7u, 15u, 99u}) {
    DraftLength length(most);
    std::mt19937 random(most);
    for (int i = 0; i < 2000; ++i) {
      const uint32_t room = random() % 20;
      DraftLength::Step step;
      const uint32_t chosen = length.Choose(room);
      ASSERT_LE(chosen, std::min({room, most, DraftLength::kMost})) << "room " << room << ", most " << most;
      step.guessed = chosen == 0 ? 0 : static_cast<uint32_t>(random() % (chosen + 1));
      step.accepted = step.guessed == 0 ? 0 : static_cast<uint32_t>(random() % (step.guessed + 1));
      step.guessing = random() % 3;  // clocks may be coarse
      step.checking = random() % 3;
      length.Saw(step);
    }
  }
}

// The same times give the same lengths, and the clock is the one that was given.
TEST(DraftLength, IsAFunctionOfWhatItSaw) {
  DraftLength a(15), b(15);
  EXPECT_EQ(WriteText(&a, 0, UsualMachine(0.7), 1000).lengths,
            WriteText(&b, 0, UsualMachine(0.7), 1000).lengths);
  uint64_t time = 5;
  DraftLength timed(15, {[](void* ctx) { return (*static_cast<uint64_t*>(ctx))++; }, &time});
  EXPECT_EQ(timed.Now(), 5u);
  EXPECT_EQ(timed.Now(), 6u);
  DraftLength system(15);
  const uint64_t now = system.Now();
  EXPECT_GE(system.Now(), now);
}

}  // namespace
