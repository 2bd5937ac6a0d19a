// The barrier: nobody leaves before all have come, however late one is, asleep or spinning.
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
