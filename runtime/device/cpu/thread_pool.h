// Threads that run one task together.
#ifndef RUNTIME_DEVICE_CPU_THREAD_POOL_H_
#define RUNTIME_DEVICE_CPU_THREAD_POOL_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace qrt {

// task(arg, index, count) for every index in [0, count).
using PoolTask = void (*)(void* arg, uint32_t index, uint32_t count);

// A group of threads that enter a task at the same time, so that the task may use barriers.
class Workers {
 public:
  virtual ~Workers() = default;
  virtual uint32_t threads() const = 0;
  // Whether a task may have fewer of them.
  virtual bool divisible() const { return false; }
  // `count` threads, 1 to threads(), or threads() where they are not divisible, run the task. Returns true
  // after every one has left it; false: nothing was started (the threads are another process's). One call at
  // a time.
  virtual bool Run(PoolTask task, void* arg, uint32_t count) = 0;
};

// Persistent threads; the caller of Run is thread 0. Between tasks workers stay awake for about a
// millisecond (the gap between two tokens) and then sleep; those that the last task of several threads had
// no use for sleep at once.
class ThreadPool final : public Workers {
 public:
  // nullptr when the system refuses a thread. Throws std::bad_alloc. `available_cpus`: with more threads than
  // that, staying awake only steals time from the thread waited for, and is left out.
  static std::unique_ptr<ThreadPool> Create(uint32_t threads, uint32_t available_cpus);
  ~ThreadPool() override;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr uint32_t kMostThreads = 511;  // kCountBits

  uint32_t threads() const override { return threads_; }
  bool divisible() const override { return true; }
  bool Run(PoolTask task, void* arg, uint32_t count) override;

 private:
  ThreadPool(uint32_t threads, bool stays_awake);
  void WorkerMain(uint32_t index);
  void Publish(uint32_t count);
  void AwaitTurn(uint32_t seen, bool had_part);

  static constexpr uint32_t kCountBits = 9;
  static constexpr uint32_t CountOf(uint32_t turn) { return turn & ((1u << kCountBits) - 1); }

  const uint32_t threads_;
  const bool stays_awake_;  // for a while, where nothing is to be done
  const pid_t process_;     // which has the threads: a child of fork() has only the one that called it
  // Written by the caller before the turn, read by the workers that have part in it after it.
  PoolTask task_ = nullptr;
  void* arg_ = nullptr;
  bool stop_ = false;
  // The number of tasks so far, and below it how many threads this one has: workers wait for it to change.
  // That the number comes round does no harm: the caller waits for those who have part, and what a worker
  // without part saw differs in the count from every turn in which it has one.
  alignas(64) std::atomic<uint32_t> turn_{0};
  std::atomic<uint32_t> sleepers_{
      0};                             // workers that had part in the turn they saw, and sleep or are about to
  std::atomic<uint32_t> benched_{0};  // those that had none
  alignas(64) std::atomic<uint32_t> running_{0};  // workers still inside the task
  std::atomic<uint32_t> caller_sleeps_{0};
  std::unique_ptr<std::vector<std::thread>> workers_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_THREAD_POOL_H_
