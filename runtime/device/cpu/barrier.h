// The runtime's half of qrt_barrier (runtime/abi/program.h). Compiled code spins and counts by itself and
// calls `wait` and `wake` only when spinning was too short.
#ifndef RUNTIME_DEVICE_CPU_BARRIER_H_
#define RUNTIME_DEVICE_CPU_BARRIER_H_

#include <cstdint>

#include "runtime/abi/program.h"

namespace qrt {

// Zeroes *barrier and installs futex-based callbacks. No thread may be inside.
void InitBarrier(qrt_barrier* barrier);

// The whole barrier in C++, the protocol that compiled code follows: returns when `threads` threads have
// called it. `spins` bounds the spinning before a thread sleeps. For devices whose steps are C++ functions
// (tests).
void ArriveAndWait(qrt_barrier* barrier, uint32_t threads, uint32_t spins);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_BARRIER_H_
