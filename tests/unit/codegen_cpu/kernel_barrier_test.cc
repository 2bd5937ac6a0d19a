// The barrier: nobody leaves before all have come, however late one is, asleep or spinning.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

struct Sleep {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> waits{0}, wakes{0};
};

void wait_on(void* ctx, const uint32_t* phase, uint32_t seen) {
  Sleep& s = *static_cast<Sleep*>(ctx);
  std::unique_lock lock(s.mutex);
  ++s.waits;
  s.changed.wait(lock, [&] { return __atomic_load_n(phase, __ATOMIC_SEQ_CST) != seen; });
}
void wake_all(void* ctx, const uint32_t*) {
  Sleep& s = *static_cast<Sleep*>(ctx);
  { std::lock_guard lock(s.mutex); }
  ++s.wakes;
  s.changed.notify_all();
}

// The kernels are not instrumented, so ThreadSanitizer cannot see that the barrier orders these accesses.
__attribute__((no_sanitize("thread"))) void put(int* place, int value) {
  *place = value;
}
__attribute__((no_sanitize("thread"))) int get(const int* place) {
  return *place;
}

class KernelBarrier : public KernelTest {};
QCC_INSTANTIATE_KERNEL_TEST(KernelBarrier);

TEST_P(KernelBarrier, OneThreadPasses) {
  qrt_barrier b{};
  k->qk_barrier(&b, 1);
  EXPECT_EQ(b.phase, 0u);
}

TEST_P(KernelBarrier, AllMeet) {
  for (int threads : {2, 3, 4}) {
    Sleep sleep;
    qrt_barrier b{};
    b.wait = wait_on;
    b.wake = wake_all;
    b.ctx = &sleep;
    constexpr int kRounds = 300;
    std::vector<int> place(static_cast<size_t>(threads) * 16,
                           -1);  // plain memory: the barrier is what orders it
    std::atomic<int> wrong{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        for (int r = 0; r < kRounds; ++r) {
          if (r % 50 == t)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the others go to sleep
          put(place.data() + t * 16, r);
          k->qk_barrier(&b, threads);
          for (int o = 0; o < threads; ++o) wrong += get(place.data() + o * 16) != r;
          k->qk_barrier(&b, threads);
        }
      });
    }
    for (std::thread& t : pool) t.join();
    EXPECT_EQ(wrong, 0) << threads << " threads: values of another round seen";
    EXPECT_EQ(b.phase, 2u * kRounds) << threads << " threads";
    EXPECT_EQ(b.arrived, 0u);
    EXPECT_EQ(b.sleepers, 0u);
    EXPECT_GT(sleep.waits, 0) << "a thread 2 ms late did not send the others to sleep";
    EXPECT_GT(sleep.wakes, 0);
  }
}

qrt_barrier Yielding() {
  qrt_barrier b{};
  b.wait = [](void*, const uint32_t* phase, uint32_t seen) {
    while (__atomic_load_n(phase, __ATOMIC_ACQUIRE) == seen) std::this_thread::yield();
  };
  b.wake = [](void*, const uint32_t*) {};
  return b;
}

// With a ticket behind each barrier, whichever thread comes last, and as many threads as have lines of their
// own, and more.
TEST_P(KernelBarrier, ThreadsAtOnceGetEveryItemOnceBehindEachBarrier) {
  constexpr int64_t kItems = 61, kRounds = 60;
  for (const int64_t threads : {2, 5, 8, 9}) {
    qrt_barrier b = Yielding();
    qrt_step_args args = {};
    args.barrier = &b;
    std::vector<std::atomic<int>> times(kItems);
    std::atomic<int> wrong{0};
    std::vector<std::thread> pool;
    for (int64_t t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        for (int r = 1; r <= kRounds; ++r) {
          int64_t range[2];
          for (int64_t round = 0; k->qk_share(&args, t, threads, r % 3, kItems, round, range); ++round)
            for (int64_t i = range[0]; i < range[1]; ++i) ++times[static_cast<size_t>(i)];
          k->qk_barrier(&b, threads);
          for (std::atomic<int>& item : times) wrong += item.load() != r;
          k->qk_barrier(&b, threads);
        }
      });
    }
    for (std::thread& t : pool) t.join();
    EXPECT_EQ(wrong, 0) << threads << " threads: items that a thread got twice, or none";
  }
}

