// The inner loop of all large products, once for machines with wider vectors.
#include <cstring>

#include "dialects/hir/eval/ReferenceMath.h"

namespace qcc::hir {
namespace {

constexpr int kLanes = 16;

// out = a . x from `begin` on, a multiple of kLanes, behind what the lanes have.
template <class T>
void finish(const T* a, const T* x, int64_t begin, int64_t n, T (&lanes)[kLanes], T* out) {
  int64_t i = begin;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * x[i + lane];
  *out = 0;
  for (T lane : lanes) *out += lane;
  for (; i < n; ++i) *out += a[i] * x[i];
}

#if defined(__x86_64__) && defined(__GNUC__)
bool hasAvx2() {
  return __builtin_cpu_supports("avx2");
}

// The same lanes, of as many x at once as have their sums in half of the registers. AVX2 alone has no fused
// multiply-add that the compiler could contract to: equal bits on every machine. Gives how many x it did.
template <class T>
__attribute__((target("avx2"))) size_t dotsWithAvx2(const T* a, llvm::ArrayRef<const T*> x, int64_t n,
                                                    T* out) {
  typedef T Vector __attribute__((vector_size(32)));
  constexpr int kEach = 32 / sizeof(T), kVectors = kLanes / kEach, kRows = 8 / kVectors;
  const int64_t end = n / kLanes * kLanes;
  size_t done = 0;
  for (; done + kRows <= x.size(); done += kRows) {
    Vector sums[kRows][kVectors] = {};
    for (int64_t i = 0; i < end; i += kEach * kVectors) {
      for (int v = 0; v < kVectors; ++v) {
        Vector left, right;
        std::memcpy(&left, a + i + v * kEach, sizeof left);
        for (int row = 0; row < kRows; ++row) {
          std::memcpy(&right, x[done + row] + i + v * kEach, sizeof right);
          sums[row][v] += left * right;
        }
      }
    }
    for (int row = 0; row < kRows; ++row) {
      T lanes[kLanes];
      std::memcpy(lanes, sums[row], sizeof lanes);
      finish(a, x[done + row], end, n, lanes, out + done + row);
    }
  }
  return done;
}
#else
bool hasAvx2() {
  return false;
}
template <class T>
size_t dotsWithAvx2(const T*, llvm::ArrayRef<const T*>, int64_t, T*) {
  return 0;
}
#endif

template <class T>
void dotsOf(const T* a, llvm::ArrayRef<const T*> x, int64_t n, T* out) {
  for (size_t row = hasAvx2() ? dotsWithAvx2(a, x, n, out) : 0; row < x.size(); ++row) {
    T lanes[kLanes] = {};
    finish(a, x[row], 0, n, lanes, out + row);
  }
}

}  // namespace

void dots(const float* a, llvm::ArrayRef<const float*> x, int64_t n, float* out) {
  dotsOf(a, x, n, out);
}
void dots(const double* a, llvm::ArrayRef<const double*> x, int64_t n, double* out) {
  dotsOf(a, x, n, out);
}

}  // namespace qcc::hir
