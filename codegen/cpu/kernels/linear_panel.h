// int8 linears of many rows: a panel of two groups is unpacked once (LinearScratch), then one inner loop
// takes all rows through it. Every output is made by the operations of Int8Linear::tile in their order: the
// bits are the same. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_

#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/scratch.h"

namespace qk {

using qcc::cpu::LinearScratch;

// Part p of both groups, M rows.
template <int M>
struct PanelAcc {
  Float v[M][2];
};

template <Format F>
struct PanelLinear {
  typedef Int8Linear<F> L;
  typedef typename L::B B;
  typedef typename L::Dot Dot;
  static constexpr int kSums = L::kSums, kWords = 8 / kSums;  // words of an integer sum
  static constexpr int M = Level::kPanelRows;
  static constexpr int64_t kGroupBytes = 64;  // of a word or of 16 floats: from the first group to the second
  static_assert(LinearScratch::kRowsTogether % M == 0);

  const L& t;
  const linear_args& a;
  LinearScratch place;
  uint8_t* panel;
  int32_t* starts;
  int64_t row_starts;  // of a row

  QK_INLINE PanelLinear make(const L& t, const linear_args& a) {
    const LinearScratch place(B::kForm, t.k, t.terms);
    return {t,
            a,
            place,
            a.scratch + place.panel,
            reinterpret_cast<int32_t*>(a.scratch + place.starts),
            LinearScratch::Starts(B::kForm, t.k, t.terms)};
  }

  // The group at w, as the panel's first or second (which: 0 or 1).
  __attribute__((always_inline)) void unpack(const uint8_t* w, int which) const {
    for_each_tile<F>(
        w, t.k / L::T.block, [&](int64_t b, const uint8_t* header, const uint8_t* body) QK_LAMBDA {
          for (int j = 0; j < L::T.block / 32; ++j) {
            L::prefetch(w + b * L::T.bytes(), j);
            uint8_t* chunk = panel + (b * (L::T.block / 32) + j) * place.chunk + which * kGroupBytes;
            unroll<kParts>([&](int p) QK_LAMBDA {
              uint8_t* to = chunk + p * kLanes * 4;
              for_each_word<F, Dot::kSigned>(body + j * L::T.chunk, p,
                                             [&](int, int word, Words codes) QK_LAMBDA {
                                               store<Words>(to + word * 2 * kGroupBytes, codes);
                                             });
              const Scales<kLanes> s = read_scales<F>(PartFields{p}, header, j);
              unroll<kSums>([&](int g) QK_LAMBDA {
                store<Float>(to + place.scale_at + g * 2 * kGroupBytes, s.scale[g]);
                if constexpr (B::kHasMinimum)
                  store<Float>(to + place.shift_at + g * 2 * kGroupBytes, s.shift[g]);
              });
            });
          }
        });
  }

  // starts of the rows [first, end), the first at starts[0].
  __attribute__((always_inline)) void fill_starts(const uint8_t* x, int64_t first, int64_t end) const {
    if constexpr (L::kLow == 0) return;
    for (int64_t r = first; r < end; ++r) {
      const uint8_t* sums = x + r * t.row_bytes + Int8SumsAt(t.row_columns);
      int32_t* to = starts + (r - first) * row_starts;
      for (int64_t i = 0; i < row_starts; ++i) {
        to[i] =
            L::kLow * (kSums == 2 ? load32(sums + 4 * i) : load32(sums + 8 * i) + load32(sums + 8 * i + 4));
      }
    }
  }

  // Part p of the panel's groups with the M rows at x, whose starts are at `start`.
  __attribute__((always_inline)) PanelAcc<M> tile(int p, const uint8_t* x, const int32_t* start) const {
    PanelAcc<M> acc;
    unroll<M>([&](int m) QK_LAMBDA { acc.v[m][0] = acc.v[m][1] = Float(0.f); });
    const auto row = [&](int m) QK_LAMBDA { return t.columns(x + m * t.row_bytes, 0); };
    const uint8_t* chunk = panel + p * kLanes * 4;
    for (int64_t at = 0; at < t.k; at += 32, chunk += place.chunk) {
      for (int64_t term = 0; term < t.terms; ++term) {
        const int64_t col = term * t.k + at;
        unroll<kSums>([&](int g) QK_LAMBDA {
          Dot dot[M][2];
          unroll<2 * M>([&](int i) QK_LAMBDA {
            Dot::begin(dot[i / 2][i % 2],
                       L::kLow != 0 ? start[i / 2 * row_starts + col / 32 * kSums + g] : 0);
          });
          unroll<kWords>([&](int n) QK_LAMBDA {
            const int word = g * kWords + n;
            const uint8_t* codes = chunk + word * 2 * kGroupBytes;
            const Words first = load<Words>(codes), second = load<Words>(codes + kGroupBytes);
            unroll<M>([&](int m) QK_LAMBDA {
              const int32_t xm = load32(row(m).codes + col + word * 4);
              Dot::add(dot[m][0], n, kWords, first, xm);
              Dot::add(dot[m][1], n, kWords, second, xm);
            });
          });
          const uint8_t* scales = chunk + place.scale_at + g * 2 * kGroupBytes;
          unroll<2>([&](int v) QK_LAMBDA {
            const Float scale = load<Float>(scales + v * kGroupBytes);
            unroll<M>([&](int m) QK_LAMBDA {
              const float xs = load<float>(row(m).scales + col / 8);
              acc.v[m][v] = fma<kLanes>(scale * xs, to_float<kLanes>(Dot::end(dot[m][v])), acc.v[m][v]);
            });
          });
        });
        if constexpr (B::kHasMinimum) add_minima(chunk, row, col, acc);
      }
    }
    return acc;
  }

