// Weights times int8 rows, of many rows: a group of weights is unpacked once (LinearScratch), then one inner
// loop takes all rows through it. Every output is made by the operations of Int8Linear::tile in their order:
// the bits are the same. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_

#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/linear_matrix.h"
#include "codegen/cpu/kernels/scratch.h"

namespace qk {

using qcc::cpu::LinearScratch;
using qcc::cpu::PanelCodes;

template <Format F, int kTerms>
inline constexpr PanelCodes kPanelCodes = Level::wide_panels(BlockFormat<F>::kHigh, kTerms)
                                              ? PanelCodes::kWide
                                              : PanelCodes::kBytes;

typedef I16<2 * kLanes> Pairs;

// Of the bytes of each 16 bits one, with its sign.
template <class V>
QK_INLINE V even_bytes(V v) {
  return (v << 8) >> 8;
}
template <class V>
QK_INLINE V odd_bytes(V v) {
  return v >> 8;
}

// The dot product of 16-bit codes and rows: two of each in a lane.
struct PairDot {
  static constexpr bool kSigned = true;
  Words sum;
  QK_INLINE void begin(PairDot& d, Words init) { d.sum = init; }
  QK_INLINE void add(PairDot& d, int, int, Words codes, int32_t x) {
    d.sum = Level::add_pairs(d.sum, codes, Words(x));
  }
  QK_INLINE Words end(const PairDot& d) { return d.sum; }
};

template <bool kWide, class Bytes>
struct PanelDot {
  typedef Bytes Type;
};
template <class Bytes>
struct PanelDot<true, Bytes> {
  typedef PairDot Type;
};

template <Format F, PanelCodes kCodes>
struct Panels {
  typedef Int8Linear<F> L;
  typedef typename L::B B;
  static constexpr bool kWide = kCodes == PanelCodes::kWide;
  // Codes of formats that fold have their scales in them: one sum has all 32 columns.
  typedef typename PanelDot<kWide, Level::Dot<B::kFolds ? B::kFoldedHigh : B::kHigh>>::Type Dot;
  static constexpr int kSums = L::kSums, kDots = B::kFolds ? 1 : kSums;
  static constexpr int kWords = (kWide ? 16 : 8) / kDots;  // words of an integer sum
  // Codes of panels for a matrix unit are signed: no sum needs a start.
  static constexpr bool kMatrix = Level::MatrixUnit::kRows > 0, kSigned = kMatrix || Dot::kSigned;
  static constexpr int kLow = kSigned ? 0 : B::kLow;
  typedef MatrixProducts<kDots, Level::MatrixUnit> Unit;
  // Rows and vectors of outputs that are multiplied together: as many sums as registers hold. A word of a row
  // is read once for all vectors, which lie in G panels.
  static constexpr PanelShape kShape = Level::panel(B::kHasMinimum);
  static constexpr int M = kShape.rows, V = kShape.vectors, G = kShape.panels;
  static constexpr int kEach = V / G;  // vectors of a panel
  static_assert(LinearScratch::kRowsTogether % M == 0 && M <= Level::panel_rows(B::kHigh, 2) && V % G == 0 &&
                G <= 2 && kParts % kEach == 0);
  static_assert(!kMatrix || !kWide);
  static_assert(!kMatrix || (kEach == kParts && G == 1 && B::kLow >= -128 && B::kLow + B::kHigh <= 127));

  struct Sums {
    Float v[M][V];
  };

  // Weights that are unpacked later: asked for with each chunk that is multiplied, as multiplying alone would
  // leave memory idle and unpacking would wait for it. Few rows feel it (8 rows, level v3, Zen 4: 1.4x of
  // asking while they are unpacked for Q4_K and Q8_0, 1.6x for Q6_K).
  struct Coming {
    const uint8_t *at, *end;
    int64_t lines;
    QK_INLINE void ask(Coming& c) {
      for (int64_t i = 0; i < c.lines && c.at < c.end; ++i, c.at += 64) prefetch_near(c.at);
    }
  };

