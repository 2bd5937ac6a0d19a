// The inner loop of all large products, once for machines with wider vectors.
#include "dialects/hir/eval/ReferenceMath.h"

// Equal bits on every machine: the lanes are the same, and AVX2 alone has no fused multiply-add that the
// compiler could contract to. Sanitizers cannot run before a clone is chosen.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define QCC_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define QCC_WIDE
#endif

namespace qcc::hir {
namespace {

template <class T>
__attribute__((always_inline)) inline T dotOf(const T* a, const T* b, int64_t n) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  T sum = 0;
  for (T lane : lanes) sum += lane;
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

QCC_WIDE float dot(const float* a, const float* b, int64_t n) {
  return dotOf(a, b, n);
}
QCC_WIDE double dot(const double* a, const double* b, int64_t n) {
  return dotOf(a, b, n);
}

}  // namespace qcc::hir
