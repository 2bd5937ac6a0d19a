// Micro-benchmark of the CPU kernels on one thread, per ISA level that this machine has.
//   qcc_kernels_bench [megabytes of weights, default 512 [ISA level [part of a format's line]]]
// GEMV: GB/s of packed weights streamed once per pass, and the ratio to a plain read of the same bytes,
// measured in turns with it. GEMM: GOP/s (2 per multiply-add) with 512 activation rows. Medians.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/micro/shapes.h"
#include "benchmarks/micro/specialised.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/scratch.h"
#include "dialects/layouts/layouts.h"

namespace {

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

// CPU time of this thread: other processes of a shared machine disturb caches and memory, but not the clock.
double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& f) {
  const double t0 = cpu_now();
  f();
  return cpu_now() - t0;
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

volatile uint64_t sink;

void bench_linear(const Level& level, const BenchLinear& l, const uint8_t* weights, int64_t bytes,
                  const std::vector<float>& x, std::vector<float>& y) {
  const qcc::Format format = *qcc::format_from_name(l.format);
  const int64_t matrix = qcc::layouts::X16Bytes(format, kGemvRows, kGemvColumns), count = bytes / matrix;
  const auto gemv = [&] {
    for (int64_t i = 0; i < count; ++i) l.gemv(x.data(), weights + i * matrix, y.data(), 0, kGemvRows / 16);
  };
  // As many groups as fit half of a small second-level cache, again and again.
  const int64_t group = matrix / (kGemvRows / 16), held = std::max<int64_t>(1, (512 << 10) / group),
                passes = 40;
  const auto cached = [&] {
    for (int64_t i = 0; i < passes; ++i) l.gemv(x.data(), weights, y.data(), 0, held);
  };
  std::vector<double> read_s, gemv_s, gemm_s, cached_s;
  for (int r = 0; r < 5; ++r) {
    read_s.push_back(seconds([&] { sink = sink + level.table.read(weights, count * matrix); }));
    gemv_s.push_back(seconds(gemv));
    cached_s.push_back(seconds(cached));
  }
  for (int r = 0; r < 3; ++r)
    gemm_s.push_back(seconds([&] { l.gemm(x.data(), weights, y.data(), 0, kGemmRows / 16); }));
  const double gb = 1e-9 * static_cast<double>(count * matrix), rate = gb / median(gemv_s),
               plain = gb / median(read_s);
  std::printf(
      "%-7s %-14s gemv %6.1f GB/s, plain read %6.1f GB/s, ratio %.2f, %6.1f Gweights/s, from L2 %6.1f GB/s; "
      "gemm %6.0f GOP/s\n",
      level.isa.name.data(), l.name, rate, plain, rate / plain,
      1e-9 * static_cast<double>(count * kGemvRows * kGemvColumns) / median(gemv_s),
      1e-9 * static_cast<double>(passes * held * group) / median(cached_s),
      2e-9 * kGemmColumns * kGemmRows * kBatch / median(gemm_s));
  std::fflush(stdout);
}

void bench_sequences(const Level& level, const std::vector<float>& x, std::vector<float>& y, int64_t rows) {
  std::vector<float> state(kConvFloats + kDeltaFloats, 0.f);
  std::vector<uint8_t> kv(2 * kKvHeads * kContext * kHeadDim * 2, 0x11);
  qrt_seq seq{reinterpret_cast<uint8_t*>(state.data()), 0, kv.data(), kContext, kContext - rows, 0, rows};
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::vector<Line> lines(std::max(qcc::cpu::DeltaScratch(kDim, kDim).bytes,
                                   qcc::cpu::AttentionScratch(kHeadDim, kQueryHeads / kKvHeads).bytes) /
                          64);
  uint8_t* scratch = lines[0].bytes;
  std::vector<double> d, a, n;
  for (int r = 0; r < 5; ++r) {
    std::fill(state.begin(), state.end(), 0.f);
    // Of single tokens one at each place of a block.
    const int64_t steps = rows < qcc::layouts::kStateBlock ? qcc::layouts::kStateBlock : 1;
    qrt_seq delta = seq;
    d.push_back(seconds([&] {
                  for (delta.past = 0; delta.past < steps * rows; delta.past += rows)
                    level.table.delta(x.data(), x.data(), x.data(), x.data(), &delta, scratch, y.data(),
                                      rows);
                }) /
                static_cast<double>(steps));
    a.push_back(seconds([&] { level.table.attention(x.data(), &seq, scratch, y.data(), rows); }));
    n.push_back(
        seconds([&] { level.table.norm(x.data(), x.data(), reinterpret_cast<uint8_t*>(y.data()), rows); }));
  }
  std::printf(
      "%-7s %3ld rows: gated_delta %.1f us/row, attention over %ld %.1f us/row, norm + quantise %.2f "
      "us/row\n",
      level.isa.name.data(), static_cast<long>(rows), 1e6 * median(d) / rows, static_cast<long>(kContext),
      1e6 * median(a) / rows, 1e6 * median(n) / rows);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 512;
  const std::string only_isa = argc > 2 ? argv[2] : "", only_format = argc > 3 ? argv[3] : "";
  const int64_t bytes = std::max<int64_t>(megabytes, 64) << 20;
  uint8_t* weights =
      static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (weights == MAP_FAILED) {
    std::fprintf(stderr, "no memory for %ld MB of weights\n", static_cast<long>(megabytes));
    return 1;
  }
  madvise(weights, bytes, MADV_HUGEPAGE);
  // Any bytes are valid tiles; these make every scale and every plain weight a normal number of moderate
  // size.
  for (int64_t i = 0; i < bytes; ++i) weights[i] = static_cast<uint8_t>(0x20 | ((i * 37 >> 3) & 0x1f));
  std::vector<float> x(kBatch * std::max(kGemvColumns, kChannels), 0.25f), y(kBatch * kGemvRows);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 7919 % 255) - 127) / 64;

  for (const Level& level : levels()) {
    if (!only_isa.empty() && only_isa != level.isa.name) continue;
    const std::string_view missing = qcc::cpu::missing_cpu_flag(level.isa.id);
    if (!missing.empty()) {
      std::printf("%s: skipped, this machine lacks %s\n", level.isa.name.data(), missing.data());
      continue;
    }
    for (uint64_t i = 0; i < level.table.linear_count; ++i) {
      const BenchLinear& l = level.table.linears[i];
      if (std::string(l.name).find(only_format) == std::string::npos) continue;
      bench_linear(level, l, weights, bytes, x, y);
    }
    if (!only_format.empty()) continue;
    for (int64_t rows : {int64_t{1}, kBatch}) bench_sequences(level, x, y, rows);
  }
  return 0;
}
