#include "runtime/device/cpu/read_ahead.h"

namespace qrt {

// Measured with qcc_kernels_bench and its --read-ahead, Q6_K, whose weights the processor's own prefetchers
// follow worst, one row, two threads:
// AMD family 25 (a Zen 4): of a plain read's GB/s 1.03 at 384 bytes, falling from 512 on.
// AMD family 26 (a Zen 5): 0.60 at 384, 0.85 at 640, 0.94 to 0.97 from 2560 to 6144, 0.79 at 8192.
// Of others nothing is known: a page ahead covers the latency of any memory at the rate of one core.
int64_t ReadAhead(const CpuModel& cpu) {
  constexpr uint32_t kZen3And4 = 25;
  return cpu.vendor == "AuthenticAMD" && cpu.family == kZen3And4 ? 384 : 4096;
}

}  // namespace qrt
