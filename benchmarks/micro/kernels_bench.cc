// Micro-benchmark of the CPU kernels as the product runs them: on all threads, each with its share of every
// matrix, meeting between matrices; weights in pages of a file; wall time. Per ISA level that this machine
// has.
//   qcc_kernels_bench [--threads N] [--mebibytes N] [--level NAME] [--format PART] [--rounds N] [--read-ahead
//   BYTES]
// GEMV: GB/s of packed weights streamed once per pass, and the ratio to a plain read of the same bytes with
// the same shares, in turns with it; and where weights come from the second-level cache. GEMM: GOP/s (2 per
// multiply-add) with 512 activation rows. Kernels of a sequence: of one row its state and cache come from
// memory. Medians.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/micro/shapes.h"
#include "benchmarks/micro/specialised.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/scratch.h"
#include "dialects/layouts/layouts.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/memory.h"
#include "runtime/device/cpu/read_ahead.h"

namespace {

struct Flags {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int64_t mebibytes = 512;
  std::string level, format;  // empty: all
  int rounds = 7;
  int64_t read_ahead = qrt::ReadAhead(qrt::DetectCpuModel());
};

struct Level {
  const qcc::cpu::IsaInfo& isa;
  const BenchTable& table;
};

std::vector<Level> levels() {
  return {
#define QCC_ISA(id, ...) {qcc::cpu::isa_info(qcc::cpu::Isa::id), *id##_bench_table()},
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
  };
}

// Threads that do a piece of work together, spinning in between as those of an engine do.
class Crew {
 public:
  using Work = std::function<void(int thread)>;

  explicit Crew(int threads) : threads_(threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Serve(i); });
  }
  ~Crew() {
    work_ = nullptr;
    Begin();
    for (std::thread& worker : workers_) worker.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int threads() const { return threads_; }

  // Seconds of wall time from when all begin until all are done.
  double Seconds(const Work& work) {
    work_ = &work;
    const auto begin = std::chrono::steady_clock::now();
    Begin();
    work(0);
    while (running_.load(std::memory_order_acquire) != 0) __builtin_ia32_pause();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // Within work: no thread goes on before all have come.
  void Meet() {
    const uint32_t seen = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(seen + 1, std::memory_order_release);
      return;
    }
    while (phase_.load(std::memory_order_acquire) == seen) __builtin_ia32_pause();
  }

 private:
  void Begin() {
    running_.store(threads_ - 1);
    generation_.fetch_add(1);
  }
  void Serve(int thread) {
    for (uint32_t seen = 0;; ++seen) {
      while (generation_.load(std::memory_order_acquire) == seen) __builtin_ia32_pause();
      if (work_ == nullptr) return;
      (*work_)(thread);
      running_.fetch_sub(1);
    }
  }

  const int threads_;
  const Work* work_ = nullptr;
  std::atomic<uint32_t> generation_{0}, phase_{0};
  std::atomic<int> running_{0}, arrived_{0};
  std::vector<std::thread> workers_;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Thread `thread`'s first of `items`.
int64_t share(int64_t items, int thread, int threads) {
  return items * thread / threads;
}

// 64-byte aligned memory for each thread.
class Scratch {
 public:
  Scratch(int64_t bytes, int threads) : lines_((bytes + 63) / 64), memory_(lines_ * threads) {}
  uint8_t* of(int thread) { return memory_[static_cast<size_t>(lines_ * thread)].bytes; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  int64_t lines_;
  std::vector<Line> memory_;
};

// Activations, in an engine's pages: rows of them begin with a line.
class Floats {
 public:
  explicit Floats(int64_t count) : count_(count) {
    if (memory_.Allocate(nullptr, count * 4)) return;
    std::fprintf(stderr, "qcc_kernels_bench: out of memory\n");
    std::exit(1);
  }
  int64_t size() const { return count_; }
  float* data() { return reinterpret_cast<float*>(memory_.data()); }
  const float* data() const { return reinterpret_cast<const float*>(memory_.data()); }

 private:
  int64_t count_;
  qrt::Memory memory_;
};

struct Inputs {
  const uint8_t* weights;
  int64_t bytes;
  Floats x;  // read as f32 values or as int8 rows
};

std::atomic<uint64_t> sink;

void bench_linear(const Level& level, const BenchLinear& l, const Inputs& in, const Flags& flags,
                  Crew& crew) {
  const qcc::Format format = *qcc::format_from_name(l.format);
  const int64_t matrix = qcc::layouts::X16Bytes(format, kGemvRows, kGemvColumns), count = in.bytes / matrix;
  const int64_t groups = kGemvRows / 16, group = matrix / groups;
  Floats y(kBatch * std::max(kGemvRows, kGemmRows));
  const int n = crew.threads();
  Scratch scratch(qcc::cpu::LinearScratch::Bytes(qcc::description(format).plain, kGemmColumns, 1), n);
  const auto read = [&](int t) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = share(groups, t, n) * group, end = share(groups, t + 1, n) * group;
      sum += level.table.read(in.weights + i * matrix + begin, end - begin);
      crew.Meet();
    }
    sink += sum;
  };
  const auto gemv = [&](int t) {
    for (int64_t i = 0; i < count; ++i) {
      l.gemv(in.x.data(), in.weights + i * matrix, y.data(), scratch.of(t), flags.read_ahead,
             share(groups, t, n), share(groups, t + 1, n));
      crew.Meet();
    }
  };
  // As many groups as fit half of a small second-level cache, again and again.
  const int64_t held = std::max<int64_t>(1, (512 << 10) / group), passes = 40;
  const auto cached = [&](int t) {
    for (int64_t i = 0; i < passes; ++i) {
      l.gemv(in.x.data(), in.weights + t * (in.bytes / n / group * group), y.data() + t * held * 16,
             scratch.of(t), flags.read_ahead, 0, held);
    }
  };
  const auto gemm = [&](int t) {
    l.gemm(in.x.data(), in.weights, y.data(), scratch.of(t), flags.read_ahead, share(kGemmRows / 16, t, n),
           share(kGemmRows / 16, t + 1, n));
  };
  std::vector<double> read_s, gemv_s, ratio, gemm_s, cached_s;
  for (int r = 0; r < flags.rounds; ++r) {
    read_s.push_back(crew.Seconds(read));
    gemv_s.push_back(crew.Seconds(gemv));
    ratio.push_back(read_s.back() / gemv_s.back());
    cached_s.push_back(crew.Seconds(cached));
    gemm_s.push_back(crew.Seconds(gemm));
  }
  const double gb = 1e-9 * static_cast<double>(count * matrix), all = static_cast<double>(n);
  std::printf(
      "%-7s %-14s gemv %6.1f GB/s, plain read %6.1f GB/s, ratio %.2f, %6.1f Gweights/s, from L2 %6.1f GB/s; "
      "gemm %6.0f GOP/s\n",
      level.isa.name.data(), l.name, gb / median(gemv_s), gb / median(read_s), median(ratio),
      1e-9 * static_cast<double>(count * kGemvRows * kGemvColumns) / median(gemv_s),
      1e-9 * all * static_cast<double>(passes * held * group) / median(cached_s),
      2e-9 * kGemmColumns * kGemmRows * kBatch / median(gemm_s));
  std::fflush(stdout);
}

