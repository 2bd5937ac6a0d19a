// linear with int8 activations.
#include "codegen/cpu/kernels/linear_int8.h"

#include "codegen/cpu/kernels/panel_linear.h"

namespace qk {
namespace {

template <Format F>
QK_INLINE void linear_int8(const linear_args& a) {
  const int64_t terms = a.numerics == QK_Numerics_Int8x2 ? 2 : 1;
  const Int8Linear<F> t{
      a.k, terms, terms * a.k, Int8RowBytes(terms * a.k), BlockFormat<F>::group_bytes(a.k), a.read_ahead};
  constexpr int kHigh = BlockFormat<F>::kHigh;
  if (a.n_rows < (terms == 1 ? Level::panel_rows(kHigh, 1) : Level::panel_rows(kHigh, 2))) {
    linear_groups(t, a.xq, a);
    return;
  }
  constexpr PanelCodes kOne = kPanelCodes<F, 1>, kTwo = kPanelCodes<F, 2>;
  if constexpr (kOne != kTwo) {
    if (terms == 2) {
      panel_linear<kTwo>(t, a);
      return;
    }
  }
  panel_linear<kOne>(t, a);
}

}  // namespace
}  // namespace qk

#define QK_BLOCK_FORMAT(id, name)                                           \
  QK_SIGNATURE_AS(qk_linear_##id##_int8, "qk_linear_" name "_int8", linear) \
  QK_EXPORT void qk_linear_##id##_int8(const linear_args* args) {           \
    const linear_args a = *args;                                            \
    qk::linear_int8<qcc::Format::id>(a);                                    \
  }
#include "codegen/cpu/kernels/kernels.def"
