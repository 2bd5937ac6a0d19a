// What the int8 and f32 linear kernels share: the walk over groups and rows, and the epilogues. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_H_

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {

// Activation rows per tile: as many accumulators as the register file holds.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 8;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 4;
#else
inline constexpr int kTileRows = 2;
#endif

template <int M>
struct Acc {
  Float v[M][kParts];
};

template <int M>
QK_INLINE void epilogue_rows(Acc<M>& a, const Acc<M>& up, float* y, int64_t ld, int64_t epilogue) {
  QK_UNROLL
  for (int m = 0; m < M; ++m) {
    QK_UNROLL
    for (int p = 0; p < kParts; ++p) {
      float* dst = y + m * ld + p * kLanes;
      Float v = a.v[m][p];
      if (epilogue == QK_ADD) v = load<Float>(dst) + v;
      if (epilogue == QK_SWIGLU) v = silu<kLanes>(v) * up.v[m][p];
      store<Float>(dst, v);
    }
  }
}

// T::tile<M>(group, x, acc) multiplies one weight group with M rows at x.
template <class T, int M>
QK_INLINE void linear_tile(const T& t, const uint8_t* w, const uint8_t* x, float* y, int64_t ld,
                           int64_t epilogue) {
  Acc<M> a, up;
  t.template tile<M>(w, x, a);
  if (epilogue == QK_SWIGLU) t.template tile<M>(w + t.group_bytes, x, up);
  epilogue_rows<M>(a, up, y, ld, epilogue);
}

// Rows are walked in blocks that stay in the second-level cache while all groups pass; a group stays in the
// first.
template <class T>
QK_INLINE void linear_groups(const T& t, const uint8_t* x, const uint8_t* w, float* y, int64_t ld,
                             int64_t epilogue, int64_t rows, int64_t begin, int64_t end) {
  const int64_t fit = (512 * 1024 / t.row_bytes) & ~int64_t{7};
  const int64_t block = fit < 8 ? 8 : fit;
  const int64_t item = epilogue == QK_SWIGLU ? 2 * t.group_bytes : t.group_bytes;
  for (int64_t r0 = 0; r0 < rows; r0 += block) {
    const int64_t r1 = r0 + block < rows ? r0 + block : rows;
    for (int64_t g = begin; g < end; ++g) {
      const uint8_t* wg = w + g * item;
      const uint8_t* xr = x + r0 * t.row_bytes;
      float* yr = y + r0 * ld + g * 16;
      int64_t left = r1 - r0;
      for (; left >= kTileRows; left -= kTileRows) {
        linear_tile<T, kTileRows>(t, wg, xr, yr, ld, epilogue);
        xr += kTileRows * t.row_bytes;
        yr += kTileRows * ld;
      }
      if constexpr (kTileRows > 4) {
        if (left >= 4) {
          linear_tile<T, 4>(t, wg, xr, yr, ld, epilogue);
          xr += 4 * t.row_bytes;
          yr += 4 * ld;
          left -= 4;
        }
      }
      if constexpr (kTileRows > 2) {
        if (left >= 2) {
          linear_tile<T, 2>(t, wg, xr, yr, ld, epilogue);
          xr += 2 * t.row_bytes;
          yr += 2 * ld;
          left -= 2;
        }
      }
      if (left >= 1) linear_tile<T, 1>(t, wg, xr, yr, ld, epilogue);
    }
  }
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_H_
