#include "runtime/device/cpu/read_ahead.h"

namespace qrt {

// `qcc_kernels_bench --format "q6_k int8" --read-ahead BYTES`: Q6_K is what the processors' own prefetchers
// follow worst. One row, two threads, GB/s over those of a plain read: a Zen 4: 1.03 at 384 bytes, 0.39
// without; less from 512 on. A Zen 3: 0.70 at 384, 0.83 at 1024, 0.88 at 2048, 0.90 at 4096, 0.85 at 8192;
// Q4_K 0.92, 1.01, 0.96, 0.85 and 0.91. AMD family 26 (a Zen 5): 0.58 to 0.68 at 384, 0.61 at 1024, 0.74 to
// 0.76 at 2048, 0.84 and 0.85 at 4096, 0.91 at 6144, 0.88 and 0.90 at 8192, 0.87 and 0.89 at 12288; in the
// pages of an artifact 0.95 at 4096, 1.01 at 8192 and 0.96 at 12288 (Q4_K 0.96, 0.99, 0.94), while memory
// reads 80 GB/s or more; at 55 GB/s the same from 4096 to 24576. Of others nothing is known: a page ahead
// covers the latency of any memory at the rate of one core.
int64_t ReadAhead(const CpuModel& cpu) {
  constexpr int64_t kOthers = 4096;
  if (cpu.vendor != "AuthenticAMD") return kOthers;
  constexpr uint32_t kZen3And4 = 25, kZen5 = 26;
  if (cpu.family == kZen5) return 8192;
  if (cpu.family != kZen3And4) return kOthers;
  const bool zen4 = (cpu.model >= 0x10 && cpu.model < 0x20) || cpu.model >= 0x60;
  return zen4 ? 384 : 2048;
}

}  // namespace qrt
