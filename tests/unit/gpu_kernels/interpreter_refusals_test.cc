// What the interpreter refuses: races, bad accesses, barriers that not all reach.
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/gpu_kernels/interpreter_fixture.h"

namespace qcc::gpu {
namespace {

TEST_F(InterpreterTest, RaceInWorkgroupMemory) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Shared s = b.AllocShared(Type::kI32, 32);
    b.StoreShared(s, b.Thread(), b.Thread());
    b.Store(b.Arg(0), b.Thread() * 4, b.LoadShared(s, b.I32(31) - b.Thread()));
  };
  EXPECT_EQ(
      Run(box, out, emit),
      "test, workgroup (0, 0, 0): thread 0: load at 31 of workgroup memory 0: races with another thread");
}

TEST_F(InterpreterTest, BarriersOfSubgroupsOrderWhatTheirThreadsDo) {
  // Threads write a word and read another's; the two differ by `mask`.
  const auto error = [&](int mask, bool again, const Profile& profile, std::function<void(Builder&)> meet) {
    Sandbox box(profile, 1);
    const Arg out = box.Arena(32 * 4);
    const std::string found = Run(box, out, [&](Builder& b) {
      const Shared s = b.AllocShared(Type::kI32, 32);
      b.StoreShared(s, b.Thread(), b.Thread() * 3);
      meet(b);
      b.Store(b.Arg(0), b.Thread() * 4, b.LoadShared(s, b.Thread() ^ mask));
      if (again) b.StoreShared(s, b.Thread(), b.I32(0));
    });
    if (found.empty()) {
      const std::vector<int32_t> got = box.Read<int32_t>(out);
      for (int t = 0; t < 32; ++t) EXPECT_EQ(got[static_cast<size_t>(t)], 3 * (t ^ mask));
    }
    return found;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto meet = [](Builder& b) { b.SubgroupBarrier(); };
  EXPECT_EQ(error(7, false, Plain(8), meet), "");
  has(error(8, false, Plain(8), meet), "races with another thread");
  EXPECT_EQ(error(8, false, Plain(16), meet), "");
  has(error(7, true, Plain(8), meet), "races with another thread");
  has(error(7, false, Plain(8), [](Builder&) {}), "races with another thread");
  has(error(7, false, Plain(), meet), "subgroups of 0");
  // Two of the four subgroups meet, whole; then half of one.
  has(error(7, false, Plain(8),
            [](Builder& b) { b.If(LtS(b.Thread(), b.I32(16)), [&] { b.SubgroupBarrier(); }); }),
      "thread 16: load at 23");
  has(error(7, false, Plain(8),
            [](Builder& b) { b.If(LtS(b.Thread(), b.I32(12)), [&] { b.SubgroupBarrier(); }); }),
      "a barrier in a subgroup with 4 idle threads");
  // Loads that CUDA's subgroups of 32 are to begin together.
  has(error(7, false, Plain(8),
            [](Builder& b) { b.If(LtS(b.Thread(), b.I32(12)), [&] { b.BeginLoads(); }); }),
      "the beginning of loads in a subgroup with 20 idle threads");
  // Of device memory they order nothing.
  Sandbox box(Plain(8), 1);
  const Arg out = box.Arena(32 * 4);
  has(Run(box, out,
          [](Builder& b) {
            b.Store(b.Arg(0), b.Thread() * 4, b.Thread());
            b.SubgroupBarrier();
            b.Load(Type::kI32, b.Arg(0), (b.Thread() ^ 1) * 4);
          }),
      "races with another thread");
}

// Where launches overlap, one that reads or writes ahead of its wait meets the one before it.
TEST_F(InterpreterTest, WhatEarlierLaunchesWriteIsTouchedBehindTheWait) {
  Sandbox box(Plain(), 1);
  const Arg out = box.Arena(32 * 4);
  const auto run = [&](std::function<void(Builder&)> emit) {
    Launch launch;
    launch.name = "test";
    launch.awaits = true;
    launch.emit = std::move(emit);
    launch.workgroup_size = 32;
    launch.args = {out, {Space::kStep, 0, 64}};
    return box.Run({launch});
  };
  const auto store = [](Builder& b) { b.Store(b.Arg(0), b.Thread() * 4, b.Thread()); };
  EXPECT_EQ(run([&](Builder& b) {
              b.Load(Type::kI32, b.Arg(1), b.I32(0));
              b.Prefetch(b.Arg(0), b.Thread() * 4);
              b.AwaitEarlier();
              store(b);
            }),
            "")
      << "the step block is written by no launch, and a prefetch is no access";
  const std::string ahead = "test, workgroup (0, 0, 0): thread 0: ";
  EXPECT_EQ(
      run([&](Builder& b) {
        store(b);
        b.AwaitEarlier();
      }),
      ahead + "store of i32 at byte 0 of a range of 128 in arena: ahead of the wait for earlier launches");
  EXPECT_EQ(
      run([&](Builder& b) {
        b.Load(Type::kI32, b.Arg(0), b.I32(4));
        b.AwaitEarlier();
      }),
      ahead + "load of i32 at byte 4 of a range of 128 in arena: ahead of the wait for earlier launches");
  EXPECT_EQ(run([&](Builder& b) { b.Load(Type::kI32, b.Arg(1), b.I32(0)); }),
            ahead + "does not wait for earlier launches");
  EXPECT_EQ(run([&](Builder& b) {
              b.AwaitEarlier();
              b.AwaitEarlier();
            }),
            ahead + "waits for earlier launches twice");
  EXPECT_EQ(
      run([&](Builder& b) { b.If(LtS(b.Thread(), b.I32(31)), [&] { b.AwaitEarlier(); }); }),
      "test, workgroup (0, 0, 0): thread 31: does not wait for earlier launches where other threads of its "
      "workgroup do");
  EXPECT_EQ(
      run([&](Builder& b) {
        b.AwaitEarlier();
        b.Prefetch(b.Arg(0), b.I32(128));
      }),
      ahead + "prefetch of i32 at byte 128 of a range of 128 in arena: outside the ranges that it may read");
}

TEST_F(InterpreterTest, RaceOnTheNextRound) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Shared s = b.AllocShared(Type::kI32, 32);
    b.For(b.I32(0), b.I32(2), b.I32(1), [&](Val i) {
      b.StoreShared(s, b.Thread(), i);
      b.Barrier();
      b.Store(b.Arg(0), b.Thread() * 4, b.LoadShared(s, b.I32(31) - b.Thread()));
    });
  };
  EXPECT_EQ(
      Run(box, out, emit),
      "test, workgroup (0, 0, 0): thread 0: store at 0 of workgroup memory 0: races with another thread");
}

