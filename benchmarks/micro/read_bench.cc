// The most bytes per second that this machine's memory gives to programs that only read.
//   qrt_read_bench [THREADS, default all [MEBIBYTES that all threads read together, default 1024]]
// Each thread reads a part of its own, as 1 to 16 streams side by side: prefetchers follow several, and one
// alone leaves bandwidth unused. Prints GB/s (10^9) of each number of streams and the best, the best pass of
// 5 each.
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kLine = 64, kHugePage = 2 << 20;
constexpr int kStreams[] = {1, 2, 4, 8, 16};
constexpr int kPasses = 5;

typedef uint64_t Line __attribute__((vector_size(kLine)));

// Sums a part of `bytes` bytes, a multiple of kLine * streams, in `streams` places at once.
__attribute__((target_clones("avx512f", "avx2", "default"))) uint64_t Read(const uint8_t* part, int64_t bytes,
                                                                           int streams) {
  const int64_t stride = bytes / streams;
  Line sums[4] = {};
  for (int64_t at = 0; at < stride; at += kLine) {
    for (int s = 0; s < streams; ++s) {
      Line line;
      std::memcpy(&line, part + s * stride + at, sizeof line);
      sums[s % 4] += line;
    }
  }
  const Line sum = sums[0] + sums[1] + sums[2] + sums[3];
  uint64_t all = 0;
  for (int i = 0; i < 8; ++i) all += sum[i];
  return all;
}

uint8_t* Map(int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<uint8_t*>(memory);
}

// GB/s of the best pass.
double Measure(const std::vector<uint8_t*>& parts, int64_t bytes, int streams) {
  const auto readers = static_cast<ptrdiff_t>(parts.size());
  std::barrier meet(readers + 1);
  std::vector<uint64_t> sums(parts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < parts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int pass = 0; pass < kPasses; ++pass) {
        meet.arrive_and_wait();
        sums[i] += Read(parts[i], bytes, streams);
        meet.arrive_and_wait();
      }
    });
  }
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    meet.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    meet.arrive_and_wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 1e-9 * static_cast<double>(bytes) * static_cast<double>(readers) / took.count());
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t sum : sums) {
    if (sum != sums[0]) std::abort();  // all bytes are 1: a reader that leaves some out sums less
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = argc > 1 ? std::atol(argv[1]) : static_cast<long>(std::thread::hardware_concurrency());
  const long mebibytes = argc > 2 ? std::atol(argv[2]) : 1024;
  if (argc > 3 || threads < 1 || mebibytes < 2 * threads) {
    std::fprintf(stderr, "usage: qrt_read_bench [THREADS [MEBIBYTES, at least 2 a thread]]\n");
    return 2;
  }
  const int64_t bytes = (int64_t{mebibytes} << 20) / threads / kHugePage * kHugePage;
  std::vector<uint8_t*> parts;
  for (long i = 0; i < threads; ++i) {
    uint8_t* part = Map(bytes);
    if (part == nullptr) {
      std::fprintf(stderr, "qrt_read_bench: no memory for %ld MiB\n", mebibytes);
      return 1;
    }
    std::memset(part, 1, static_cast<size_t>(bytes));
    parts.push_back(part);
  }
  double best = 0;
  for (const int streams : kStreams) {
    const double rate = Measure(parts, bytes, streams);
    std::printf("%2d streams a thread: %6.1f GB/s\n", streams, rate);
    best = std::max(best, rate);
  }
  std::printf("best: %.1f GB/s\n", best);
}
