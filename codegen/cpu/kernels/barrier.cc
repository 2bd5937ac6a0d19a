// The barrier inside a step function.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/vec.h"

// Why it is right: `phase` names the barrier that threads are at. A thread reads it before it arrives, so it
// cannot miss the change. The last arriver resets `arrived` and the tickets before it publishes the new phase
// (release), and nobody arrives at the next barrier, or takes a ticket, before seeing that phase (acquire);
// every arrival is a read-modify-write
// (acq_rel), so the last arriver has seen all the others' effects and passes them on. Sleeping: a waiter
// counts itself in `sleepers`, then wait() looks at `phase` again; the last arriver writes `phase`, then
// looks at `sleepers`. All four are sequentially consistent, so one of the two sees the other: no lost
// wake-up.
QK_EXPORT void qk_barrier(qrt_barrier* b, int64_t n_threads) {
  if (n_threads == 1) return;
  const uint32_t seen = __atomic_load_n(&b->phase, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == static_cast<uint32_t>(n_threads)) {
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    if (n_threads > int64_t{QRT_SHARING_THREADS}) {
      for (uint32_t& ticket : b->tickets) __atomic_store_n(&ticket, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&b->phase, seen + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST) != 0) b->wake(b->ctx, &b->phase);
    return;
  }
  // A few tens of microseconds: longer than the skew of well-split work, shorter than a time slice.
  for (int spin = 0; spin < 1000; ++spin) {
    if (__atomic_load_n(&b->phase, __ATOMIC_ACQUIRE) != seen) return;
    _mm_pause();
  }
  __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&b->phase, __ATOMIC_SEQ_CST) == seen) b->wait(b->ctx, &b->phase, seen);
  __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_RELAXED);
  // wait() may have synchronised through the kernel only: order the reads that follow.
  while (__atomic_load_n(&b->phase, __ATOMIC_ACQUIRE) == seen) _mm_pause();
}
