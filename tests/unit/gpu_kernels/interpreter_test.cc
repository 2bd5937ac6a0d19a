// The interpreter itself: what it computes and what it refuses.
#include "tests/device/interpreter.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/device/sandbox.h"

namespace qcc::gpu {
namespace {

Profile Plain(int subgroup = 0) {
  Profile p;
  p.name = subgroup ? "sg" + std::to_string(subgroup) : "none";
  p.subgroup = subgroup;
  if (subgroup == 32) p.matrix.kind = MatrixUnits::Kind::kMma;
  return p;
}

class InterpreterTest : public testing::Test {
 protected:
  // One launch over `out` (argument 0) and the step block (argument 1).
  std::string Run(Sandbox& box, const Arg& out, std::function<void(Builder&)> emit, int threads = 32,
                  uint32_t groups = 1) {
    Launch launch;
    launch.name = "test";
    launch.emit = std::move(emit);
    launch.workgroup_size = threads;
    launch.grid[0] = groups;
    launch.args = {out, {Space::kStep, 0, 64}};
    return box.Run({launch});
  }
};

TEST_F(InterpreterTest, LoopsGoRoundPerThread) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Val t = b.Thread();
    // sum of the numbers below t, of the even ones doubled
    Val sum = b.For(b.I32(0), t, b.I32(1), {b.I32(0)}, [&](Val i, const std::vector<Val>& c) {
      Val odd = Eq(i & 1, 1);
      Val add = b.IfElse(
          odd, [&] { return std::vector<Val>{i}; }, [&] { return std::vector<Val>{i * 2}; })[0];
      return std::vector<Val>{c[0] + add};
    })[0];
    b.If(LtS(t, b.I32(30)), [&] { b.Store(b.Arg(0), t * 4, sum); });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int t = 0; t < 30; ++t) {
    int want = 0;
    for (int i = 0; i < t; ++i) {
      want += i % 2 ? i : 2 * i;
    }
    EXPECT_EQ(got[t], want) << t;
  }
  EXPECT_EQ(got[30], -1);  // as it was
  EXPECT_EQ(got[31], -1);
}

TEST_F(InterpreterTest, CarriedValuesMayChangePlaces) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(8);
  auto emit = [](Builder& b) {
    auto r = b.For(b.I32(0), b.I32(3), b.I32(1), {b.I32(1), b.I32(2)}, [&](Val, const std::vector<Val>& c) {
      return std::vector<Val>{c[1], c[0]};
    });
    b.If(Eq(b.Thread(), 0), [&] { b.Store(b.Arg(0), b.I32(0), b.Vector(r)); });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{2, 1}));
}

TEST_F(InterpreterTest, WorkgroupsMeetInWorkgroupMemory) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(2 * 32 * 4);
  auto emit = [](Builder& b) {
    Shared s = b.AllocShared(Type::kF32, 32);
    Val t = b.Thread();
    b.StoreShared(s, t, b.ToF32(t));
    b.Barrier();
    Val other = b.LoadShared(s, b.I32(31) - t);
    b.Store(b.Arg(0), (b.BlockX() * 32 + t) * 4, other);
  };
  ASSERT_EQ(Run(box, out, emit, 32, 2), "");
  std::vector<float> got = box.Read<float>(out);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], static_cast<float>(31 - i % 32));
  }
}

