// What the levels with AVX-512 (F, BW, VL, DQ) and its VNNI share.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX512_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX512_H_

#include "codegen/cpu/kernels/levels/avx2.h"
#include "codegen/cpu/kernels/levels/vnni.h"

namespace qk {

struct Avx512 : Avx2 {
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 8;
  // Two threads of a Zen 5, 0.8b, a token: Q8_0 1.3x, Q4_K_M and Q6_K 1.05x, with half the read-ahead.
  static constexpr int kStreams = 2;
  // Of two panels a broadcast of a row's word, which is a read of memory, serves both (Zen 5, against 8 rows
  // of one, prefill of the 0.8b shape: Q6_K 1.13x; Q4_K, whose minima are read as well, 0.92x to 1.01x).
  static constexpr PanelShape panel(bool minimum) {
    return minimum ? PanelShape{.rows = 8, .vectors = 1, .panels = 1}
                   : PanelShape{.rows = 4, .vectors = 2, .panels = 2};
  }
  static constexpr int64_t kPanelPairs = 0;  // a Zen 4's second-level cache holds the rows
  static constexpr bool kPanelParts = true;
  // Tiles of 8 rows need no unpacking (Zen 4, weights in memory: 16 rows Q4_K 1.07x, Q6_K 1.07x; 24 rows
  // Q4_K 1.05x, Q6_K 0.9x, Q8_0 0.7x).
  static constexpr int panel_rows(int, int) { return 24; }
  static constexpr bool wide_panels(int, int) { return false; }
  static constexpr bool wraps(int, int, int) { return false; }
  static constexpr int kExpertRows = 0;  // 16 rows are what most experts have
  static constexpr int kPairRows = 8, kPairParts = 2;

  template <int N>
  QK_INLINE U16<N> float_to_half(F32<N> v) {
    if constexpr (N == 16) {
      return __builtin_bit_cast(U16<16>, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    } else {
      return Avx2::float_to_half<N>(v);
    }
  }
  template <class T>
  QK_INLINE I32<16> lookup(I32<16> codes) {
    const __m128i table = load<__m128i>(T::kBytes.v);
    return (I32<16>)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (__m512i)codes);
  }

  QK_INLINE I32<16> add_pairs(I32<16> sum, I32<16> a, I32<16> b) {
    return (I32<16>)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
  }
  QK_INLINE I32<16> add_products(I32<16> sum, I32<16> codes, int32_t x) {
    return (I32<16>)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, _mm512_set1_epi32(x));
  }
  template <int kHigh>
  using Dot = ExactDot<Avx512, 16>;
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_AVX512_H_