TEST_F(InterpreterTest, RaceBetweenWorkgroups) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) { b.Store(b.Arg(0), b.Thread() * 4, b.BlockX()); };
  EXPECT_EQ(
      Run(box, out, emit, 32, 2),
      "test, workgroup (1, 0, 0): thread 0: store of i32 at byte 0 of a range of 128 in arena: races with "
      "another workgroup");
}

TEST_F(InterpreterTest, RaceBetweenLaunches) {
  for (bool barrier : {true, false}) {
    Sandbox box(Plain(), 1);
    Arg out = box.Arena(4);
    Launch write;
    write.name = "write";
    write.workgroup_size = 1;
    write.args = {out};
    write.emit = [](Builder& b) { b.Store(b.Arg(0), b.I32(0), b.I32(1)); };
    Launch read = write;
    read.name = "read";
    read.barrier = barrier;
    read.emit = [](Builder& b) { b.Load(Type::kI32, b.Arg(0), b.I32(0)); };
    EXPECT_EQ(
        box.Run({write, read}),
        barrier
            ? ""
            : "read, workgroup (0, 0, 0): thread 0: load of i32 at byte 0 of a range of 4 in arena: races "
              "with another workgroup");
  }
}

TEST_F(InterpreterTest, AtomicsDoNotRaceWithAtomics) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(std::vector<int32_t>{0});
  auto emit = [](Builder& b) { b.AtomicAdd(b.Arg(0), b.I32(0), b.I32(1)); };
  ASSERT_EQ(Run(box, out, emit, 32, 3), "");
  EXPECT_EQ(box.Read<int32_t>(out)[0], 96);
}

