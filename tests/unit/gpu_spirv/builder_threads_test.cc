// The Builder's methods by which threads meet and part: workgroup memory, barriers, atomics, control flow,
// subgroups. On the profiles of builder_test.cc, in the same ways.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "builder_fixture.h"

namespace qcc::gpu::spirv_test {
namespace {

TEST_P(BuilderTest, WorkgroupMemory) {
  Case c;
  c.name = "shared";
  c.threads = 64;
  c.grid[0] = 2;
  c.buffers = {Words(128), Words(8)};
  for (uint32_t i = 0; i < 128; ++i) c.buffers[0][i] = Bits(static_cast<float>(i));
  // A tree sum in workgroup memory, and a histogram and a maximum by atomics.
  c.emit = [](Builder& k) {
    Shared sums = k.AllocShared(Type::kF32, 64), counts = k.AllocShared(Type::kI32, 3);
    Val t = k.Thread();
    k.StoreShared(sums, t, k.Load(Type::kF32, k.Arg(0), (k.BlockX() * 64 + t) << 2));
    k.If(LtU(t, k.I32(3)), [&] { k.StoreShared(counts, t, k.I32(0)); });
    k.Barrier();
    for (int half = 32; half > 0; half /= 2) {
      k.If(LtU(t, k.I32(half)),
           [&] { k.StoreShared(sums, t, k.LoadShared(sums, t) + k.LoadShared(sums, t + half)); });
      k.Barrier();
    }
    k.AtomicAddShared(counts, Select(Eq(t & 1, 1), k.I32(1), k.I32(0)), t);
    k.AtomicMaxSharedU(counts, k.I32(2), (t * 37) & 63);
    k.Barrier();
    k.If(Eq(t, 0), [&] {
      Val out = k.BlockX() << 4;
      k.Store(k.Arg(1), out, k.LoadShared(sums, t));
      for (int i = 0; i < 3; ++i) k.Store(k.Arg(1), out + 4 * (i + 1), k.LoadShared(counts, k.I32(i)));
    });
  };
  c.check = [](const std::vector<Words>& b) {
    EXPECT_EQ(b[1], (Words{Bits(2016), 992, 1024, 63, Bits(2016 + 64 * 64), 992, 1024, 63}));
  };
  Run(c);
}

TEST_P(BuilderTest, DeviceMemoryAcrossABarrier) {
  Case c;
  c.name = "crossing";
  c.threads = 64;
  c.buffers = {Words(64), Words(64), Words(1)};
  c.emit = [](Builder& k) {
    Val t = k.Thread();
    k.For(k.I32(0), k.I32(4), k.I32(1), [&](Val i) {
      k.Store(k.Arg(0), t << 2, t * 3 + i);
      k.Barrier();
      Val other = k.Load(Type::kI32, k.Arg(0), (k.I32(63) - t) << 2);
      k.Store(k.Arg(1), t << 2, k.Load(Type::kI32, k.Arg(1), t << 2) + other);
      k.Barrier();
    });
    Val old = k.AtomicAdd(k.Arg(2), k.I32(0), t);
    k.If(LtS(old, k.I32(0)), [&] { k.Store(k.Arg(0), t << 2, old); });
  };
  c.check = [](const std::vector<Words>& b) {
    for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(b[1][t], 4 * 3 * (63 - t) + 6);
    EXPECT_EQ(b[2][0], 2016u);
  };
  Run(c);
}

TEST_P(BuilderTest, ControlFlow) {
  Case c;
  c.name = "control";
  c.buffers = {Words(kThreads), Words(kThreads), Words(kThreads)};
  c.emit = [](Builder& k) {
    Val t = k.Thread();
    // A loop in a loop, with carried values of several types and an if with results inside.
    std::vector<Val> r =
        k.For(k.I32(1), t, k.I32(2), {k.I32(7), k.F32(0), k.I64(1)}, [&](Val i, const std::vector<Val>& v) {
          std::vector<Val> inner =
              k.For(k.I32(0), i, k.I32(3), {v[0]},
                    [&](Val j, const std::vector<Val>& w) { return std::vector<Val>{w[0] + j * i}; });
          std::vector<Val> picked = k.IfElse(
              Eq(i & 3, 1),
              [&] {
                return std::vector<Val>{v[1] + 1.0, v[2] * 3};
              },
              [&] {
                std::vector<Val> deep = k.IfElse(
                    LtS(t, k.I32(20)), [&] { return std::vector<Val>{k.F32(0.5f)}; },
                    [&] { return std::vector<Val>{k.F32(0.25f)}; });
                return std::vector<Val>{v[1] + deep[0], v[2]};
              });
          return std::vector<Val>{inner[0], picked[0], picked[1]};
        });
    k.Store(k.Arg(0), t << 2, r[0]);
    k.Store(k.Arg(1), t << 2, r[1]);
    k.Store(k.Arg(2), t << 2, k.Truncate(r[2]));
    k.If(LtS(k.I32(10), t), [&] { k.If(LtS(t, k.I32(12)), [&] { k.Store(k.Arg(0), t << 2, k.I32(-5)); }); });
  };
  c.check = [](const std::vector<Words>& b) {
    for (int t = 0; t < kThreads; ++t) {
      int sum = 7;
      float f = 0;
      uint64_t product = 1;
      for (int i = 1; i < t; i += 2) {
        for (int j = 0; j < i; j += 3) sum += j * i;
        if ((i & 3) == 1) {
          f += 1;
          product *= 3;
        } else {
          f += t < 20 ? 0.5f : 0.25f;
        }
      }
      EXPECT_EQ(static_cast<int>(b[0][t]), t == 11 ? -5 : sum);
      EXPECT_EQ(Float(b[1][t]), f);
      EXPECT_EQ(b[2][t], static_cast<uint32_t>(product));
    }
  };
  Run(c);
}

TEST_P(BuilderTest, Subgroups) {
  int size = GetParam().subgroup;
  if (size == 0) GTEST_SKIP() << "the profile has no subgroups";
  Case c;
  c.name = "shuffle";
  c.threads = 64;
  c.buffers = {Words(64), Words(64)};
  c.emit = [size](Builder& k) {
    Val t = k.Thread(), sum = t * 5, f = k.ToF32(t);
    for (int mask = 1; mask < size; mask *= 2) {
      sum = sum + k.ShuffleXor(sum, mask);
      f = f + k.ShuffleXor(f, mask);
    }
    k.Store(k.Arg(0), t << 2, sum);
    k.Store(k.Arg(1), t << 2, f);
  };
  c.check = [size](const std::vector<Words>& b) {
    for (int t = 0; t < 64; ++t) {
      int first = t / size * size, sum = size * first + size * (size - 1) / 2;
      EXPECT_EQ(b[0][t], static_cast<uint32_t>(5 * sum));
      EXPECT_EQ(Float(b[1][t]), static_cast<float>(sum));
    }
  };
  Run(c);
}

// The subgroup's threads read what the others wrote, again and again; those of others are at other turns.
TEST_P(BuilderTest, BarriersOfSubgroups) {
  int size = GetParam().subgroup;
  if (size == 0) GTEST_SKIP() << "the profile has no subgroups";
  Case c;
  c.name = "meet";
  c.threads = 64;
  c.buffers = {Words(64)};
  c.emit = [size](Builder& k) {
    const Shared s = k.AllocShared(Type::kI32, 64);
    const Val t = k.Thread(), rounds = DivU(t, size) + 3;
    // A sum goes round in each subgroup.
    const Val next = DivU(t, size) * size + RemU(t + 1, size);
    const Val sum = k.For(k.I32(0), rounds, k.I32(1), {t}, [&](Val, const std::vector<Val>& carried) {
      k.StoreShared(s, t, carried[0]);
      k.SubgroupBarrier();
      const Val of_next = k.LoadShared(s, next);
      k.SubgroupBarrier();
      return std::vector<Val>{carried[0] + of_next};
    })[0];
    k.Store(k.Arg(0), t << 2, sum);
  };
  c.check = [size](const std::vector<Words>& b) {
    std::vector<uint32_t> want(64);
    for (int t = 0; t < 64; ++t) want[static_cast<size_t>(t)] = static_cast<uint32_t>(t);
    for (int first = 0; first < 64; first += size) {
      for (int round = 0; round < first / size + 3; ++round) {
        const std::vector<uint32_t> before = want;
        for (int i = 0; i < size; ++i) {
          want[static_cast<size_t>(first + i)] += before[static_cast<size_t>(first + (i + 1) % size)];
        }
      }
    }
    EXPECT_EQ(b[0], want);
  };
  Run(c);
}

}  // namespace
}  // namespace qcc::gpu::spirv_test