// Together the threads get every item once: however many items and threads there are, with a ticket and
// without, and whoever is first.
TEST_P(KernelBarrier, EveryItemIsSharedOutOnce) {
  qrt_barrier b{};
  qrt_step_args args = {};
  args.barrier = &b;
  for (int64_t threads : {1, 2, 3, 8, 16}) {
    for (int64_t items : {0, 1, 2, 5, 16, 63, 64, 224, 15520}) {
      for (int64_t ticket : {-1, 0, QRT_TICKETS - 1}) {
        SCOPED_TRACE(testing::Message() << items << " items, " << threads << " threads, ticket " << ticket);
        // As a barrier leaves them.
        std::fill(std::begin(b.tickets), std::end(b.tickets), 0);
        ++b.phase;
        std::vector<int> times(static_cast<size_t>(items));
        std::vector<int64_t> got(static_cast<size_t>(threads));
        // Thread t asks once while the next one asks twice, and so on: later ones take more of what is left.
        std::vector<int64_t> rounds(static_cast<size_t>(threads), 0);
        for (bool more = true; more;) {
          more = false;
          for (int64_t t = 0; t < threads; ++t) {
            for (int64_t asked = 0; asked <= t && rounds[t] >= 0; ++asked) {
              int64_t range[2];
              if (k->qk_share(&args, t, threads, ticket, items, rounds[t], range) == 0) {
                rounds[t] = -1;
                continue;
              }
              ++rounds[t];
              more = true;
              ASSERT_LE(range[0], range[1]);
              got[t] += range[1] - range[0];
              for (int64_t i = range[0]; i < range[1]; ++i) ++times.at(static_cast<size_t>(i));
            }
          }
        }
        EXPECT_EQ(std::ranges::count(times, 1), items) << "items that were not shared out once";
        if (ticket >= 0 && threads == 2 && items >= 64) {
          EXPECT_GT(got[1], got[0]) << "who is faster gets no more";
        }
        if (ticket < 0) {
          EXPECT_LE(*std::ranges::max_element(got) - *std::ranges::min_element(got), 1);
        }
      }
    }
  }
}

// Where threads are equally fast, what each gets lies together, as it is read faster; who is done first takes
// the last piece of another.
TEST_P(KernelBarrier, AThreadGoesOnWhereItIs) {
  constexpr int64_t kItems = 224, kThreads = 3;
  qrt_barrier b{};
  qrt_step_args args = {};
  args.barrier = &b;
  int64_t begin[kThreads], end[kThreads], range[2];
  for (int64_t round = 0; round < 3; ++round) {
    for (int64_t t = 0; t < kThreads; ++t) {
      ASSERT_NE(k->qk_share(&args, t, kThreads, 0, kItems, round, range), 0);
      if (round == 0) begin[t] = range[0];
      if (round != 0) {
        EXPECT_EQ(range[0], end[t]) << "thread " << t << " reads elsewhere in round " << round;
      }
      end[t] = range[1];
    }
  }
  for (int64_t t = 1; t < kThreads; ++t) EXPECT_LT(end[t - 1], begin[t]);
  // Two pieces of each are left.
  for (int64_t round = 3; round < 5; ++round) {
    ASSERT_NE(k->qk_share(&args, 0, kThreads, 0, kItems, round, range), 0);
    EXPECT_EQ(range[0], end[0]);
    end[0] = range[1];
  }
  EXPECT_EQ(end[0], begin[1]);
  ASSERT_NE(k->qk_share(&args, 0, kThreads, 0, kItems, 5, range), 0);
  EXPECT_EQ(range[1], begin[2]) << "not the last piece of the next thread";
}

TEST_P(KernelBarrier, StagesAreTimedWhereAskedFor) {
  qrt_step_args args = {};
  k->qk_end_stage(&args, 1, 0);  // nobody asks
  constexpr int64_t kStride = 128;
  static_assert(sizeof(qrt_stage_clock) + 3 * sizeof(qrt_stage_time) <= kStride);
  alignas(64) uint8_t clocks[2 * kStride] = {};
  args.stage_clocks = clocks;
  args.stage_clock_stride = kStride;
  k->qk_end_stage(&args, 1, -1);
  for (int i = 0; i < 3; ++i) k->qk_end_stage(&args, 1, i == 1 ? 2 : 0);
  for (int64_t i = 0; i < kStride; ++i) ASSERT_EQ(clocks[i], 0) << "of another thread, byte " << i;
  const auto* clock = reinterpret_cast<const qrt_stage_clock*>(clocks + kStride);
  EXPECT_EQ(clock->stages[0].runs, 2u);
  EXPECT_EQ(clock->stages[1].runs, 0u);
  EXPECT_EQ(clock->stages[1].ticks, 0u);
  EXPECT_EQ(clock->stages[2].runs, 1u);
  EXPECT_GT(clock->stages[0].ticks + clock->stages[2].ticks, 0u);
  EXPECT_LT(clock->stages[0].ticks + clock->stages[2].ticks, clock->last) << "the beginning counts";
}

}  // namespace
}  // namespace qcc::cpu