  template <class Row>
  __attribute__((always_inline)) void add_minima(const uint8_t* chunk, Row row, int64_t col,
                                                 PanelAcc<M>& acc) const {
    unroll<2 * kSums>([&](int i) QK_LAMBDA {
      const int g = i / 2, v = i % 2;
      const Float shift = load<Float>(chunk + place.shift_at + i * kGroupBytes);
      unroll<M>([&](int m) QK_LAMBDA {
        float weighted;
        if constexpr (kSums == 1) {
          weighted = load<float>(row(m).weighted + col / 8);
        } else {
          weighted = load<float>(row(m).scales + col / 8) *
                     static_cast<float>(load32(row(m).sums + col / 4 + 4 * g));
        }
        acc.v[m][v] = fma<kLanes>(shift, Float(weighted), acc.v[m][v]);
      });
    });
  }

  // Part p of M outputs rows from y on, of which the first `skip` stand already. pair: the second group is
  // one of the output's, the one behind the first.
  __attribute__((always_inline)) void store_tile(const PanelAcc<M>& acc, int p, float* y, int64_t ld,
                                                 int64_t skip, bool pair) const {
    unroll<M>([&](int m) QK_LAMBDA {
      if (m < skip) return;
      float* to = y + m * ld + p * kLanes;
      const Float first = Epilogue::scaled(acc.v[m][0], a.scale);
      if (a.epilogue == QK_Epilogue_Swiglu) {
        store<Float>(to, silu<kLanes>(first) * Epilogue::scaled(acc.v[m][1], a.up_scale));
        return;
      }
      const bool add = a.epilogue == QK_Epilogue_Add;
      store<Float>(to, add ? load<Float>(to) + first : first);
      if (!pair) return;
      const Float second = Epilogue::scaled(acc.v[m][1], a.scale);
      store<Float>(to + 16, add ? load<Float>(to + 16) + second : second);
    });
  }

  // The panel with rows [begin, end), `first`'s starts at starts[0]. What is left of less than a tile is
  // taken with rows that stand already, from `first` on.
  __attribute__((always_inline)) void rows(const uint8_t* x, int64_t first, int64_t begin, int64_t end,
                                           float* y, int64_t ld, bool pair) const {
    for (int64_t r = begin; r < end; r += M) {
      const int64_t at = r + M <= end ? r : end - M;
      unroll<kParts>([&](int p) QK_LAMBDA {
        const PanelAcc<M> acc = tile(p, x + at * t.row_bytes, starts + (at - first) * row_starts);
        store_tile(acc, p, y + at * ld, ld, r - at, pair);
      });
    }
  }

  // Work items [a.begin, a.end) for all rows, which are at least kLeastRows.
  __attribute__((always_inline)) void run(const uint8_t* x) const {
    const bool swiglu = a.epilogue == QK_Epilogue_Swiglu;
    const int64_t ld = (a.n + 15) & ~int64_t{15}, step = swiglu ? 1 : 2;
    for (int64_t r0 = 0; r0 < a.n_rows; r0 += place.rows) {
      const int64_t end = r0 + place.rows < a.n_rows ? r0 + place.rows : a.n_rows;
      const int64_t first = end - r0 < M ? end - M : r0;
      fill_starts(x, first, end);
      for (int64_t g = a.begin; g < a.end; g += step) {
        const bool pair = swiglu || g + 1 < a.end;
        const uint8_t* w = a.w + (swiglu ? 2 * g : g) * t.group_bytes;
        unpack(w, 0);
        if (pair) unpack(w + t.group_bytes, 1);
        rows(x, first, r0, end, a.y + g * 16, ld, pair);
      }
    }
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
