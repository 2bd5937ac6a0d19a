// The most bytes per second that this machine's memory gives to programs that only read.
//   qrt_read_bench [THREADS, default all [MEBIBYTES that all threads read together, default 1024 | FILE]]
// Of memory in large pages, or of a FILE's pages as they are mapped: what a program has whose weights lie
// there. Each thread reads a part of its own, as 1 to 16 streams side by side: prefetchers follow several,
// and one alone leaves bandwidth unused. Prints GB/s (10^9) of each number of streams and the best, the best
// pass of 5 each.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kLine = 64, kHugePage = 2 << 20;
constexpr int kStreams[] = {1, 2, 4, 8, 16};
constexpr int kPasses = 5;

typedef uint64_t Line __attribute__((vector_size(kLine)));

// Sums a part of `bytes` bytes, a multiple of kLine * kCount, in kCount places at once, each sum in a
// register: kept in memory they cost more than the reading (a Zen 5: 64 GB/s instead of 79).
template <int kCount>
__attribute__((always_inline)) inline uint64_t Read(const uint8_t* part, int64_t bytes) {
  const int64_t stride = bytes / kCount;
  Line sums[kCount] = {};
  for (int64_t at = 0; at < stride; at += kLine) {
#pragma GCC unroll 16
    for (int s = 0; s < kCount; ++s) {
      Line line;
      std::memcpy(&line, part + s * stride + at, sizeof line);
      sums[s] += line;
    }
  }
  uint64_t all = 0;
#pragma GCC unroll 16
  for (int s = 0; s < kCount; ++s) {
    for (int i = 0; i < 8; ++i) all += sums[s][i];
  }
  return all;
}

__attribute__((target_clones("avx512f", "avx2", "default"))) uint64_t Read(const uint8_t* part, int64_t bytes,
                                                                           int streams) {
  switch (streams) {
    case 1:
      return Read<1>(part, bytes);
    case 2:
      return Read<2>(part, bytes);
    case 4:
      return Read<4>(part, bytes);
    case 8:
      return Read<8>(part, bytes);
    default:
      return Read<16>(part, bytes);
  }
}

// Memory with a 1 in each byte; null: there is none.
uint8_t* Memory(int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<uint8_t*>(std::memset(memory, 1, static_cast<size_t>(bytes)));
}

// The file's bytes, and how many; null: it cannot be read.
uint8_t* File(const char* path, int64_t& bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info = {};
  if (file < 0 || fstat(file, &info) != 0) return nullptr;
  bytes = info.st_size;
  void* map = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  return map == MAP_FAILED ? nullptr : static_cast<uint8_t*>(map);
}

// GB/s of the best pass: from when the first thread begins until the last one is done.
double Measure(const uint8_t* memory, int64_t bytes_each, long readers, int streams) {
  typedef std::chrono::steady_clock Clock;
  struct Reader {
    uint64_t sum = 0;
    Clock::time_point begin[kPasses], end[kPasses];
  };
  std::barrier meet(readers);
  std::vector<Reader> all(static_cast<size_t>(readers));
  const auto read = [&](long i) {
    Reader& reader = all[static_cast<size_t>(i)];
    for (int pass = 0; pass < kPasses; ++pass) {
      meet.arrive_and_wait();
      reader.begin[pass] = Clock::now();
      reader.sum += Read(memory + i * bytes_each, bytes_each, streams);
      reader.end[pass] = Clock::now();
    }
  };
  std::vector<std::thread> threads;
  for (long i = 1; i < readers; ++i) threads.emplace_back(read, i);
  read(0);
  for (std::thread& thread : threads) thread.join();
  double best = 0;
  uint64_t sum = 0;  // said, so that nothing that was read is for nothing
  for (int pass = 0; pass < kPasses; ++pass) {
    Clock::time_point begin = all[0].begin[pass], end = all[0].end[pass];
    for (const Reader& reader : all) {
      begin = std::min(begin, reader.begin[pass]);
      end = std::max(end, reader.end[pass]);
      sum ^= reader.sum;
    }
    const std::chrono::duration<double> took = end - begin;
    best = std::max(best, 1e-9 * static_cast<double>(bytes_each * readers) / took.count());
  }
  std::printf("%2d streams a thread: %6.1f GB/s (%08x)\n", streams, best, static_cast<unsigned>(sum));
  return best;
}

constexpr char kUsage[] = "usage: qrt_read_bench [THREADS [MEBIBYTES | FILE, at least 2 MiB a thread]]\n";

int Misused() {
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const long threads = argc > 1 ? std::atol(argv[1]) : static_cast<long>(std::thread::hardware_concurrency());
  const std::string what = argc > 2 ? argv[2] : "1024";
  if (argc > 3 || threads < 1) return Misused();
  const bool number = what.find_first_not_of("0123456789") == std::string::npos;
  int64_t bytes = number ? std::atoll(what.c_str()) << 20 : 0;
  const uint8_t* memory = number ? Memory(bytes) : File(what.c_str(), bytes);
  if (memory == nullptr) {
    std::fprintf(stderr, "qrt_read_bench: cannot map %s%s\n", what.c_str(), number ? " MiB of memory" : "");
    return 1;
  }
  const int64_t each = bytes / threads / kHugePage * kHugePage;
  if (each == 0) return Misused();
  double best = 0;
  for (const int streams : kStreams) best = std::max(best, Measure(memory, each, threads, streams));
  std::printf("best: %.1f GB/s\n", best);
}
