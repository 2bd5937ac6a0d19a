// All rows of a linear through unpacked weights, a group or two after the other. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_PANEL_LINEAR_H_
#define QCC_CODEGEN_CPU_KERNELS_PANEL_LINEAR_H_

#include "codegen/cpu/kernels/linear_panel.h"

namespace qk {

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

// Columns of a panel that unpacked weights and rows pass next.
struct PanelStep {
  int64_t item, from;
};

// Leaves the sums that panels kept, of `items` items, where row 0's outputs begin at y. They lie a matrix's
// row apart: where a tile of products is stored, the stores behind it would wait until these lines are there
// (Q4_K, model 167: 1.4x of all).
template <class P>
QK_INLINE void leave_panels(const P& panels, const Epilogue& e, float* y, int64_t ld, int64_t items,
                            int64_t first, int64_t begin, int64_t end) {
  const int64_t each = e.kind == QK_Epilogue_Swiglu ? 2 : 1;
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < items; ++i) {
      Float sums[1][kParts], up[1][kParts];
      unroll<kParts>([&](int v) QK_LAMBDA {
        sums[0][v] = panels.kept(i * each, r - first, v);
        up[0][v] = panels.kept(i * each + each - 1, r - first, v);
      });
      store_panel(e, sums, up, y + r * ld + i * 16, ld, 0);
    }
  }
}

// Work items [a.begin, a.end) for all rows, at least a tile.
template <PanelCodes kCodes, Format F>
QK_INLINE void panel_linear(const Int8Linear<F>& t, const linear_args& a) {
  typedef Panels<F, kCodes> P;
  const bool parts = Level::kPanelParts && a.k > LinearScratch::kWholeColumns;
  const P panels = P::make(t, a.scratch, parts ? LinearScratch::kPartColumns : a.k, parts || P::kMatrix);
  const Epilogue epilogue = {a.epilogue, a.scale, a.up_scale};
  const bool swiglu = a.epilogue == QK_Epilogue_Swiglu;
  const int64_t each = swiglu ? 2 : 1;                                      // groups of an item
  const int64_t together = swiglu ? 1 : P::groups(a.n_rows * t.row_bytes);  // items
  const int64_t ld = (a.n + 15) & ~int64_t{15};
  const int64_t columns = panels.place.columns;
  // Items that pass some columns before the next.
  const int64_t batch = parts || P::kMatrix ? LinearScratch::kPartGroups / each : a.end - a.begin;
  const auto begin_of = [&](int64_t item) QK_LAMBDA { return a.begin + (item - a.begin) / batch * batch; };
  const auto after = [&](PanelStep step) QK_LAMBDA {
    const int64_t begin = begin_of(step.item), end = begin + batch < a.end ? begin + batch : a.end;
    if (step.item + together < end) return PanelStep{step.item + together, step.from};
    return step.from + columns < a.k ? PanelStep{begin, step.from + columns} : PanelStep{end, 0};
  };
  const auto group = [&](PanelStep step) QK_LAMBDA { return a.w + step.item * each * t.group_bytes; };
  panels.begin();
  for (int64_t r0 = 0; r0 < a.n_rows; r0 += panels.place.rows) {
    const int64_t end = r0 + panels.place.rows < a.n_rows ? r0 + panels.place.rows : a.n_rows;
    const int64_t first = end - r0 < P::M ? end - P::M : r0;
    for (PanelStep step = {a.begin, 0}; step.item < a.end; step = after(step)) {
      const int64_t g = step.item, nth = g - begin_of(g);
      const auto part = panels.part(step.from, nth * each);
      if (nth == 0 && (columns < a.k || g == a.begin)) panels.fill(a.xq, first, r0, end, part);
      const bool both = swiglu || (together == 2 && g + 1 < a.end);
      panels.unpack(group(step), both, part);
      const PanelStep coming = after(after(step));
      const auto of_coming = panels.part(coming.from, 0);
      panels.rows(a.xq, first, r0, end, both, part, of_coming.weights(group(coming)),
                  [&](int p, int64_t at, int64_t skip, const auto& products) QK_LAMBDA {
                    float* y = a.y + at * ld + g * 16 + p * kLanes;
                    const auto& sums = products.sums;
                    store_panel(epilogue, sums[0], sums[1], y, ld, skip);
                    if (both && !swiglu) store_panel(epilogue, sums[1], sums[1], y + 16, ld, skip);
                  });
      if constexpr (P::kMatrix) {
        const int64_t from = begin_of(g), next = after(step).item;
        if (next >= a.end || begin_of(next) != from)
          leave_panels(panels, epilogue, a.y + from * 16, ld, (next < a.end ? next : a.end) - from, first, r0,
                       end);
      }
    }
  }
  panels.end();
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_PANEL_LINEAR_H_