  const L& t;
  LinearScratch place;
  // Of the first matrix; `place.pair` bytes behind it that of the second, where there are two, or else, where
  // panels are multiplied together, of the next group.
  uint8_t* panel;
  int32_t* starts;
  float* weighted;
  uint8_t *products, *wide;
  int64_t row_starts;  // of a row: numbers in either

  QK_INLINE Panels make(const L& t, uint8_t* scratch) {
    const LinearScratch place(B::kForm, t.k, t.terms, kCodes);
    return {t,
            place,
            scratch + place.panel,
            reinterpret_cast<int32_t*>(scratch + place.starts),
            reinterpret_cast<float*>(scratch + place.weighted),
            scratch + place.products,
            scratch + place.wide,
            LinearScratch::Starts(B::kForm, t.k)};
  }

  __attribute__((always_inline)) void begin() const {
    if constexpr (kMatrix) Unit::begin();
  }
  __attribute__((always_inline)) void end() const {
    if constexpr (kMatrix) Unit::end();
  }

  // The group at w and, where `both`, the one behind it.
  __attribute__((always_inline)) void unpack(const uint8_t* w, bool both) const {
    unpack(w, panel);
    if (both) unpack(w + t.group_bytes, panel + place.pair);
  }
  __attribute__((always_inline)) void unpack(const uint8_t* w, uint8_t* to) const {
    for_each_tile<F>(w, t.k / L::T.block, [&](int64_t, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
      for (int j = 0; j < L::T.block / 32; ++j, to += place.chunk) {
        unroll<kParts>([&](int p) QK_LAMBDA {
          uint8_t* at = to + p * kLanes * 4;
          const PartFields fields{p};
          Words folded[2];
          if constexpr (B::kFolds) {
            unroll<2>([&](int g) QK_LAMBDA { folded[g] = read_folded<F>(fields, header, j, g); });
          }
          for_each_word<F, kSigned>(body + j * L::T.chunk, p, [&](int, int word, Words codes) QK_LAMBDA {
            // Four codes a lane, whose products stay within their bytes.
            if constexpr (B::kFolds) codes *= folded[word >> 2];
            if constexpr (kWide) {
              store<Pairs>(at + word * 128, even_bytes((Pairs)codes));
              store<Pairs>(at + word * 128 + 64, odd_bytes((Pairs)codes));
            } else {
              store<Words>(at + word * 64, codes);
            }
          });
          const Scales<kLanes> s = read_scales<F>(fields, header, j);
          unroll<kSums>([&](int g) QK_LAMBDA {
            const Float scale = B::kFolds ? read_base<F>(fields, header, j * 32) : s.scale[g];
            store<Float>(at + place.scale_at + g * 64, scale);
            if constexpr (B::kHasMinimum) store<Float>(at + place.shift_at + g * 64, s.shift[g]);
          });
        });
      }
    });
  }

  // The rows [first, end) as 16 bits.
  __attribute__((always_inline)) void fill_wide(const uint8_t* x, int64_t first, int64_t end) const {
    typedef I16<16> Chunk;
    for (int64_t r = first; r < end; ++r) {
      const uint8_t* codes = t.columns(x + r * t.row_bytes, 0).codes;
      uint8_t* to = wide + (r - first) * LinearScratch::WideRowBytes(t.k);
      for (int64_t col = 0; col < t.k; col += 32, to += 64) {
        const Chunk v = load<Chunk>(codes + col);
        Chunk even = even_bytes(v), odd = odd_bytes(v);
        if (t.terms == 2) {
          const Chunk last = load<Chunk>(codes + t.last_term(col));
          even = (even << kTermBits) + even_bytes(last);
          odd = (odd << kTermBits) + odd_bytes(last);
        }
        store<Chunk>(to, even);
        store<Chunk>(to + 32, odd);
      }
    }
  }

