// linear with int8 activations: exact integer dot products of 16 or 32 columns, combined in f32 in column
// order.
#include "codegen/cpu/kernels/linear.h"

namespace qk {
namespace {

QK_INLINE int32_t load32(const void* p) {
  return load<int32_t>(p);
}

// Sum over words of code * x for kLanes rows; `Words` counts the words of one sum. kOffset: what is left to
// subtract per unit of x's sum because codes are taken as stored.
#if defined(__AVX512VNNI__)
template <const TileLayout& L>
struct Dot {
  static constexpr int kOffset = L.offset;
  Words sum;
  QK_INLINE void begin(Dot& d, int32_t init) { d.sum = Words(init); }
  QK_INLINE void add(Dot& d, int, int, Words codes, const int8_t* x) {
    d.sum = (Words)_mm512_dpbusd_epi32((__m512i)d.sum, (__m512i)codes, _mm512_set1_epi32(load32(x)));
  }
  QK_INLINE Words end(const Dot& d) { return d.sum; }
};
#elif defined(__AVX2__)
template <const TileLayout& L>
struct Dot {
  // vpmaddubsw saturates at 16 bits: 8-bit codes go signed, |code| times x with the code's sign (|x| <= 127,
  // so both fit for every code, -128 included); shorter codes may be added up kChain deep before they are
  // widened.
  static constexpr bool kSigned = L.bits == 8;
  static constexpr int kOffset = kSigned ? 0 : L.offset;
  static constexpr int kChain = kSigned ? 1 : 32767 / (2 * 127 * ((1 << L.bits) - 1));
  Words sum;
  __m256i pairs;
  QK_INLINE void begin(Dot& d, int32_t init) { d.sum = Words(init); }
  QK_INLINE void add(Dot& d, int n, int count, Words codes, const int8_t* x) {
    __m256i c = (__m256i)codes, v = _mm256_set1_epi32(load32(x));
    if constexpr (kSigned) {
      c = _mm256_xor_si256(c, _mm256_set1_epi8(-128));
      v = _mm256_sign_epi8(v, c);
      c = _mm256_abs_epi8(c);
    }
    const __m256i p = _mm256_maddubs_epi16(c, v);
    d.pairs = n % kChain == 0 ? p : _mm256_add_epi16(d.pairs, p);
    if (n % kChain == kChain - 1 || n == count - 1) {
      d.sum += (Words)_mm256_madd_epi16(d.pairs, _mm256_set1_epi16(1));
    }
  }
  QK_INLINE Words end(const Dot& d) { return d.sum; }
};
#else
template <const TileLayout& L>
struct Dot {
  static constexpr int kOffset = L.offset;
  Words start;
  __m128i low, high;  // rows 0, 1 and rows 2, 3: two sums of column pairs each
  QK_INLINE void begin(Dot& d, int32_t init) {
    d.start = Words(init);
    d.low = d.high = _mm_setzero_si128();
  }
  QK_INLINE void add(Dot& d, int, int, Words codes, const int8_t* x) {
    const __m128i zero = _mm_setzero_si128(), c = (__m128i)codes;
    const __m128i x8 = _mm_set1_epi32(load32(x));
    const __m128i x16 = _mm_srai_epi16(_mm_unpacklo_epi8(x8, x8), 8);
    d.low = _mm_add_epi32(d.low, _mm_madd_epi16(_mm_unpacklo_epi8(c, zero), x16));
    d.high = _mm_add_epi32(d.high, _mm_madd_epi16(_mm_unpackhi_epi8(c, zero), x16));
  }
  QK_INLINE Words end(const Dot& d) {
    const __m128 lo = _mm_castsi128_ps(d.low), hi = _mm_castsi128_ps(d.high);
    const Words even = (Words)_mm_castps_si128(_mm_shuffle_ps(lo, hi, 0x88));
    const Words odd = (Words)_mm_castps_si128(_mm_shuffle_ps(lo, hi, 0xdd));
    return d.start + even + odd;
  }
};
#endif

template <class F>
struct Int8Linear {
  static constexpr const TileLayout& L = F::kLayout;
  static constexpr int kSums = 32 / L.columns_per_scale;  // integer sums per 32 columns
  int64_t k, row_bytes, group_bytes;

