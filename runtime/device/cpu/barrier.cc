#include "runtime/device/cpu/barrier.h"

#include <cstring>

#include "runtime/device/cpu/futex.h"

namespace qrt {
namespace {

void Wait(void*, const uint32_t* phase, uint32_t seen) {
  while (__atomic_load_n(phase, __ATOMIC_ACQUIRE) == seen) FutexWait(phase, seen);
}

void Wake(void*, const uint32_t* phase) {
  FutexWakeAll(phase);
}

}  // namespace

void InitBarrier(qrt_barrier* barrier) {
  std::memset(barrier, 0, sizeof *barrier);
  barrier->wait = Wait;
  barrier->wake = Wake;
}

void ArriveAndWait(qrt_barrier* barrier, uint32_t threads, uint32_t spins) {
  if (threads == 1) return;
  const uint32_t seen = __atomic_load_n(&barrier->phase, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
    for (uint32_t& ticket : barrier->tickets) __atomic_store_n(&ticket, 0, __ATOMIC_RELAXED);
    // Sequentially consistent, as is the sleeper's add below: either this thread sees the sleeper, or the
    // sleeper sees the new phase.
    __atomic_store_n(&barrier->phase, seen + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&barrier->sleepers, __ATOMIC_SEQ_CST) != 0)
      barrier->wake(barrier->ctx, &barrier->phase);
    return;
  }
  for (uint32_t i = 0; i < spins; ++i) {
    if (__atomic_load_n(&barrier->phase, __ATOMIC_ACQUIRE) != seen) return;
    CpuRelax();
  }
  __atomic_add_fetch(&barrier->sleepers, 1, __ATOMIC_SEQ_CST);
  barrier->wait(barrier->ctx, &barrier->phase, seen);
  __atomic_sub_fetch(&barrier->sleepers, 1, __ATOMIC_RELAXED);
}

}  // namespace qrt
