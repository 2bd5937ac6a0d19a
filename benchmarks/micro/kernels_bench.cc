// Micro-benchmark of the CPU kernels on one thread, per ISA level that this machine has.
//   qcc_kernels_bench [megabytes of weights, default 512 [ISA level [part of a format's line]]]
// GEMV: GB/s of packed weights streamed once per pass, and the ratio to a plain read of the same bytes,
// measured in turns with it. GEMM: GOP/s (2 per multiply-add) with 512 activation rows. Medians.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/micro/shapes.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/kernels.h"
#include "dialects/formats/formats.h"
#include "dialects/plan/pack_layout.h"

#define FOR_EACH_ISA(M) M(base) M(v3) M(v4vnni)
typedef uint64_t ReadFn(const uint8_t*, int64_t);
typedef void Int8Fn(const uint8_t*, const uint8_t*, float*, int64_t, int64_t);
typedef void F32Fn(const float*, const uint8_t*, float*, int64_t, int64_t);
typedef void DeltaFn(const float*, const float*, const float*, const float*, const qrt_seq*, float*, int64_t);
typedef void AttentionFn(const float*, const qrt_seq*, float*, int64_t);
typedef void NormFn(const float*, const float*, uint8_t*, int64_t);

extern "C" {
#define DECLARE(isa)                 \
  ReadFn isa##_bench_read;           \
  DeltaFn isa##_bench_gated_delta;   \
  AttentionFn isa##_bench_attention; \
  NormFn isa##_bench_norm;
FOR_EACH_ISA(DECLARE)
#define BENCH_INT8(suffix)                                                                                \
  Int8Fn base_bench_gemv_##suffix##_int8, base_bench_gemm_##suffix##_int8, v3_bench_gemv_##suffix##_int8, \
      v3_bench_gemm_##suffix##_int8, v4vnni_bench_gemv_##suffix##_int8, v4vnni_bench_gemm_##suffix##_int8;
#define BENCH_F32(suffix)                                                                             \
  F32Fn base_bench_gemv_##suffix##_f32, base_bench_gemm_##suffix##_f32, v3_bench_gemv_##suffix##_f32, \
      v3_bench_gemm_##suffix##_f32, v4vnni_bench_gemv_##suffix##_f32, v4vnni_bench_gemm_##suffix##_f32;
#include "benchmarks/micro/specialised.def"
#undef BENCH_INT8
#undef BENCH_F32
}

