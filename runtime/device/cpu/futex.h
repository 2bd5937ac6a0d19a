// Sleeping on a 32-bit word, shared by the thread pool and the barrier.
#ifndef RUNTIME_DEVICE_CPU_FUTEX_H_
#define RUNTIME_DEVICE_CPU_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

namespace qrt {

// Sleeps while *word == seen; may return early (callers loop).
inline void FutexWait(const uint32_t* word, uint32_t seen) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

inline void FutexWakeAll(const uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// The same of those who sleep on a word for one of several reasons, of which each has a bit.
inline void FutexWaitFor(const uint32_t* word, uint32_t seen, uint32_t reason) {
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, nullptr, nullptr, reason);
}
inline void FutexWakeAllFor(const uint32_t* word, uint32_t reason) {
  syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, reason);
}

// Tells the core that this is a spin loop.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_FUTEX_H_