  // What goes with the rows [first, end) for all panels: what their sums start with, what minima are
  // multiplied by.
  __attribute__((always_inline)) void fill(const uint8_t* x, int64_t first, int64_t end) const {
    if constexpr (kWide) fill_wide(x, first, end);
    if constexpr (kLow == 0 && !B::kHasMinimum) return;
    for (int64_t r = first; r < end; ++r) {
      const Int8Columns row = t.columns(x + r * t.row_bytes, 0);
      const int64_t at = (r - first) * row_starts;
      for (int64_t i = 0; i < row_starts; ++i) {
        const int64_t col = i / kSums * 32, g = i % kSums;
        if constexpr (kLow != 0) starts[at + i] = kLow * t.x_sum(row, col, static_cast<int>(g));
        if constexpr (B::kHasMinimum) weighted[at + i] = t.x_weighted(row, col, static_cast<int>(g));
      }
    }
  }

  // Where vector v of those that are multiplied together lies behind the first.
  __attribute__((always_inline)) int64_t vector_at(int v, int64_t second) const {
    return v / kEach * second + v % kEach * kLanes * 4;
  }

  // Parts p, ... of the panel at `chunk`, with G panels also of that `second` bytes behind it, with the M
  // rows at x; `first` is the number of the first of them in starts.
  __attribute__((always_inline)) Sums tile(const uint8_t* chunk, int64_t second, int p, const uint8_t* x,
                                           int64_t first, Coming& coming) const {
    Sums acc;
    unroll<M * V>([&](int i) QK_LAMBDA { acc.v[i / V][i % V] = Float(0.f); });
    const auto row = [&](int m) QK_LAMBDA { return t.columns(x + m * t.row_bytes, 0); };
    const auto codes_of = [&](int m) QK_LAMBDA {
      return kWide ? wide + (first + m) * LinearScratch::WideRowBytes(t.k) : row(m).codes;
    };
    const int32_t* start = starts + first * row_starts;
    chunk += p * kLanes * 4;
    for (int64_t at = 0; at < t.k; at += 32, chunk += place.chunk) {
      Coming::ask(coming);
      unroll<kDots>([&](int g) QK_LAMBDA {
        Dot dot[M][V];
        const auto begin = [&](auto value) QK_LAMBDA {
          unroll<M * V>([&](int i) QK_LAMBDA {
            Dot& d = dot[i / V][i % V];
            Dot::begin(d, value(i / V, d));
          });
        };
        const auto started = [&](int m) QK_LAMBDA {
          return Words(kLow != 0 ? start[m * row_starts + at / 32 * kSums + g] : 0);
        };
        if (t.terms == 2 && !kWide) {
          begin([&](int, Dot&) QK_LAMBDA { return Words(0); });
          add_term(chunk, second, codes_of, at, g, dot);
          begin([&](int m, Dot& d) QK_LAMBDA { return (Dot::end(d) << kTermBits) + started(m); });
        } else {
          begin([&](int m, Dot&) QK_LAMBDA { return started(m); });
        }
        add_term(chunk, second, codes_of, kWide ? 2 * at : t.last_term(at), g, dot);
        add_scaled(
            chunk + place.scale_at + g * 64, second, row, at,
            [&](int m, int v) QK_LAMBDA { return Dot::end(dot[m][v]); }, acc);
      });
      if constexpr (B::kHasMinimum) add_minima(chunk + place.shift_at, second, first, at, acc);
    }
    return acc;
  }

  // The products of the columns that share scale g, of the chunk that begins `at` bytes into codes_of(m), the
  // codes of row m.
  template <class Codes>
  __attribute__((always_inline)) void add_term(const uint8_t* chunk, int64_t second, Codes codes_of,
                                               int64_t at, int g, Dot (&dot)[M][V]) const {
    unroll<kWords>([&](int n) QK_LAMBDA {
      const int word = g * kWords + n;
      Words codes[V];
      unroll<V>([&](int v) QK_LAMBDA { codes[v] = load<Words>(chunk + word * 64 + vector_at(v, second)); });
      unroll<M>([&](int m) QK_LAMBDA {
        const int32_t xm = load32(codes_of(m) + at + (kWide ? word % 2 * 32 + word / 2 * 4 : word * 4));
        unroll<V>([&](int v) QK_LAMBDA { Dot::add(dot[m][v], n, kWords, codes[v], xm); });
      });
    });
  }

