#include "runtime/device/cpu/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <system_error>

#include "runtime/base/signals_blocked.h"
#include "runtime/device/cpu/futex.h"

namespace qrt {
namespace {

// About 50 us at some 40 ns a pause, and about a millisecond at some 0.4 us a yield: longer than it takes to
// choose a token (0.5 ms from 250 thousand weights, a Zen 5), after which a sleeper would be waited for;
// short enough not to burn a core while the user types. Whoever yields leaves the core to the threads of
// other pools (a draft's model has its own).
constexpr uint32_t kIdleSpins = 1200, kIdleYields = 2500;

// What workers sleep for: the next turn, or one in which they have part.
constexpr uint32_t kHadPart = 1, kHadNone = 2;

// Whether done() comes true meanwhile; without `stay`, whether it is true.
template <typename Done>
bool WaitAwake(bool stay, Done done) {
  for (uint32_t i = 0; stay && i < kIdleSpins; ++i) {
    if (done()) return true;
    CpuRelax();
  }
  for (uint32_t i = 0; stay && i < kIdleYields; ++i) {
    if (done()) return true;
    sched_yield();
  }
  return done();
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is the atomic's own word");

const uint32_t* Word(const std::atomic<uint32_t>& a) {
  return reinterpret_cast<const uint32_t*>(&a);
}

}  // namespace

ThreadPool::ThreadPool(uint32_t threads, bool stays_awake)
    : threads_(threads),
      stays_awake_(stays_awake),
      process_(getpid()),
      workers_(std::make_unique<std::vector<std::thread>>()) {}

std::unique_ptr<ThreadPool> ThreadPool::Create(uint32_t threads, uint32_t available_cpus) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads, threads <= available_cpus));
  pool->workers_->reserve(threads - 1);
  const SignalsBlocked blocked;
  try {
    for (uint32_t i = 1; i < threads; ++i)
      pool->workers_->emplace_back(&ThreadPool::WorkerMain, pool.get(), i);
  } catch (const std::system_error&) {
    return nullptr;  // the destructor stops those that run
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  if (getpid() != process_) {
    // Nobody is there to be joined, and a std::thread that was not must not be destroyed.
    static_cast<void>(workers_.release());
    return;
  }
  stop_ = true;
  Publish(threads_);
  for (std::thread& worker : *workers_) worker.join();
}

// Sequentially consistent on both sides: either this thread sees the sleeper, or the sleeper sees the new
// turn.
void ThreadPool::Publish(uint32_t count) {
  const uint32_t before = turn_.load(std::memory_order_relaxed);
  turn_.store((((before >> kCountBits) + 1) << kCountBits) | count);
  if (sleepers_.load() != 0) FutexWakeAllFor(Word(turn_), kHadPart);
  if (count > CountOf(before) && benched_.load() != 0) FutexWakeAllFor(Word(turn_), kHadNone);
}

bool ThreadPool::Run(PoolTask task, void* arg, uint32_t count) {
  if (threads_ > 1 && getpid() != process_) return false;
  if (count == 1) {
    task(arg, 0, 1);
    return true;
  }
  task_ = task;
  arg_ = arg;
  running_.store(count - 1, std::memory_order_relaxed);
  Publish(count);
  task(arg, 0, count);
  if (WaitAwake(stays_awake_, [this] { return running_.load(std::memory_order_acquire) == 0; })) return true;
  caller_sleeps_.store(1);
  for (uint32_t left = running_.load(); left != 0; left = running_.load()) FutexWait(Word(running_), left);
  caller_sleeps_.store(0, std::memory_order_relaxed);
  return true;
}

// Returns when the turn is no more `seen`.
void ThreadPool::AwaitTurn(uint32_t seen, bool had_part) {
  if (WaitAwake(stays_awake_ && had_part, [&] { return turn_.load(std::memory_order_acquire) != seen; })) {
    return;
  }
  std::atomic<uint32_t>& waiting = had_part ? sleepers_ : benched_;
  waiting.fetch_add(1);
  while (turn_.load() == seen) FutexWaitFor(Word(turn_), seen, had_part ? kHadPart : kHadNone);
  waiting.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::WorkerMain(uint32_t index) {
  uint32_t seen = 0;
  bool has_part = true;  // in the first, most likely
  for (;;) {
    AwaitTurn(seen, has_part);
    seen = turn_.load(std::memory_order_acquire);
    has_part = index < CountOf(seen);
    if (!has_part) continue;
    if (stop_) return;
    task_(arg_, index, CountOf(seen));
    if (running_.fetch_sub(1) == 1 && caller_sleeps_.load() != 0) FutexWakeAll(Word(running_));
  }
}

}  // namespace qrt
