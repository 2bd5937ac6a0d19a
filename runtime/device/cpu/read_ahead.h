// How far ahead weights are asked for: what is fast depends on the processor.
#ifndef RUNTIME_DEVICE_CPU_READ_AHEAD_H_
#define RUNTIME_DEVICE_CPU_READ_AHEAD_H_

#include <cstdint>

#include "runtime/base/cpu_features.h"

namespace qrt {

// qrt_step_args::read_ahead for a processor, in bytes.
int64_t ReadAhead(const CpuModel& cpu);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_READ_AHEAD_H_
