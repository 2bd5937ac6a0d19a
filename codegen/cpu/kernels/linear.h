// What the int8 and f32 linear kernels share: the walk over groups and rows, and the epilogues. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_H_

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/tiles.h"

namespace qk {

// Activation rows per tile: as many accumulators as the level's register file holds.
inline constexpr int kTileRows = Level::kTileRows;

template <int M>
struct Acc {
  Float v[M][kParts];
};

template <int M>
QK_INLINE void clear(Acc<M>& acc) {
  unroll<M>([&](int m) QK_LAMBDA { unroll<kParts>([&](int p) QK_LAMBDA { acc.v[m][p] = Float(0.f); }); });
}

// What is left to do with the sums of a tile.
struct Epilogue {
  int64_t kind;
  const float *scale, *up_scale;  // or null

  QK_INLINE Float scaled(Float v, const float* scale) { return scale ? v * Float(*scale) : v; }

  template <int M>
  QK_INLINE void rows(const Epilogue& e, const Acc<M>& a, const Acc<M>& up, float* y, int64_t ld) {
    unroll<M>([&](int m) QK_LAMBDA {
      unroll<kParts>([&](int p) QK_LAMBDA {
        float* dst = y + m * ld + p * kLanes;
        Float v = scaled(a.v[m][p], e.scale);
        if (e.kind == QK_Epilogue_Add) v = load<Float>(dst) + v;
        if (e.kind == QK_Epilogue_Swiglu) v = silu<kLanes>(v) * scaled(up.v[m][p], e.up_scale);
        store<Float>(dst, v);
      });
    });
  }
};

// T::tile<M>(group, rows) multiplies one weight group with M rows: rows(m) are the columns of row m, which
// T::columns finds in a row of activations.
template <class T, int M>
QK_INLINE void linear_tile(const T& t, const uint8_t* w, const uint8_t* x, float* y, int64_t ld,
                           const Epilogue& epilogue) {
  Acc<M> a[2];
  const int64_t groups = epilogue.kind == QK_Epilogue_Swiglu ? 2 : 1;
  const auto rows = [&](int m) QK_LAMBDA { return t.columns(x + m * t.row_bytes, 0); };
  for (int64_t g = 0; g < groups; ++g) a[g] = t.template tile<M>(w + g * t.group_bytes, rows);
  Epilogue::rows<M>(epilogue, a[0], a[1], y, ld);
}

// One row with items [begin, end): one of the first half with one of the second at a time, which are two
// streams.
template <class T>
QK_INLINE void linear_streams(const T& t, const uint8_t* x, const linear_args& args,
                              const Epilogue& epilogue) {
  const int64_t half = (args.end - args.begin) / 2, groups = epilogue.kind == QK_Epilogue_Swiglu ? 2 : 1;
  const int64_t item = groups * t.group_bytes;
  const auto row = [&](int) QK_LAMBDA { return t.columns(x, 0); };
  for (int64_t g = args.begin; g < args.begin + half; ++g) {
    Acc<1> a[2][2];  // [group][item]
    for (int64_t i = 0; i < groups; ++i)
      t.template tiles<1>(args.w + g * item + i * t.group_bytes, half * item, row, a[i]);
    unroll<2>([&](int i) QK_LAMBDA {
      Epilogue::rows<1>(epilogue, a[0][i], a[1][i], args.y + (g + i * half) * 16, 0);
    });
  }
  for (int64_t g = args.begin + 2 * half; g < args.end; ++g)
    linear_tile<T, 1>(t, args.w + g * item, x, args.y + g * 16, 0, epilogue);
}

// Rows are walked in blocks that stay in the second-level cache while all groups pass; a group stays in the
// first.
QK_INLINE int64_t rows_in_cache(int64_t row_bytes) {
  const int64_t fit = (512 * 1024 / row_bytes) & ~int64_t{7};
  return fit < 8 ? 8 : fit;
}

template <class T>
QK_INLINE void linear_groups(const T& t, const uint8_t* x, const linear_args& args) {
  const uint8_t* w = args.w;
  float* y = args.y;
  const int64_t ld = (args.n + 15) & ~int64_t{15}, rows = args.n_rows;
  const Epilogue epilogue = {args.epilogue, args.scale, args.up_scale};
  if constexpr (T::kStreams == 2) {
    if (rows == 1) {
      linear_streams(t, x, args, epilogue);
      return;
    }
  }
  const int64_t block = rows_in_cache(t.row_bytes);
  const int64_t item = epilogue.kind == QK_Epilogue_Swiglu ? 2 * t.group_bytes : t.group_bytes;
  for (int64_t r0 = 0; r0 < rows; r0 += block) {
    const int64_t r1 = r0 + block < rows ? r0 + block : rows;
    for (int64_t g = args.begin; g < args.end; ++g) {
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
