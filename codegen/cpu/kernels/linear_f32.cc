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
  unroll<M>([&](int m) QK_LAMBDA {
    Float& v = a.v[m][part][odd];
    v = fma<kLanes>(w, Float(x[m * k]), v);
  });
}

template <Format F>
struct BlockSource {
  typedef BlockFormat<F> B;
  static constexpr Tile T = B::kTile;
  QK_INLINE int64_t group_bytes(int64_t k) { return B::group_bytes(k); }

  template <int M>
  QK_INLINE void walk(const uint8_t* w, const float* x, int64_t k, int part0, Partial<M>& a) {
    for_each_tile<F>(w, k / T.block, [&](int64_t b, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < T.block / 32; ++j) {
        const float* xc = x + b * T.block + j * 32;
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA {
          const Scales<kLanes> s = read_scales<F>(PartFields{part0 + p}, header, j);
          for_each_word<F, false>(body + j * T.chunk, part0 + p, [&](int, int word, Words codes) QK_LAMBDA {
            unroll<4>([&](int c) QK_LAMBDA {
              const Words q = ((codes >> (8 * c)) & 0xff) + B::kLow;
              Float v = s.scale[word >> 2] * to_float<kLanes>(q);
              if constexpr (B::kHasMinimum) v = v + s.shift[word >> 2];
              add_column<M>(a, p, c & 1, v, xc + word * 4 + c, k);
            });
          });
        });
      }
    });
  }
};

template <Format F>
struct PlainSource {
  static constexpr int kBytes = kColumnBytes<F>;
  QK_INLINE int64_t group_bytes(int64_t k) { return k * kBytes; }

  template <int M>
  QK_INLINE void walk(const uint8_t* w, const float* x, int64_t k, int part0, Partial<M>& a) {
    int64_t c = 0;
    const auto column = [&](int odd) QK_LAMBDA {
      unroll<kWalkParts<M>>([&](int p) QK_LAMBDA {
        add_column<M>(a, p, odd, plain_column<F>(w + (c + odd) * kBytes, part0 + p), x + c + odd, k);
      });
    };
    for (; c + 2 <= k; c += 2) {
      column(0);
      column(1);
    }
    if (c < k) column(0);
  }
};

template <class S>
struct F32Linear {
  int64_t k, row_bytes, group_bytes;

  template <int M>
  __attribute__((always_inline)) Acc<M> tile(const uint8_t* w, const uint8_t* x) const {
    Acc<M> acc;
    QK_UNROLL
    for (int part0 = 0; part0 < kParts; part0 += kWalkParts<M>) {
      Partial<M> a;
      unroll<M>([&](int m) QK_LAMBDA {
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA { a.v[m][p][0] = a.v[m][p][1] = Float(0.f); });
      });
      S::template walk<M>(w, reinterpret_cast<const float*>(x), k, part0, a);
      unroll<M>([&](int m) QK_LAMBDA {
        unroll<kWalkParts<M>>([&](int p) QK_LAMBDA { acc.v[m][part0 + p] = a.v[m][p][0] + a.v[m][p][1]; });
      });
    }
    return acc;
  }
};

template <class S>
QK_INLINE void linear_f32(const linear_args& a) {
  const F32Linear<S> t{a.k, a.k * 4, S::group_bytes(a.k)};
  linear_groups(t, reinterpret_cast<const uint8_t*>(a.x), a);
}

}  // namespace
}  // namespace qk

#define QK_LINEAR(source, id, name)                                       \
  QK_SIGNATURE_AS(qk_linear_##id##_f32, "qk_linear_" name "_f32", linear) \
  QK_EXPORT void qk_linear_##id##_f32(const linear_args* args) {          \
    const linear_args a = *args;                                          \
    qk::linear_f32<qk::source<qcc::Format::id>>(a);                       \
  }
#define QK_BLOCK_FORMAT(id, name) QK_LINEAR(BlockSource, id, name)
#define QK_PLAIN_FORMAT(id, name) QK_LINEAR(PlainSource, id, name)
#include "codegen/cpu/kernels/kernels.def"
