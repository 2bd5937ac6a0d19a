// The CPU device: threads, barrier, core counting, executable code, choice of a code variant.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "runtime/device/cpu/barrier.h"
#include "runtime/device/cpu/code_image.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/futex.h"
#include "runtime/device/cpu/read_ahead.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/cpu/topology.h"

namespace {

using qrt::Code;

TEST(ThreadPool, EveryThreadRunsEveryTaskOnce) {
  for (const uint32_t cpus : {0u, 64u}) {  // without and with spinning
    for (uint32_t threads = 1; threads <= 8; ++threads) {
      const auto pool = qrt::ThreadPool::Create(threads, cpus);
      ASSERT_NE(pool, nullptr);
      EXPECT_EQ(pool->threads(), threads);
      std::vector<std::atomic<int>> runs(threads);
      std::atomic<int> wrong_count{0};
      struct Arg {
        std::vector<std::atomic<int>>& runs;
        std::atomic<int>& wrong_count;
      } arg = {runs, wrong_count};
      constexpr int kRounds = 300;
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_TRUE(pool->Run(
            [](void* a, uint32_t index, uint32_t count) {
              Arg& arg = *static_cast<Arg*>(a);
              arg.runs[index].fetch_add(1, std::memory_order_relaxed);
              if (count != arg.runs.size()) arg.wrong_count.fetch_add(1);
            },
            &arg, threads));
        for (uint32_t i = 0; i < threads; ++i) {
          ASSERT_EQ(runs[i].load(std::memory_order_relaxed), round + 1)
              << "thread " << i << " of " << threads << " when Run returned";
        }
      }
      EXPECT_EQ(wrong_count.load(), 0);
    }
  }
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  const auto pool = qrt::ThreadPool::Create(4, 64);
  ASSERT_NE(pool, nullptr);
  std::atomic<int> runs{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than the spinning
    ASSERT_TRUE(pool->Run(
        [](void* a, uint32_t, uint32_t) { static_cast<std::atomic<int>*>(a)->fetch_add(1); }, &runs, 4));
  }
  EXPECT_EQ(runs.load(), 20);
}

TEST(ThreadPool, ATaskHasAsManyThreadsAsItIsGiven) {
  constexpr uint32_t kThreads = 6;
  for (const uint32_t cpus : {0u, 64u}) {  // without and with spinning
    const auto pool = qrt::ThreadPool::Create(kThreads, cpus);
    ASSERT_NE(pool, nullptr);
    struct Arg {
      std::vector<uint64_t> runs = std::vector<uint64_t>(kThreads);  // plain: Run is what orders them
      std::atomic<int> wrong_count{0};
      uint32_t threads = 0;
    } arg;
    std::vector<uint64_t> want(kThreads);
    uint32_t random = 1;
    for (int round = 0; round < 4000; ++round) {
      random = random * 1664525 + 1013904223;
      arg.threads = 1 + (random >> 16) % kThreads;
      if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // all asleep
      ASSERT_TRUE(pool->Run(
          [](void* a, uint32_t index, uint32_t count) {
            Arg& arg = *static_cast<Arg*>(a);
            ++arg.runs[index];
            if (count != arg.threads) arg.wrong_count.fetch_add(1);
          },
          &arg, arg.threads));
      for (uint32_t i = 0; i < arg.threads; ++i) ++want[i];
      ASSERT_EQ(arg.runs, want) << "round " << round << ", " << arg.threads << " threads";
    }
    EXPECT_EQ(arg.wrong_count.load(), 0);
  }
}

// The embedder's handlers run on his threads, but those of a thread's own fault run on that thread.
TEST(ThreadPool, WorkersBlockWhatIsNoFaultOfTheirs) {
  const auto pool = qrt::ThreadPool::Create(2, 64);
  ASSERT_NE(pool, nullptr);
  sigset_t blocked;
  sigemptyset(&blocked);
  ASSERT_TRUE(pool->Run(
      [](void* mask, uint32_t index, uint32_t) {
        if (index == 1) pthread_sigmask(SIG_BLOCK, nullptr, static_cast<sigset_t*>(mask));
      },
      &blocked, 2));
  for (int signal : {SIGINT, SIGTERM, SIGALRM}) EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  for (int signal : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) EXPECT_EQ(sigismember(&blocked, signal), 0) << signal;
}