TEST_F(InterpreterTest, FloatsRoundOnce) {
  Sandbox box(Plain(), 1);
  float a = 1.0f + 0x1p-12f, c = -1.0f;
  Arg out = box.Arena(std::vector<float>{a, c, 0, 0});
  auto emit = [](Builder& b) {
    b.If(Eq(b.Thread(), 0), [&] {
      Val x = b.Load(Type::kF32, b.Arg(0), b.I32(0)), y = b.Load(Type::kF32, b.Arg(0), b.I32(4));
      b.Store(b.Arg(0), b.I32(8), b.Vector({x * x + y, Fma(x, x, y)}));
    });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  EXPECT_EQ(box.Read<float>(out)[2], 0x1p-11f);
  EXPECT_EQ(box.Read<float>(out)[3], 0x1p-11f + 0x1p-24f);
}

TEST_F(InterpreterTest, ShufflesStayInTheirSubgroup) {
  Sandbox box(Plain(8), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Val sum = b.Thread();
    for (int mask : {1, 2, 4}) {
      sum = sum + b.ShuffleXor(sum, mask);
    }
    b.Store(b.Arg(0), b.Thread() * 4, sum);
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(got[t], 28 + 64 * (t / 8));
  }
}

TEST_F(InterpreterTest, MmaMultipliesMatrices) {
  int8_t a[16][32], m[32][8];
  for (int i = 0; i < 512; ++i) {
    a[i / 32][i % 32] = static_cast<int8_t>(i * 37 % 255 - 127);
  }
  for (int i = 0; i < 256; ++i) {
    m[i / 8][i % 8] = static_cast<int8_t>(i * 91 % 251 - 125);
  }
  std::vector<int8_t> fragments;  // of A, then B, as words [word][lane]
  for (int w = 0; w < 4; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        fragments.push_back(a[lane / 4 + (w % 2) * 8][lane % 4 * 4 + i + (w / 2) * 16]);
      }
    }
  }
  for (int w = 0; w < 2; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        fragments.push_back(m[lane % 4 * 4 + i + w * 16][lane / 4]);
      }
    }
  }
  fragments.resize(fragments.size() + 512);
  Sandbox box(Plain(32), 1);
  Arg out = box.Arena(fragments);
  auto emit = [](Builder& b) {
    auto word = [&](int w) { return b.Load(Type::kI32, b.Arg(0), (b.Thread() + b.I32(32 * w)) * 4); };
    Val five = b.I32(5);
    auto d = b.MmaS8({word(0), word(1), word(2), word(3)}, {word(4), word(5)}, {five, five, five, five});
    for (int w = 0; w < 4; ++w) {
      b.Store(b.Arg(0), (b.Thread() + b.I32(32 * (6 + w))) * 4, d[w]);
    }
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int want = 5;
      for (int k = 0; k < 32; ++k) {
        want += a[row][k] * m[k][column];
      }
      int lane = row % 8 * 4 + column / 2, w = column % 2 + row / 8 * 2;
      EXPECT_EQ(got[32 * (6 + w) + lane], want) << row << "," << column;
    }
  }
}

Profile WithMatrices() {
  Profile p = Plain(8);
  p.matrix = {MatrixUnits::Kind::kCooperative, 8, 8, 8};
  return p;
}

TEST_F(InterpreterTest, TilesOfDotProducts) {
  // a: 16 rows, b: 8 rows of 8 columns with two words between them.
  constexpr int kStride = 4;
  const auto byte = [](int i) { return static_cast<int8_t>(i * 37 % 255 - 127); };
  std::vector<int8_t> bytes;
  for (int i = 0; i < 24 * 4 * kStride; ++i) bytes.push_back(byte(i));
  bytes.resize(bytes.size() + 4 * 128);
  Sandbox box(WithMatrices(), 1);
  const Arg out = box.Arena(bytes);
  const auto emit = [](Builder& b) {
    const Shared rows = b.AllocShared(Type::kI32, 24 * kStride), sums = b.AllocShared(Type::kI32, 128);
    b.For(b.Thread(), b.I32(24 * kStride), b.I32(8),
          [&](Val i) { b.StoreShared(rows, i, b.Load(Type::kI32, b.Arg(0), i * 4)); });
    b.Barrier();
    b.DotTile({rows, b.I32(0), kStride}, 16, {rows, b.I32(16 * kStride), kStride}, 8, 8,
              {sums, b.I32(0), 16});
    b.Barrier();
    b.For(b.Thread(), b.I32(128), b.I32(8),
          [&](Val i) { b.Store(b.Arg(0), (i + 24 * kStride) * 4, b.LoadShared(sums, i)); });
  };
  Launch launch;
  launch.name = "dots";
  launch.emit = emit;
  launch.workgroup_size = 8;
  launch.args = {out};
  ASSERT_EQ(box.Run(std::vector<Launch>{launch}), "");
  const std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 16; ++i) {
      int want = 0;
      for (int c = 0; c < 8; ++c) want += byte(i * 4 * kStride + c) * byte((16 + j) * 4 * kStride + c);
      EXPECT_EQ(got[24 * kStride + j * 16 + i], want) << i << "," << j;
    }
  }
}

