// What the levels with AVX2, FMA and F16C share: everything but the dot product.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX2_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX2_H_

#include "codegen/cpu/kernels/lanes.h"

namespace qk {

struct Avx2 {
  typedef NoMatrixUnit MatrixUnit;
  static constexpr int kLanes = 8;
  static constexpr int kTileRows = 4;
  static constexpr int kStreams = 1;  // that one row's weights are read in
  static constexpr PanelShape panel(bool) { return {.rows = 4, .vectors = 2, .panels = 1}; }
  // Bytes of rows from which a tile of them passes the panels of two groups before the next does: rows come
  // half as often from beyond a second-level cache of 512 KiB (512 rows, two threads of a Zen 3: Q4_K 1.17x
  // of one group at a time, k 1024, and 1.05x, k 3584). 0: never.
  static constexpr int64_t kPanelPairs = 256 << 10;
  // Whether matrices of many columns pass in parts, whose panels stay in the first-level cache.
  static constexpr bool kPanelParts = false;
  // Rows from which unpacking weights once for all pays, by the format's highest code and the rows' terms.
  static constexpr int panel_rows(int, int) { return 8; }
  // Rows of an expert for which its weights are unpacked once, not for each tile of rows. 0: never.
  static constexpr int kExpertRows = 8;
  static constexpr int kPairRows = 4, kPairParts = 2;

  template <class V>
  QK_INLINE V fma(V a, V b, V c) {
    return __builtin_elementwise_fma(a, b, c);
  }
  template <int N>
  QK_INLINE F32<N> half_to_float(U16<N> h) {
    typedef _Float16 H __attribute__((ext_vector_type(N)));
    return __builtin_convertvector(__builtin_bit_cast(H, h), F32<N>);
  }
  template <int N>
  QK_INLINE U16<N> float_to_half(F32<N> v) {
    if constexpr (N == 4) {
      return __builtin_bit_cast(U16<8>, _mm_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)).lo;
    } else if constexpr (N == 8) {
      return __builtin_bit_cast(U16<8>, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    } else {
      U16<16> r;
      r.lo = float_to_half<8>(v.lo);
      r.hi = float_to_half<8>(v.hi);
      return r;
    }
  }
  QK_INLINE I32<8> add_pairs(I32<8> sum, I32<8> a, I32<8> b) {
    sum += (I32<8>)_mm256_madd_epi16((__m256i)a, (__m256i)b);
    keep_order(sum);  // as in v3's Dot
    return sum;
  }
  template <class T>
  QK_INLINE I32<8> lookup(I32<8> codes) {
    const __m128i table = load<__m128i>(T::kBytes.v);
    return (I32<8>)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)codes);
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX2_H_