TEST(ThreadPool, CanBeMadeAndDestroyedWithoutWork) {
  for (uint32_t i = 0; i < 50; ++i) ASSERT_NE(qrt::ThreadPool::Create(1 + i % 8, i % 3), nullptr);
  ASSERT_NE(qrt::ThreadPool::Create(256, 2), nullptr);
}

// Threads write their own cell, meet, and read everyone's: a barrier that lets one through early shows a
// stale cell.
struct Rounds {
  uint32_t rounds;
  uint32_t spins;
  qrt_barrier barrier;
  std::vector<uint64_t> cells;  // plain memory: the barrier is what orders it
  std::atomic<uint64_t> errors{0};
};

TEST(Barrier, OrdersPlainMemory) {
  for (const uint32_t spins : {0u, 1u, 2000u}) {
    for (uint32_t threads = 1; threads <= 8; ++threads) {
      const auto pool = qrt::ThreadPool::Create(threads, 64);
      ASSERT_NE(pool, nullptr);
      Rounds rounds = {200, spins, {}, std::vector<uint64_t>(threads), {}};
      qrt::InitBarrier(&rounds.barrier);
      pool->Run(
          [](void* a, uint32_t index, uint32_t count) {
            Rounds& r = *static_cast<Rounds*>(a);
            for (uint32_t round = 1; round <= r.rounds; ++round) {
              r.cells[index] = round;
              qrt::ArriveAndWait(&r.barrier, count, r.spins);
              for (uint64_t cell : r.cells) {
                if (cell != round) r.errors.fetch_add(1);
              }
              qrt::ArriveAndWait(&r.barrier, count, r.spins);
            }
          },
          &rounds, threads);
      EXPECT_EQ(rounds.errors.load(), 0u) << threads << " threads, " << spins << " spins";
      EXPECT_EQ(rounds.barrier.arrived, 0u);
      EXPECT_EQ(rounds.barrier.sleepers, 0u) << "a sleeper was not counted off";
    }
  }
}

