// moe_linear with int8 activations.
#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/moe_linear.h"

namespace qk {
namespace {

template <Format F>
QK_INLINE void moe_linear_int8(const moe_linear_args& a) {
  const int64_t columns = a.epilogue == QK_Epilogue_Add ? a.top_k * a.k : a.k;
  const Int8Linear<F> t{a.k,         1, columns, Int8RowBytes(columns), BlockFormat<F>::group_bytes(a.k),
                        a.read_ahead};
  moe_linear(t, a.xq, a);
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