namespace {

struct Linear {
  std::string name;
  qcc::Format format;
  Int8Fn *gemv_int8, *gemm_int8;
  F32Fn *gemv_f32, *gemm_f32;
};
struct Level {
  qcc::cpu::Isa isa;
  ReadFn* read;
  DeltaFn* delta;
  AttentionFn* attention;
  NormFn* norm;
  std::vector<Linear> linears;
};

std::vector<Level> levels() {
  std::vector<Level> v;
#define BENCH_INT8(suffix)                                                                   \
  l.linears.push_back({#suffix " int8", *qcc::format_from_name(#suffix), INT8(gemv, suffix), \
                       INT8(gemm, suffix), nullptr, nullptr});
#define BENCH_F32(suffix)                                                                                    \
  l.linears.push_back({#suffix " f32", *qcc::format_from_name(#suffix), nullptr, nullptr, F32(gemv, suffix), \
                       F32(gemm, suffix)});
#define INT8(kind, suffix) base_bench_##kind##_##suffix##_int8
#define F32(kind, suffix) base_bench_##kind##_##suffix##_f32
  {
    Level l{qcc::cpu::Isa::base,  base_bench_read, base_bench_gated_delta,
            base_bench_attention, base_bench_norm, {}};
#include "benchmarks/micro/specialised.def"
    v.push_back(l);
  }
#undef INT8
#undef F32
#define INT8(kind, suffix) v3_bench_##kind##_##suffix##_int8
#define F32(kind, suffix) v3_bench_##kind##_##suffix##_f32
  {
    Level l{qcc::cpu::Isa::v3, v3_bench_read, v3_bench_gated_delta, v3_bench_attention, v3_bench_norm, {}};
#include "benchmarks/micro/specialised.def"
    v.push_back(l);
  }
#undef INT8
#undef F32
#define INT8(kind, suffix) v4vnni_bench_##kind##_##suffix##_int8
#define F32(kind, suffix) v4vnni_bench_##kind##_##suffix##_f32
  {
    Level l{qcc::cpu::Isa::v4vnni,  v4vnni_bench_read, v4vnni_bench_gated_delta,
            v4vnni_bench_attention, v4vnni_bench_norm, {}};
#include "benchmarks/micro/specialised.def"
    v.push_back(l);
  }
  return v;
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
  volatile uint64_t sink = 0;

  for (const Level& level : levels()) {
    const qcc::cpu::IsaInfo& isa = qcc::cpu::isa_info(level.isa);
    if (!only_isa.empty() && only_isa != isa.name) continue;
    const std::string_view missing = qcc::cpu::missing_cpu_flag(level.isa);
    if (!missing.empty()) {
      std::printf("%s: skipped, this machine lacks %s\n", isa.name.data(), missing.data());
      continue;
    }
    for (const Linear& l : level.linears) {
      if (!only_format.empty() && l.name.find(only_format) == std::string::npos) continue;
      const int64_t matrix = qcc::plan::x16_bytes(l.format, kGemvRows, kGemvColumns), count = bytes / matrix;
      const auto gemv = [&] {
        for (int64_t i = 0; i < count; ++i) {
          const uint8_t* w = weights + i * matrix;
          if (l.gemv_int8)
            l.gemv_int8(reinterpret_cast<const uint8_t*>(x.data()), w, y.data(), 0, kGemvRows / 16);
          if (l.gemv_f32) l.gemv_f32(x.data(), w, y.data(), 0, kGemvRows / 16);
        }
      };
      // As many groups as fit half of a small second-level cache, again and again.
      const int64_t group = matrix / (kGemvRows / 16), held = std::max<int64_t>(1, (512 << 10) / group),
                    passes = 40;
      const auto cached = [&] {
        for (int64_t i = 0; i < passes; ++i) {
          if (l.gemv_int8)
            l.gemv_int8(reinterpret_cast<const uint8_t*>(x.data()), weights, y.data(), 0, held);
          if (l.gemv_f32) l.gemv_f32(x.data(), weights, y.data(), 0, held);
        }
      };
      std::vector<double> read_s, gemv_s, gemm_s, cached_s;
      for (int r = 0; r < 5; ++r) {
        read_s.push_back(seconds([&] { sink = sink + level.read(weights, count * matrix); }));
        gemv_s.push_back(seconds(gemv));
        cached_s.push_back(seconds(cached));
      }
      for (int r = 0; r < 3; ++r) {
        gemm_s.push_back(seconds([&] {
          if (l.gemm_int8)
            l.gemm_int8(reinterpret_cast<const uint8_t*>(x.data()), weights, y.data(), 0, kGemmRows / 16);
          if (l.gemm_f32) l.gemm_f32(x.data(), weights, y.data(), 0, kGemmRows / 16);
        }));
      }
      const double gb = 1e-9 * static_cast<double>(count * matrix), rate = gb / median(gemv_s),
                   plain = gb / median(read_s);
      std::printf(
          "%-7s %-10s gemv %6.1f GB/s, plain read %6.1f GB/s, ratio %.2f, from L2 %6.1f; gemm %6.0f GOP/s\n",
          isa.name.data(), l.name.c_str(), rate, plain, rate / plain,
          1e-9 * static_cast<double>(passes * held * group) / median(cached_s),
          2e-9 * kGemmColumns * kGemmRows * kBatch / median(gemm_s));
      std::fflush(stdout);
    }
    if (!only_format.empty()) continue;
    std::vector<float> state((kTaps - 1) * kChannels + kHeads * kDim * kDim, 0.f);
    std::vector<uint8_t> kv(2 * kKvHeads * kContext * kHeadDim * 2, 0x11);
    for (int64_t rows : {int64_t{1}, kBatch}) {
      qrt_seq seq{reinterpret_cast<uint8_t*>(state.data()), kv.data(), kContext, kContext - rows, 0, rows};
      std::vector<double> d, a, n;
      for (int r = 0; r < 5; ++r) {
        std::fill(state.begin(), state.end(), 0.f);
        d.push_back(
            seconds([&] { level.delta(x.data(), x.data(), x.data(), x.data(), &seq, y.data(), rows); }));
        a.push_back(seconds([&] { level.attention(x.data(), &seq, y.data(), rows); }));
        n.push_back(
            seconds([&] { level.norm(x.data(), x.data(), reinterpret_cast<uint8_t*>(y.data()), rows); }));
      }
      std::printf(
          "%-7s %3ld rows: gated_delta %.1f us/row, attention over %ld %.1f us/row, norm + quantise %.2f "
          "us/row\n",
          isa.name.data(), static_cast<long>(rows), 1e6 * median(d) / rows, static_cast<long>(kContext),
          1e6 * median(a) / rows, 1e6 * median(n) / rows);
    }
  }
  return 0;
}
