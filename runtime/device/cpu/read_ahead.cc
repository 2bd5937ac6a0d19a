#include "runtime/device/cpu/read_ahead.h"

namespace qrt {

// `qcc_kernels_bench --format "q6_k int8" --read-ahead BYTES`: one row, two threads, GB/s over those of a
// plain read, of weights in one stream a thread whose scales lay apart from their codes, which prefetchers
// follow worst: a Zen 4: 1.03 at 384 bytes, 0.39 without; less from 512 on. A Zen 3: 0.70 at 384, 0.83 at
// 1024, 0.88 at 2048, 0.90 at 4096, 0.85 at 8192; Q4_K 0.92, 1.01, 0.96, 0.85 and 0.91. AMD family 26 (a Zen
// 5): 0.58 to 0.68 at 384, 0.74 to 0.76 at 2048, 0.84 and 0.85 at 4096, 0.88 and 0.90 at 8192; as they lie
// now, one stream, 0.93 at 4096, 1.01 and 1.11 at 8192; two streams (avx512.h), tokens of 0.8b over those
// with 8192 bytes ahead: Q4_K_M 1.07, Q8_0 1.04, Q6_K 1.03 at 4096; 1.06, 1.01, 0.97 at 3072. Of others
// nothing is known: a page ahead covers the latency of any memory at the rate of one core.
int64_t ReadAhead(const CpuModel& cpu) {
  constexpr int64_t kOthers = 4096;
  if (cpu.vendor != "AuthenticAMD") return kOthers;
  constexpr uint32_t kZen3And4 = 25;
  if (cpu.family != kZen3And4) return kOthers;
  const bool zen4 = (cpu.model >= 0x10 && cpu.model < 0x20) || cpu.model >= 0x60;
  return zen4 ? 384 : 2048;
}

}  // namespace qrt