// What a sequence keeps of some layers, in an engine's pages.
struct Kept {
  static constexpr int64_t kStateBytes = 4 * (kConvFloats + kDeltaFloats);
  static constexpr int64_t kKvBytes = 2 * kKvHeads * kContext * kHeadDim * 2;

  int64_t states, caches;  // layers
  qrt::Memory state, kv;

  // As many layers as fill `bytes`, of each one at least.
  explicit Kept(int64_t bytes)
      : states(std::max<int64_t>(1, bytes / kStateBytes)), caches(std::max<int64_t>(1, bytes / kKvBytes)) {
    if (!state.Allocate(nullptr, states * kStateBytes) || !kv.Allocate(nullptr, caches * kKvBytes)) {
      std::fprintf(stderr, "qcc_kernels_bench: out of memory\n");
      std::exit(1);
    }
    std::memset(kv.data(), 0x11, kv.size());
  }
};

// Of one thread: what each thread has for itself. A single row finds nothing of it in a cache, as in a step
// that reads all weights in between: it goes over layers of `bytes`. Many rows go over one layer.
void bench_sequences(const Level& level, const Floats& x, int64_t rows, int64_t bytes, Crew& crew) {
  if (rows > 1) bytes = 0;
  Kept kept(bytes);
  Floats y(kBatch * kGemvRows);
  Scratch memory(std::max(qcc::cpu::DeltaScratch(kDim, kDim).bytes,
                          qcc::cpu::Int16AttentionScratch(kHeadDim, kQueryHeads / kKvHeads).bytes),
                 1);
  uint8_t* scratch = memory.of(0);
  const auto alone = [&](const std::function<void()>& work) {
    return crew.Seconds([&](int t) {
      if (t == 0) work();
    });
  };
  qrt_seq seq{nullptr, 0, nullptr, kContext, kContext - rows, 0, rows};
  const auto delta = [&](int64_t layer) {
    seq.state = kept.state.data() + layer * Kept::kStateBytes;
    level.table.delta(x.data(), x.data(), x.data(), x.data(), &seq, scratch, y.data(), rows);
  };
  // Of single tokens one at each place of a block.
  const int64_t steps = rows < qcc::layouts::kStateBlock ? qcc::layouts::kStateBlock : 1;
  std::vector<double> d, a, n;
  for (int r = 0; r < 5; ++r) {
    std::memset(kept.state.data(), 0, kept.state.size());
    d.push_back(alone([&] {
                  for (seq.past = 0; seq.past < steps * rows; seq.past += rows)
                    for (int64_t layer = 0; layer < kept.states; ++layer) delta(layer);
                }) /
                static_cast<double>(steps * kept.states));
    seq.past = kContext - rows;
    a.push_back(alone([&] {
                  for (int64_t layer = 0; layer < kept.caches; ++layer) {
                    seq.kv = kept.kv.data() + layer * Kept::kKvBytes;
                    level.table.attention(x.data(), &seq, scratch, y.data(), rows);
                  }
                }) /
                static_cast<double>(kept.caches));
    n.push_back(
        alone([&] { level.table.norm(x.data(), x.data(), reinterpret_cast<uint8_t*>(y.data()), rows); }));
  }
  std::printf(
      "%-7s %3ld rows, one thread: gated_delta %.1f us/row, attention over %ld %.1f us/row, norm + quantise "
      "%.2f us/row\n",
      level.isa.name.data(), static_cast<long>(rows), 1e6 * median(d) / rows, static_cast<long>(kContext),
      1e6 * median(a) / rows, 1e6 * median(n) / rows);
}