TEST_F(InterpreterTest, BeyondTheArgument) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(31 * 4);
  box.Arena(1024);  // memory that is there, but not the kernel's
  auto emit = [](Builder& b) { b.Store(b.Arg(0), b.Thread() * 4, b.Thread()); };
  EXPECT_EQ(Run(box, out, emit),
            "test, workgroup (0, 0, 0): thread 31: store of i32 at byte 124 of a range of 124 in arena: "
            "outside the "
            "ranges that it may write");
}

TEST_F(InterpreterTest, StoreToReadOnlyMemory) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) { b.Store(b.Arg(1), b.I32(0), b.I32(0)); };
  EXPECT_EQ(
      Run(box, box.Arena(4), emit),
      "test, workgroup (0, 0, 0): thread 0: store of i32 at byte 0 of a range of 64 in step: outside the "
      "ranges that it may write");
}

TEST_F(InterpreterTest, Misaligned) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) { b.Load(Type::kF32x4, b.Arg(0), b.I32(8)); };
  EXPECT_EQ(Run(box, box.Arena(64), emit),
            "test, workgroup (0, 0, 0): thread 0: load of f32x4 at byte 8 of a range of 64 in arena: not "
            "aligned to "
            "16");
}

TEST_F(InterpreterTest, BarrierThatNotAllReach) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) { b.If(LtS(b.Thread(), b.I32(5)), [&] { b.Barrier(); }); };
  EXPECT_EQ(
      Run(box, box.Arena(4), emit),
      "test, workgroup (0, 0, 0): thread 5: does not reach a barrier that other threads of its workgroup "
      "reach");
}

TEST_F(InterpreterTest, WorkgroupMemoryIsNotZero) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) { b.LoadShared(b.AllocShared(Type::kI32, 4), b.I32(2)); };
  EXPECT_EQ(Run(box, box.Arena(4), emit),
            "test, workgroup (0, 0, 0): thread 0: load at 2 of workgroup memory 0: nothing is stored there");
}

TEST_F(InterpreterTest, ShuffleWithAnIdleThread) {
  Sandbox box(Plain(8), 1);
  auto emit = [](Builder& b) { b.If(LtS(b.Thread(), b.I32(5)), [&] { b.ShuffleXor(b.Thread(), 1); }); };
  EXPECT_EQ(Run(box, box.Arena(4), emit),
            "test, workgroup (0, 0, 0): thread 4: shuffles with thread 5, which is idle");
}

TEST_F(InterpreterTest, MoreWorkgroupMemoryThanTheProfileHas) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) {
    b.AllocShared(Type::kI32, 4096);
    b.AllocShared(Type::kI32, 1);
  };
  EXPECT_EQ(Run(box, box.Arena(4), emit),
            "test, workgroup (0, 0, 0): 16388 bytes of workgroup memory, profile none has 16384");
}

// Launches are joined by what they say.
TEST_F(InterpreterTest, MoreWorkgroupMemoryThanTheLaunchSays) {
  Sandbox box(Plain(), 1);
  Launch launch;
  launch.name = "test";
  launch.beside = true;
  launch.emit = [](Builder& b) { b.AllocShared(Type::kF32, 3); };
  launch.shared_bytes = 12;
  EXPECT_EQ(box.Run({launch}), "");
  launch.shared_bytes = 8;
  EXPECT_EQ(box.Run({launch}), "test, workgroup (0, 0, 0): has 12 bytes of workgroup memory, says 8");
}

TEST_F(InterpreterTest, OperandsOfTwoTypes) {
  Sandbox box(Plain(), 1);
  auto emit = [](Builder& b) { b.Binary(Builder::Op::kAdd, b.I32(1), b.I64(1)); };
  EXPECT_EQ(Run(box, box.Arena(4), emit),
            "test, workgroup (0, 0, 0): second operand has type i64, expected i32");
}

}  // namespace
}  // namespace qcc::gpu
