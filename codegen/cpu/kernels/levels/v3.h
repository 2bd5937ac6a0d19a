// x86-64-v3.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_V3_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_V3_H_

#include "codegen/cpu/kernels/levels/avx2.h"

namespace qk {

struct Level : Avx2 {
  // The kernel alone, one row, two threads of a Zen 3, of what eight plain streams a thread read: Q8_0 0.93
  // with two, 0.78 with one.
  static constexpr int kStreams = 2;
  // Sixteen bits: where bytes would take a vpsignb and a widening for each four products, and where a row's
  // two terms are one number of 16 bits.
  static constexpr bool wide_panels(int high, int terms) { return terms == 2 || !bytes_add_up(high); }
  // Of 8 rows of Q8_0 panels take 0.83x (k 1024) to 0.88x (k 3584) of the time of tiles (two threads of a Zen
  // 3), of 6 about as long, as of 7 rows of Q4_K. With two terms 0.7x to 0.9x at 8 rows (Zen 4).
  static constexpr int panel_rows(int high, int terms) {
    return terms == 2 ? 8 : wide_panels(high, terms) ? 6 : 7;
  }
  // Two products of codes up to `high` and bytes fit what vpmaddubsw saturates at.
  static constexpr bool bytes_add_up(int high) { return 2 * 127 * high <= 32767; }
  // Of `words` words, whose codes stand for values of at most `most`, the sums of pairs fit 16 bits, though
  // those of codes do not.
  static constexpr bool wraps(int high, int words, int most) {
    return bytes_add_up(high) && 2 * 127 * high * words > 32767 && 2 * 127 * most * words <= 32767;
  }

  // vpmaddubsw saturates at 16 bits. Codes that may add up too high go as signed values, |value| times x with
  // the value's sign (|x| <= 127, so both fit for every value, -128 included); others may be added up kChain
  // deep before they are widened.
  template <int kHigh>
  struct Dot {
    static constexpr bool kSigned = !bytes_add_up(kHigh);
    static constexpr int kChain = kSigned ? 1 : 32767 / (2 * 127 * kHigh);
    static constexpr bool kScales = !kSigned;
    I32<8> sum;
    __m256i pairs;
    QK_INLINE void begin(Dot& d, I32<8> init) { d.sum = init; }
    QK_INLINE void add(Dot& d, int n, int count, I32<8> codes, int32_t x) {
      add_scaled(d, n, count, codes, x, (I32<8>)_mm256_set1_epi16(1));
    }
    // scale: 16 bits, twice in a lane; for all `count` words. kWraps: they add to what begin_pairs gave.
    QK_INLINE void begin_pairs(Dot& d, I32<8> pairs) { d.pairs = (__m256i)pairs; }
    template <bool kWraps = false>
    QK_INLINE void add_scaled(Dot& d, int n, int count, I32<8> codes, int32_t x, I32<8> scale) {
      __m256i c = (__m256i)codes, v = _mm256_set1_epi32(x);
      if constexpr (kSigned) {
        v = _mm256_sign_epi8(v, c);
        c = _mm256_abs_epi8(c);
      }
      const __m256i p = _mm256_maddubs_epi16(c, v);
      d.pairs = n % kChain == 0 && !kWraps ? p : _mm256_add_epi16(d.pairs, p);
      // Sums as they are written: added up in trees, as the compiler would, the broadcasts of all words lie
      // in memory before the first is used (Q4_K 1.3x, Q8_0 1.5x in panels).
      if constexpr (kWraps || kChain > 2) keep_order(d.pairs);
      if ((!kWraps && n % kChain == kChain - 1) || n == count - 1) {
        d.sum += (I32<8>)_mm256_madd_epi16(d.pairs, (__m256i)scale);
        if constexpr (!kWraps && kChain <= 2) keep_order(d.sum);
      }
    }
    QK_INLINE I32<8> end(const Dot& d) { return d.sum; }
  };
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_V3_H_