  // Asks for what follows 2 KB behind chunk j. Some machines' own prefetchers stop at 4 KB pages and leave a
  // linear reader waiting there; elsewhere the hints cost next to nothing. Past the last weight they touch no
  // memory.
  QK_INLINE void prefetch(const uint8_t* header, const uint8_t* body, int j) {
    constexpr int kAhead = 2048;
    constexpr int kHeaderTiles = (kAhead / (2 * L.bytes()) + 1) * (L.paired ? 2 : 1);
    QK_UNROLL
    for (int i = 0; i < L.chunk; i += 64) __builtin_prefetch(body + j * L.chunk + kAhead + i);
    if (j * 64 < L.header) __builtin_prefetch(header + kHeaderTiles * L.bytes() + j * 64);
  }

  // 32 columns: chunk j of a tile, activations from column `col`.
  template <int M>
  QK_INLINE void chunk(const Int8Linear& t, const uint8_t* header, const uint8_t* body, int j,
                       const uint8_t* x, int64_t col, Acc<M>& acc) {
    prefetch(header, body, j);
    QK_UNROLL
    for (int p = 0; p < kParts; ++p) {
      Dot<L> dot[M][kSums];
      QK_UNROLL
      for (int m = 0; m < M; ++m) {
        const uint8_t* sums = x + m * t.row_bytes + t.k + t.k / 8 + col / 4;
        if constexpr (kSums == 2) {
          Dot<L>::begin(dot[m][0], -Dot<L>::kOffset * load32(sums));
          Dot<L>::begin(dot[m][1], -Dot<L>::kOffset * load32(sums + 4));
        } else {
          Dot<L>::begin(dot[m][0],
                        Dot<L>::kOffset ? -Dot<L>::kOffset * (load32(sums) + load32(sums + 4)) : 0);
        }
      }
      for_each_word<L>(body + j * L.chunk, p, [&](int word, Words codes) QK_LAMBDA {
        const int n = kSums == 2 ? word & 3 : L.bits == 8 ? word : 2 * (word & 3) + (word >> 2);
        QK_UNROLL
        for (int m = 0; m < M; ++m) {
          const int8_t* xm = reinterpret_cast<const int8_t*>(x + m * t.row_bytes + col + word * 4);
          Dot<L>::add(dot[m][kSums == 2 ? word >> 2 : 0], n, 8 / kSums, codes, xm);
        }
      });
      const Scales s = F::scales(header, j, p);
      QK_UNROLL
      for (int m = 0; m < M; ++m) {
        const uint8_t* xm = x + m * t.row_bytes + t.k;
        const float xs = load<float>(xm + col / 8);
        Float& a = acc.v[m][p];
        QK_UNROLL
        for (int g = 0; g < kSums; ++g) {
          a = fma<kLanes>(s.scale[g] * xs, to_float<kLanes>(Dot<L>::end(dot[m][g])), a);
        }
        if constexpr (F::kHasShift) {
          const uint8_t* sums = xm + t.k / 8 + col / 4;
          const float xsum = static_cast<float>(load32(sums) + load32(sums + 4));
          a = fma<kLanes>(s.shift, Float(xs * xsum), a);
        }
      }
    }
  }

  template <int M>
  QK_INLINE void tile_impl(const Int8Linear& t, const uint8_t* w, const uint8_t* x, Acc<M>& acc) {
    QK_UNROLL
    for (int m = 0; m < M; ++m) {
      QK_UNROLL
      for (int p = 0; p < kParts; ++p) acc.v[m][p] = Float(0.f);
    }
    for_each_tile<F>(w, t.k / L.block, [&](int64_t b, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < L.block / 32; ++j) chunk<M>(t, header, body, j, x, b * L.block + j * 32, acc);
    });
  }
  template <int M>
  __attribute__((always_inline)) void tile(const uint8_t* w, const uint8_t* x, Acc<M>& acc) const {
    tile_impl<M>(*this, w, x, acc);
  }
};

template <class F>
QK_INLINE void linear_int8(const uint8_t* xq, const uint8_t* w, float* y, int64_t k, int64_t ld,
                           int64_t epilogue, int64_t rows, int64_t begin, int64_t end) {
  const Int8Linear<F> t{k, (k + k / 8 + k / 4 + 63) & ~int64_t{63},
                        k / F::kLayout.block * F::kLayout.bytes()};
  linear_groups(t, xq, w, y, ld, epilogue, rows, begin, end);
}

}  // namespace
}  // namespace qk

#define QK_BLOCK_FORMAT(id, suffix)                                                                   \
  QK_EXPORT void qk_linear_##suffix##_int8(const uint8_t* xq, const uint8_t* w, float* y, int64_t k,  \
                                           int64_t ld, int64_t epilogue, int64_t rows, int64_t begin, \
                                           int64_t end) {                                             \
    qk::linear_int8<qk::id>(xq, w, y, k, ld, epilogue, rows, begin, end);                             \
  }
#include "codegen/cpu/kernels/kernels.def"
