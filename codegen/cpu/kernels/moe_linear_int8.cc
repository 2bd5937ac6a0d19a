// moe_linear with int8 activations.
#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/linear_panel.h"
#include "codegen/cpu/kernels/moe_linear.h"

namespace qk {
namespace {

using qcc::cpu::ExpertScratch;

// bytes: a multiple of 4.
QK_INLINE void copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  int64_t i = 0;
  for (; i + 32 <= bytes; i += 32) store<U8<32>>(to + i, load<U8<32>>(from + i));
  for (; i < bytes; i += 4) store<int32_t>(to + i, load<int32_t>(from + i));
}

// An expert of many rows: these are put one behind the other, then each group of its weights is unpacked once
// for all of them.
template <Format F>
struct ExpertPanels {
  static constexpr int64_t kLeastRows = Level::kExpertRows;
  typedef Panels<F, kPanelCodes<F, 1>> P;
  typedef ExpertScratch::Target Target;

  // Of rows wherever they lie, and of those that are put together.
  const Int8Linear<F>&from, &to;

  // Places [begin, end) of the experts' rows. Fewer than a tile takes are filled up with the last; a matrix
  // unit's every tile is.
  __attribute__((always_inline)) int64_t gather(const moe_linear_args& a, const uint8_t* x, int64_t begin,
                                                int64_t end, const P& panels, uint8_t* rows,
                                                Target* targets) const {
    const bool add = a.epilogue == QK_Epilogue_Add;
    const int64_t tiles = P::kMatrix ? (end - begin + P::M - 1) / P::M : 1, k = to.k;
    const int64_t count = end - begin < tiles * P::M ? tiles * P::M : end - begin;
    for (int64_t i = 0; i < count; ++i) {
      const Slot s = slot_at(a, begin + i < end ? begin + i : end - 1);
      const Int8Columns source = from.columns(x + s.row * from.row_bytes, add ? s.part * k : 0);
      if constexpr (P::kMatrix) {
        panels.matrix_rows.put(source, i, k);
      } else {
        uint8_t* row = rows + i * to.row_bytes;
        copy(row, source.codes, k);
        copy(row + Int8ScalesAt(k), source.scales, k / 8);
        copy(row + Int8SumsAt(k), source.sums, k / 4);
        copy(row + Int8WeightedAt(k), source.weighted, k / 8);
      }
      targets[i] = {a.y + (add ? s.row : s.slot) * a.n, add ? a.weights[s.slot] : 0.f};
    }
    return count;
  }

  // Groups [g0, g1) of the expert whose weights begin at w.
  QK_INLINE void run(const ExpertPanels& e, const moe_linear_args& a, const uint8_t* x, const uint8_t* w,
                     int64_t item, const Uses& all, const Epilogue& epilogue, int64_t g0, int64_t g1) {
    const bool add = a.epilogue == QK_Epilogue_Add, swiglu = a.epilogue == QK_Epilogue_Swiglu;
    const ExpertScratch place(BlockFormat<F>::kForm, a.k, kPanelCodes<F, 1>);
    P panels = P::make(e.to, a.scratch, a.k, false);
    const auto part = panels.whole();
    uint8_t* rows = a.scratch + place.gathered;
    panels.matrix_rows.to = rows;
    auto* targets = reinterpret_cast<Target*>(a.scratch + place.targets);
    panels.begin();
    for (int64_t at = all.begin; at < all.end; at += place.panels.rows) {
      const int64_t end = at + place.panels.rows < all.end ? at + place.panels.rows : all.end;
      const int64_t count = e.gather(a, x, at, end, panels, rows, targets);
      if constexpr (!P::kMatrix) panels.fill(rows, 0, count, part);
      for (int64_t g = g0; g < g1; ++g) {
        panels.unpack(w + g * item, swiglu, part);
        panels.rows(rows, 0, 0, count, swiglu, part, w + (g + 2) * item,
                    [&](int p, int64_t first, int64_t skip, const auto& products) QK_LAMBDA {
                      for (int64_t m = skip; m < P::M && first + m < end - at; ++m) {
                        const Target& target = targets[first + m];
                        float* y = target.y + g * 16 + p * kLanes;
                        unroll<P::kEach>([&](int v) QK_LAMBDA {
                          Float sum = Epilogue::scaled(products.sums[0][m][v], epilogue.scale);
                          if (swiglu)
                            sum = silu<kLanes>(sum) *
                                  Epilogue::scaled(products.sums[1][m][v], epilogue.up_scale);
                          if (add) sum = load<Float>(y + v * kLanes) + sum * Float(target.weight);
                          store<Float>(y + v * kLanes, sum);
                        });
                      }
                    });
      }
    }
    panels.end();
  }
};

template <Format F>
QK_INLINE void moe_linear_int8(const moe_linear_args& a) {
  const int64_t columns = a.epilogue == QK_Epilogue_Add ? a.top_k * a.k : a.k;
  const int64_t group_bytes = BlockFormat<F>::group_bytes(a.k);
  const Int8Linear<F> t{a.k, 1, columns, Int8RowBytes(columns), group_bytes, a.read_ahead};
  if constexpr (Level::kExpertRows > 0) {
    const Int8Linear<F> gathered{a.k, 1, a.k, Int8RowBytes(a.k), group_bytes, a.read_ahead};
    moe_linear(t, ExpertPanels<F>{t, gathered}, a.xq, a);
  } else {
    moe_linear(t, NoPanels{}, a.xq, a);
  }
}

}  // namespace
}  // namespace qk

#define QK_BLOCK_FORMAT(id, name)                                                       \
  QK_SIGNATURE_AS(qk_moe_linear_##id##_int8, "qk_moe_linear_" name "_int8", moe_linear) \
  QK_EXPORT void qk_moe_linear_##id##_int8(const moe_linear_args* args) {               \
    const moe_linear_args a = *args;                                                    \
    qk::moe_linear_int8<qcc::Format::id>(a);                                            \
  }
#include "codegen/cpu/kernels/kernels.def"
