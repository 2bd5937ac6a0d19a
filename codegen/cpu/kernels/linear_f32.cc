// linear with f32 activations: weights decoded to exactly the values that the format defines, two partial
// sums (even and odd columns) per output.
#include "codegen/cpu/kernels/linear.h"

namespace qk {
namespace {

// Parts of the group that one walk over the columns keeps: two partial sums per row and part, in 8 registers.
template <int M>
inline constexpr int kWalkParts = 8 / (2 * M) < 1        ? 1
                                  : 8 / (2 * M) < kParts ? 8 / (2 * M)
                                                         : kParts;

template <int M>
struct Partial {
  Float v[M][kWalkParts<M>][2];
};

template <int M>
QK_INLINE void add_column(Partial<M>& a, int part, int odd, Float w, const float* x, int64_t k) {
  QK_UNROLL
  for (int m = 0; m < M; ++m) {
    Float& v = a.v[m][part][odd];
    v = fma<kLanes>(w, Float(x[m * k]), v);
  }
}

template <class F>
struct BlockSource {
  static constexpr const TileLayout& L = F::kLayout;
  QK_INLINE int64_t group_bytes(int64_t k) { return k / L.block * L.bytes(); }

  template <int M>
  QK_INLINE void walk(const uint8_t* w, const float* x, int64_t k, int part0, Partial<M>& a) {
    for_each_tile<F>(w, k / L.block, [&](int64_t b, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < L.block / 32; ++j) {
        const float* xc = x + b * L.block + j * 32;
        QK_UNROLL
        for (int p = 0; p < kWalkParts<M>; ++p) {
          const Scales s = F::scales(header, j, part0 + p);
          for_each_word<L>(body + j * L.chunk, part0 + p, [&](int word, Words codes) QK_LAMBDA {
            QK_UNROLL
            for (int c = 0; c < 4; ++c) {
              const Words q = ((codes >> (8 * c)) & 0xff) - L.offset;
              Float v = s.scale[word >> 2] * to_float<kLanes>(q);
              if constexpr (F::kHasShift) v = v + s.shift;
              add_column<M>(a, p, c & 1, v, xc + word * 4 + c, k);
            }
          });
        }
      }
    });
  }
};

template <class F>
struct PlainSource {
  QK_INLINE int64_t group_bytes(int64_t k) { return k * F::kBytes; }

  template <int M>
  QK_INLINE void walk(const uint8_t* w, const float* x, int64_t k, int part0, Partial<M>& a) {
    int64_t c = 0;
    for (; c + 4 <= k; c += 4) {
      QK_UNROLL
      for (int i = 0; i < 4; ++i) {
        QK_UNROLL
        for (int p = 0; p < kWalkParts<M>; ++p) {
          add_column<M>(a, p, i & 1, F::column(w + (c + i) * F::kBytes, part0 + p), x + c + i, k);
        }
      }
    }
    for (; c < k; ++c) {
      QK_UNROLL
      for (int p = 0; p < kWalkParts<M>; ++p) {
        const Float v = F::column(w + c * F::kBytes, part0 + p);
        if (c & 1) {
          add_column<M>(a, p, 1, v, x + c, k);
        } else {
          add_column<M>(a, p, 0, v, x + c, k);
        }
      }
    }
  }
};

template <class S>
struct F32Linear {
  int64_t k, row_bytes, group_bytes;

  template <int M>
  __attribute__((always_inline)) void tile(const uint8_t* w, const uint8_t* x, Acc<M>& acc) const {
    QK_UNROLL
    for (int part0 = 0; part0 < kParts; part0 += kWalkParts<M>) {
      Partial<M> a;
      QK_UNROLL
      for (int m = 0; m < M; ++m) {
        QK_UNROLL
        for (int p = 0; p < kWalkParts<M>; ++p) a.v[m][p][0] = a.v[m][p][1] = Float(0.f);
      }
      S::template walk<M>(w, reinterpret_cast<const float*>(x), k, part0, a);
      QK_UNROLL
      for (int m = 0; m < M; ++m) {
        QK_UNROLL
        for (int p = 0; p < kWalkParts<M>; ++p) acc.v[m][part0 + p] = a.v[m][p][0] + a.v[m][p][1];
      }
    }
  }
};

template <class S>
QK_INLINE void linear_f32(const float* x, const uint8_t* w, float* y, int64_t k, int64_t ld, int64_t epilogue,
                          int64_t rows, int64_t begin, int64_t end) {
  const F32Linear<S> t{k, k * 4, S::group_bytes(k)};
  linear_groups(t, reinterpret_cast<const uint8_t*>(x), w, y, ld, epilogue, rows, begin, end);
}

}  // namespace
}  // namespace qk

#define QK_LINEAR(source, suffix)                                                                            \
  QK_EXPORT void qk_linear_##suffix##_f32(const float* x, const uint8_t* w, float* y, int64_t k, int64_t ld, \
                                          int64_t epilogue, int64_t rows, int64_t begin, int64_t end) {      \
    qk::linear_f32<source>(x, w, y, k, ld, epilogue, rows, begin, end);                                      \
  }
#define QK_BLOCK_FORMAT(id, suffix) QK_LINEAR(qk::BlockSource<qk::id>, suffix)
#define QK_PLAIN_FORMAT(id, suffix) QK_LINEAR(qk::PlainSource<qk::Plain##id>, suffix)
#include "codegen/cpu/kernels/kernels.def"