TEST_F(InterpreterTest, TilesOfDotProductsNeedBarriersAndWholeSubgroups) {
  const auto error = [&](const Profile& profile, std::function<void(Builder&, Shared, Shared)> body) {
    Sandbox box(profile, 1);
    Launch launch;
    launch.name = "dots";
    launch.workgroup_size = 16;
    launch.emit = [&](Builder& b) {
      const Shared rows = b.AllocShared(Type::kI32, 32), sums = b.AllocShared(Type::kI32, 128);
      body(b, rows, sums);
    };
    return box.Run(std::vector<Launch>{launch});
  };
  const auto fill = [](Builder& b, Shared rows) {
    for (int i = 0; i < 2; ++i) b.StoreShared(rows, b.Thread() + 16 * i, b.Thread());
  };
  const auto dot = [](Builder& b, Shared rows, Shared sums, Val at) {
    b.DotTile({rows, b.I32(0), 2}, 8, {rows, b.I32(16), 2}, 8, 8, {sums, at, 8});
  };
  const Profile profile = WithMatrices();
  const auto subgroup = [](Builder& b) { return ShrU(b.Thread(), 3); };
  EXPECT_EQ(error(profile,
                  [&](Builder& b, Shared rows, Shared sums) {
                    fill(b, rows);
                    b.Barrier();
                    dot(b, rows, sums, subgroup(b) * 64);
                  }),
            "");
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error(profile, [&](Builder& b, Shared rows, Shared sums) { dot(b, rows, sums, subgroup(b) * 64); }),
      "nothing is stored there");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              dot(b, rows, sums, subgroup(b) * 64);
            }),
      "races with another thread");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 64);
              b.LoadShared(sums, b.Thread());
            }),
      "races with another thread");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 68);
            }),
      "which has 128 words");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 62);
            }),
      "rows of a matrix at 62, 8 apart: no multiples of 4");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              b.DotTile({rows, b.I32(0), 3}, 8, {rows, b.I32(8), 2}, 8, 8, {sums, b.I32(0), 8});
            }),
      "rows of a matrix at 0, 3 apart: no multiples of 2");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              b.If(LtS(b.Thread(), b.I32(4)), [&] { dot(b, rows, sums, b.I32(0)); });
            }),
      "with 4 idle threads");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, b.Thread());
            }),
      "at different places");
  has(error(Plain(8), [&](Builder& b, Shared rows, Shared sums) { dot(b, rows, sums, b.I32(0)); }),
      "matrices of 8 and 8 rows of 8 columns in profile");
}

TEST_F(InterpreterTest, IntegersWrapAndBytesAreSigned) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(6 * 4);
  auto emit = [](Builder& b) {
    b.If(Eq(b.Thread(), 0), [&] {
      Val big = b.I32(INT32_MAX);
      Val wide = b.ExtendS(b.I32(-2)) * b.I64(3);
      b.Store(b.Arg(0), b.I32(0), b.Vector({big + 1, ShrS(b.I32(-8), 1)}));
      b.Store(b.Arg(0), b.I32(8),
              b.Vector({b.Dot4(b.I32(0x7f80ff01), b.I32(0x02017f03), b.I32(1)), b.Truncate(wide)}));
      b.Store(b.Arg(0), b.I32(16),
              b.Vector({b.MulHighU(b.I32(-1), b.I32(-1)), b.Truncate(b.MulHighU(b.I64(-1), b.I64(3)))}));
    });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  // 1 * 3 + -1 * 127 + -128 * 1 + 127 * 2 + 1 = 3
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{INT32_MIN, -4, 3, -6, -2, 2}));
}

TEST_F(InterpreterTest, ReadsTheStepBlock) {
  Sandbox box(Plain(), 4);
  auto* state = box.Outside<float>(4);
  box.step.sequences = {{.past = 7, .rows = 1}, {.past = 9, .rows = 2, .state = state}};
  box.step.tokens = {1, 2, 3};
  Arg out = box.Arena(2 * 4);
  Launch launch;
  launch.name = "test";
  launch.args = {out, {Space::kStep, 0, qrt_gpu_step_bytes(4)}};
  launch.workgroup_size = 1;
  launch.emit = [](Builder& b) {
    Val row = b.I32(static_cast<int>(qrt_gpu_entries_end(2)));
    Val token = b.Load(Type::kI32, b.Arg(1), row), position = b.Load(Type::kI32, b.Arg(1), row + 8);
    b.Store(b.Arg(0), b.I32(0), b.Vector({token, position}));
    Val seq = b.I32(static_cast<int>(qrt_gpu_entries_end(1) + offsetof(qrt_gpu_entry, seq)));
    b.Store(b.Load(Type::kI64, b.Arg(1), seq), b.I32(4), b.F32(2.5f));
  };
  ASSERT_EQ(box.Run({launch}), "");
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{3, 10}));
  EXPECT_EQ(state[1], 2.5f);
}

// ---- what it refuses ----

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