  // The same where the level has a matrix unit. It makes the products of the next columns while those before
  // are taken: what it writes is not wanted at once.
  __attribute__((always_inline)) Sums matrix_tile(const uint8_t* chunk, const uint8_t* x, int64_t first,
                                                  Coming& coming) const {
    Sums acc;
    unroll<M * V>([&](int i) QK_LAMBDA { acc.v[i / V][i % V] = Float(0.f); });
    const auto row = [&](int m) QK_LAMBDA { return t.columns(x + m * t.row_bytes, 0); };
    constexpr int64_t kTerm = kDots * Unit::kBytes;
    int64_t turn = 0;  // which half of `products` the next columns get
    const auto multiply = [&](const uint8_t* weights, int64_t at) QK_LAMBDA {
      Unit::multiply(weights, row(0).codes + at, t.row_bytes, products + turn);
      if (t.terms == 2)
        Unit::multiply(weights, row(0).codes + at + t.k, t.row_bytes, products + turn + kTerm);
      turn ^= t.terms * kTerm;
    };
    multiply(chunk, 0);
    for (int64_t at = 0; at < t.k; at += 32, chunk += place.chunk) {
      const uint8_t* made = products + (turn ^ t.terms * kTerm);
      Coming::ask(coming);
      if (at + 32 < t.k) multiply(chunk + place.chunk, at + 32);
      unroll<kDots>([&](int g) QK_LAMBDA {
        add_scaled(
            chunk + place.scale_at + g * 64, 0, row, at,
            [&](int m, int v) QK_LAMBDA {
              const uint8_t* from = made + g * Unit::kBytes + m * 64 + v * kLanes * 4;
              const Words dot = load<Words>(from);
              return t.terms == 2 ? (dot << kTermBits) + load<Words>(from + kTerm) : dot;
            },
            acc);
      });
      if constexpr (B::kHasMinimum) add_minima(chunk + place.shift_at, 0, first, at, acc);
    }
    return acc;
  }

  // dot(m, v): the integer sums that go with the scales.
  template <class Row, class DotAt>
  __attribute__((always_inline)) void add_scaled(const uint8_t* scales, int64_t second, Row row, int64_t at,
                                                 DotAt dot, Sums& acc) const {
    unroll<V>([&](int v) QK_LAMBDA {
      const Float scale = load<Float>(scales + vector_at(v, second));
      unroll<M>([&](int m) QK_LAMBDA {
        const float xs = t.x_scale(row(m), at);
        acc.v[m][v] = fma<kLanes>(scale * xs, to_float<kLanes>(dot(m, v)), acc.v[m][v]);
      });
    });
  }

  __attribute__((always_inline)) void add_minima(const uint8_t* shifts, int64_t second, int64_t first,
                                                 int64_t at, Sums& acc) const {
    const float* of = weighted + first * row_starts + at / 32 * kSums;
    unroll<V * kSums>([&](int i) QK_LAMBDA {
      const int g = i / V, v = i % V;
      const Float shift = load<Float>(shifts + g * 64 + vector_at(v, second));
      unroll<M>([&](int m) QK_LAMBDA {
        acc.v[m][v] = fma<kLanes>(shift, Float(of[m * row_starts + g]), acc.v[m][v]);
      });
    });
  }

  // What the panels give for M rows: sums[0] of the first, sums[1] of the second where it is wanted.
  struct Products {
    Float sums[2][M][kEach];
  };
  __attribute__((always_inline)) Products multiply(int p, const uint8_t* xr, int64_t first, bool second,
                                                   Coming& coming) const {
    Products products;
    if constexpr (G == 2) {
      const Sums both = tile(panel, second ? place.pair : 0, p, xr, first, coming);
      unroll<M * V>([&](int i) QK_LAMBDA {
        const int m = i / V, v = i % V;
        products.sums[v / kEach][m][v % kEach] = both.v[m][v];
      });
    } else {
      for (int64_t j = 0; j < (second ? 2 : 1); ++j) {
        Sums one;
        if constexpr (kMatrix) {
          one = matrix_tile(panel + j * place.pair, xr, first, coming);
        } else {
          one = tile(panel + j * place.pair, 0, p, xr, first, coming);
        }
        unroll<M * V>([&](int i) QK_LAMBDA { products.sums[j][i / V][i % V] = one.v[i / V][i % V]; });
      }
    }
    return products;
  }

