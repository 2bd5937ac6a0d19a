// x86-64: SSE2 and nothing else.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_BASE_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_BASE_H_

#include "codegen/cpu/kernels/lanes.h"

namespace qk {

struct Level {
  typedef NoMatrixUnit MatrixUnit;
  static constexpr int kLanes = 4;
  static constexpr int kTileRows = 2;
  static constexpr int kStreams = 1;
  static constexpr PanelShape panel(bool) { return {.rows = 2, .vectors = 2, .panels = 1}; }
  static constexpr int64_t kPanelPairs = 0;  // not measured
  static constexpr bool kPanelParts = false;
  // 8 rows, weights in memory, Zen 4: 1.1x (Q4_K) to 1.35x (Q6_K); 4 rows: 1.0x to 1.1x.
  static constexpr int panel_rows(int, int) { return 8; }
  // Bytes would be widened each time.
  static constexpr bool wide_panels(int, int) { return true; }
  static constexpr bool wraps(int, int, int) { return false; }
  static constexpr int kExpertRows = 0;  // not measured
  static constexpr int kPairRows = 4, kPairParts = 2;

  template <class V>
  QK_INLINE V fma(V a, V b, V c) {
    return a * b + c;
  }
  template <int N>
  QK_INLINE F32<N> half_to_float(U16<N> h) {
    return half_bits_to_float<N>(h);
  }
  template <int N>
  QK_INLINE U16<N> float_to_half(F32<N> v) {
    return float_to_half_bits<N>(v);
  }

  QK_INLINE I32<4> add_pairs(I32<4> sum, I32<4> a, I32<4> b) { return add_pairs_sse2(sum, a, b); }

  // No byte shuffle: the steps of the rising table that a code has passed are added up.
  template <class T>
  QK_INLINE I32<4> lookup(I32<4> codes) {
    const I8<16> c = (I8<16>)codes;
    I8<16> v = I8<16>(static_cast<int8_t>(T::kBytes.v[0]));
    QK_UNROLL
    for (int i = 1; i < T::kSize; ++i) {
      v += (c >= I8<16>(static_cast<int8_t>(i))) & static_cast<int8_t>(T::kBytes.v[i] - T::kBytes.v[i - 1]);
    }
    return (I32<4>)v;
  }

  // Codes widened to 16 bits.
  template <int kHigh>
  struct Dot {
    static constexpr bool kSigned = false, kScales = false;
    I32<4> start;
    __m128i low, high;  // rows 0, 1 and rows 2, 3: two sums of column pairs each
    QK_INLINE void begin(Dot& d, I32<4> init) {
      d.start = init;
      d.low = d.high = _mm_setzero_si128();
    }
    QK_INLINE void add(Dot& d, int, int, I32<4> codes, int32_t x) {
      const __m128i zero = _mm_setzero_si128(), c = (__m128i)codes;
      const __m128i x8 = _mm_set1_epi32(x);
      const __m128i x16 = _mm_srai_epi16(_mm_unpacklo_epi8(x8, x8), 8);
      d.low = _mm_add_epi32(d.low, _mm_madd_epi16(_mm_unpacklo_epi8(c, zero), x16));
      d.high = _mm_add_epi32(d.high, _mm_madd_epi16(_mm_unpackhi_epi8(c, zero), x16));
    }
    QK_INLINE I32<4> end(const Dot& d) {
      const __m128 lo = _mm_castsi128_ps(d.low), hi = _mm_castsi128_ps(d.high);
      const I32<4> even = (I32<4>)_mm_castps_si128(_mm_shuffle_ps(lo, hi, 0x88));
      const I32<4> odd = (I32<4>)_mm_castps_si128(_mm_shuffle_ps(lo, hi, 0xdd));
      return d.start + even + odd;
    }
  };
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_BASE_H_
