// How floats are computed, whatever the host's threads do.
#ifndef QRT_BASE_FLOAT_ENVIRONMENT_H_
#define QRT_BASE_FLOAT_ENVIRONMENT_H_

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace qrt {

// While it lives, the calling thread rounds to nearest, keeps subnormal numbers and traps nothing. A host may
// do otherwise on some of its threads (audio: subnormals are zero; interval arithmetic: another rounding;
// Delphi: faults trap): bits would follow which thread computes what, and kernels compute on leftovers whose
// results nobody reads. Behind it the thread has what it had. Some tens of cycles.
class FloatEnvironment {
 public:
#ifdef __x86_64__
  FloatEnvironment() : host_(_mm_getcsr()) {
    _mm_setcsr(kOwn);
  }
  ~FloatEnvironment() {
    _mm_setcsr(host_);
  }
#else
  FloatEnvironment() = default;
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#ifdef __x86_64__
  static constexpr unsigned kOwn = 0x1f80;  // what a process begins with
  unsigned host_;
#endif
};

}  // namespace qrt

#endif  // QRT_BASE_FLOAT_ENVIRONMENT_H_
