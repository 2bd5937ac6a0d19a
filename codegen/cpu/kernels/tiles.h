// The formats as the linear and embed kernels see them: how to get words of codes and scales out of a packed
// tile, and exact f32 values. Kernels only. P is the part of the group: rows [P * kLanes, (P + 1) * kLanes).
#ifndef QCC_CODEGEN_CPU_KERNELS_TILES_H_
#define QCC_CODEGEN_CPU_KERNELS_TILES_H_

#include "dialects/plan/tile_layout.h"
#include "codegen/cpu/kernels/vec.h"

namespace qk {

using qcc::plan::TileLayout;
typedef F32<kLanes> Float;
typedef I32<kLanes> Words;  // per lane (row): four codes of four columns

QK_INLINE Float half_lanes(const uint8_t* p) {
  return half_to_float<kLanes>(load<U16<kLanes>>(p));
}
QK_INLINE Float u8_lanes(const uint8_t* p) {
  return to_float<kLanes>(__builtin_convertvector(load<U8<kLanes>>(p), I32<kLanes>));
}
QK_INLINE Float i8_lanes(const uint8_t* p) {
  return to_float<kLanes>(__builtin_convertvector(load<I8<kLanes>>(p), I32<kLanes>));
}

// Calls fn(word index, codes) for the eight words of a 32-column chunk.
template <const TileLayout& L, class Fn>
QK_INLINE void for_each_word(const uint8_t* chunk, int part, Fn fn) {
  const uint8_t* p = chunk + part * kLanes * 4;
  if constexpr (L.bits == 8) {
    QK_UNROLL
    for (int t = 0; t < 8; ++t) fn(t, load<Words>(p + t * 64));
  } else {
    QK_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Words v = load<Words>(p + i * 64);
      Words lo = v & 0x0f0f0f0f, hi = (v >> 4) & 0x0f0f0f0f;
      if constexpr (L.bits == 5) {
        const Words h = load<Words>(p + 256);
        // Bit i to bit 4, bit i + 4 to bit 4: shifts stay inside the byte after the mask.
        lo |= (h << (4 - i)) & 0x10101010;
        hi |= (h >> i) & 0x10101010;
      } else if constexpr (L.bits == 6) {
        const Words h = load<Words>(p + 256 + (i >> 1) * 64);
        lo |= (i & 1 ? h << 2 : h << 4) & 0x30303030;
        hi |= (i & 1 ? h >> 2 : h) & 0x30303030;
      }
      fn(i, lo);
      fn(i + 4, hi);
    }
  }
}

// Lane-wise scales of the 32-column chunk j of a tile; value = scale[code group] * (code - offset) + shift,
// with the products exact in f32.
struct Scales {
  Float scale[2];  // columns 0..15, 16..31 (equal unless the format scales 16 columns)
  Float shift;     // only if kHasShift
};

template <const TileLayout& L>
struct BlockFormat {
  static constexpr const TileLayout& kLayout = L;
  static constexpr bool kHasShift = false;
};

struct Q4_0 : BlockFormat<qcc::plan::kTileQ4_0> {
  QK_INLINE Scales scales(const uint8_t* header, int, int part) {
    const Float d = half_lanes(header + part * kLanes * 2);
    return {{d, d}, Float(0.f)};
  }
};
struct Q8_0 : BlockFormat<qcc::plan::kTileQ8_0> {
  QK_INLINE Scales scales(const uint8_t* header, int, int part) {
    const Float d = half_lanes(header + part * kLanes * 2);
    return {{d, d}, Float(0.f)};
  }
};
struct Q4_1 : BlockFormat<qcc::plan::kTileQ4_1> {
  static constexpr bool kHasShift = true;
  QK_INLINE Scales scales(const uint8_t* header, int, int part) {
    const Float d = half_lanes(header + part * kLanes * 2);
    return {{d, d}, half_lanes(header + 32 + part * kLanes * 2)};
  }
};
template <const TileLayout& L>
struct ScaleMinFormat : BlockFormat<L> {
  static constexpr bool kHasShift = true;
  QK_INLINE Scales scales(const uint8_t* header, int j, int part) {
    const Float d = half_lanes(header + part * kLanes * 2) * u8_lanes(header + 64 + j * 16 + part * kLanes);
    const Float m =
        half_lanes(header + 32 + part * kLanes * 2) * u8_lanes(header + 192 + j * 16 + part * kLanes);
    return {{d, d}, -m};
  }
};
struct Q4_K : ScaleMinFormat<qcc::plan::kTileQ4_K> {};
struct Q5_K : ScaleMinFormat<qcc::plan::kTileQ5_K> {};
struct Q6_K : BlockFormat<qcc::plan::kTileQ6_K> {
  QK_INLINE Scales scales(const uint8_t* header, int j, int part) {
    const Float d = half_lanes(header + part * kLanes * 2);
    const uint8_t* s = header + 32 + j * 32 + part * kLanes;
    return {{d * i8_lanes(s), d * i8_lanes(s + 16)}, Float(0.f)};
  }
};

// Calls fn(header, body) for the tiles of a group in order.
template <class F, class Fn>
QK_INLINE void for_each_tile(const uint8_t* group, int64_t blocks, Fn fn) {
  for (int64_t b = 0; b < blocks; ++b) {
    const qcc::plan::TilePlace at = qcc::plan::tile_place(F::kLayout, b, blocks);
    fn(b, group + at.header, group + at.body);
  }
}

// Plain formats: f32 lanes of one column.
struct PlainF32 {
  static constexpr int kBytes = 64;
  QK_INLINE Float column(const uint8_t* p, int part) { return load<Float>(p + part * kLanes * 4); }
};
struct PlainF16 {
  static constexpr int kBytes = 32;
  QK_INLINE Float column(const uint8_t* p, int part) { return half_lanes(p + part * kLanes * 2); }
};
struct PlainBF16 {
  static constexpr int kBytes = 32;
  QK_INLINE Float column(const uint8_t* p, int part) {
    return bf16_to_float<kLanes>(load<U16<kLanes>>(p + part * kLanes * 2));
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_TILES_H_