// A file without a name, of bytes that are valid tiles: any are, and these make every scale and every plain
// weight a normal number of moderate size. Null: the system refuses it.
const uint8_t* MapWeights(int64_t bytes) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return nullptr;
  std::vector<uint8_t> piece(1 << 20);
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<uint8_t>(0x20 | ((i * 37 >> 3) & 0x1f));
  bool written = true;
  for (int64_t at = 0; written && at < bytes; at += static_cast<int64_t>(piece.size())) {
    written = std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
  }
  written = written && std::fflush(file) == 0;
  void* map = written ? mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, fileno(file), 0)
                      : MAP_FAILED;
  std::fclose(file);
  return map == MAP_FAILED ? nullptr : static_cast<const uint8_t*>(map);
}

bool Parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const int64_t number = std::atoll(value.c_str());
    if (name == "--threads" && number > 0) {
      flags.threads = static_cast<int>(number);
    } else if (name == "--mebibytes" && number > 0) {
      flags.mebibytes = std::max<int64_t>(number, 64);
    } else if (name == "--rounds" && number > 0) {
      flags.rounds = static_cast<int>(number);
    } else if (name == "--read-ahead" && number >= 0) {
      flags.read_ahead = number;
    } else if (name == "--level" && !value.empty()) {
      flags.level = value;
    } else if (name == "--format" && !value.empty()) {
      flags.format = value;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!Parse(argc, argv, flags)) {
    std::fprintf(stderr,
                 "usage: qcc_kernels_bench [--threads N] [--mebibytes N] [--level NAME] [--format PART] "
                 "[--rounds N] [--read-ahead BYTES]\n");
    return 2;
  }
  const int64_t bytes = flags.mebibytes << 20;
  Inputs in = {MapWeights(bytes), bytes, Floats(kBatch * std::max(kGemvColumns, kChannels))};
  if (in.weights == nullptr) {
    std::fprintf(stderr, "qcc_kernels_bench: no file of %ld MiB for weights\n",
                 static_cast<long>(flags.mebibytes));
    return 1;
  }
  for (int64_t i = 0; i < in.x.size(); ++i)
    in.x.data()[i] = static_cast<float>(static_cast<int>(i * 7919 % 255) - 127) / 64;
  Crew crew(flags.threads);
  std::printf("%d threads, %ld MiB of weights, medians of %d rounds, weights asked for %ld bytes ahead\n",
              flags.threads, static_cast<long>(flags.mebibytes), flags.rounds,
              static_cast<long>(flags.read_ahead));
  for (const Level& level : levels()) {
    if (!flags.level.empty() && flags.level != level.isa.name) continue;
    const std::string_view missing = qcc::cpu::missing_cpu_flag(level.isa.id);
    if (!missing.empty()) {
      std::printf("%s: skipped, this machine lacks %s\n", level.isa.name.data(), missing.data());
      continue;
    }
    const bool tiles = level.isa.cpu_flags.find("xtiledata") != std::string_view::npos;
    if (tiles && !qrt::RequestTileRegisters()) {
      std::printf("%s: skipped, the kernel gives this process no tile registers\n", level.isa.name.data());
      continue;
    }
    for (uint64_t i = 0; i < level.table.linear_count; ++i) {
      const BenchLinear& l = level.table.linears[i];
      if (std::string(l.name).find(flags.format) == std::string::npos) continue;
      bench_linear(level, l, in, flags, crew);
    }
    if (!flags.format.empty()) continue;
    for (int64_t rows : {int64_t{1}, kBatch}) bench_sequences(level, in.x, rows, in.bytes, crew);
  }
  return 0;
}
