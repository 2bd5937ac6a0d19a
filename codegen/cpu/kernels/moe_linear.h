// What the int8 and f32 kernels of moe_linear share: which groups of which expert a call does, the rows that
// an expert has, wherever they lie, and the epilogues. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_MOE_LINEAR_H_
#define QCC_CODEGEN_CPU_KERNELS_MOE_LINEAR_H_

#include "codegen/cpu/kernels/linear.h"

namespace qk {

// An expert's places in `order`; without lists, rows.
struct Uses {
  int64_t begin, end;
};

// Group g of an expert stands for as many items as the expert has rows. It is done by the call that has the
// first of them: threads get equal shares of the products, and no weight is read by two.
QK_INLINE int64_t first_group(const Uses& uses, int64_t groups, int64_t item) {
  const int64_t rows = uses.end - uses.begin, from = item - uses.begin * groups;
  if (from <= 0) return 0;
  return from >= rows * groups ? groups : (from + rows - 1) / rows;
}

// Place `at` of an expert's: the slot, its row, and which of the row's experts it is.
struct Slot {
  int64_t slot, row, part;
};
QK_INLINE Slot slot_at(const moe_linear_args& a, int64_t at) {
  if (!a.order) return {at, at, 0};
  const uint32_t slot = static_cast<uint32_t>(a.order[at]), top_k = static_cast<uint32_t>(a.top_k);
  const uint32_t row = slot / top_k;
  return {slot, row, slot - row * top_k};
}

// Leaves what group g gives for M rows. Not written out for each row: this is as long as what multiplies, and
// done once for all of its columns.
template <int M>
QK_INLINE void moe_leave(const moe_linear_args& a, const Uses& uses, const Epilogue& epilogue, int64_t g,
                         const Acc<M>& sums, const Acc<M>& up) {
  const bool add = epilogue.kind == QK_Epilogue_Add;
  for (int m = 0; m < M && uses.begin + m < uses.end; ++m) {
    const Slot s = slot_at(a, uses.begin + m);
    float* y = a.y + (add ? s.row : s.slot) * a.n + g * 16;
    const Float weight = add ? a.weights[s.slot] : 0.f;
    unroll<kParts>([&](int p) QK_LAMBDA {
      Float v = Epilogue::scaled(sums.v[m][p], epilogue.scale);
      if (epilogue.kind == QK_Epilogue_Swiglu) {
        v = silu<kLanes>(v) * Epilogue::scaled(up.v[m][p], epilogue.up_scale);
      }
      if (add) v = load<Float>(y + p * kLanes) + v * weight;
      store<Float>(y + p * kLanes, v);
    });
  }
}

template <int M, class T>
QK_INLINE void moe_tile(const T& t, const moe_linear_args& a, const uint8_t* x, const uint8_t* w,
                        const Uses& uses, const Epilogue& epilogue, int64_t g) {
  const bool add = epilogue.kind == QK_Epilogue_Add;
  typename T::Columns columns[M];
  unroll<M>([&](int m) QK_LAMBDA {
    // Where fewer than M rows are left, the last of them fills the tile.
    const Slot s = slot_at(a, m == 0 || uses.begin + m < uses.end ? uses.begin + m : uses.end - 1);
    columns[m] = t.columns(x + s.row * t.row_bytes, add ? s.part * a.k : 0);
  });
  const auto rows = [&](int m) QK_LAMBDA { return columns[m]; };
  Acc<M> acc[2];
  const int64_t matrices = epilogue.kind == QK_Epilogue_Swiglu ? 2 : 1;
  for (int64_t i = 0; i < matrices; ++i) acc[i] = t.template tile<M>(w + i * t.group_bytes, rows);
  moe_leave<M>(a, uses, epilogue, g, acc[0], acc[1]);
}

// A single row with groups [g0, g1), one of the first half with one of the second at a time, as
// linear_streams.
template <class T>
QK_INLINE void moe_streams(const T& t, const moe_linear_args& a, const uint8_t* x, const uint8_t* w,
                           const Uses& uses, const Epilogue& epilogue, int64_t g0, int64_t g1) {
  const int64_t half = (g1 - g0) / 2, matrices = epilogue.kind == QK_Epilogue_Swiglu ? 2 : 1;
  const int64_t item = matrices * t.group_bytes;
  const Slot s = slot_at(a, uses.begin);
  const typename T::Columns columns =
      t.columns(x + s.row * t.row_bytes, epilogue.kind == QK_Epilogue_Add ? s.part * a.k : 0);
  const auto row = [&](int) QK_LAMBDA { return columns; };
  for (int64_t g = g0; g < g0 + half; ++g) {
    Acc<1> acc[2][2];  // [matrix][group]
    for (int64_t i = 0; i < matrices; ++i)
      t.template tiles<1>(w + g * item + i * t.group_bytes, half * item, row, acc[i]);
    unroll<2>([&](int i) QK_LAMBDA { moe_leave<1>(a, uses, epilogue, g + i * half, acc[0][i], acc[1][i]); });
  }
  for (int64_t g = g0 + 2 * half; g < g1; ++g) moe_tile<1>(t, a, x, w + g * item, uses, epilogue, g);
}

// One group with all rows of `uses`. Compiled are a tile of the most rows, one of some and one of a single
// row, where these differ: what is left over is filled up.
template <class T>
QK_INLINE void moe_rows(const T& t, const moe_linear_args& a, const uint8_t* x, const uint8_t* w, Uses uses,
                        const Epilogue& epilogue, int64_t g) {
  constexpr int kMost = T::kMostGathered, kSome = T::kSomeGathered;
  if constexpr (kMost > kSome) {
    for (; uses.end - uses.begin > kSome; uses.begin += kMost) {
      moe_tile<kMost>(t, a, x, w, uses, epilogue, g);
    }
  }
  if constexpr (kSome > 1) {
    if (uses.end - uses.begin > 1) {
      moe_tile<kSome>(t, a, x, w, uses, epilogue, g);
      return;
    }
  }
  for (; uses.begin < uses.end; ++uses.begin) moe_tile<1>(t, a, x, w, uses, epilogue, g);
}

// Of kernels that have no other way for an expert of many rows.
struct NoPanels {
  static constexpr int64_t kLeastRows = int64_t{1} << 62;
  QK_INLINE void run(const NoPanels&, const moe_linear_args&, const uint8_t*, const uint8_t*, int64_t,
                     const Uses&, const Epilogue&, int64_t, int64_t) {}
};

// Experts by ascending id, so that with `add` each row's terms come in that order. Those of at least
// Panels::kLeastRows rows take `panels`.
template <class T, class Panels>
QK_INLINE void moe_linear(const T& t, const Panels& panels, const uint8_t* x, const moe_linear_args& a) {
  const bool add = a.epilogue == QK_Epilogue_Add;
  const int64_t groups = a.n / 16;
  const int64_t item = a.epilogue == QK_Epilogue_Swiglu ? 2 * t.group_bytes : t.group_bytes;
  const int64_t active = a.groups ? a.groups[0] : 1;
  for (int64_t i = 0; i < active; ++i) {
    const int32_t *ids = a.groups + 1, *begins = ids + a.experts;
    const int64_t expert = a.groups ? ids[i] : 0;
    const Uses all = a.groups ? Uses{begins[i], begins[i + 1]} : Uses{0, a.n_rows};
    const int64_t g0 = add ? a.begin : first_group(all, groups, a.begin);
    const int64_t g1 = add ? a.end : first_group(all, groups, a.end);
    if (g0 >= g1) continue;
    const Epilogue epilogue = {a.epilogue, a.scale && a.scale_count > 1 ? a.scale + expert : a.scale,
                               a.up_scale && a.up_scale_count > 1 ? a.up_scale + expert : a.up_scale};
    const uint8_t* w = a.w + expert * groups * item;
    if (all.end - all.begin >= Panels::kLeastRows) {
      Panels::run(panels, a, x, w, item, all, epilogue, g0, g1);
      continue;
    }
    if constexpr (T::kStreams == 2) {
      if (all.end - all.begin == 1) {
        moe_streams(t, a, x, w, all, epilogue, g0, g1);
        continue;
      }
    }
    const int64_t block = rows_in_cache(t.row_bytes / (add ? a.top_k : 1));
    for (int64_t at = all.begin; at < all.end; at += block) {
      const Uses uses = {at, at + block < all.end ? at + block : all.end};
      for (int64_t g = g0; g < g1; ++g) moe_rows(t, a, x, w + g * item, uses, epilogue, g);
    }
  }
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_MOE_LINEAR_H_