TEST(Barrier, WaitReturnsOnlyWhenThePhaseMoved) {
  qrt_barrier barrier;
  qrt::InitBarrier(&barrier);
  barrier.wait(barrier.ctx, &barrier.phase, 7);  // phase is 0, not 7: returns at once
  std::atomic<bool> through{false};
  std::thread sleeper([&] {
    barrier.wait(barrier.ctx, &barrier.phase, 0);
    through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  barrier.wake(barrier.ctx, &barrier.phase);  // spurious: the phase has not moved
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(through.load()) << "a spurious wake-up ended the wait";
  __atomic_store_n(&barrier.phase, 1, __ATOMIC_SEQ_CST);
  barrier.wake(barrier.ctx, &barrier.phase);
  sleeper.join();
  EXPECT_TRUE(through.load());
}

// A made-up /sys and /proc.
class Machine {
 public:
  Machine()
      : root_(testing::TempDir() + "topology_" + std::to_string(getpid()) + "_" + std::to_string(count_++)) {}
  ~Machine() { (void)!std::system(("rm -rf '" + root_ + "'").c_str()); }
  void Put(const std::string& path, const std::string& text) {
    for (size_t at = 0; (at = path.find('/', at + 1)) != std::string::npos;) {
      MakeDir(root_ + path.substr(0, at));
    }
    std::ofstream(root_ + path) << text;
  }
  void Siblings(uint32_t cpu, const std::string& list) {
    Put("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list + "\n");
  }
  const std::string& root() const { return root_; }

 private:
  void MakeDir(const std::string& path) {
    mkdir(root_.c_str(), 0755);
    mkdir(path.c_str(), 0755);
  }
  static inline int count_ = 0;
  std::string root_;
};

TEST(Topology, CountsCoresNotHyperthreads) {
  Machine machine;
  for (uint32_t cpu = 0; cpu < 8; ++cpu)
    machine.Siblings(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  const qrt::CpuTopology all = qrt::DetectCpuTopology(machine.root(), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(all.logical, 8u);
  EXPECT_EQ(all.physical, 4u);
  const qrt::CpuTopology pinned = qrt::DetectCpuTopology(machine.root(), {0, 4, 5});
  EXPECT_EQ(pinned.logical, 3u);
  EXPECT_EQ(pinned.physical, 2u) << "two of the three CPUs share a core";
}

TEST(Topology, QuotaOfTheCgroupOrAnAncestorLimits) {
  const std::vector<uint32_t> cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  {
    Machine machine;
    machine.Put("/proc/self/cgroup", "0::/a/b\n");
    machine.Put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    machine.Put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    EXPECT_EQ(qrt::DetectCpuTopology(machine.root(), cpus).physical, 3u) << "2.5 CPUs round up";
  }
  {
    Machine machine;
    machine.Put("/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/x\n");
    machine.Put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "200000\n");
    machine.Put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(qrt::DetectCpuTopology(machine.root(), cpus).physical, 2u);
    machine.Put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(qrt::DetectCpuTopology(machine.root(), cpus).physical, 8u) << "no quota";
  }
  {
    Machine machine;
    machine.Put("/proc/self/cgroup", "garbage\n::\n0::\n");
    machine.Put("/sys/fs/cgroup/cpu.max", "nonsense");
    EXPECT_EQ(qrt::DetectCpuTopology(machine.root(), cpus).physical, 8u);
  }
  EXPECT_GE(qrt::DetectCpuTopology().physical, 1u);
  EXPECT_LE(qrt::DetectCpuTopology().physical, qrt::DetectCpuTopology().logical);
}

#if defined(__x86_64__)

// Two programs in machine code, by hand.
//   program 0: thread 0 writes 1.0f to logits[0]
//   program 1: thread 0 writes n_threads (as an integer) to logits[0]
std::vector<uint8_t> Blob() {
  static_assert(offsetof(qrt_step_args, logits) == 72, "the displacement below");
  const uint8_t first[] = {0x85, 0xF6,                          // test esi, esi
                           0x75, 0x0A,                          // jne ret
                           0x48, 0x8B, 0x47, 72,                // mov rax, [rdi + 72]
                           0xC7, 0x00, 0x00, 0x00, 0x80, 0x3F,  // mov dword [rax], 1.0f
                           0xC3};                               // ret
  const uint8_t second[] = {0x85, 0xF6,                         // test esi, esi
                            0x75, 0x06,                         // jne ret
                            0x48, 0x8B, 0x47, 72,               // mov rax, [rdi + 72]
                            0x89, 0x10,                         // mov [rax], edx
                            0xC3};                              // ret
  std::vector<uint8_t> blob(128, 0xCC);
  const uint32_t header[] = {QRT_CODE_MAGIC, QRT_PROGRAM_ABI, 2, 0, 0, 0, 64, 96};
  std::memcpy(blob.data(), header, sizeof header);
  std::memcpy(blob.data() + 64, first, sizeof first);
  std::memcpy(blob.data() + 96, second, sizeof second);
  return blob;
}

TEST(CodeImage, RunsWhatItCopied) {
  std::vector<uint8_t> blob = Blob();
  const qrt::Hash128 hash = qrt::HashOf(blob);
  auto image = qrt::CodeImage::Load(blob, hash, 2);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  std::fill(blob.begin(), blob.end(), 0xCC);  // the source may go away
  float logits[1] = {0};
  qrt_step_args args = {};
  args.logits = logits;
  (*image).entry(0)(&args, 0, 3);
  EXPECT_EQ(logits[0], 1.0f);
  (*image).entry(1)(&args, 0, 3);
  uint32_t bits;
  std::memcpy(&bits, logits, sizeof bits);
  EXPECT_EQ(bits, 3u);
  (*image).entry(0)(&args, 1, 3);
  std::memcpy(&bits, logits, sizeof bits);
  EXPECT_EQ(bits, 3u) << "only thread 0 writes";
}

TEST(CodeImage, RefusesEveryFlippedBit) {
  std::vector<uint8_t> blob = Blob();
  const qrt::Hash128 hash = qrt::HashOf(blob);
  for (size_t i = 0; i < blob.size(); ++i) {
    blob[i] ^= 0x10;
    const auto image = qrt::CodeImage::Load(blob, hash, 2);
    ASSERT_FALSE(image.ok()) << "byte " << i;
    ASSERT_EQ(image.status().code(), Code::kArtifactCorrupt) << "byte " << i;
    blob[i] ^= 0x10;
  }
}

TEST(CodeImage, RefusesHeadersThatDoNotFit) {
  const auto refused = [](const std::vector<uint8_t>& blob, size_t programs, const char* what) {
    const auto image = qrt::CodeImage::Load(blob, qrt::HashOf(blob), programs);
    EXPECT_FALSE(image.ok()) << what;
    EXPECT_EQ(image.status().code(), Code::kArtifactCorrupt) << what;
  };
  const auto with = [](size_t word, uint32_t value) {
    std::vector<uint8_t> blob = Blob();
    std::memcpy(blob.data() + 4 * word, &value, 4);
    return blob;
  };
  refused({}, 2, "empty");
  refused(Blob(), 3, "another number of programs than the manifest's");
  refused(Blob(), SIZE_MAX / 2, "a number of programs that overflows");
  refused(with(0, 0), 2, "magic");
  refused(with(1, QRT_PROGRAM_ABI + 1), 2, "ABI");
  refused(with(3, 63), 2, "scratch that is no multiple of 64");
  refused(with(3, QRT_MAX_THREAD_SCRATCH + 64), 2, "more scratch than a thread may have");
  refused(with(4, QRT_MAX_STAGES + 1), 2, "more stages than code may have");
  refused(with(5, 63), 2, "shared scratch that is no multiple of 64");
  refused(with(5, QRT_MAX_SHARED_SCRATCH + 64), 2, "more shared scratch than there may be");
  refused(with(6, 0), 2, "an entry in the header");
  refused(with(6, 31), 2, "an entry in the entry table");
  refused(with(7, 128), 2, "an entry at the end");
  refused(with(7, 0xFFFFFFFF), 2, "an entry far outside");
  std::vector<uint8_t> shorter = Blob();
  shorter.resize(28);
  refused(shorter, 2, "a table that is cut off");
}

#endif  // __x86_64__

qrt::Manifest WithCode(std::vector<qrt::CodeInfo> code) {
  qrt::Manifest manifest;
  manifest.code = std::move(code);
  return manifest;
}

TEST(ChooseCode, TakesTheFirstThatRuns) {
  const qrt::Manifest manifest = WithCode({{"vulkan", "spirv", {}, 0, 0},
                                           {"cpu", "v4", {"avx2", "avx512f"}, 0, 0},
                                           {"cpu", "v3", {"avx2"}, 0, 0},
                                           {"cpu", "base", {}, 0, 0}});
  const auto features = [](std::vector<std::string_view> names) {
    return qrt::CpuFeatures::FromNames(names);
  };
  const auto chosen = [&](std::vector<std::string_view> names, std::string_view wanted = "") {
    const auto choice = qrt::ChooseCode(manifest, features(std::move(names)), wanted);
    return choice.ok() ? static_cast<int>(*choice) : -static_cast<int>(choice.status().number());
  };
  EXPECT_EQ(chosen({"avx2", "avx512f"}), 1);
  EXPECT_EQ(chosen({"avx2"}), 2);
  EXPECT_EQ(chosen({}), 3);
  EXPECT_EQ(chosen({"avx2", "avx512f"}, "base"), 3) << "a named variant wins over a better one";
  EXPECT_EQ(chosen({"avx2"}, "v4"), -5001) << "a named variant that does not run";
  EXPECT_EQ(chosen({}, "spirv"), -5003) << "not a CPU variant";
}

// Tile registers are asked for where they are needed, and nowhere else; without them there is other code.
TEST(ChooseCode, TakesTheNextWhereTheKernelRefuses) {
  static int asked;
  const qrt::Manifest manifest =
      WithCode({{"cpu", "tiles", {"avx2", "xtiledata"}, 0, 0}, {"cpu", "v3", {"avx2"}, 0, 0}});
  const auto taken = [&](std::vector<std::string_view> names, bool granted, std::string_view wanted = "") {
    qrt::CpuFeatures cpu = qrt::CpuFeatures::FromNames(names);
    asked = 0;
    bool (*yes)() = [] { return ++asked > 0; };
    bool (*no)() = [] { return ++asked == 0; };
    const auto choice = qrt::TakeCode(manifest, &cpu, wanted, granted ? yes : no);
    EXPECT_EQ(cpu.Has("xtiledata"), std::ranges::count(names, "xtiledata") == 1 && (granted || asked == 0));
    return choice;
  };
  EXPECT_EQ(*taken({"avx2", "xtiledata"}, true), 0u);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(*taken({"avx2", "xtiledata"}, false), 1u);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(*taken({"avx2", "xtiledata"}, false, "v3"), 1u);
  EXPECT_EQ(asked, 0) << "code that has no use for them";
  EXPECT_EQ(*taken({"avx2"}, true), 1u);
  EXPECT_EQ(asked, 0) << "a processor that has none";
  const auto refused = taken({"avx2", "xtiledata"}, false, "tiles");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().number(), 5001u);
  EXPECT_NE(refused.status().message().find("tiles needs xtiledata"), std::string::npos)
      << refused.status().message();
}

TEST(ChooseCode, NamesEveryMissingFeature) {
  const qrt::Manifest manifest = WithCode(
      {{"cpu", "v4", {"avx2", "avx512f", "avx512vnni"}, 0, 0}, {"cpu", "v3", {"avx2", "fma"}, 0, 0}});
  const std::vector<std::string_view> names = {"avx2"};
  const auto choice = qrt::ChooseCode(manifest, qrt::CpuFeatures::FromNames(names), "");
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), Code::kDeviceUnsupported);
  EXPECT_NE(choice.status().message().find("v4 needs avx512f, avx512vnni; v3 needs fma"), std::string::npos)
      << choice.status().message();
  EXPECT_EQ(qrt::ChooseCode(WithCode({{"cuda", "sm_90", {}, 0, 0}}), {}, "").status().number(), 5002u);
  const auto unknown = qrt::ChooseCode(WithCode({{"cpu", "future", {"no-such-feature"}, 0, 0}}),
                                       qrt::CpuFeatures::Detect(), "");
  EXPECT_EQ(unknown.status().number(), 5001u)
      << "a feature that this runtime does not know counts as missing";
}

// By the designs that were measured: of those of AMD's family 25, Zen 4 wants the least.
TEST(ReadAhead, FollowsTheDesign) {
  const auto ahead = [](const char* vendor, uint32_t family, uint32_t model) {
    return qrt::ReadAhead({.vendor = vendor, .family = family, .model = model});
  };
  for (const uint32_t zen3 : {0x01u, 0x08u, 0x21u, 0x44u, 0x50u})
    EXPECT_EQ(ahead("AuthenticAMD", 25, zen3), 2048) << "model " << zen3;
  for (const uint32_t zen4 : {0x11u, 0x18u, 0x61u, 0x74u, 0xa0u})
    EXPECT_EQ(ahead("AuthenticAMD", 25, zen4), 384) << "model " << zen4;
  EXPECT_EQ(ahead("AuthenticAMD", 26, 0x02), 4096);
  EXPECT_EQ(ahead("AuthenticAMD", 23, 0x31), 4096);
  EXPECT_EQ(ahead("GenuineIntel", 25, 0x01), 4096);
}

}  // namespace
