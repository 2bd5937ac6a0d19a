// How many threads a step gets, on machines that are described here: cores, and other programs that want one
// each.
#include "runtime/device/cpu/step_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace qrt {
namespace {

struct Machine {
  uint32_t cores = 2;
  uint32_t busy = 0;          // programs that want a core all the time
  double one_thread = 0.014;  // seconds of a step

  // Threads share the work; where a core is missing, all sleep until it has been given back.
  StepTime Step(uint32_t threads, double work = 1) const {
    const double seconds = work * one_thread / std::min(threads, cores);
    return {threads + busy > cores ? 2.2 * seconds : seconds, work * one_thread};
  }
};

// Seconds that `steps` steps took.
double Pass(StepThreads* threads, const Machine& machine, int steps, StepKind kind = {0, 1},
            double work = 1) {
  double seconds = 0;
  for (int i = 0; i < steps; ++i) {
    const StepTime time = machine.Step(threads->count(), work);
    seconds += time.seconds;
    threads->Took(kind, time);
  }
  return seconds;
}

TEST(StepThreads, AreAllWhereAllRun) {
  StepThreads threads(2);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(threads.count(), 2u) << "step " << i;
    StepTime time = Machine().Step(2);
    if (i % 10 == 0) time.seconds *= 2;  // the system has something to do now and then
    threads.Took({0, 1}, time);
  }
}

TEST(StepThreads, LeaveACoreThatAnotherProgramUses) {
  StepThreads threads(2);
  const Machine busy = {.busy = 1};
  Pass(&threads, busy, 10);
  EXPECT_EQ(threads.count(), 1u) << "after a tenth of a second";
  // What it costs to look whether the other program is still there, against one thread all the time.
  EXPECT_LT(Pass(&threads, busy, 5000), 1.02 * 5000 * busy.one_thread);
}

TEST(StepThreads, ComeBackWhenTheCoreIsFree) {
  StepThreads threads(2);
  Pass(&threads, {.busy = 1}, 5000);
  Pass(&threads, {}, static_cast<int>(9 / 0.014));
  EXPECT_EQ(threads.count(), 2u) << "after 9 s of steps on a machine that nobody else uses";
}

TEST(StepThreads, LeaveAsManyAsAreBusy) {
  for (const auto& [cores, busy] : {std::pair<uint32_t, uint32_t>{16, 1}, {16, 5}, {8, 3}, {6, 6}}) {
    StepThreads threads(cores);
    Pass(&threads, {.cores = cores, .busy = busy}, 3000);
    // As many programs as cores: each thread shares its core, whatever their number, and all are fastest.
    EXPECT_EQ(threads.count(), busy < cores ? cores - busy : cores) << cores << " cores, " << busy << " busy";
  }
}

TEST(StepThreads, AreNoMoreThanCoresInTheEnd) {
  StepThreads threads(8);
  Pass(&threads, {.cores = 3}, 3000);
  EXPECT_EQ(threads.count(), 3u);
}

// Where fewer are slower all are kept, and the attempts become rare.
TEST(StepThreads, StayWhereFewerAreSlower) {
  StepThreads threads(4);
  uint64_t fewer = 0;
  constexpr uint64_t kSteps = 20000;
  for (uint64_t i = 0; i < kSteps; ++i) {
    fewer += threads.count() < 4;
    threads.Took({0, 1}, {0.02 / threads.count(), 0.01});
  }
  EXPECT_GT(fewer, 0u) << "fewer were never tried";
  EXPECT_LT(fewer, kSteps / 50);
}

// 128 cores, of which layers with few work items leave some asleep: no step waits for a few threads.
TEST(StepThreads, ALongStepIsNotTriedOnFewOfMany) {
  StepThreads threads(128);
  double seconds = 0, tried = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint32_t count = threads.count();
    ASSERT_GE(count, 32u) << "step " << i;  // 1.2 s
    const double took = 0.3 * 128 / count;
    seconds += took;
    if (count < 128) tried += took;
    threads.Took({0, 512}, {took, 0.7 * 128 * 0.3});
  }
  EXPECT_GT(tried, 0);
  EXPECT_LT(tried, 0.02 * seconds);
}

// Where there are more threads than cores, half of them is a gain, and half of those.
TEST(StepThreads, LongStepsComeDownToTheCores) {
  StepThreads threads(128);
  Pass(&threads, {.cores = 8, .one_thread = 4}, 3000);
  EXPECT_EQ(threads.count(), 8u);
}

// Steps that draft and steps that check what was drafted, in turns: times are compared kind by kind.
TEST(StepThreads, CompareStepsOfOneKind) {
  StepThreads threads(2);
  const Machine busy = {.busy = 1};
  for (int i = 0; i < 60; ++i) {
    Pass(&threads, busy, 3, {1, 1}, 0.2);
    Pass(&threads, busy, 1, {0, 4}, 1.5);
  }
  EXPECT_EQ(threads.count(), 1u);
  // Another program's steps take ten times as long: no reason to think that its threads are slow.
  StepThreads calm(2);
  Pass(&calm, {}, 100);
  Pass(&calm, {}, 3, {2, 512}, 10);
  EXPECT_EQ(calm.count(), 2u);
}

// A trial ends where no step of it is of a kind that came before, too.
TEST(StepThreads, EndATrialThatNothingCanBeComparedWith) {
  StepThreads threads(2);
  uint32_t program = 0;
  uint64_t fewer = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool trying = threads.count() < 2;
    fewer += trying;
    threads.Took({trying ? ++program : program, 1}, {0.015, 0.015});
  }
  EXPECT_GT(fewer, 0u);
  EXPECT_LT(fewer, 1000u);
}

// Of a model that has not been read yet, threads wait for its pages in their first step.
TEST(StepThreads, ThinkNothingOfAFirstStep) {
  StepThreads threads(2);
  threads.Took({0, 1}, {0.5, 0.2});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(threads.count(), 2u) << "step " << i;
    threads.Took({0, 1}, Machine().Step(2));
  }
}

}  // namespace
}  // namespace qrt