  // The panel, or `both`, with rows [begin, end); `first`'s starts are at starts[0]. What is left of less
  // than a tile is taken with rows that stand already, from `first` on: store(p, at, skip, products) is for
  // parts p, ... of the rows at, at + 1, ..., of which the first `skip` stand. `next`: the group, or both,
  // that is unpacked next; those behind it are asked for.
  template <class Store>
  __attribute__((always_inline)) void rows(const uint8_t* x, int64_t first, int64_t begin, int64_t end,
                                           bool both, const uint8_t* next, Store store) const {
    const int64_t bytes = (both ? 2 : 1) * t.group_bytes;
    const int64_t tiles = (end - begin + M - 1) / M * (kParts / kEach) * (both && G == 1 ? 2 : 1);
    Coming coming = {next + bytes, next + 2 * bytes, bytes / (tiles * (t.k / 32) * 64) + 1};
    for (int64_t r = begin; r < end; r += M) {
      const int64_t at = r + M <= end ? r : end - M;
      unroll<kParts / kEach>([&](int i) QK_LAMBDA {
        store(i * kEach, at, r - at, multiply(i * kEach, x + at * t.row_bytes, at - first, both, coming));
      });
    }
  }
};

// Parts p, ... of M rows of outputs from y on, of which the first `skip` stand already. `up`: the sums that
// go with `sums` in a SwiGLU.
template <int M, int N>
QK_INLINE void store_panel(const Epilogue& e, const Float (&sums)[M][N], const Float (&up)[M][N], float* y,
                           int64_t ld, int64_t skip) {
  unroll<M>([&](int m) QK_LAMBDA {
    if (m < skip) return;
    unroll<N>([&](int v) QK_LAMBDA {
      float* to = y + m * ld + v * kLanes;
      Float sum = Epilogue::scaled(sums[m][v], e.scale);
      if (e.kind == QK_Epilogue_Add) sum = load<Float>(to) + sum;
      if (e.kind == QK_Epilogue_Swiglu) sum = silu<kLanes>(sum) * Epilogue::scaled(up[m][v], e.up_scale);
      store<Float>(to, sum);
    });
  });
}

// Work items [a.begin, a.end) for all rows, at least a tile.
template <PanelCodes kCodes, Format F>
QK_INLINE void panel_linear(const Int8Linear<F>& t, const linear_args& a) {
  typedef Panels<F, kCodes> P;
  const P panels = P::make(t, a.scratch);
  const Epilogue epilogue = {a.epilogue, a.scale, a.up_scale};
  const bool swiglu = a.epilogue == QK_Epilogue_Swiglu;
  const int64_t together = swiglu ? 1 : P::G;  // items
  const int64_t ld = (a.n + 15) & ~int64_t{15};
  panels.begin();
  for (int64_t r0 = 0; r0 < a.n_rows; r0 += panels.place.rows) {
    const int64_t end = r0 + panels.place.rows < a.n_rows ? r0 + panels.place.rows : a.n_rows;
    const int64_t first = end - r0 < P::M ? end - P::M : r0;
    panels.fill(a.xq, first, end);
    for (int64_t g = a.begin; g < a.end; g += together) {
      const bool both = swiglu || (together == 2 && g + 1 < a.end);
      const uint8_t* w = a.w + (swiglu ? 2 * g : g) * t.group_bytes;
      panels.unpack(w, both);
      panels.rows(a.xq, first, r0, end, both, w + (both ? 2 : 1) * t.group_bytes,
                  [&](int p, int64_t at, int64_t skip, const auto& products) QK_LAMBDA {
                    float* y = a.y + at * ld + g * 16 + p * kLanes;
                    const auto& sums = products.sums;
                    store_panel(epilogue, sums[0], sums[1], y, ld, skip);
                    if (both && !swiglu) store_panel(epilogue, sums[1], sums[1], y + 16, ld, skip);
                  });
    }
  }
  panels.end();
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
